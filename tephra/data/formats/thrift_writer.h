// SPDX-License-Identifier: Apache-2.0
// Writes what ThriftReader reads: structs in Thrift's compact protocol.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/data/formats/thrift.h"

namespace tephra {

// Fields of a struct are written in the order of their numbers.
class ThriftWriter {
 public:
  explicit ThriftWriter(std::string& out) : out_(out) {}

  void integer(int id, int64_t value, int type = ThriftReader::i32);
  void boolean(int id, bool value);
  void text(int id, std::string_view value);
  void begin_struct(int id);  // as a field
  void begin_struct();        // as an element of a list, or on its own
  void end_struct();
  void begin_list(int id, int type, size_t size);  // its elements follow
  void integer_element(int64_t value);
  void text_element(std::string_view value);

 private:
  void field(int id, int type);
  void varint(uint64_t value);

  std::string& out_;
  std::vector<int> last_ = {0};  // number of the last field, of each open struct
};

}  // namespace tephra
