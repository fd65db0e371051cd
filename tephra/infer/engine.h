// SPDX-License-Identifier: Apache-2.0
// The scheduler on a thread of its own. Any thread may ask.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/infer/scheduler.h"

namespace tephra {

class Engine {
 public:
  // The model must outlive it.
  Engine(Model& model, const EngineOptions& options);
  ~Engine();  // cancels what is left
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Fault::usage when it could never be served. The number names the request; its callbacks come
  // from the engine's thread and may come before this returns.
  uint64_t submit(EngineRequest request);
  // Several at once, or none of them.
  std::vector<uint64_t> submit(std::vector<EngineRequest> requests);
  void cancel(uint64_t id);  // its on_end comes soon, unless it came already
  void cancel_all();

  int64_t room_for(int64_t prompt_tokens) const { return scheduler_.room_for(prompt_tokens); }
  EngineStats stats() const;  // as of the last step
  void wait_until_idle();
  // Why every request ends as failed from now on: the device itself failed.
  std::optional<Error> failure() const;

 private:
  void work();
  bool step();

  Scheduler scheduler_;  // touched by the thread alone, but for what never changes
  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  struct Arrival {
    uint64_t id;
    EngineRequest request;
  };
  std::vector<Arrival> arrivals_;
  std::vector<uint64_t> cancels_;
  bool cancel_all_ = false, stop_ = false, busy_ = false;
  uint64_t next_id_ = 1;
  EngineStats stats_;
  std::optional<Error> failure_;  // written by the thread alone
  std::thread thread_;
};

}  // namespace tephra
