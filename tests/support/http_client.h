// SPDX-License-Identifier: Apache-2.0
// The other end of an HTTP server: requests byte by byte, right or wrong.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tephra {

struct HttpAnswer {
  int status = 0;  // 0: none came
  std::string head, body;
};

class HttpTestClient {
 public:
  explicit HttpTestClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~HttpTestClient() { close(); }
  HttpTestClient(const HttpTestClient&) = delete;
  HttpTestClient& operator=(const HttpTestClient&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // More of what the server says; false at the end, or when nothing comes for so long.
  bool receive(double seconds = 20) {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
    char bytes[8192];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    received.append(bytes, static_cast<size_t>(got));
    return true;
  }

  // One whole answer, its chunks put together.
  HttpAnswer answer() {
    HttpAnswer a;
    while (received.find("\r\n\r\n") == std::string::npos) {
      if (!receive()) return a;
    }
    const size_t end = received.find("\r\n\r\n");
    a.head = received.substr(0, end + 2);
    received.erase(0, end + 4);
    a.status = std::atoi(a.head.c_str() + 9);
    const size_t length = a.head.find("Content-Length: ");
    if (length != std::string::npos) {
      const auto bytes = static_cast<size_t>(std::atoll(a.head.c_str() + length + 16));
      while (received.size() < bytes && receive()) {
      }
      a.body = received.substr(0, bytes);
      received.erase(0, bytes);
    } else if (a.head.find("chunked") != std::string::npos) {
      while (take_chunk(a.body)) {
      }
    }
    return a;
  }

  static std::string post(std::string_view path, std::string_view body,
                          std::string_view more_headers = "") {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n" +
           std::string(more_headers) + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + std::string(body);
  }
  static std::string get(std::string_view path, std::string_view more_headers = "") {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(more_headers) +
           "\r\n";
  }

  std::string received;

 private:
  bool take_chunk(std::string& body) {
    size_t line = std::string::npos;
    while ((line = received.find("\r\n")) == std::string::npos) {
      if (!receive()) return false;
    }
    const auto size = static_cast<size_t>(std::strtoull(received.c_str(), nullptr, 16));
    while (received.size() < line + 2 + size + 2) {
      if (!receive()) return false;
    }
    body += received.substr(line + 2, size);
    received.erase(0, line + 2 + size + 2);
    return size > 0;
  }

  int fd_;
  bool connected_ = false;
};

}  // namespace tephra
