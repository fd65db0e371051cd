// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <thread>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/core/rng.h"

namespace tephra {
namespace {

constexpr int kPatienceMs = 120'000, kStepMs = 100;

// One request with a streamed answer, over a connection of its own.
class StreamClient {
 public:
  StreamClient(const StreamLoadOptions& o, const std::string& body)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(o.port));
    require(::inet_pton(AF_INET, o.host.c_str(), &address.sin_addr) == 1,
            "--host: expected an IPv4 address, got '{}'", o.host);
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ok_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    std::string request = "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n";
    if (!o.api_key.empty()) request += "Authorization: Bearer " + o.api_key + "\r\n";
    request += format("Content-Length: {}\r\n\r\n", body.size()) + body;
    ok_ = ok_ && send_all(request);
  }
  ~StreamClient() { ::close(fd_); }
  StreamClient(const StreamClient&) = delete;
  StreamClient& operator=(const StreamClient&) = delete;

  // When what was read last came: lines that came together came at once.
  double came() const { return came_; }

  // A line of the answer; false at its end.
  bool line(std::string& line) {
    for (;;) {
      const size_t end = held_.find('\n', searched_);
      if (end != held_.npos) {
        line = held_.substr(0, end);
        if (line.ends_with('\r')) line.pop_back();
        held_.erase(0, end + 1);
        searched_ = 0;
        return true;
      }
      searched_ = held_.size();
      if (!receive()) return false;
    }
  }

 private:
  bool send_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // Whether bytes have come; false when patience ends, or the program is to stop.
  bool await_bytes() const {
    pollfd p{fd_, POLLIN, 0};
    for (int waited = 0; waited < kPatienceMs && !interrupted(); waited += kStepMs) {
      const int ready = ::poll(&p, 1, kStepMs);
      if (ready != 0) return ready > 0;
    }
    return false;
  }
  bool receive() {
    char bytes[8192];
    if (!ok_ || !await_bytes()) return false;
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    held_.append(bytes, static_cast<size_t>(got));
    came_ = steady_seconds();
    return true;
  }

  int fd_;
  bool ok_ = false;
  std::string held_;
  size_t searched_ = 0;
  double came_ = 0;
};

std::string body_of(const StreamLoadOptions& o, uint64_t number) {
  const auto same = static_cast<int64_t>(o.shared * static_cast<double>(o.prompt_tokens));
  Json ids = Json::Array{};
  for (int64_t i = 0; i < o.prompt_tokens; ++i) {
    const auto stream = static_cast<uint32_t>(i < same ? 0 : number + 1);
    const double u = uniform({o.seed, stream, 1}, static_cast<uint64_t>(i));
    ids.push_back(static_cast<int64_t>(u * static_cast<double>(o.vocab_size)));
  }
  return Json(Json::Object{{"prompt", std::move(ids)},
                           {"max_tokens", o.new_tokens},
                           {"ignore_eos", true},
                           {"seed", static_cast<int64_t>(number)},
                           {"temperature", o.temperature},
                           {"stream", true},
                           {"stream_options", Json::Object{{"include_usage", true}}}})
      .dump();
}

struct Seen {
  std::string loss;  // empty: whole
  std::vector<double> between;
  double first = 0;
  int64_t tokens = 0, cached = 0, prompt = 0;
};

Seen run_stream(const StreamLoadOptions& o, uint64_t number) {
  Seen seen;
  const double begin = steady_seconds();
  StreamClient client(o, body_of(o, number));
  std::string line, last;
  if (!client.line(line)) {
    seen.loss = "no answer";
    return seen;
  }
  if (line.find(" 200 ") == line.npos) {
    seen.loss = line;
    return seen;
  }
  double before = 0;
  bool done = false, alone = false;  // alone: the last event did not come with the one before it
  while (client.line(line)) {
    if (!line.starts_with("data: ")) continue;
    if (line == "data: [DONE]") {
      done = true;
      continue;
    }
    const double now = client.came();
    alone = before != 0 && now != before;
    if (before == 0) seen.first = now - begin;
    if (alone) seen.between.push_back(now - before);
    before = now;
    last = line.substr(6);
  }
  if (!done) {
    seen.loss = "the stream broke off: " + clipped(last, 200);
    return seen;
  }
  if (alone) seen.between.pop_back();  // the event with the usage
  const Json end = Json::parse(last, "the last event");
  const Fields usage = Fields(end, "the last event").object("usage");
  seen.tokens = usage.integer("completion_tokens");
  seen.prompt = usage.integer("prompt_tokens");
  seen.cached = usage.object("prompt_tokens_details").integer("cached_tokens");
  if (seen.tokens != o.new_tokens) seen.loss = format("{} tokens came", seen.tokens);
  return seen;
}

}  // namespace

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(at, 1, sorted.size()) - 1];
}

std::optional<double> answer_rate(const StreamLoadReport& r, int64_t at_once) {
  constexpr int64_t kLeastEvents = 16;  // of a stream, on average
  const auto streams = std::ssize(r.first_token);
  const auto events = streams + std::ssize(r.between);
  const double seconds = std::accumulate(r.between.begin(), r.between.end(), 0.0);
  if (events < kLeastEvents * streams || seconds <= 0) return std::nullopt;
  return static_cast<double>(at_once) * static_cast<double>(r.tokens - streams) / seconds;
}

StreamLoadReport load_server(const StreamLoadOptions& o) {
  StreamLoadReport report;
  std::mutex mutex;
  std::atomic<uint64_t> next = 0;
  const double begin = steady_seconds();
  const auto client = [&] {
    while (steady_seconds() - begin < o.seconds && !interrupted()) {
      Seen seen;
      try {
        seen = run_stream(o, next++);
      } catch (const std::exception& e) {
        seen.loss = e.what();
      }
      const std::lock_guard lock(mutex);
      ++report.streams;
      if (!seen.loss.empty()) {
        if (++report.lost == 1) report.first_loss = seen.loss;
        continue;
      }
      report.tokens += seen.tokens;
      report.cached_tokens += seen.cached;
      report.prompt_tokens += seen.prompt;
      report.first_token.push_back(seen.first);
      report.between.insert(report.between.end(), seen.between.begin(), seen.between.end());
    }
  };
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < o.streams; ++i) threads.emplace_back(client);
  for (std::thread& t : threads) t.join();
  stop_if_interrupted();
  report.seconds = steady_seconds() - begin;
  std::sort(report.first_token.begin(), report.first_token.end());
  std::sort(report.between.begin(), report.between.end());
  return report;
}

}  // namespace tephra
