// SPDX-License-Identifier: Apache-2.0
// Tasks in lines, one line behind another: threads work on any of them, and what comes out is taken
// in order. No thread waits while there is a task to work on.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace tephra {

class Relay {
 public:
  struct Task {
    std::function<void()> work;  // on any thread, in any order; may be none
    std::function<void()> take;  // after it, in the order of the line, one at a time
  };

  // `read` adds tasks to the first line, or returns false when there are no more; one thread at a
  // time calls it.
  Relay(size_t lines, std::function<bool()> read) : lines_(lines), read_(std::move(read)) {}

  // From `read`, or when a task of a line before is taken.
  void add(size_t line, Task task);

  // Until everything is read and taken, on so many threads; within a parallel_for, on one. Reads
  // while fewer than `ahead` tasks wait in the first line, and when there is nothing else to do,
  // but not while most_tasks(ahead) tasks are there: the one that takes may be slow. After an
  // exception no task is begun; the first one is rethrown.
  void run(size_t threads, size_t ahead);
  static constexpr size_t most_tasks(size_t ahead) { return 4 * ahead + 8; }

 private:
  struct Entry {
    Task task;
    bool done;
  };
  struct Line {
    std::deque<Entry> entries;  // which keep their places in memory
    size_t begun = 0;           // the first ones, or done
    bool taking = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  bool ended() const;
  bool step(Lock& lock);
  bool take_front(Line& line, Lock& lock);
  bool work_on_next(Line& line, Lock& lock);
  bool read_on(Lock& lock);
  void unlocked(Lock& lock, const std::function<void()>& f);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Line> lines_;
  std::function<bool()> read_;
  size_t ahead_ = 0, tasks_ = 0;
  bool reading_ = false, all_read_ = false;
  std::exception_ptr error_;
};

}  // namespace tephra
