// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/read_ahead.h"

namespace tephra {
namespace {

thread_local bool inside_body = false;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A thread that sleeps takes tens of microseconds to come back, more on a virtual machine: as long
// as what happens between two parallel_fors of a model that decodes. So wait awake that long first.
template <class F>
bool spin_until(F&& done) {
  constexpr auto kPatience = std::chrono::microseconds(200);
  std::chrono::steady_clock::time_point end;  // from the first look at the clock on
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
    const auto now = std::chrono::steady_clock::now();
    if (end == std::chrono::steady_clock::time_point()) end = now + kPatience;
    if (now >= end) return false;
  }
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The pieces that one thread begins with. What it has not begun when another one runs out of its
// own, that one helps with.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

// One parallel_for, on its caller's stack: the pool lets no worker in once it is left.
class Job {
 public:
  using Body = FunctionRef<void(int64_t, int64_t)>;

  // Neighbouring pieces go to one thread: it reads memory in order, and from one parallel_for to
  // the next it meets the rows that are still in its caches.
  Job(int64_t n, int64_t grain, Body body, std::span<Share> shares)
      : n_(n), grain_(grain), body_(body), shares_(shares) {
    const int64_t pieces = ceil_div(n, grain), threads = static_cast<int64_t>(shares.size());
    for (int64_t i = 0; i < threads; ++i) {
      Share& share = shares[static_cast<size_t>(i)];
      share.next.store(ceil_div(pieces * i, threads), std::memory_order_relaxed);
      share.end = ceil_div(pieces * (i + 1), threads);
    }
  }

  // Returns when every piece has been begun, by whomever.
  void work(size_t thread) {
    inside_body = true;
    for (size_t i = 0; i < shares_.size(); ++i) work_on(shares_[(thread + i) % shares_.size()]);
    inside_body = false;
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work_on(Share& share) {
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const int64_t i = share.next.fetch_add(1, std::memory_order_relaxed);
      if (i < share.end) run(i);
    }
  }

  void run(int64_t i) {
    try {
      body_(i * grain_, std::min(n_, (i + 1) * grain_));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  const int64_t n_, grain_;
  const Body body_;
  const std::span<Share> shares_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// What read_ahead was last told.
struct Ahead {
  std::array<std::span<const std::byte>, kMostAhead> own, shared;
};

class Announced {
 public:
  void set(const Ahead& ahead) {
    const std::lock_guard lock(mutex_);
    ahead_ = ahead;
    version_.fetch_add(1, std::memory_order_release);
  }
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  Ahead get() {
    const std::lock_guard lock(mutex_);
    return ahead_;
  }

 private:
  std::mutex mutex_;
  Ahead ahead_;
  std::atomic<uint64_t> version_{0};
};

// One thread's way through it. A parallel_for gives thread i the i-th part of its pieces first:
// that part of every shared range is its own.
class Fetcher {
 public:
  Fetcher(Announced& announced, size_t thread, size_t threads)
      : announced_(announced), thread_(thread), threads_(threads) {}

  // Asks for some lines, then returns: there may be work.
  void fetch_some() {
    if (announced_.version() != seen_) {
      seen_ = announced_.version();
      set_ranges(announced_.get());
    }
    while (next_ < ranges_.size() && ranges_[next_].empty()) ++next_;
    if (next_ == ranges_.size()) return;
    constexpr size_t kPiece = 2048, kLine = 64;
    std::span<const std::byte>& range = ranges_[next_];
    const size_t size = std::min(range.size(), kPiece);
    for (size_t at = 0; at < size; at += kLine) {
      // Into the second cache (decision 0048).
      __builtin_prefetch(range.data() + at, /*read*/ 0, /*second cache*/ 2);
    }
    range = range.subspan(size);
  }

 private:
  void set_ranges(const Ahead& ahead) {
    next_ = 0;
    ranges_.fill({});
    if (thread_ == 0) std::copy(ahead.own.begin(), ahead.own.end(), ranges_.begin());
    for (size_t i = 0; i < kMostAhead; ++i) ranges_[kMostAhead + i] = part_of(ahead.shared[i]);
  }

  std::span<const std::byte> part_of(std::span<const std::byte> range) const {
    const size_t part = range.size() / threads_, begin = part * thread_;
    return range.subspan(begin, thread_ + 1 == threads_ ? range.size() - begin : part);
  }

  Announced& announced_;
  const size_t thread_, threads_;
  uint64_t seen_ = 0;
  std::array<std::span<const std::byte>, 2 * kMostAhead> ranges_;  // what is left of each
  size_t next_ = 2 * kMostAhead;
};

class Pool {
 public:
  ~Pool() { stop(); }

  Announced announced;

  int threads() const { return threads_; }

  void resize(int count) {
    stop();
    prepare(count);
    stopping_ = false;
    try {
      for (int i = 1; i < count; ++i) {
        workers_.emplace_back([this, i] { serve(static_cast<size_t>(i)); });
      }
    } catch (const std::system_error& e) {
      stop();
      prepare(1);
      throw Error(Fault::device, format("cannot start {} threads: {}", count, e.what()),
                  "a smaller --threads");
    }
  }

  void run(int64_t n, int64_t grain, Job::Body body) {
    Job job(n, grain, body, shares_);
    job_ = &job;
    wake_workers();
    job.work(0);
    job_ = nullptr;
    wait_until_left();
    job.rethrow();
  }

 private:
  void prepare(int count) {
    threads_ = count;
    shares_ = std::vector<Share>(static_cast<size_t>(count));
    callers_.emplace(announced, 0, static_cast<size_t>(count));
    spin_ = count <= available_cores();
  }

  // Handing out work takes no lock and wakes nobody while all are awake. Whoever goes to sleep says
  // so before it looks for the last time, and whoever changes something looks for sleepers after:
  // in the one order of all these operations one of the two sees the other.

  void wake_workers() {
    ++posted_;
    if (asleep_ > 0) wake(work_);
  }

  void wake(std::condition_variable& sleepers) {
    { const std::lock_guard lock(mutex_); }  // who was about to sleep does by now
    sleepers.notify_all();
  }

  // A worker enters before it looks for the job: either it finds none, or it is waited for.
  void wait_until_left() {
    const auto left = [&] { return inside_ == 0; };
    const auto left_or_fetch = [&] {
      if (left()) return true;
      callers_->fetch_some();
      return false;
    };
    if (spin_ && spin_until(left_or_fetch)) return;
    std::unique_lock lock(mutex_);
    caller_sleeps_ = true;
    left_.wait(lock, left);
    caller_sleeps_ = false;
  }

  void serve(size_t thread) {
    uint64_t seen = 0;
    Fetcher fetcher(announced, thread, static_cast<size_t>(threads_));
    for (;;) {
      await_work(seen, fetcher);
      seen = posted_;  // before the flag, which is set before it is posted: no stop is overlooked
      if (stopping_) return;
      ++inside_;
      if (Job* job = job_) job->work(thread);
      if (--inside_ == 0 && caller_sleeps_) wake(left_);
    }
  }

  void await_work(uint64_t seen, Fetcher& fetcher) {
    const auto posted = [&] { return posted_ != seen; };
    const auto posted_or_fetch = [&] {
      if (posted()) return true;
      fetcher.fetch_some();
      return false;
    };
    if (spin_ && spin_until(posted_or_fetch)) return;
    std::unique_lock lock(mutex_);
    ++asleep_;
    work_.wait(lock, posted);
    --asleep_;
  }

  void stop() {
    stopping_ = true;
    wake_workers();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  std::atomic<int> threads_{1};
  bool spin_ = false;  // before sleeping; not when threads must share cores
  std::vector<std::thread> workers_;
  std::optional<Fetcher> callers_;  // fetches for whoever waits for the workers
  std::vector<Share> shares_;       // of the job, one for each thread
  std::atomic<Job*> job_{nullptr};
  std::atomic<uint64_t> posted_{0};
  std::atomic<int> inside_{0};  // workers that may be at the job
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // of those who sleep
  std::condition_variable work_, left_;
  std::atomic<int> asleep_{0};
  std::atomic<bool> caller_sleeps_{false};
};

// Callers on different threads take turns: one job owns all workers.
std::mutex pool_mutex;

Pool& pool() {
  static Pool instance;
  static const bool started = (instance.resize(available_cores()), true);
  (void)started;
  return instance;
}

}  // namespace

int num_threads() { return pool().threads(); }  // takes no lock: a body may ask

void set_num_threads(int count) {
  require(count >= 1 && count <= 1024, "threads must be between 1 and 1024, got {}", count);
  TEPHRA_ASSERT(!inside_body, "the pool cannot change while it works");
  const std::lock_guard lock(pool_mutex);
  if (pool().threads() != count) pool().resize(count);
}

void read_ahead(std::span<const std::span<const std::byte>> own,
                std::span<const std::span<const std::byte>> shared) {
  if (inside_body) return;
  Ahead ahead;
  std::copy_n(own.begin(), std::min(own.size(), kMostAhead), ahead.own.begin());
  std::copy_n(shared.begin(), std::min(shared.size(), kMostAhead), ahead.shared.begin());
  pool().announced.set(ahead);
}

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  TEPHRA_ASSERT(grain > 0, "work is cut into pieces of at least one");
  if (n <= 0) return;
  const int64_t pieces = ceil_div(n, grain);
  if (pieces == 1 || inside_body) {
    for (int64_t i = 0; i < pieces; ++i) body(i * grain, std::min(n, (i + 1) * grain));
    return;
  }
  const std::lock_guard lock(pool_mutex);
  pool().run(n, grain, body);
}

}  // namespace tephra
