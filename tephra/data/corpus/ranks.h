// SPDX-License-Identifier: Apache-2.0
// Processes that mpirun or srun started for one command. They know of each other by small files in
// a folder that all of them see, one a rank: no messages, no clocks that agree, no locks (which
// not every shared file system has).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/function_ref.h"

namespace tephra {

// Files whose number in the corpus is `index` modulo `count`.
struct Shard {
  int64_t index = 0;
  int64_t count = 1;
  bool ranks = false;  // all run at the same time and meet through the output folder
};
// "2/8"; "auto" is the rank of a process that mpirun or srun started, else 0/1. Fault::usage.
Shard parse_shard(std::string_view text);

// In an output folder, while ranks run.
inline constexpr const char* kRanksFolder = ".ranks";

struct RankTimes {
  std::chrono::milliseconds beat{5000};       // between signs of life
  std::chrono::milliseconds look{200};        // between looks at what is waited for
  std::chrono::milliseconds say{10000};       // from when a wait is spoken of
  std::chrono::milliseconds gone{60000};      // without a sign of life: it was killed
  std::chrono::milliseconds missing{300000};  // that never came
};

class Ranks {
 public:
  // Comes back when all ranks are there, with the `plan` of the first one.
  Ranks(const Path& folder, const Shard& shard, std::string plan = {}, const RankTimes& times = {});
  // In the course of an exception: tells the others that this rank failed.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool first() const { return shard_.index == 0; }
  const std::string& plan() const { return own_.plan; }
  // The same on all ranks, and of no other run.
  const std::string& run() const { return first() ? own_.token : own_.seen; }

  // Until it is so, which is the work of this rank. Fault::peer when that rank failed or is gone.
  void wait_for(int64_t rank, std::string_view what, FunctionRef<bool()> is_so);
  // The first rank waits until all have come here; the others only say that they have.
  void gather(std::string_view what);
  // The others wait until the first one has come here; it only says that it has.
  void follow(std::string_view what);
  // Each waits until all have come here.
  void meet(std::string_view what) {
    gather(what);
    follow(what);
  }

 private:
  struct Mark {                       // what a file says of its rank
    std::string token;                // of the process
    std::string seen;                 // the first one's token
    std::vector<std::string> tokens;  // of the first one: whom it has seen
    std::string plan;                 // the first one's
    std::string state = "running";
    int64_t steps = 0;  // of gather and follow
    int64_t beats = 0;
  };

  Path path(int64_t rank) const;
  std::string read(int64_t rank) const;  // empty: nothing that can be read
  static Mark parse(const std::string& text);
  Mark mark_of(int64_t rank) const { return parse(read(rank)); }
  void write_locked(bool create);
  void change(FunctionRef<void(Mark&)> edit);
  void find_each_other();
  void list_others();
  void keep_beating();
  void stop_beating();
  [[noreturn]] void give_up(int64_t rank, std::string_view what, const Mark& mark) const;
  void say_waiting(int64_t rank, std::string_view what, const Mark& mark) const;

  Path folder_;
  Shard shard_;
  RankTimes times_;
  bool met_ = false;  // from here on all marks are of this run
  int exceptions_;    // in flight when it was made
  int64_t steps_ = 0;
  Mark own_;
  size_t written_ = 0;  // bytes; the file never shrinks
  std::mutex mutex_;    // of own_, which the thread below writes, too
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread beating_;
};

}  // namespace tephra
