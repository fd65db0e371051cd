// SPDX-License-Identifier: Apache-2.0
// Any bytes as HTTP requests: read alike whole and in pieces, and never kept beyond the limits.
#include <cstdlib>
#include <vector>

#include "fuzz/fuzz.h"
#include "tephra/serve/http_parser.h"

namespace {

using namespace tephra;

constexpr HttpLimits kSmall{.header_bytes = 512, .body_bytes = 256};

struct Read {
  std::vector<HttpRequest> requests;
  bool failed = false;
  int status = 0;
};

Read read_in_pieces(std::string_view bytes, size_t piece) {
  HttpParser parser(kSmall);
  Read read;
  for (size_t at = 0; at < bytes.size() && !parser.failed(); at += piece) {
    parser.add(bytes.substr(at, piece));
    while (parser.done()) read.requests.push_back(parser.take());
  }
  read.failed = parser.failed();
  read.status = parser.status();
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  const Read whole = read_in_pieces(bytes, size + 1), cut = read_in_pieces(bytes, 1);
  if (whole.requests.size() != cut.requests.size()) std::abort();
  for (size_t i = 0; i < whole.requests.size(); ++i) {
    const HttpRequest &a = whole.requests[i], &b = cut.requests[i];
    if (a.method != b.method || a.path != b.path || a.headers != b.headers || a.body != b.body) {
      std::abort();
    }
    if (a.body.size() > kSmall.body_bytes) std::abort();
  }
  if (cut.failed && (cut.status < 400 || cut.status > 599)) std::abort();
  return 0;
}
