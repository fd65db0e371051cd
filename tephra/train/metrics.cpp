// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/metrics.h"

#include "tephra/base/error.h"
#include "tephra/base/log.h"

namespace tephra {
namespace {

// The step of a whole, sound line.
std::optional<int64_t> step_of(std::string_view line, const std::string& where) {
  try {
    const Json json = Json::parse(line, where);
    const Json* step = json.is_object() ? json.find("step") : nullptr;
    if (step && step->is_int()) return step->integer();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): not a line of ours
  }
  return std::nullopt;
}

// The bytes up to the end of the last line that is not later than `last_step`. Looks from the end,
// because a run loses few lines of many.
int64_t bytes_to_keep(const Path& path, int64_t last_step, int64_t every) {
  if (last_step < 0 || !std::filesystem::exists(path)) return 0;
  const auto file = MappedFile::open(path);
  const std::string_view all(reinterpret_cast<const char*>(file->bytes().data()),
                             file->bytes().size());
  const size_t newline = all.rfind('\n');
  size_t end = newline == std::string_view::npos ? 0 : newline + 1;  // of the line at hand
  while (end > 0) {
    const size_t before = end < 2 ? std::string_view::npos : all.rfind('\n', end - 2);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const auto step = step_of(all.substr(begin, end - 1 - begin), path.string());
    if (step && *step <= last_step) {
      if (last_step - *step >= every) {
        log_warning("{}: has no line for the steps {} to {}", path.string(), *step + 1, last_step);
      }
      return static_cast<int64_t>(end);
    }
    end = begin;
  }
  return 0;
}

}  // namespace

MetricsLog::MetricsLog(const Path& run_dir, int64_t last_step, int64_t every)
    : file_(run_dir / kMetricsName, bytes_to_keep(run_dir / kMetricsName, last_step, every)),
      last_step_(last_step) {}

void MetricsLog::append(const Json& row) {
  const Json* step = row.find("step");
  TEPHRA_ASSERT(step && step->is_int(), "a line of metrics has its step");
  const std::lock_guard lock(mutex_);
  TEPHRA_ASSERT(step->integer() > last_step_, "each step has one line");
  last_step_ = step->integer();
  file_.append(row.dump() + "\n");
}

void MetricsLog::flush() {
  const std::lock_guard lock(mutex_);
  file_.flush();
}

}  // namespace tephra
