// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "tephra/base/error.h"

namespace tephra {
namespace {

std::atomic<int> signals_seen{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch it");

void on_signal(int) {
  if (signals_seen.fetch_add(1) > 0) ::_exit(exit_code(Fault::interrupted));
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return signals_seen.load(std::memory_order_relaxed) > 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Error(Fault::interrupted, "interrupted");
}

}  // namespace tephra
