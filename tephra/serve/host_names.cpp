// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/host_names.h"

#include <arpa/inet.h>

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/serve/api_error.h"

namespace tephra {
namespace {

bool is_address(const std::string& name) {
  in6_addr parsed;  // room for either
  return inet_pton(AF_INET, name.c_str(), &parsed) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &parsed) == 1;
}

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

// Names are compared in lower case and without the dot that may end them.
std::string plain_name(std::string_view name) {
  std::string plain = ascii_lower(name);
  if (plain.size() > 1 && plain.ends_with('.')) plain.pop_back();
  return plain;
}

// What "name", "name:port", "[v6]" or "[v6]:port" is about; empty when it is none of them.
std::string_view without_port(std::string_view host) {
  std::string_view name = host, port;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(1, end - 1);
    port = host.substr(end + 1);
  } else if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    port = host.substr(colon);
  }
  if (!port.empty() && port[0] != ':') return {};
  const std::string_view number = port.substr(port.empty() ? 0 : 1);
  const bool digits =
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name : std::string_view();
}

}  // namespace

void HostNames::add(std::string_view name) {
  const std::string plain = plain_name(name);
  const bool valid =
      !plain.empty() && (std::all_of(plain.begin(), plain.end(), in_name) || is_address(plain));
  require(valid, "expected the name of a host, such as model.example, without a port, got '{}'",
          clipped(name, 100));
  names_.insert(plain);
}

bool HostNames::knows(std::string_view host) const {
  const std::string name = plain_name(without_port(trim(host)));
  return name == "localhost" || names_.contains(name) || is_address(name);
}

void HostNames::check(const HttpRequest& request) const {
  const std::string* host = request.header("host");
  if (host == nullptr || knows(*host)) return;
  throw ApiError(403,
                 format("this server does not go by the name '{}'; if it should, start it with "
                        "--allow-host",
                        clipped(*host, 100)),
                 "", "unknown_host");
}

}  // namespace tephra
