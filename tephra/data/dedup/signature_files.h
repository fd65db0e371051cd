// SPDX-License-Identifier: Apache-2.0
// Signatures of a corpus on disk: of each file, a record of each document and its band keys, in the
// order of the file. Documents are numbered through all files.
#pragma once

#include <span>
#include <vector>

#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/dedup/band_join.h"
#include "tephra/data/dedup/signer.h"

namespace tephra {

// Of a record while it is joined: two buffers.
inline constexpr int64_t kJoinBytes = 2 * sizeof(BandRecord);

struct DocumentRecord {
  uint32_t row = 0;  // in its file, from 1
  uint32_t bytes = 0;
  float score = 0;
  uint32_t is_short = 0;  // fewer words than a shingle
};
static_assert(sizeof(DocumentRecord) == 16);

// Where the fields of a document are.
struct SignatureFields {
  std::string text;
  std::string score;      // of a number; empty: none is looked for
  bool sketches = false;  // also what an index keeps of a document (document_sketch.h)
};

// Writes them, to folders of settings.out.
StageJob signature_job(const SignaturePreset& preset, const SignatureFields& fields,
                       StageSettings settings);
StageRun write_signatures(std::span<const CorpusFile> files, const SignaturePreset& preset,
                          const SignatureFields& fields, StageSettings settings);

class SignatureFiles {
 public:
  SignatureFiles(std::span<const CorpusFile> files, const Path& folder, int64_t bands);

  size_t bands() const { return static_cast<size_t>(bands_); }
  size_t documents() const { return first_.back(); }
  // Of the documents of a file: [first(file), first(file + 1)).
  uint32_t first(size_t file) const { return static_cast<uint32_t>(first_[file]); }
  size_t file_of(uint32_t document) const;
  std::vector<DocumentRecord> records(size_t file) const;

  // Keys of one band in range `part` of `parts`, in the order of documents.
  std::vector<BandRecord> band(int64_t at, uint64_t part = 0, uint64_t parts = 1) const;

  // Calls `use` with the keys of all bands of each document; of a shard, of those in its files.
  void each_document(FunctionRef<void(uint32_t document, const uint64_t* keys)> use,
                     const Shard& shard = {}) const;

  // The same with the sketch of each, as append_sketch wrote it.
  void each_sketch(FunctionRef<void(uint32_t document, std::string_view bytes)> use,
                   const Shard& shard = {}) const;

 private:
  std::span<const CorpusFile> files_;
  Path folder_;
  int64_t bands_;
  std::vector<size_t> first_;
};

}  // namespace tephra
