// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/engine.h"

#include "tephra/base/clock.h"
#include "tephra/base/log.h"
#include "tephra/device/device_failure.h"

namespace tephra {

Engine::Engine(Model& model, const EngineOptions& options)
    : scheduler_(model, options), stats_(scheduler_.stats()), thread_([this] { work(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    cancel_all_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

uint64_t Engine::submit(EngineRequest request) {
  std::vector<EngineRequest> one;
  one.push_back(std::move(request));
  return submit(std::move(one)).front();
}

std::vector<uint64_t> Engine::submit(std::vector<EngineRequest> requests) {
  for (const EngineRequest& r : requests) scheduler_.check(r);
  std::vector<uint64_t> ids;
  const std::lock_guard lock(mutex_);
  for (EngineRequest& r : requests) {
    r.arrived = steady_seconds();
    ids.push_back(next_id_);
    arrivals_.push_back({next_id_++, std::move(r)});
    ++stats_.waiting;  // at once, so that a crowd is noticed before the next step
  }
  busy_ = true;
  wake_.notify_all();
  return ids;
}

void Engine::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  cancels_.push_back(id);
  wake_.notify_all();
}

void Engine::cancel_all() {
  const std::lock_guard lock(mutex_);
  cancel_all_ = true;
  wake_.notify_all();
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::optional<Error> Engine::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Engine::wait_until_idle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return !busy_; });
}

// Whether there was work. What a failed step would have served ends; the next may do better, unless
// the device is lost.
bool Engine::step() {
  if (failure_) {
    scheduler_.end_all(EndReason::failed, failure_->what());
    return false;
  }
  try {
    return scheduler_.step();
  } catch (const DeviceFailure& e) {
    log_error("engine: {}", e.what());
    {
      const std::lock_guard lock(mutex_);
      failure_ = e;  // before anybody is told
    }
    scheduler_.end_all(EndReason::failed, e.what());
  } catch (const std::exception& e) {
    log_error("engine: {}", e.what());
    scheduler_.end_all(EndReason::failed, e.what());
  }
  return true;
}

void Engine::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] {
      return busy_ || stop_ || cancel_all_ || !arrivals_.empty() || !cancels_.empty();
    });
    std::vector<Arrival> arrivals = std::exchange(arrivals_, {});
    const std::vector<uint64_t> cancels = std::exchange(cancels_, {});
    const bool cancel_all = std::exchange(cancel_all_, false), stop = stop_;
    lock.unlock();

    for (Arrival& a : arrivals) {
      const uint64_t id = scheduler_.add(std::move(a.request));
      TEPHRA_ASSERT(id == a.id, "requests are numbered in the order of their arrival");
    }
    for (const uint64_t id : cancels) scheduler_.cancel(id);
    if (cancel_all) scheduler_.end_all(EndReason::cancelled);
    const bool worked = step();

    lock.lock();
    stats_ = scheduler_.stats();
    stats_.waiting += static_cast<int64_t>(arrivals_.size());
    if (stop && arrivals_.empty()) return;
    busy_ = worked || !arrivals_.empty();
    if (!busy_) idle_.notify_all();
  }
}

}  // namespace tephra
