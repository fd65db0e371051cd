// SPDX-License-Identifier: Apache-2.0
// The names that a server goes by. A browser lets a page talk to the host that the page came from,
// and who owns that name can make it point at this machine (DNS rebinding): such a page is told by
// the name in its requests. An address cannot be made to point elsewhere, so all of them are known.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "tephra/serve/http_parser.h"

namespace tephra {

class HostNames {
 public:
  // Fault::usage when it is no name or address: "model.example", "::1"; a port is not part of it.
  void add(std::string_view name);

  // Whether the value of a Host header is localhost, an IP address, or a name that was added, with
  // or without a port.
  bool knows(std::string_view host) const;

  // ApiError 403 when the request goes to another name. One without the header comes from no
  // browser.
  void check(const HttpRequest& request) const;

 private:
  std::set<std::string, std::less<>> names_;
};

}  // namespace tephra
