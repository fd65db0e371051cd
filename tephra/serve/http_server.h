// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server with a thread for each connection and a bound on everything: connections,
// bytes, and the time that each side may take. Why it is our own:
// docs/decisions/0022-own-http-server.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tephra/serve/http_parser.h"

namespace tephra {

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // In place of the body: pieces to send at once, until there is none. An exception ends the
  // connection, so that the client sees that the answer is not whole.
  std::function<std::optional<std::string>()> next_piece = {};
};

// What a handler may ask about who asked.
class HttpClientConnection {
 public:
  virtual ~HttpClientConnection() = default;
  virtual bool gone() const = 0;  // it hung up; nobody reads the answer
  virtual const std::string& address() const = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any that is free
  int64_t connections = 512;
  HttpLimits limits = {};
  double idle_seconds = 60;     // between requests of one connection
  double request_seconds = 30;  // from a request's first byte to its last
  double write_seconds = 30;    // without any progress
  double close_seconds = 3;     // for the rest of a request that was refused
};

class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&, const HttpClientConnection&)>;
  // The answer to what never reaches the handler: 4xx of the protocol, 503 when there are too many
  // connections.
  using Refusal = std::function<HttpResponse(int status, const std::string& message)>;

  // Listens from here on; Fault::usage when the address cannot be had. Handlers run on the
  // connections' threads.
  HttpServer(const HttpOptions& options, Handler handler, Refusal refusal);
  ~HttpServer();  // ends all connections; waits for handlers
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string url() const;

  // No new connections, and none is kept after its present request.
  void stop_accepting();
  // Waits for the connections to end; false when some are left after so long.
  bool wait_for_connections(double seconds);
  int64_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tephra
