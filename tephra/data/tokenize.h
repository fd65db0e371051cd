// SPDX-License-Identifier: Apache-2.0
// From text files to a token shard, on all threads, in bounded memory. The bytes written depend on
// the inputs and their order only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/data/corpus/ranks.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/tokenize_report.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

// What a document of a .txt file is.
enum class TextSplit { file, line, paragraph };

struct TokenizeOptions {
  std::string text_field = "text";  // of .jsonl
  TextSplit split = TextSplit::file;
  bool prepend_bos = false;
  bool append_eos = false;
  OnError on_error = OnError::stop;
  size_t max_document_bytes = size_t{1} << 30;  // a longer one is left out, or stops
  std::string made_by;  // what else decides the tokens: the tokenizer, by its content
  Shard shard;
  std::shared_ptr<Ranks> ranks;               // of shard.ranks
  size_t window_bytes = size_t{16} << 20;     // of text: one is read while the other is encoded
  int64_t journal_bytes = int64_t{64} << 20;  // of text that a killed run may have to do again
};

// The files that the inputs mean, in order: files as given; of folders, all .txt and document
// files (formats/document_reader.h) below them by path. Another kind of file is Fault::usage.
std::vector<Path> text_files(std::span<const std::string> inputs);

// Fault::usage when the tokenizer has no token that the options ask for.
void check_tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options);

// Which tokenizer it is, by the files that Tokenizer::load reads.
std::string mark_of_tokenizer(const Path& path);

// A run that was killed goes on inside the file where it was; the bytes are the same.
// PREFIX.made.json says what the shard was made of, and its counts. One that is there is replaced.
// All files, whatever the options say of shards.
TokenizeReport tokenize_files(std::span<const Path> files, const Tokenizer& tokenizer,
                              const Path& out_prefix, const TokenizeOptions& options);

// The same for one that may be there. Fault::usage when the name is another's. With `overwrite` it
// is always made, from the beginning. A shard of the work, or a rank, makes the tokens of its files
// (shard_parts.h); the first rank, or a run without a shard, joins them: the bytes are those of one
// process.
struct NamedShard {
  TokenizeReport report;
  bool made = true;      // else it was there, of the same files in the same way
  bool complete = true;  // else only a part of it was made
};
NamedShard make_shard(std::span<const Path> files, const Tokenizer& tokenizer,
                      const Path& out_prefix, const TokenizeOptions& options, bool overwrite);

}  // namespace tephra
