// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include "tephra/base/error.h"

namespace tephra {
namespace {

std::atomic<int> signals_seen{0};
std::atomic<bool> must_end{false};  // SIGTERM came
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch it");

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
  if (signals_seen.fetch_add(1) > 0) ::_exit(exit_code(Fault::interrupted));
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
}

bool interrupted() { return signals_seen.load(std::memory_order_relaxed) > 0; }

bool take_interrupt() {
  int seen = 1;
  return !must_end && signals_seen.compare_exchange_strong(seen, 0);
}

void stop_if_interrupted() {
  if (interrupted()) throw Error(Fault::interrupted, "interrupted");
}

}  // namespace tephra
