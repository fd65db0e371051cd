// SPDX-License-Identifier: Apache-2.0
// HTTP and HTTPS from the other end, by libcurl, which is opened when it is first needed: no other
// command waits for its two dozen libraries (docs/decisions/0038-libcurl-at-run-time.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tephra {

struct WebRequest {
  std::string url;
  std::string token;  // shown to the first host alone, not to those it redirects to
  int64_t from = 0;   // first byte that is wanted
  // The head of the last answer, after redirects, if its status is below 400; false ends the
  // transfer. Then its bytes.
  std::function<bool(int status, const std::map<std::string, std::string>& headers)> on_head;
  std::function<bool(std::span<const std::byte>)> on_bytes;
  std::function<bool()> stop;  // asked several times a second; true ends the transfer
  double stall_seconds = 30;   // without a byte, the transfer has failed
};

struct WebAnswer {
  int status = 0;                     // 0: nothing came
  std::string failure;                // of the transport; empty: the answer came whole
  bool unreachable = false;           // it failed before there was a connection
  std::string text;                   // the beginning of an error's body
  std::optional<double> retry_after;  // seconds
  // In lower case. Those of redirects stay where the last answer does not say otherwise, but for
  // the etag, which is the first one's: that is the hub's own.
  std::map<std::string, std::string> headers;
};

// One connection at a time, kept between requests. Not for several threads at once.
class WebClient {
 public:
  WebClient();  // Fault::usage when this machine has no libcurl
  ~WebClient();
  WebClient(const WebClient&) = delete;
  WebClient& operator=(const WebClient&) = delete;

  WebAnswer get(const WebRequest& request);
  static std::string library_version();  // "libcurl/7.88.1", or why there is none

 private:
  struct Transfer;
  void* handle_;
};

}  // namespace tephra
