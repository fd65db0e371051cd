// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/stats/stats_corpus.h"

#include <array>
#include <bit>

#include "tephra/base/error.h"
#include "tephra/data/corpus/document_work.h"
#include "tephra/data/encoder_pool.h"
#include "tephra/data/filter/words.h"
#include "tephra/data/json_line.h"

namespace tephra {
namespace {

// Sums of one source within a piece, so that a document costs no look-ups by name.
struct Sums {
  int64_t documents = 0, bytes = 0, characters = 0, words = 0, tokens = 0;
  std::array<int64_t, 48> lengths{};  // by bits of the size in bytes
};

void add_sums(const std::string& source, const Sums& sums, bool tokens, Tally& tally) {
  tally.count(counted::kDocuments, sums.documents);
  tally.count(counted::kTextBytes, sums.bytes);
  const std::string prefix = "source." + source + ".";
  tally.count(prefix + "documents", sums.documents);
  tally.count(prefix + "bytes", sums.bytes);
  tally.count(prefix + "characters", sums.characters);
  tally.count(prefix + "words", sums.words);
  if (tokens) tally.count(prefix + "tokens", sums.tokens);
  for (size_t bits = 0; bits < sums.lengths.size(); ++bits) {
    if (sums.lengths[bits] == 0) continue;
    tally.count(format("length.{}.{:02}", source, bits), sums.lengths[bits]);
  }
}

class PieceCounter {
 public:
  PieceCounter(const StatsOptions& options, EncoderPool* encoders)
      : options_(options), encoders_(encoders) {}

  void work(const CorpusPiece& piece, PieceResult& result) {
    for (const Line& line : piece.lines) {
      try {
        const std::string_view text =
            parser_.padded_string_field(piece.window.text(line), options_.text_field);
        const std::string id(parser_.find_string(kIdField).value_or(piece.id(line)));
        add(text);
        result.tally.sample("documents of " + piece.file.source, id, text);
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;
        result.bad(piece, line, error.what());
      }
    }
    add_sums(piece.file.source, sums_, encoders_ != nullptr, result.tally);
  }

 private:
  void add(std::string_view text) {
    split_words(text, words_);
    int64_t words = 0;
    for (const TextWord& word : words_) words += !word.symbol;
    if (encoders_ != nullptr) {
      tokens_.clear();
      encoders_->use([&](Encoder& encoder) { encoder.encode(text, tokens_); });
      sums_.tokens += static_cast<int64_t>(tokens_.size());
    }
    ++sums_.documents;
    sums_.bytes += static_cast<int64_t>(text.size());
    sums_.characters += count_code_points(text);
    sums_.words += words;
    ++sums_.lengths[std::bit_width(text.size())];
  }

  const StatsOptions& options_;
  EncoderPool* encoders_;
  JsonLine parser_;
  std::vector<TextWord> words_;
  std::vector<int32_t> tokens_;
  Sums sums_;
};

}  // namespace

StageRun stats_corpus(std::span<const CorpusFile> files, const StatsOptions& options,
                      StageSettings stage) {
  stage.what = "stats";
  stage.settings =
      format("stats {} {} {}", options.text_field, options.tokenizer != nullptr, stage.samples);
  std::optional<EncoderPool> encoders;
  if (options.tokenizer != nullptr) encoders.emplace(*options.tokenizer);
  return run_reported(files, stage, [&](const CorpusPiece& piece, PieceResult& result) {
    PieceCounter(options, encoders ? &*encoders : nullptr).work(piece, result);
  });
}

}  // namespace tephra
