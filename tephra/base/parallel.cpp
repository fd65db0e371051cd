// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tephra/base/error.h"

namespace tephra {
namespace {

thread_local bool inside_body = false;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// One parallel_for. It is shared with the workers, so one that wakes late finds its own, finished
// job and not the caller's next one.
struct Job {
  int64_t n;
  int64_t grain;
  int64_t pieces;
  FunctionRef<void(int64_t, int64_t)> body;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> done{0};
  std::mutex mutex;
  std::condition_variable finished;
  std::exception_ptr error;

  void work() {
    inside_body = true;
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < pieces;) {
      try {
        body(i * grain, std::min(n, (i + 1) * grain));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
      if (done.fetch_add(1, std::memory_order_acq_rel) + 1 == pieces) {
        const std::lock_guard lock(mutex);
        finished.notify_all();
      }
    }
    inside_body = false;
  }

  // Spins for some microseconds before it sleeps: the last piece is usually nearly done.
  void wait(int spins) {
    for (int spin = 0; spin < spins; ++spin) {
      if (done.load(std::memory_order_acquire) == pieces) return;
      relax();
    }
    std::unique_lock lock(mutex);
    finished.wait(lock, [&] { return done.load(std::memory_order_acquire) == pieces; });
  }
};

class Pool {
 public:
  ~Pool() { stop(); }

  int threads() const { return threads_; }

  void resize(int count) {
    stop();
    threads_ = count;
    spins_ = count <= available_cores() ? 4000 : 0;
    stopping_ = false;
    try {
      for (int i = 1; i < count; ++i) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error& e) {
      stop();
      threads_ = 1;
      throw Error(Fault::device, format("cannot start {} threads: {}", count, e.what()),
                  "a smaller --threads");
    }
  }

  void run(const std::shared_ptr<Job>& job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = job;
      posted_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job->work();
    job->wait(spins_ / 2);
  }

 private:
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      for (int spin = 0; spin < spins_ && posted_.load(std::memory_order_acquire) == seen; ++spin) {
        relax();
      }
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stopping_ || posted_.load() != seen; });
        if (stopping_) return;
        seen = posted_.load();
        job = job_;
      }
      job->work();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  std::atomic<int> threads_{1};
  int spins_ = 0;  // before sleeping; none when threads must share cores
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> posted_{0};
  std::shared_ptr<Job> job_;
  bool stopping_ = false;
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

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) {
  TEPHRA_ASSERT(grain > 0, "work is cut into pieces of at least one");
  if (n <= 0) return;
  const int64_t pieces = ceil_div(n, grain);
  if (pieces == 1 || inside_body) {
    for (int64_t i = 0; i < pieces; ++i) body(i * grain, std::min(n, (i + 1) * grain));
    return;
  }
  std::shared_ptr<Job> job(new Job{n, grain, pieces, body, {}, {}, {}, {}, {}});
  {
    const std::lock_guard lock(pool_mutex);
    pool().run(job);
  }
  if (job->error) std::rethrow_exception(job->error);
}

}  // namespace tephra
