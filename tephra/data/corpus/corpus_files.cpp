// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/corpus_files.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/data/formats/document_reader.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

std::string name_below(const Path& path, const Path& folder) {
  return without_format(path.lexically_relative(folder)).generic_string();
}

void check_source(const std::string& source, const std::string& input) {
  require(is_source_name(source),
          "{}: '{}' cannot be the name of a source; give one as NAME=PATH, without / : and ,",
          input, source);
}

// All that lies in the folder and in its folders. Fault::usage when one cannot be listed.
std::vector<fs::directory_entry> entries_below(const Path& folder) {
  std::vector<fs::directory_entry> entries;
  std::vector<Path> left = {folder};
  while (!left.empty()) {
    const Path next = std::move(left.back());
    left.pop_back();
    std::error_code error;
    for (fs::directory_iterator at(next, error), end; !error && at != end; at.increment(error)) {
      entries.push_back(*at);
      if (at->is_directory() && !at->is_symlink()) left.push_back(at->path());
    }
    require(!error, "{}: cannot be listed: {}", next.string(), error.message());
  }
  return entries;
}

// Of a folder only files of known kinds are taken, and linked folders are not entered.
void tell_left_out(const Path& folder, std::vector<std::string> names) {
  if (names.empty()) return;
  constexpr size_t kShown = 3;
  std::sort(names.begin(), names.end());
  std::string shown;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    shown += (i > 0 ? ", " : "") + clipped(names[i], 60);
  }
  log_warning("{}: {} of no known kind left out: {}{}", folder.string(),
              names.size() == 1 ? "1 file" : format("{} files", human_count(std::ssize(names))),
              shown, names.size() > kShown ? ", ..." : "");
}

void add_folder(const Path& folder, const std::string& source, std::vector<CorpusFile>& files) {
  check_source(source, folder.string());
  const size_t before = files.size();
  std::vector<std::string> others;
  for (const fs::directory_entry& entry : entries_below(folder)) {
    const bool is_folder = entry.is_directory();
    if (!is_folder && is_document_file(entry.path())) {
      files.push_back({source, name_below(entry.path(), folder), entry.path()});
    } else if ((!is_folder || entry.is_symlink()) &&
               !entry.path().filename().string().starts_with('.')) {
      others.push_back(entry.path().lexically_relative(folder).string());
    }
  }
  tell_left_out(folder, std::move(others));
  require(files.size() > before, "{}: has no .jsonl, .wet, .warc (.gz, .zst) or .parquet files",
          folder.string());
}

void add_stage_output(const Path& documents, std::vector<CorpusFile>& files) {
  const size_t before = files.size();
  for (const auto& entry : fs::directory_iterator(documents)) {
    if (entry.is_directory()) {
      add_folder(entry.path(), entry.path().filename().string(), files);
    }
  }
  require(files.size() > before, "{}: has no documents", documents.string());
}

std::string folder_name(const Path& folder) {
  const Path whole = fs::absolute(folder).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

struct Input {
  bool named;  // SOURCE=PATH
  std::string source;
  Path path;
};

Input parse_input(const std::string& input) {
  const size_t equals = input.find('=');
  const bool named = equals != std::string::npos && !fs::exists(input);
  if (!named) return {false, "", input};
  return {true, input.substr(0, equals), input.substr(equals + 1)};
}

// Whether `path` is `folder` or lies in it.
bool is_within(const Path& path, const Path& folder) {
  const auto [in_folder, in_path] =
      std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return in_folder == folder.end();
}

Path whole_path(const Path& path) {
  const Path whole = fs::weakly_canonical(path);
  return whole.has_filename() ? whole : whole.parent_path();  // without a slash at its end
}

void check_finished(const Path& stage) {
  for (const char* name : {".work", ".dedup", ".mix"}) {
    require(!fs::exists(stage / name), "{}: is not finished; repeat the command that writes it",
            stage.lexically_normal().string());
  }
}

void add_input(const std::string& input, std::vector<CorpusFile>& files) {
  const auto [named, source, path] = parse_input(input);
  require(fs::exists(path), "{}: does not exist", path.string());
  if (!fs::is_directory(path)) {
    require(is_document_file(path),
            "{}: expected .jsonl, .wet or .warc, also .gz and .zst, or .parquet", path.string());
    files.push_back({named ? source : "main", name_below(path, path.parent_path()), path});
    check_source(files.back().source, input);
  } else if (const Path documents = documents_of(path); !named && documents != path) {
    add_stage_output(documents, files);
  } else {
    add_folder(path, named ? source : folder_name(path), files);
  }
}

}  // namespace

bool is_source_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\:,") == std::string_view::npos;
}

Path documents_of(const Path& folder) {
  check_finished(folder);
  if (folder_name(folder) == kDocumentsFolder) check_finished(folder / "..");
  if (fs::is_directory(folder / kDocumentsFolder)) return folder / kDocumentsFolder;
  require(!fs::exists(folder / "report.json"),
          "{}: is a stage without its documents; keep_stages = true keeps those of a pipeline",
          folder.string());
  return folder;
}

std::vector<CorpusFile> corpus_files(std::span<const std::string> inputs) {
  std::vector<CorpusFile> files;
  for (const std::string& input : inputs) add_input(input, files);
  for (const CorpusFile& file : files) {
    // The name becomes a part of every document's id.
    require(is_utf8(file.title()), "{}: its name is not UTF-8; rename it", file.path.string());
  }
  std::sort(files.begin(), files.end(), [](const CorpusFile& a, const CorpusFile& b) {
    return std::tie(a.source, a.name, a.path) < std::tie(b.source, b.name, b.path);
  });
  for (size_t i = 1; i < files.size(); ++i) {
    require(files[i].title() != files[i - 1].title(),
            "{} and {} would both be called {}; give them sources of their own, as NAME=PATH",
            files[i - 1].path.string(), files[i].path.string(), files[i].title());
  }
  require(files.size() < (size_t{1} << 31), "expected fewer than 2^31 files, got {}", files.size());
  return files;
}

void check_apart(std::span<const std::string> inputs, const Path& out) {
  const Path to = whole_path(out);
  for (const std::string& input : inputs) {
    const Path from = whole_path(parse_input(input).path);
    require(!is_within(to, from), "{}: lies in the input {}; give a folder outside of it",
            out.string(), input);
    require(!is_within(from, to / kDocumentsFolder), "{}: is what {} is written over", input,
            out.string());
  }
}

int64_t corpus_bytes(std::span<const CorpusFile> files) {
  int64_t bytes = 0;
  for (const CorpusFile& file : files) {
    std::error_code ignored;
    const std::uintmax_t size = fs::file_size(file.path, ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace tephra
