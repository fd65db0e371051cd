// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tephra/base/error.h"

namespace tephra {
namespace {

// Supervisors may send what they ask to the process and to its group.
constexpr int64_t kSameRequest = 100'000'000;  // nanoseconds

std::atomic<int64_t> asked_at{0};   // nanoseconds; 0: not asked to stop
std::atomic<bool> must_end{false};  // SIGTERM came
static_assert(std::atomic<int64_t>::is_always_lock_free, "a signal handler may touch it");

int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A stack for this thread's handlers, unless somebody (a sanitizer) gave it one already.
class SignalStack {
 public:
  SignalStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
    bytes_ = std::make_unique<std::byte[]>(kBytes);
    stack_t own{};
    own.ss_sp = bytes_.get();
    own.ss_size = kBytes;
    if (sigaltstack(&own, nullptr) != 0) bytes_.reset();
  }
  ~SignalStack() {
    if (!bytes_) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  // The kernel puts every register there, those of the matrix units included.
  static constexpr size_t kBytes = 64 << 10;
  std::unique_ptr<std::byte[]> bytes_;
};

void on_signal(int signal) {
  if (signal == SIGTERM) must_end = true;
  int64_t first = 0;
  const int64_t now = nanoseconds();
  if (asked_at.compare_exchange_strong(first, now)) return;
  if (now - first > kSameRequest) ::_exit(exit_code(Fault::interrupted));
}

}  // namespace

void use_signal_stack() { thread_local const SignalStack stack; }

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;  // a file over the limit on its size is an error of its write
  sigaction(SIGXFSZ, &action, nullptr);
}

bool interrupted() { return asked_at.load(std::memory_order_relaxed) > 0; }

bool take_interrupt() { return !must_end && asked_at.exchange(0) > 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Error(Fault::interrupted, "interrupted");
}

}  // namespace tephra
