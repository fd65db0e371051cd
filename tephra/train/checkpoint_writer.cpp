// SPDX-License-Identifier: Apache-2.0
// The half that the run sees: copies, waiting, failures. checkpoint_files.cpp is the half on disk.
#include "tephra/train/checkpoint_writer.h"

#include <cstring>

#include "tephra/base/clock.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/train/checkpoint.h"
#include "tephra/train/checkpoint_files.h"

namespace tephra {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kCopyBytes = int64_t{1} << 20;  // by one thread at a time

int64_t aligned(int64_t bytes) { return ceil_div(bytes, kAlignment) * kAlignment; }

int64_t staging_bytes(std::span<const NamedTensor> tensors) {
  int64_t total = 0;
  for (const NamedTensor& tensor : tensors) total += aligned(tensor.value.bytes());
  return total;
}

// Some bytes to be copied by one thread.
struct Copy {
  std::byte* to;
  const std::byte* from;
  int64_t bytes;
};

void add_copies(std::vector<Copy>& copies, const Tensor& to, const Tensor& from) {
  auto* out = static_cast<std::byte*>(to.raw());
  const auto* in = static_cast<const std::byte*>(from.raw());
  const int64_t size = size_of(from.dtype());
  const int64_t run = from.dense() ? from.bytes() : from.cols() * size;  // contiguous bytes
  const int64_t runs = from.dense() ? 1 : from.rows();
  for (int64_t r = 0; r < runs; ++r) {
    for (int64_t at = 0; at < run; at += kCopyBytes) {
      copies.push_back({out + r * run + at, in + r * from.row_stride() * size + at,
                        std::min(kCopyBytes, run - at)});
    }
  }
}

// A lasting copy of a failure, whatever was thrown.
std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(const RunLock& lock, CheckpointOptions options)
    : folder_(checkpoints_folder(lock.run_dir())), options_(std::move(options)) {
  require(options_.keep.last_n >= 1, "checkpoints: at least the last one is kept, got last_n = {}",
          options_.keep.last_n);
  require(options_.keep.every_m >= 0, "checkpoints: every_m cannot be negative, got {}",
          options_.keep.every_m);
  make_writable_folder(folder_);
  remove_leftovers(folder_);
  thread_ = std::thread([this] { work(); });
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CheckpointWriter::prepare(std::span<const NamedTensor> tensors) {
  wait();
  const int64_t bytes = staging_bytes(tensors);
  if (staging_ && staging_->bytes() >= bytes) return;
  staging_ = nullptr;  // before the larger one is taken
  staging_ = Storage::allocate(kCpu, bytes, Purpose::workspace);
  auto* data = static_cast<std::byte*>(staging_->data());
  // Touched, so that the system gives the pages now.
  parallel_for(bytes, kCopyBytes, [&](int64_t begin, int64_t end) {
    std::memset(data + begin, 0, static_cast<size_t>(end - begin));
  });
}

std::vector<NamedTensor> CheckpointWriter::stage(std::span<const NamedTensor> tensors) {
  const int64_t bytes = staging_bytes(tensors);
  if (!staging_ || staging_->bytes() < bytes) {
    staging_ = nullptr;
    staging_ = Storage::allocate(kCpu, bytes, Purpose::workspace);
  }
  std::vector<NamedTensor> staged;
  std::vector<Copy> copies;
  int64_t offset = 0;
  for (const auto& [name, value] : tensors) {
    TEPHRA_ASSERT(value.defined(), "a checkpoint holds tensors that are there");
    Tensor to(staging_, offset, value.shape(), value.dtype());
    if (value.device() != kCpu) {
      copy_into(to, value);
    } else if (value.numel() > 0) {
      add_copies(copies, to, value);
    }
    offset += aligned(value.bytes());
    staged.push_back({name, std::move(to)});
  }
  parallel_for(static_cast<int64_t>(copies.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::memcpy(copies[i].to, copies[i].from, static_cast<size_t>(copies[i].bytes));
    }
  });
  return staged;
}

void CheckpointWriter::wait_until_idle(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return !job_.pending; });
}

void CheckpointWriter::save(int64_t step, std::span<const NamedTensor> tensors, Json state) {
  const double begin = steady_seconds();
  std::unique_lock lock(mutex_);
  wait_until_idle(lock);
  if (failure_ && options_.on_failure == OnFailedSave::stop) std::rethrow_exception(failure_);
  const double idle = steady_seconds();
  lock.unlock();  // the thread sleeps: nothing else touches the staging memory
  std::vector<NamedTensor> staged = stage(tensors);
  lock.lock();
  job_ = {step, std::move(staged), std::move(state), true};
  failure_ = nullptr;
  const double end = steady_seconds();
  stats_.waited_seconds += idle - begin;
  stats_.pause_seconds += end - begin;
  stats_.last_pause_seconds = end - begin;
  lock.unlock();
  changed_.notify_all();
}

void CheckpointWriter::wait() {
  std::unique_lock lock(mutex_);
  wait_until_idle(lock);
  if (failure_) std::rethrow_exception(failure_);
}

void CheckpointWriter::settle() {
  std::unique_lock lock(mutex_);
  wait_until_idle(lock);
}

bool CheckpointWriter::busy() const {
  const std::lock_guard lock(mutex_);
  return job_.pending;
}

CheckpointStats CheckpointWriter::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return job_.pending || stopping_; });
    if (!job_.pending) return;
    lock.unlock();
    const double begin = steady_seconds();
    std::exception_ptr failure;
    int64_t bytes = 0;
    try {
      bytes = write(job_);
    } catch (...) {
      failure = std::current_exception();
      log_warning("the checkpoint of step {} was not saved: {}", job_.step, text_of(failure));
    }
    lock.lock();
    const double seconds = steady_seconds() - begin;
    stats_.write_seconds += seconds;
    stats_.last_write_seconds = seconds;
    if (!failure) stats_.bytes = bytes;
    ++(failure ? stats_.failed : stats_.saved);
    failure_ = failure;
    job_ = {};
    changed_.notify_all();
  }
}

int64_t CheckpointWriter::write(const Job& job) {
  const int64_t bytes = write_checkpoint(folder_, job.step, job.tensors, job.state, options_);
  remove_old_checkpoints(folder_, options_.keep, job.step);
  return bytes;
}

}  // namespace tephra
