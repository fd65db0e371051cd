// SPDX-License-Identifier: Apache-2.0
// What an API request can get wrong, as OpenAI's API says it.
#pragma once

#include <stdexcept>
#include <string>

#include "tephra/base/format.h"
#include "tephra/base/json.h"

namespace tephra {

class ApiError : public std::runtime_error {
 public:
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)) {}

  // 405: the path is there and takes other methods, as "GET, HEAD".
  static ApiError wrong_method(const std::string& message, std::string allowed) {
    ApiError e(405, message);
    e.allowed_ = std::move(allowed);
    return e;
  }

  int status() const { return status_; }
  const std::string& allowed() const { return allowed_; }  // empty but with 405
  Json json() const;                                       // {"error": {...}}

 private:
  int status_;
  std::string param_, code_, allowed_;
};

// 400: `param` says which field it is about.
template <class... Args>
void require_field(bool ok, const std::string& param, FormatString<Args...> message,
                   const Args&... args) {
  if (!ok) [[unlikely]]
    throw ApiError(400, param + ": " + tephra::format<Args...>(message, args...), param);
}

}  // namespace tephra
