// SPDX-License-Identifier: Apache-2.0
// Training checkpoints, written beside the training: save() copies and returns, a thread of its own
// writes. A checkpoint appears under its name only when it is whole and on disk, older ones go only
// after that, and what fails leaves nothing behind.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tephra/core/tensor.h"
#include "tephra/io/manifest.h"
#include "tephra/train/run_lock.h"

namespace tephra {

struct NamedTensor {
  std::string name;
  Tensor value;
};

// Which checkpoints stay: the newest `last_n`, and every one whose step is a multiple of
// `every_m` (0: none of these).
struct KeepPolicy {
  int64_t last_n = 3;
  int64_t every_m = 0;
};

// When a checkpoint cannot be written (a full disk): warn and try again at the next save(), or
// throw there.
enum class OnFailedSave { carry_on, stop };

struct CheckpointOptions {
  KeepPolicy keep;
  OnFailedSave on_failure = OnFailedSave::carry_on;
  // Called by the writing thread when the tensors are on disk, before the manifest is written: what
  // must be on disk for the checkpoint to be of use (MetricsLog::flush) goes there.
  std::function<void()> before_commit = {};
  int64_t max_file_bytes = int64_t{4} << 30;
  int64_t max_piece_bytes = int64_t{64} << 20;  // of one hash
};

struct CheckpointStats {
  int64_t saved = 0;
  int64_t failed = 0;
  int64_t bytes = 0;          // of the last one that was saved
  double pause_seconds = 0;   // that save() kept the run waiting: copying, and...
  double waited_seconds = 0;  // ...of these for the write before
  double write_seconds = 0;   // of the writing thread
  double last_pause_seconds = 0;
  double last_write_seconds = 0;
};

class CheckpointWriter {
 public:
  // Removes what killed writers left in the folder: the lock says that nobody else writes there.
  // The lock must outlive the writer.
  CheckpointWriter(const RunLock& lock, CheckpointOptions options);
  ~CheckpointWriter();  // finishes the write under way
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Takes the memory for copies of these tensors, so that the first save() need not.
  void prepare(std::span<const NamedTensor> tensors);

  // Copies the tensors and returns; waits first while the former checkpoint is being written. With
  // OnFailedSave::stop the failure of the former one is thrown here, and nothing is saved.
  void save(int64_t step, std::span<const NamedTensor> tensors, Json state);

  // Until the last save() is on disk; throws when it failed, whatever the policy.
  void wait();

  // The same, but a failure, which was warned about, is left to the next save() or wait().
  void settle();

  bool busy() const;
  CheckpointStats stats() const;

 private:
  struct Job {
    int64_t step = 0;
    std::vector<NamedTensor> tensors;  // views of the staging memory
    Json state;
    bool pending = false;
  };

  std::vector<NamedTensor> stage(std::span<const NamedTensor> tensors);
  void wait_until_idle(std::unique_lock<std::mutex>& lock);
  void work();
  int64_t write(const Job& job);

  const Path folder_;  // RUN/checkpoints
  const CheckpointOptions options_;
  std::shared_ptr<Storage> staging_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Job job_;
  bool stopping_ = false;
  std::exception_ptr failure_;  // of the last write
  CheckpointStats stats_;
  std::thread thread_;
};

}  // namespace tephra
