// SPDX-License-Identifier: Apache-2.0
// The part of Thrift's compact protocol that Parquet's metadata needs: values in order, fields that
// nobody asks for passed over. All reads are checked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tephra {

class ThriftReader {
 public:
  // `where` stands before messages.
  ThriftReader(std::string_view bytes, std::string where)
      : bytes_(bytes), where_(std::move(where)) {}

  enum Type : int {
    stop = 0,
    yes = 1,
    no = 2,
    i8 = 3,
    i16 = 4,
    i32 = 5,
    i64 = 6,
    f64 = 7,
    binary = 8,
    list = 9,
    set = 10,
    map = 11,
    structure = 12,
  };

  // Calls `field` with each field's number and type; it reads the value, or returns false for it to
  // be passed over.
  void read_struct(const std::function<bool(int id, int type)>& field);
  // Calls `element` for each of a list's.
  void read_list(const std::function<void(int type)>& element);

  int64_t integer();
  std::string_view text();

  size_t position() const { return at_; }

 private:
  uint8_t byte();
  uint64_t varint();
  void skip(int type, int depth);
  [[noreturn]] void damaged() const;

  std::string_view bytes_;
  std::string where_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tephra
