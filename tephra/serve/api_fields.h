// SPDX-License-Identifier: Apache-2.0
// Typed access to the fields of one JSON object of a request; what is wrong is an ApiError with the
// field's name. Null counts as absent.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/serve/http_parser.h"

namespace tephra {

class ApiFields {
 public:
  ApiFields(const Json& object, std::string where);  // does not own it
  ApiFields(Json&& object, std::string where) = delete;

  // No other fields than these; the message names the nearest.
  void allow(const std::vector<std::string>& names) const;

  const Json* find(std::string_view name) const;  // null when absent or null
  std::string string(std::string_view name) const;
  std::string string_or(std::string_view name, const std::string& fallback) const;
  bool boolean(std::string_view name, bool fallback) const;
  int64_t integer(std::string_view name, int64_t fallback, int64_t least, int64_t most) const;
  double number(std::string_view name, double fallback, double least, double most) const;
  ApiFields object(std::string_view name) const;

 private:
  std::string name_of(std::string_view name) const;

  const Json* object_;
  std::string where_;
};

inline constexpr const char* kReadingMethods = "GET, HEAD";

// 405 unless the request's method is one of `allowed`, written as in the header Allow.
void require_method(const HttpRequest& request, const std::string& allowed);

// The body of a request: 415 when it is no JSON by its type, 400 when it is none by its text.
Json parse_json_body(const HttpRequest& request);

}  // namespace tephra
