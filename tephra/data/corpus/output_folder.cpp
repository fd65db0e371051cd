// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/output_folder.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// Sources that a stage only compared with; none where the report cannot say.
std::vector<std::string> references_of(const Path& report) {
  std::vector<std::string> names;
  if (!fs::exists(report)) return names;
  try {
    const Json json = Json::parse(read_file(report), report.string());
    const Fields fields(json, report.string());
    if (!fields.has(kReferencesKey)) return names;
    for (const Json& name : fields.array(kReferencesKey)) {
      if (name.is_string() && is_source_name(name.string())) names.push_back(name.string());
    }
  } catch (const Error&) {
    names.clear();
  }
  return names;
}

}  // namespace

void hold_settings(const StageSettings& settings, std::span<const CorpusFile> files) {
  std::string text = settings.settings + "\n";
  for (const StageStream& stream : settings.streams) {
    if (stream.coding == StreamCoding::parquet) text += stream.folder + " as Parquet\n";
    if (stream.coding == StreamCoding::lz4) text += stream.folder + " as LZ4\n";
  }
  for (const CorpusFile& file : files) text += file.title() + "\n";
  const Path path = settings.out / kWorkFolder / "settings";
  make_writable_folder(path.parent_path());
  if (fs::exists(path) && read_file(path) != text) {
    throw Error(Fault::usage,
                format("{}: holds a run with other inputs or settings that did not end",
                       settings.out.string()),
                format("repeat the command it was begun with, or {} to begin anew",
                       settings.shard.count == 1 ? "give --overwrite" : "remove it yourself"));
  }
  if (!fs::exists(path)) write_file(path, text);
}

std::string mark_of_file(const Path& path) {
  constexpr int64_t kEnd = 4096;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return kUnreadableMark;
  std::string bytes;
  int64_t size = 0;
  try {
    const FileReader reader(path);
    size = reader.size();
    bytes.resize(static_cast<size_t>(std::min(size, 2 * kEnd)));
    const auto to = std::as_writable_bytes(std::span(bytes));
    const size_t half = to.size() / 2;
    reader.read(0, to.first(half));
    reader.read(size - static_cast<int64_t>(to.size() - half), to.subspan(half));
  } catch (const Error&) {
    return kUnreadableMark;  // what that means is decided when it is read
  }
  return format("{} {}", size, hash_text(xxh3(bytes)));
}

std::string mark_of_files(std::span<const CorpusFile> files) {
  std::string text;
  for (const CorpusFile& file : files) {
    text += format("{} {}\n", file.title(), mark_of_file(file.path));
  }
  return format("{} files, {}", files.size(), hash_text(xxh3(text)));
}

// Until the work folders are gone nobody reads the documents (documents_of): so they go last.
void finish_stage(const Path& out) {
  for (const std::string& source : references_of(out / kReportFile)) {
    for (const Path& folder :
         {Path(kDocumentsFolder), kHandedFolder / Path(kDocumentsFolder), Path(kRemovedFolder)}) {
      fs::remove_all(out / folder / source);
    }
  }
  // The first of them is of ranks that failed, when one process went on.
  for (const char* name : {kRanksFolder, ".dedup", ".mix", kWorkFolder}) fs::remove_all(out / name);
  // Of files that a kill left unnamed (AtomicFile).
  for (const auto& entry : fs::directory_iterator(out)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.ends_with(".tmp")) fs::remove(entry.path());
  }
}

void prepare_output(const Path& out, bool overwrite, const Shard& shard) {
  make_writable_folder(out);
  const bool finished = fs::exists(out / kReportFile);
  const bool ours = finished || fs::exists(out / kWorkFolder) || fs::exists(out / ".dedup") ||
                    fs::exists(out / ".mix") || fs::exists(out / "config.toml");
  const bool one_of_all = shard.count == 1 || (shard.ranks && shard.index == 0);
  // A kill at the very end kept it from that.
  if ((finished || overwrite) && one_of_all) finish_stage(out);
  constexpr const char* kFolders[] = {kDocumentsFolder, kHandedFolder, "values", "dropped",
                                      kRemovedFolder};
  if (overwrite) {
    // Only what stages write, in case the folder holds other things.
    for (const char* name : kFolders) {
      require(ours || !fs::exists(out / name),
              "{}: no run of this program wrote it; remove it yourself", (out / name).string());
      fs::remove_all(out / name);
    }
    fs::remove(out / kReportFile);
  }
  require(overwrite || !finished, "{}: holds a finished output; {}", out.string(),
          shard.count == 1 ? "give --overwrite to replace it" : "remove it yourself to replace it");
}

}  // namespace tephra
