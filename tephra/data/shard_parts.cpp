// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/shard_parts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/data/corpus/journal.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr const char *kPlanFile = "plan", *kPlanLock = ".plan.lock";

// One process at a time looks for a plan and writes one. Where the file system knows no locks there
// are none; processes of one command write the same plan.
class PlanLock {
 public:
  explicit PlanLock(const Path& folder)
      : fd_(::open((folder / kPlanLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~PlanLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  PlanLock(const PlanLock&) = delete;
  PlanLock& operator=(const PlanLock&) = delete;

 private:
  int fd_;
};

// Nothing when there is none, or it is damaged.
std::optional<Json> read_plan(const Path& prefix) {
  const Path path = ShardParts::folder(prefix) / kPlanFile;
  if (!fs::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  const std::optional<std::string_view> line = checked_line(text);
  if (!line) return std::nullopt;
  return Json::parse(*line, path.string());
}

int64_t weight_of(const Path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 1 : static_cast<int64_t>(size) + 1;
}

// Where each part begins, and where the last one ends: a file is in the part in which the middle of
// its bytes falls.
std::vector<size_t> split_files(std::span<const Path> files, size_t from, int64_t count) {
  double total = 0, before = 0;
  for (const Path& file : files.subspan(from)) total += static_cast<double>(weight_of(file));
  std::vector<size_t> begins(static_cast<size_t>(count) + 1, files.size());
  begins[0] = from;
  size_t part = 0;
  for (size_t i = from; i < files.size(); ++i) {
    const auto weight = static_cast<double>(weight_of(files[i]));
    const double middle = (before + weight / 2) / total;
    const auto mine = static_cast<size_t>(middle * static_cast<double>(count));
    while (part < std::min(mine, static_cast<size_t>(count) - 1)) begins[++part] = i;
    before += weight;
  }
  return begins;
}

}  // namespace

Path ShardParts::folder(const Path& prefix) { return token_shard::with_suffix(prefix, ".parts"); }

Path ShardParts::path(int64_t part) const { return folder(prefix_) / std::to_string(part); }

ShardParts::ShardParts(std::span<const Path> files, const Path& prefix, size_t from, int64_t count)
    : files_(files),
      prefix_(prefix),
      from_(from),
      count_(count),
      begins_(split_files(files, from, count)) {}

std::optional<ShardTold> ShardParts::told(const Path& prefix) {
  const std::optional<Json> plan = read_plan(prefix);
  if (!plan) return std::nullopt;
  const Fields fields(*plan, folder(prefix).string());
  return ShardTold{fields.string("settings"), fields.string("inputs"), {}};
}

std::optional<ShardParts> ShardParts::read(std::span<const Path> files, const Path& prefix) {
  const std::optional<Json> plan = read_plan(prefix);
  if (!plan) return std::nullopt;
  const Fields fields(*plan, folder(prefix).string());
  const int64_t from = fields.integer("from"), count = fields.integer("count");
  if (from < 0 || from > std::ssize(files) || count < 1) return std::nullopt;
  return ShardParts(files, prefix, static_cast<size_t>(from), count);
}

ShardParts ShardParts::agree(const ShardRecord& whole, bool replace) const {
  make_writable_folder(folder(prefix_));
  const PlanLock lock(folder(prefix_));
  whole.check_parts();
  const std::optional<ShardParts> found = read(files_, prefix_);
  if (found && (found->count_ == count_ || !replace)) return *found;
  Json plan = whole.made_of();
  plan["from"] = static_cast<int64_t>(from_);
  plan["count"] = count_;
  write_file(folder(prefix_) / kPlanFile, hashed_line(plan.dump()));
  return *this;
}

}  // namespace tephra
