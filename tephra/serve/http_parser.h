// SPDX-License-Identifier: Apache-2.0
// Reads HTTP/1.1 requests from bytes as they come. Whatever comes, it takes bounded memory and says
// exactly one of: more is needed, a request, or which error it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tephra {

struct HttpRequest {
  std::string method;
  std::string path;   // decoded, without the query
  std::string query;  // as sent
  bool http_1_0 = false;
  bool keep_alive = true;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  const std::string* header(std::string_view name) const;  // the first; null when there is none
};

std::string ascii_lower(std::string_view text);  // as names of headers and types are compared

struct HttpLimits {
  size_t header_bytes = size_t{32} << 10;  // of the request line and all headers
  size_t body_bytes = size_t{16} << 20;
};

class HttpParser {
 public:
  explicit HttpParser(HttpLimits limits = {}) : limits_(limits) {}

  enum class State { head, body, chunk_size, chunk, chunk_end, trailers, done, failed };

  void add(std::string_view bytes);
  State state() const { return state_; }
  bool done() const { return state_ == State::done; }
  bool failed() const { return state_ == State::failed; }
  bool begun() const { return state_ != State::head || !held_.empty(); }
  // The client waits for "100 Continue" before it sends the body.
  bool wants_continue() const { return expects_continue_ && !done() && state_ != State::head; }

  int status() const { return status_; }  // when failed
  const std::string& message() const { return message_; }

  // When done. What came behind the request stays for the next one.
  HttpRequest take();

 private:
  void advance();
  bool step();
  void fail(int status, std::string message);
  bool looks_like_a_head(size_t end);
  bool read_head(std::string_view head);
  bool read_request_line(std::string_view line);
  bool read_header(std::string_view line);
  bool plan_body();
  bool take_line(std::string& line, size_t most);
  bool step_body();
  bool step_chunk_size();

  HttpLimits limits_;
  State state_ = State::head;
  std::string held_;     // not yet understood
  size_t looked_ = 0;    // bytes of a head that may be right so far
  size_t left_ = 0;      // of the body, or of the chunk
  size_t trailing_ = 0;  // bytes of trailers so far
  bool expects_continue_ = false;
  int status_ = 0;
  std::string message_;
  HttpRequest request_;
};

}  // namespace tephra
