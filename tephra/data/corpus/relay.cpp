// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/relay.h"

#include <utility>

#include "tephra/base/parallel.h"

namespace tephra {

void Relay::add(size_t line, Task task) {
  const Lock lock(mutex_);
  Line& to = lines_[line];
  const bool done = !task.work;
  to.entries.push_back({std::move(task), done});
  ++tasks_;
  changed_.notify_all();
}

void Relay::run(size_t threads, size_t ahead) {
  ahead_ = ahead;
  parallel_for(static_cast<int64_t>(threads), 1, [&](int64_t, int64_t) { work(); });
  if (error_) std::rethrow_exception(error_);
}

void Relay::work() {
  Lock lock(mutex_);
  while (!ended()) {
    if (step(lock)) {
      changed_.notify_all();
    } else {
      changed_.wait(lock);
    }
  }
}

bool Relay::ended() const { return error_ || (all_read_ && tasks_ == 0); }

// What is nearest to its end comes first, so that little lies about.
bool Relay::step(Lock& lock) {
  for (size_t i = lines_.size(); i-- > 0;) {
    if (take_front(lines_[i], lock)) return true;
  }
  const size_t waiting = lines_[0].entries.size() - lines_[0].begun;
  if (waiting < ahead_ && read_on(lock)) return true;
  for (size_t i = lines_.size(); i-- > 0;) {
    if (work_on_next(lines_[i], lock)) return true;
  }
  return read_on(lock);
}

bool Relay::take_front(Line& line, Lock& lock) {
  if (line.taking || line.entries.empty() || !line.entries.front().done) return false;
  line.taking = true;
  Entry& entry = line.entries.front();
  unlocked(lock, [&] {
    const Task task = std::move(entry.task);
    task.take();
  });
  line.entries.pop_front();
  --tasks_;
  if (line.begun > 0) --line.begun;
  line.taking = false;
  return true;
}

bool Relay::work_on_next(Line& line, Lock& lock) {
  while (line.begun < line.entries.size() && line.entries[line.begun].done) ++line.begun;
  if (line.begun == line.entries.size()) return false;
  Entry& entry = line.entries[line.begun++];
  unlocked(lock, [&] { entry.task.work(); });
  entry.done = true;
  return true;
}

bool Relay::read_on(Lock& lock) {
  if (reading_ || all_read_ || tasks_ >= most_tasks(ahead_)) return false;
  reading_ = true;
  bool more = false;
  unlocked(lock, [&] { more = read_(); });
  reading_ = false;
  all_read_ = !more;
  return true;
}

void Relay::unlocked(Lock& lock, const std::function<void()>& f) {
  std::exception_ptr error;
  lock.unlock();
  try {
    f();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (!error_) error_ = error;
}

}  // namespace tephra
