// SPDX-License-Identifier: Apache-2.0
// Text formatting. The only file that includes fmt. A type becomes printable by a free function
// `std::string to_text(const T&)` in its own namespace.
#pragma once

#include <fmt/core.h>

#include <string>

namespace tephra {

template <class T>
decltype(auto) printable(const T& value) {
  if constexpr (requires { to_text(value); }) {
    return to_text(value);
  } else {
    return (value);
  }
}

template <class T>
using Printable = std::remove_cvref_t<decltype(printable(std::declval<const T&>()))>;

template <class... Args>
using FormatString = fmt::format_string<Printable<Args>...>;

template <class... Args>
std::string format(FormatString<Args...> text, const Args&... args) {
  return fmt::vformat(text, fmt::make_format_args(printable(args)...));
}

}  // namespace tephra
