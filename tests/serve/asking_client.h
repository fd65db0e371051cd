// SPDX-License-Identifier: Apache-2.0
// Who asks an API without a network; may leave before the answer has ended.
#pragma once

#include <string>

#include "tephra/serve/http_server.h"

namespace tephra {

class AskingClient : public HttpClientConnection {
 public:
  bool gone() const override { return left; }
  const std::string& address() const override { return address_; }
  bool left = false;

 private:
  std::string address_ = "test";
};

}  // namespace tephra
