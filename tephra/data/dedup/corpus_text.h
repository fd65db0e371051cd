// SPDX-License-Identifier: Apache-2.0
// The texts of all documents of a corpus on disk, one after another, with kDocumentEnd after each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/dedup/repeated_spans.h"

namespace tephra {

// Writes them, to folders of settings.out.
StageRun write_corpus_text(std::span<const CorpusFile> files, const std::string& text_field,
                           StageSettings settings);

class CorpusText {
 public:
  struct Place {
    uint32_t row = 0;    // in its file, from 1
    uint32_t bytes = 0;  // of the text
    size_t begin = 0;    // in the corpus
  };

  CorpusText(std::span<const CorpusFile> files, const Path& folder);

  size_t bytes() const { return first_.back(); }
  size_t longest() const { return longest_; }    // document, with its end
  std::vector<Place> places(size_t file) const;  // by row

  // Runs of whole documents of at most `most` bytes, which the longest one must fit.
  std::vector<TextChunk> chunks(size_t most) const;
  void append(const TextChunk& chunk, std::string& out) const;

 private:
  struct Record {
    uint32_t row = 0;
    uint32_t bytes = 0;  // of the text
  };

  Path path(const char* kind, size_t file) const;
  std::vector<Record> records(size_t file) const;
  friend StageRun write_corpus_text(std::span<const CorpusFile>, const std::string&, StageSettings);

  std::span<const CorpusFile> files_;
  Path folder_;
  std::vector<size_t> first_ = {0};
  size_t longest_ = 0;
};

}  // namespace tephra
