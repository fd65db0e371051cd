// SPDX-License-Identifier: Apache-2.0
#include "tephra/hub/pull.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <thread>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/sha.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/hub/part_file.h"
#include "tephra/hub/web_client.h"

namespace tephra {
namespace {

constexpr int kWrongContents = 3;     // then the hub, not the network, is at fault
constexpr double kLongestWait = 300;  // seconds, whatever the hub asks for
constexpr int64_t kFirstContactTries = 3;
constexpr size_t kLargestListing = 64 << 20;

bool may_pass(int status) { return status == 408 || status == 429 || status >= 500; }

// What the hub's refusal says.
std::string said_by(const WebAnswer& answer) {
  const auto header = answer.headers.find("x-error-message");
  std::string text = header != answer.headers.end() ? header->second : answer.text;
  const size_t begin = text.find_first_not_of(" \r\n\t");
  if (begin == text.npos || text[begin] == '<') text.clear();  // a page for browsers
  return format("status {}{}", answer.status, text.empty() ? "" : ": " + clipped(trim(text), 300));
}

[[noreturn]] void refuse(const std::string& what, const WebAnswer& answer, bool have_token) {
  std::string hint;
  if (answer.status == 401 || answer.status == 403) {
    hint = have_token ? "check that HF_TOKEN may read it, and accept its terms on its page"
                      : "export HF_TOKEN=... if it is private or asks to accept its terms";
  } else if (answer.status == 404) {
    hint = "check the name and --revision; a private one needs HF_TOKEN";
  }
  throw Error(Fault::usage, format("{}: the hub answers with {}", what, said_by(answer)), hint);
}

class Puller {
 public:
  explicit Puller(const PullOptions& o) : o_(o), work_(o.out / ".tephra-pull") {}

  PullReport run() {
    const double begin = steady_seconds();
    read_the_listing();
    choose_files();
    if (!o_.list_only) pull_files();
    report_.pulled_bytes = pulled_;
    report_.seconds = steady_seconds() - begin;
    return std::move(report_);
  }

 private:
  bool stopping() const { return failed_ || interrupted(); }

  // Waits before another try of `what`; `tries` failed in a row.
  void wait_before(int64_t tries, const WebAnswer& answer, const std::string& what) {
    const std::string why = answer.failure.empty() ? said_by(answer) : answer.failure;
    if (tries > o_.retries) {
      throw Error(Fault::data, format("{}: gave up after {} tries; the last: {}", what, tries, why),
                  "run the same command again later: it goes on where it stopped");
    }
    const double grown = o_.retry_seconds * std::pow(2.0, static_cast<double>(tries - 1));
    const double seconds =
        std::min(kLongestWait, answer.retry_after.value_or(std::min(grown, 30.0)));
    log_info("{}: {}; trying again in {:.1f} s", what, why, seconds);
    const double until = steady_seconds() + seconds;
    while (!stopping() && steady_seconds() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void read_the_listing() {
    WebClient client;
    const std::string what = o_.place.repository;
    for (int64_t tries = 1;; ++tries) {
      std::string body;
      WebRequest request{.url = o_.place.listing_url(), .token = o_.token};
      request.on_bytes = [&](std::span<const std::byte> bytes) {
        body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        require_data(body.size() <= kLargestListing, "{}: the hub's listing is larger than {}",
                     what, human_bytes(kLargestListing));
        return true;
      };
      request.stop = [this] { return stopping(); };
      request.stall_seconds = o_.stall_seconds;
      const WebAnswer answer = client.get(request);
      stop_if_interrupted();
      if (answer.failure.empty() && answer.status == 200) {
        const std::string where = "the hub's listing of " + what;
        HubListing listing = read_listing(Json::parse(body, where), where);
        report_.commit = listing.commit;
        for (HubFile& file : listing.files) report_.files.push_back({.file = std::move(file)});
        return;
      }
      if (answer.failure.empty() && !may_pass(answer.status)) {
        refuse(format("{} at revision {}", what, o_.place.revision), answer, !o_.token.empty());
      }
      // Where nothing has ever answered there is most likely nothing.
      if (answer.unreachable && tries >= kFirstContactTries) {
        throw Error(
            Fault::data,
            format("{}: no hub can be reached at {}: {}", what, o_.place.endpoint, answer.failure),
            "check the network, and HF_ENDPOINT if it is set");
      }
      wait_before(tries, answer, what);
      stop_if_interrupted();
    }
  }

  void choose_files() {
    const auto any = [](const std::string& name, const std::vector<std::string>& patterns) {
      return std::any_of(patterns.begin(), patterns.end(),
                         [&](const std::string& p) { return matches_pattern(name, p); });
    };
    std::erase_if(report_.files, [&](const PulledFile& f) {
      return any(f.file.name, o_.exclude) || (!o_.include.empty() && !any(f.file.name, o_.include));
    });
    require(!report_.files.empty(),
            "{}: no file is left after --include and --exclude, or there is none",
            o_.place.repository);
    for (const PulledFile& f : report_.files) report_.bytes += std::max<int64_t>(0, f.file.size);
  }

  void pull_files() {
    make_writable_folder(work_);
    const PullLock lock(work_ / "lock");
    check_space();
    progress_.emplace(o_.place.repository, report_.bytes, "B");
    // The largest first, so that no thread is left with one at the end.
    std::vector<size_t> order(report_.files.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return report_.files[a].file.size > report_.files[b].file.size;
    });
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    const auto count = std::min(static_cast<size_t>(o_.jobs), order.size());
    for (size_t i = 0; i < count; ++i) {
      threads.emplace_back([&] { work_on(order, next); });
    }
    for (std::thread& t : threads) t.join();
    progress_.reset();
    if (error_) std::rethrow_exception(error_);
    stop_if_interrupted();
    std::error_code ignored;
    std::filesystem::remove_all(work_, ignored);
  }

  void check_space() const {
    int64_t missing = 0;
    for (const PulledFile& f : report_.files) {
      std::error_code absent;
      const auto have = static_cast<int64_t>(std::filesystem::file_size(part_path(f.file), absent));
      const bool there = std::filesystem::exists(o_.out / f.file.name);
      if (!there) missing += std::max<int64_t>(0, f.file.size - (absent ? 0 : have));
    }
    std::error_code unknown;
    const auto space = std::filesystem::space(o_.out, unknown);
    if (unknown) return;
    const auto free = static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
    require_data(missing <= free, "{}: {} are still to come, and the disk has {} left",
                 o_.out.string(), human_bytes(missing), human_bytes(free));
  }

  void work_on(const std::vector<size_t>& order, std::atomic<size_t>& next) {
    try {
      WebClient client;
      for (size_t i = next++; i < order.size() && !stopping(); i = next++) {
        pull_one(client, report_.files[order[i]]);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      failed_ = true;
    }
  }

  // By the content, so that another commit's file goes on with it, and by the name: several files
  // may have one content.
  Path part_path(const HubFile& file) const {
    const std::string content = file.hash ? file.hash->hex : hash_text(xxh3(report_.commit));
    return work_ / format("{}-{}.part", content, hex_text(sha256(file.name)).substr(0, 16));
  }

  bool is_there(const HubFile& file, const Path& path) const {
    std::error_code absent;
    const auto size = std::filesystem::file_size(path, absent);
    if (absent || !file.hash) return false;
    if (file.size >= 0 && static_cast<int64_t>(size) != file.size) return false;
    return hub_hash_of(path, file.hash->kind, [this] { return stopping(); }) == file.hash->hex;
  }

  void pull_one(WebClient& client, PulledFile& f) {
    const Path path = o_.out / f.file.name;
    if (is_there(f.file, path)) {
      f.state = PullState::present;
      f.hashed = true;
      progress_->add(std::max<int64_t>(0, f.file.size));
      return;
    }
    make_writable_folder(path.parent_path());
    PartFile part(part_path(f.file));
    // Bytes that are counted as done: never fewer again, though a file may begin anew.
    int64_t best = std::min(part.size(), std::max<int64_t>(0, f.file.size));
    progress_->add(best);
    int64_t tries = 0;
    for (int wrong = 0; !stopping();) {
      WebAnswer answer;
      const int64_t before = best;
      if (f.file.size < 0 || part.size() != f.file.size) answer = fetch(client, f.file, part, best);
      if (stopping()) return;
      if (!answer.failure.empty() || may_pass(answer.status)) {
        tries = best > before ? 1 : tries + 1;
        wait_before(tries, answer, f.file.name);
        continue;
      }
      if (is_right(f, part)) {
        part.publish(path);
        f.state = PullState::pulled;
        return;
      }
      if (stopping()) return;
      part.restart();
      ++wrong;
      require_data(
          wrong < kWrongContents,
          "{}: {} times other content came than the hub's hash says; nothing of it is kept",
          f.file.name, wrong);
      log_warning("{}: what came is not what the hub's hash says; it is pulled anew", f.file.name);
    }
  }

  // More of the file. An answer without failure means that its end was reached.
  WebAnswer fetch(WebClient& client, HubFile& file, PartFile& part, int64_t& best) {
    if (file.size >= 0 && part.size() > file.size) part.restart();
    WebRequest request{.url = o_.place.file_url(report_.commit, file.name), .token = o_.token};
    request.from = part.size();
    std::string trouble;
    request.on_head = [&](int status, const std::map<std::string, std::string>& headers) {
      return take_head(status, headers, file, part, trouble);
    };
    request.on_bytes = [&](std::span<const std::byte> bytes) {
      if (file.size >= 0 && part.size() + static_cast<int64_t>(bytes.size()) > file.size) {
        trouble = "more bytes came than the file has";
        part.restart();
        return false;
      }
      part.append(bytes);
      pulled_ += static_cast<int64_t>(bytes.size());
      if (part.size() > best) progress_->add(part.size() - best);
      best = std::max(best, part.size());
      return true;
    };
    request.stop = [this] { return stopping(); };
    request.stall_seconds = o_.stall_seconds;
    WebAnswer answer = client.get(request);
    if (!trouble.empty()) answer.failure = trouble;
    if (!answer.failure.empty() || stopping()) return answer;
    if (answer.status == 416) {  // our part is longer than their file
      part.restart();
      answer.failure = said_by(answer);
    } else if (answer.status >= 400 && !may_pass(answer.status)) {
      refuse(o_.place.repository + ": " + file.name, answer, !o_.token.empty());
    } else if (answer.status < 400 && file.size >= 0 && part.size() < file.size) {
      answer.failure = format("the answer ended after {} of {} bytes", part.size(), file.size);
    }
    return answer;
  }

  // Whether the bytes that follow belong at the end of the part.
  static bool take_head(int status, const std::map<std::string, std::string>& headers,
                        HubFile& file, PartFile& part, std::string& trouble) {
    const auto value = [&](const char* name) {
      const auto found = headers.find(name);
      return found == headers.end() ? std::string() : found->second;
    };
    if (!file.hash) {
      file.hash = HubHash::read(value("x-linked-etag"));
      if (!file.hash) file.hash = HubHash::read(value("etag"));
    }
    if (file.size < 0 && !value("x-linked-size").empty()) {
      file.size = std::atoll(value("x-linked-size").c_str());
    }
    if (status == 206) {
      const std::string wanted = format("bytes {}-", part.size());
      if (value("content-range").starts_with(wanted)) return true;
      trouble = format("expected '{}...', got '{}'", wanted, clipped(value("content-range"), 80));
      part.restart();
      return false;
    }
    if (part.size() > 0) part.restart();  // this hub sends whole files alone
    return true;
  }

  bool is_right(PulledFile& f, const PartFile& part) {
    if (f.file.size < 0) f.file.size = part.size();
    if (!f.file.hash) {
      log_warning("{}: the hub gives no hash for it, so its size alone was checked", f.file.name);
      return true;
    }
    // The part may have been named before its hash was known.
    const std::string got =
        hub_hash_of(part.path(), f.file.hash->kind, [this] { return stopping(); });
    f.hashed = got == f.file.hash->hex;
    return f.hashed;
  }

  const PullOptions& o_;
  const Path work_;
  PullReport report_;
  std::optional<Progress> progress_;
  std::atomic<int64_t> pulled_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

PullReport pull(const PullOptions& options) {
  Puller puller(options);
  return puller.run();
}

}  // namespace tephra
