// SPDX-License-Identifier: Apache-2.0
// One string field of a JSON object on a line, by simdjson: the fast path of large corpora.
#pragma once

#include <memory>
#include <string_view>

namespace tephra {

// Keeps its memory from line to line: one a thread.
class JsonLine {
 public:
  JsonLine();
  ~JsonLine();

  // The value of `field`; valid until the next call. Fault::data (what is wrong, without the place)
  // when the line is no object with that string.
  std::string_view string_field(std::string_view line, std::string_view field);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tephra
