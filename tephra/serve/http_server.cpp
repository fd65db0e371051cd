// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"

namespace tephra {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kGentleBytes = size_t{64} << 20;  // or four of the largest bodies

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

std::string head_of(const HttpResponse& r, bool keep_alive, bool chunked) {
  std::string head = format("HTTP/1.1 {} {}\r\n", r.status, reason_of(r.status));
  if (!r.content_type.empty()) head += format("Content-Type: {}\r\n", r.content_type);
  for (const auto& [name, value] : r.headers) head += format("{}: {}\r\n", name, value);
  if (chunked) {
    head += "Transfer-Encoding: chunked\r\n";
  } else if (!r.next_piece) {
    head += format("Content-Length: {}\r\n", r.body.size());
  }
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

// Ready for these events; false after so many seconds without.
bool wait_for(int fd, short events, double seconds) {
  pollfd p{fd, events, 0};
  const double until = steady_seconds() + seconds;
  for (;;) {
    const double left = until - steady_seconds();
    const int ready = ::poll(&p, 1, std::max(0, static_cast<int>(left * 1000)));
    if (ready > 0) return true;
    if (ready == 0 && until - steady_seconds() <= 0.001) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  void reset() {
    ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// Sends all, or false when the client is gone or takes nothing for so long.
bool send_all(int fd, std::string_view bytes, double seconds) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait_for(fd, POLLOUT, seconds)) return false;
    } else if (!(sent < 0 && errno == EINTR)) {
      return false;
    }
  }
  return true;
}

// A close with unread bytes would reset the connection and could lose the answer on its way, also
// for a client that says all of a request that is too large before it listens.
void close_gently(int fd, size_t most_bytes, double seconds) {
  ::shutdown(fd, SHUT_WR);
  char sink[16384];
  const double until = steady_seconds() + seconds;
  for (size_t total = 0; total < most_bytes;) {
    const double left = until - steady_seconds();
    if (left <= 0 || !wait_for(fd, POLLIN, left)) return;
    const ssize_t got = ::recv(fd, sink, sizeof sink, MSG_DONTWAIT);
    if (got <= 0) return;
    total += static_cast<size_t>(got);
  }
}

std::string address_of(const sockaddr_storage& a) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* part = nullptr;
  if (a.ss_family == AF_INET) part = &reinterpret_cast<const sockaddr_in&>(a).sin_addr;
  if (a.ss_family == AF_INET6) part = &reinterpret_cast<const sockaddr_in6&>(a).sin6_addr;
  return part != nullptr ? ::inet_ntop(a.ss_family, part, text, sizeof text) : "";
}

int listen_at(const HttpOptions& o) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(o.host.c_str(), std::to_string(o.port).c_str(), &hints, &found);
  require(error == 0, "--host {}: {}", o.host, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  int why = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd, a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) return fd;
    why = errno;
    ::close(fd);
  }
  throw Error(Fault::usage,
              format("cannot listen at {} port {}: {}", o.host, o.port, std::strerror(why)),
              "another program may use the port; choose another with --port");
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, Handler handler, Refusal refusal)
      : options_(options),
        handler_(std::move(handler)),
        refusal_(std::move(refusal)),
        listener_(listen_at(options)) {
    require(options.connections >= 1, "expected at least one connection, got {}",
            options.connections);
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    ::getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                                : reinterpret_cast<sockaddr_in&>(address).sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }

  ~Impl() {
    stop_accepting();
    std::unique_lock lock(mutex_);
    for (Connection& c : connections_) ::shutdown(c.fd(), SHUT_RDWR);
    ended_.wait(lock, [&] { return connections_.empty(); });
    join_finished();
  }

  void stop_accepting() {
    {
      const std::lock_guard lock(mutex_);
      draining_ = true;
      // Wakes the connections that wait for a next request.
      for (Connection& c : connections_) {
        if (!c.busy) ::shutdown(c.fd(), SHUT_RD);
      }
    }
    ::shutdown(listener_.fd(), SHUT_RDWR);  // wakes accept
    if (accepting_.joinable()) accepting_.join();
  }

  bool wait_for_connections(double seconds) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return connections_.empty(); });
  }

  int64_t connections() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(connections_.size());
  }
  int port() const { return port_; }
  const HttpOptions& options() const { return options_; }

 private:
  struct Connection : HttpClientConnection {
    Connection(int fd, std::string from) : socket(fd), address_text(std::move(from)) {}
    bool gone() const override {
      char byte = 0;
      const ssize_t got = ::recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    }
    const std::string& address() const override { return address_text; }
    int fd() const { return socket.fd(); }

    Socket socket;
    std::string address_text;
    bool busy = false;  // between a request's first byte and the end of its answer
    std::thread thread;
  };

  void accept_all() {
    for (;;) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int fd =
          ::accept4(listener_.fd(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC);
      if (fd < 0) {
        {
          const std::lock_guard lock(mutex_);
          if (draining_) return;
        }
        // Out of descriptors, or a client that left again: go on with the others.
        if (errno != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      begin(fd, address_of(address));
    }
  }

  void begin(int fd, std::string address) {
    std::unique_lock lock(mutex_);
    join_finished();
    const bool full = static_cast<int64_t>(connections_.size()) >= options_.connections;
    if (full || draining_) {
      lock.unlock();
      const Socket socket(fd);
      HttpResponse r = refusal_(503, "too many connections; try again soon");
      send_all(fd, head_of(r, false, false) + r.body, 0);
      // The request may be on its way; without reading it the answer could be lost.
      char sink[16384];
      if (wait_for(fd, POLLIN, 0.02)) (void)::recv(fd, sink, sizeof sink, MSG_DONTWAIT);
      ::shutdown(fd, SHUT_WR);
      return;
    }
    connections_.emplace_back(fd, std::move(address));
    const auto place = std::prev(connections_.end());
    try {
      place->thread = std::thread([this, place] { serve(place); });
    } catch (const std::system_error& e) {
      log_error("serve: no thread for a connection: {}", e.what());
      connections_.erase(place);
    }
  }

  void serve(std::list<Connection>::iterator c) {
    try {
      HttpParser parser(options_.limits);
      while (serve_one(*c, parser)) {
      }
    } catch (const std::exception& e) {
      log_error("serve: a connection ended: {}", e.what());
    }
    const std::lock_guard lock(mutex_);
    c->socket.reset();
    finished_.splice(finished_.end(), connections_, c);
    ended_.notify_all();
  }

  // Threads that have said their last word; their join does not wait.
  void join_finished() {
    for (Connection& c : finished_) c.thread.join();
    finished_.clear();
  }

  // Whether the connection goes on.
  bool serve_one(Connection& c, HttpParser& parser) {
    if (!read_request(c, parser)) return false;
    const HttpRequest request = parser.take();
    HttpResponse response;
    try {
      response = handler_(request, c);
    } catch (const std::exception& e) {
      log_error("serve: {} {}: {}", request.method, request.path, e.what());
      response = refusal_(500, "the server failed; its log says why");
    }
    bool keep = request.keep_alive;
    {
      const std::lock_guard lock(mutex_);
      keep = keep && !draining_;
    }
    if (!write_response(c, request, response, keep)) return false;
    const std::lock_guard lock(mutex_);
    c.busy = parser.begun();
    if (draining_) keep = false;
    if (!keep) ::shutdown(c.fd(), SHUT_WR);
    return keep;
  }

  bool read_request(Connection& c, HttpParser& parser) {
    double until = steady_seconds() + options_.idle_seconds;
    bool continued = false;
    if (parser.begun()) mark_busy(c, until);
    while (!parser.done()) {
      if (parser.failed()) return refuse(c, parser.status(), parser.message());
      const double left = until - steady_seconds();
      if (left <= 0 || !wait_for(c.fd(), POLLIN, left)) {
        return parser.begun() && refuse(c, 408, "the request did not arrive in time");
      }
      char bytes[16384];
      const ssize_t got = ::recv(c.fd(), bytes, sizeof bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      const bool first = !parser.begun();
      parser.add({bytes, static_cast<size_t>(got)});
      if (first && parser.begun()) mark_busy(c, until);  // empty lines begin nothing
      if (parser.wants_continue() && !continued) {
        continued = true;
        if (!send_all(c.fd(), "HTTP/1.1 100 Continue\r\n\r\n", options_.write_seconds))
          return false;
      }
    }
    return true;
  }

  void mark_busy(Connection& c, double& until) {
    until = steady_seconds() + options_.request_seconds;
    const std::lock_guard lock(mutex_);
    c.busy = true;
  }

  bool refuse(Connection& c, int status, const std::string& message) {
    const HttpResponse r = refusal_(status, message);
    send_all(c.fd(), head_of(r, false, false) + r.body, options_.write_seconds);
    close_gently(c.fd(), std::max(kGentleBytes, 4 * options_.limits.body_bytes),
                 options_.close_seconds);
    return false;
  }

  bool write_response(Connection& c, const HttpRequest& request, HttpResponse& r, bool& keep) {
    const double seconds = options_.write_seconds;
    if (!r.next_piece) {
      const bool head_only = request.method == "HEAD" || r.status == 204;
      return send_all(c.fd(), head_of(r, keep, false) + (head_only ? std::string() : r.body),
                      seconds);
    }
    const bool chunked = !request.http_1_0;
    if (!chunked) keep = false;  // the end of the connection is the end of the answer
    if (!send_all(c.fd(), head_of(r, keep, chunked), seconds)) return false;
    while (const std::optional<std::string> piece = r.next_piece()) {
      if (piece->empty()) continue;
      if (!send_all(c.fd(), chunked ? format("{:x}\r\n{}\r\n", piece->size(), *piece) : *piece,
                    seconds)) {
        return false;
      }
    }
    return !chunked || send_all(c.fd(), "0\r\n\r\n", seconds);
  }

  HttpOptions options_;
  Handler handler_;
  Refusal refusal_;
  Socket listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool draining_ = false;
  std::list<Connection> connections_, finished_;
  std::thread accepting_;
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler, Refusal refusal)
    : impl_(std::make_unique<Impl>(options, std::move(handler), std::move(refusal))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return impl_->port(); }
void HttpServer::stop_accepting() { impl_->stop_accepting(); }
bool HttpServer::wait_for_connections(double seconds) {
  return impl_->wait_for_connections(seconds);
}
int64_t HttpServer::connections() const { return impl_->connections(); }

std::string HttpServer::url() const {
  const std::string& host = impl_->options().host;
  const bool six = host.find(':') != host.npos;
  return format("http://{}:{}", six ? "[" + host + "]" : host, port());
}

}  // namespace tephra
