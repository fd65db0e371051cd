// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/http_parser.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

int status_of(std::string_view bytes, HttpLimits limits = {}) {
  HttpParser parser(limits);
  parser.add(bytes);
  return parser.failed() ? parser.status() : parser.done() ? 200 : 0;
}

TEST(HttpParser, ReadsRequestsHoweverTheyAreCut) {
  const std::string bytes =
      "POST /v1/a%20b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
      "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
      "GET http://host/d HTTP/1.0\r\n\r\n";
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, bytes.size()}) {
    HttpParser parser;
    std::vector<HttpRequest> requests;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      parser.add(std::string_view(bytes).substr(at, piece));
      while (parser.done()) requests.push_back(parser.take());
    }
    ASSERT_EQ(requests.size(), 3u) << piece << parser.message();
    EXPECT_EQ(requests[0].path, "/v1/a b");
    EXPECT_EQ(requests[0].query, "x=1");
    EXPECT_EQ(requests[0].body, "hello");
    EXPECT_EQ(*requests[0].header("host"), "h");
    EXPECT_TRUE(requests[0].keep_alive);
    EXPECT_EQ(requests[1].body, "abcde");
    EXPECT_FALSE(requests[1].keep_alive);
    EXPECT_EQ(requests[2].path, "/d");
    EXPECT_TRUE(requests[2].http_1_0);
    EXPECT_FALSE(requests[2].keep_alive);
  }
}

TEST(HttpParser, RefusesWhatIsWrong) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n"), 0);
  EXPECT_EQ(status_of("hello\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(status_of("GET x HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /%zz HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET /%00 HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nbad name: x\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"), 501);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"), 400);
}

TEST(HttpParser, RefusesAtOnceWhatWillNeverBeARequest) {
  const std::string tls("\x16\x03\x01\x00\xa5\x01", 6);
  for (const std::string& wrong : {tls, std::string("GET / HTTP/1.1\n"), std::string("\n"),
                                   std::string("GET / HTTP/1.1\r\nA: b\n"),
                                   std::string("GET / HTTP/1.1\r\nA: \x7f"), "\r\n" + tls}) {
    EXPECT_EQ(status_of(wrong), 400) << wrong;
    HttpParser parser;
    for (const char c : wrong) parser.add({&c, 1});
    EXPECT_EQ(parser.status(), 400) << wrong;
  }
  HttpParser parser;
  parser.add(tls);
  EXPECT_NE(parser.message().find("https://"), std::string::npos) << parser.message();
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nA:\tb\r"), 0);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n\n\x01"), 200) << "a body";
}

TEST(HttpParser, HasOneNameOfTheServer) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"), 400);
}

TEST(HttpParser, EmptyLinesBeginNoRequest) {
  HttpParser parser;
  for (int i = 0; i < 3; ++i) {
    parser.add("\r\n");
    EXPECT_FALSE(parser.begun());
  }
  parser.add("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(parser.done());
}

TEST(HttpParser, BoundsWhatItKeeps) {
  const HttpLimits small{.header_bytes = 100, .body_bytes = 10};
  EXPECT_EQ(status_of("GET /" + std::string(200, 'a'), small), 431);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nx: " + std::string(200, 'a'), small), 431);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", small), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", small),
            400);
  const std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status_of(chunked + "8\r\n12345678\r\n3\r\n", small), 413);
  EXPECT_EQ(status_of(chunked + "ffffffffffffff\r\n", small), 413);
  EXPECT_EQ(status_of(chunked + std::string(300, '0'), small), 400);
  EXPECT_EQ(status_of(chunked + "0\r\n" + std::string(300, 'x'), small), 400);
}

TEST(HttpParser, KnowsWhoWaitsForContinue) {
  HttpParser parser;
  parser.add("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(parser.wants_continue());
  parser.add("ab");
  EXPECT_FALSE(parser.wants_continue());
  EXPECT_TRUE(parser.done());
}

}  // namespace
}  // namespace tephra
