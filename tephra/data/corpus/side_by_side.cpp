// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <queue>

#include "tephra/base/parallel.h"

namespace tephra {
namespace {

constexpr double kEvenEnough = 1.05;

struct SizedFile {
  size_t index;
  int64_t bytes;
};

// Whether the last of the threads, which take file by file, ends soon after the time at which all
// would have ended, were there no files.
bool is_even(std::span<const SizedFile> files, size_t threads) {
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends;
  for (size_t t = 0; t < threads; ++t) ends.push(0);
  int64_t all = 0, last = 0;
  for (const SizedFile& file : files) {
    const int64_t end = ends.top() + file.bytes;
    ends.pop();
    ends.push(end);
    last = std::max(last, end);
    all += file.bytes;
  }
  return static_cast<double>(last) * static_cast<double>(threads) <=
         kEvenEnough * static_cast<double>(all);
}

struct Stopped {};  // by another file, of which it is told first

}  // namespace

FileShares::FileShares(std::span<const CorpusFile> files, std::span<const size_t> chosen,
                       size_t threads) {
  std::vector<SizedFile> sized;
  for (const size_t i : chosen) sized.push_back({i, corpus_bytes(files.subspan(i, 1))});
  // At most twenty a thread: smaller ones than that cannot be uneven.
  while (threads > 1 && !is_even(sized, threads)) {
    const auto largest =
        std::max_element(sized.begin(), sized.end(),
                         [](const SizedFile& a, const SizedFile& b) { return a.bytes < b.bytes; });
    together.push_back(largest->index);
    sized.erase(largest);
  }
  for (const SizedFile& file : sized) apart.push_back(file.index);
  std::sort(together.begin(), together.end());
}

void side_by_side(std::span<const size_t> files, size_t at_once,
                  FunctionRef<void(size_t file, FunctionRef<void()> check_in)> work) {
  std::atomic<size_t> next = 0, failed = SIZE_MAX;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](size_t i) {
    try {
      work(files[i], [&] {
        if (failed < i) throw Stopped();
      });
    } catch (const Stopped&) {
      return;
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failed < i) return;
      failed = i;
      error = std::current_exception();
    }
  };
  parallel_for(static_cast<int64_t>(at_once), 1, [&](int64_t, int64_t) {
    for (size_t i = next++; i < files.size() && i < failed; i = next++) run(i);
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace tephra
