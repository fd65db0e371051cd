// SPDX-License-Identifier: Apache-2.0
// Who asks an API without a network; may leave before the answer has ended.
#pragma once

#include <string>

#include "tephra/serve/api.h"
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

inline HttpRequest json_request(const std::string& path, std::string body) {
  HttpRequest r;
  r.method = "POST";
  r.path = path;
  r.headers = {{"content-type", "application/json"}};
  r.body = std::move(body);
  return r;
}

// Streams too, to their end.
inline HttpResponse whole_answer(Api& api, const HttpRequest& request, const AskingClient& who) {
  HttpResponse r = api.handle(request, who);
  while (r.next_piece) {
    const auto piece = r.next_piece();
    if (!piece) break;
    r.body += *piece;
  }
  return r;
}

}  // namespace tephra
