// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/chat_page.h"

#include "tephra/base/error.h"
#include "tephra/base/sha.h"

namespace tephra {

extern const std::string_view kChatPage;  // made by cmake/embed.cmake

namespace {

// What a browser hashes of <tag>...</tag>, as a policy writes it.
std::string policy_hash(std::string_view page, std::string_view tag) {
  const std::string open = format("<{}>", tag), close = format("</{}>", tag);
  const size_t begin = page.find(open), end = page.find(close);
  TEPHRA_ASSERT(begin != page.npos && end != page.npos && page.find(open, begin + 1) == page.npos,
                "the page has one script and one style");
  const size_t from = begin + open.size();
  return format("'sha256-{}'", base64_text(sha256(page.substr(from, end - from))));
}

}  // namespace

StaticPage chat_page() {
  const std::string policy = format(
      "default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      policy_hash(kChatPage, "script"), policy_hash(kChatPage, "style"));
  return {.path = "/",
          .content_type = "text/html; charset=utf-8",
          .body = std::string(kChatPage),
          .headers = {{"Content-Security-Policy", policy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}}};
}

}  // namespace tephra
