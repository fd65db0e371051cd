// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/corpus_files.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/data/formats/document_reader.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

std::string name_below(const Path& path, const Path& folder) {
  return without_format(path.lexically_relative(folder)).generic_string();
}

void check_source(const std::string& source, const std::string& input) {
  const bool ok = !source.empty() && source != "." && source != ".." &&
                  source.find_first_of("/\\:,") == std::string::npos;
  require(ok, "{}: '{}' cannot be the name of a source; give one as NAME=PATH, without / : and ,",
          input, source);
}

void add_folder(const Path& folder, const std::string& source, std::vector<CorpusFile>& files) {
  check_source(source, folder.string());
  const size_t before = files.size();
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_directory() && is_document_file(entry.path())) {
      files.push_back({source, name_below(entry.path(), folder), entry.path()});
    }
  }
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

void add_input(const std::string& input, std::vector<CorpusFile>& files) {
  const size_t equals = input.find('=');
  const bool named = equals != std::string::npos && !fs::exists(input);
  const std::string source = named ? input.substr(0, equals) : "";
  const Path path = named ? input.substr(equals + 1) : input;
  require(fs::exists(path), "{}: does not exist", path.string());
  if (!fs::is_directory(path)) {
    require(is_document_file(path),
            "{}: expected .jsonl, .wet or .warc, also .gz and .zst, or .parquet", path.string());
    files.push_back({named ? source : "main", name_below(path, path.parent_path()), path});
    check_source(files.back().source, input);
  } else if (!named && fs::is_directory(path / kDocumentsFolder)) {
    add_stage_output(path / kDocumentsFolder, files);
  } else {
    add_folder(path, named ? source : folder_name(path), files);
  }
}

}  // namespace

std::vector<CorpusFile> corpus_files(std::span<const std::string> inputs) {
  std::vector<CorpusFile> files;
  for (const std::string& input : inputs) add_input(input, files);
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
