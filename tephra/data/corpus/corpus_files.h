// SPDX-License-Identifier: Apache-2.0
// The files of a corpus and the sources they belong to. Their order depends on their names alone,
// so that the order of arguments changes nothing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

struct CorpusFile {
  std::string source;  // "web"
  std::string name;    // below the source, without endings: "2024/part-7"
  Path path;

  std::string title() const { return source + "/" + name; }
  bool operator==(const CorpusFile&) const = default;
};

bool is_source_name(std::string_view name);  // a folder's, without : and ,

// Each input is PATH or SOURCE=PATH: a .jsonl, .wet or .warc file (.gz, .zst), a .parquet
// file, or a folder of such files. A folder
// that a stage wrote (it holds documents/) gives the sources it was made of; of any other folder
// its name is the source, of a single file "main". Sorted by source and name. Fault::usage when
// there is none, one is of another kind, or two are called the same.
std::vector<CorpusFile> corpus_files(std::span<const std::string> inputs);

// Of a folder that a stage wrote, where its documents are; else the folder itself. Fault::usage
// when the stage has not ended (also when it is its documents/ that is given), or its documents are
// gone.
Path documents_of(const Path& folder);

// Fault::usage unless a run that writes into `out` leaves these inputs alone, and what it writes is
// no input of the next one.
void check_apart(std::span<const std::string> inputs, const Path& out);

int64_t corpus_bytes(std::span<const CorpusFile> files);  // on disk; unreadable ones count nothing

// The folder in which stages leave their documents: OUT/documents/SOURCE/NAME.jsonl.zst.
inline constexpr const char* kDocumentsFolder = "documents";

}  // namespace tephra
