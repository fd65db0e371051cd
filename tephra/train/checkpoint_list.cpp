// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run folder, and which of them to go on from.
#include <algorithm>
#include <charconv>

#include "tephra/base/log.h"
#include "tephra/train/checkpoint.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

// The N of step-N; nothing for any other name, step-7.tmp-123 and step-007 too.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || at != end || step < 0) return std::nullopt;
  return name == format("{}{}", kPrefix, step) ? std::optional(step) : std::nullopt;
}

// What is wrong with it, or nothing and the checkpoint.
std::string open_good(const CheckpointInfo& info, std::optional<Checkpoint>& checkpoint) {
  try {
    checkpoint = Checkpoint::open(info.folder);
    const std::vector<std::string> problems = checkpoint->problems();
    if (!problems.empty()) {
      return problems.size() == 1 ? problems[0]
                                  : format("{} ({} problems in all)", problems[0], problems.size());
    }
    if (checkpoint->step() == info.step) return "";
    return format("{}: its manifest is that of step {}", info.folder.string(), checkpoint->step());
  } catch (const Error& error) {
    if (error.fault() == Fault::interrupted) throw;
    return error.what();
  }
}

// The folders step-N with a manifest, or those without, oldest first.
std::vector<CheckpointInfo> list_folders(const Path& run_dir, bool with_manifest) {
  std::vector<CheckpointInfo> found;
  const Path folder = checkpoints_folder(run_dir);
  if (!fs::is_directory(folder)) return found;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto step = step_of(item.path().filename().string());
    if (step && fs::exists(item.path() / kManifestName) == with_manifest) {
      found.push_back({*step, item.path()});
    }
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointInfo& a, const CheckpointInfo& b) { return a.step < b.step; });
  return found;
}

}  // namespace

Path checkpoints_folder(const Path& run_dir) { return run_dir / "checkpoints"; }

std::vector<CheckpointInfo> list_checkpoints(const Path& run_dir) {
  return list_folders(run_dir, true);
}

std::vector<CheckpointInfo> list_without_manifest(const Path& run_dir) {
  return list_folders(run_dir, false);
}

std::optional<Checkpoint> open_newest(const Path& run_dir) {
  const std::vector<CheckpointInfo> all = list_checkpoints(run_dir);
  for (const CheckpointInfo& info : list_without_manifest(run_dir)) {
    if (!all.empty() && info.step < all.back().step) continue;
    log_warning("{}: cannot be used: its {} is missing", info.folder.string(), kManifestName);
  }
  if (all.empty()) return std::nullopt;
  for (auto info = all.rbegin(); info != all.rend(); ++info) {
    std::optional<Checkpoint> checkpoint;
    const std::string problem = open_good(*info, checkpoint);
    if (problem.empty()) return checkpoint;
    log_warning("{}: cannot be used: {}", info->folder.string(), problem);
    if (info + 1 != all.rend()) log_warning("falling back to step {}", (info + 1)->step);
  }
  throw Error(Fault::data,
              format("{}: none of its {} checkpoints is good", run_dir.string(), all.size()),
              "restore one from a copy, or start anew in another folder");
}

Checkpoint open_named(const Path& path) {
  if (fs::exists(path / kManifestName)) {
    Checkpoint checkpoint = Checkpoint::open(path);
    const std::vector<std::string> problems = checkpoint.problems();
    if (!problems.empty()) throw Error(Fault::data, problems[0]);
    return checkpoint;
  }
  require(fs::is_directory(path), "{}: there is no such folder", path.string());
  std::optional<Checkpoint> newest = open_newest(path);
  require(newest.has_value(),
          "{}: expected a checkpoint (a folder step-N with a {}) or a run folder that has some, "
          "found neither",
          path.string(), kManifestName);
  return std::move(*newest);
}

int64_t set_aside_after(const Path& run_dir, int64_t step) {
  int64_t count = 0;
  for (const CheckpointInfo& info : list_checkpoints(run_dir)) {
    if (info.step <= step) continue;
    Path aside = info.folder.string() + ".set-aside";
    for (int i = 2; fs::exists(aside); ++i)
      aside = info.folder.string() + format(".set-aside-{}", i);
    fs::rename(info.folder, aside);
    log_warning("{}: is later than step {}, from which the run goes on; renamed to {}",
                info.folder.string(), step, aside.filename().string());
    ++count;
  }
  if (count > 0) flush_folder(checkpoints_folder(run_dir));
  return count;
}

}  // namespace tephra
