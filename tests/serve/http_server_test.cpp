// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tephra/base/clock.h"
#include "tests/support/http_client.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

HttpResponse refused(int status, const std::string& message) {
  return {.status = status, .body = message};
}

HttpOptions any_port() { return {.port = 0, .idle_seconds = 20, .request_seconds = 20}; }

HttpResponse echo(const HttpRequest& r, const HttpClientConnection&) {
  return {.content_type = "text/plain", .body = r.method + " " + r.path + " " + r.body};
}

TEST(HttpServer, AnswersSeveralRequestsOfOneConnection) {
  HttpServer server(any_port(), echo, refused);
  HttpTestClient client(server.port());
  client.send(HttpTestClient::get("/a") + HttpTestClient::post("/b", "hi"));
  EXPECT_EQ(client.answer().body, "GET /a ");
  EXPECT_EQ(client.answer().body, "POST /b hi");
  client.send("GET /c HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.answer().body, "GET /c ");
  EXPECT_FALSE(client.receive());
  EXPECT_EQ(server.url(), "http://127.0.0.1:" + std::to_string(server.port()));
}

TEST(HttpServer, StreamsPieces) {
  HttpServer server(
      any_port(),
      [](const HttpRequest&, const HttpClientConnection&) {
        HttpResponse r;
        r.next_piece = [i = 0]() mutable -> std::optional<std::string> {
          if (++i == 4) return std::nullopt;
          return "piece " + std::to_string(i) + "\n";
        };
        return r;
      },
      refused);
  HttpTestClient client(server.port());
  client.send(HttpTestClient::get("/"));
  EXPECT_EQ(client.answer().body, "piece 1\npiece 2\npiece 3\n");
  client.send("GET / HTTP/1.0\r\n\r\n");
  while (client.receive()) {
  }
  EXPECT_NE(client.received.find("\r\n\r\npiece 1\npiece 2\npiece 3\n"), std::string::npos);
}

TEST(HttpServer, SaysWhatIsWrongAndGoesOn) {
  HttpOptions options = any_port();
  options.limits.body_bytes = 100;
  HttpServer server(
      options,
      [](const HttpRequest& r, const HttpClientConnection& c) -> HttpResponse {
        if (r.path == "/throw") throw std::runtime_error("oops");
        return echo(r, c);
      },
      refused);
  {
    HttpTestClient client(server.port());
    client.send("nonsense\r\n\r\n");
    EXPECT_EQ(client.answer().status, 400);
    EXPECT_FALSE(client.receive());
  }
  {
    HttpTestClient client(server.port());
    client.send(HttpTestClient::post("/", std::string(100000, 'x')));
    EXPECT_EQ(client.answer().status, 413);
  }
  HttpTestClient client(server.port());
  client.send(HttpTestClient::get("/throw"));
  EXPECT_EQ(client.answer().status, 500);
  client.send(HttpTestClient::get("/fine"));
  EXPECT_EQ(client.answer().body, "GET /fine ");
}

TEST(HttpServer, AnswersConnectionsBeyondItsNumber) {
  HttpOptions options = any_port();
  options.connections = 2;
  HttpServer server(options, echo, refused);
  HttpTestClient a(server.port()), b(server.port());
  a.send(HttpTestClient::get("/a"));
  b.send(HttpTestClient::get("/b"));
  EXPECT_EQ(a.answer().status, 200);
  EXPECT_EQ(b.answer().status, 200);
  HttpTestClient c(server.port());
  c.send(HttpTestClient::get("/c"));
  EXPECT_EQ(c.answer().status, 503);
  a.close();
  int status = 503;
  for (int i = 0; i < 500 && status == 503; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    HttpTestClient d(server.port());
    d.send(HttpTestClient::get("/d"));
    status = d.answer().status;
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServer, EndsSlowAndSilentClients) {
  HttpOptions options = any_port();
  options.request_seconds = 0.2;
  options.idle_seconds = 0.2;
  options.close_seconds = 0.2;
  HttpServer server(options, echo, refused);
  HttpTestClient slow(server.port()), silent(server.port());
  slow.send("GET / HT");
  EXPECT_EQ(slow.answer().status, 408);
  EXPECT_EQ(silent.answer().status, 0) << "nothing was asked, so nothing is said";
  EXPECT_TRUE(server.wait_for_connections(20));
}

TEST(HttpServer, EndsClientsThatSendEmptyLines) {
  HttpOptions options = any_port();
  options.idle_seconds = 0.3;
  HttpServer server(options, echo, refused);
  HttpTestClient client(server.port());
  const double begin = steady_seconds();
  while (server.connections() == 0) std::this_thread::yield();
  while (server.connections() > 0 && steady_seconds() - begin < 10) {
    client.send("\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(steady_seconds() - begin, 5);
}

TEST(HttpServer, AClientThatListensOnlyAfterALargeBodyHearsThatItIsTooLarge) {
  HttpOptions options = any_port();
  options.limits.body_bytes = 1 << 20;
  HttpServer server(options, echo, refused);
  HttpTestClient client(server.port());
  EXPECT_TRUE(client.send(HttpTestClient::post("/", std::string(size_t{24} << 20, 'x'))));
  EXPECT_EQ(client.answer().status, 413);
}

TEST(HttpServer, NoticesAClientThatLeft) {
  std::atomic<bool> noticed = false;
  HttpServer server(
      any_port(),
      [&](const HttpRequest&, const HttpClientConnection& client) {
        for (int i = 0; i < 2000 && !client.gone(); ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        noticed = client.gone();
        return HttpResponse{};
      },
      refused);
  {
    HttpTestClient client(server.port());
    client.send(HttpTestClient::get("/"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(server.connections(), 1);
  }
  EXPECT_TRUE(server.wait_for_connections(20));
  EXPECT_TRUE(noticed);
}

TEST(HttpServer, FinishesWhatIsOpenWhenItStops) {
  std::atomic<bool> go = false;
  HttpServer server(
      any_port(),
      [&](const HttpRequest& r, const HttpClientConnection& c) {
        while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return echo(r, c);
      },
      refused);
  HttpTestClient busy(server.port()), idle(server.port());
  busy.send(HttpTestClient::get("/slow"));
  while (server.connections() < 2) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.stop_accepting();
  EXPECT_FALSE(idle.receive()) << "closed";
  HttpTestClient late(server.port());
  EXPECT_FALSE(late.connected());
  EXPECT_FALSE(server.wait_for_connections(0.01));
  go = true;
  EXPECT_EQ(busy.answer().body, "GET /slow ");
  EXPECT_TRUE(server.wait_for_connections(20));
}

TEST(HttpServer, SaysThatAPortIsTaken) {
  HttpServer server(any_port(), echo, refused);
  HttpOptions same = any_port();
  same.port = server.port();
  EXPECT_EQ(message_of([&] { HttpServer(same, echo, refused); }),
            "cannot listen at 127.0.0.1 port " + std::to_string(server.port()) +
                ": Address already in use");
}

}  // namespace
}  // namespace tephra
