// SPDX-License-Identifier: Apache-2.0
// Training BPE: again and again the most frequent pair of neighbours becomes a token. Of equally
// frequent pairs the one with the lower left id comes first, then the lower right id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/text/word_counter.h"

namespace tephra {

struct BpeTrainOptions {
  TokenizerForm form = TokenizerForm::byte_level;
  int64_t vocab_size = 32000;
  std::vector<std::string> special_tokens = {"<pad>", "<eos>", "<bos>", "<unk>"};  // ids from 0
  int64_t min_count = 2;         // pairs rarer than this stay apart
  int64_t max_token_chars = 16;  // of the longest merged token; 0: any (bytes in byte-level)
  // gemma, llama: share of characters that get a token, beside ASCII; bytes do the rest
  double coverage = 0.9995;
};

struct TrainedBpe {
  std::vector<std::string> tokens;                  // by id, as tokenizer.json spells them
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank
};

// Fewer tokens than asked when no pair is frequent enough. Fault::usage when the vocabulary cannot
// hold special tokens, bytes and characters.
TrainedBpe train_bpe(const std::vector<WordCount>& words, const BpeTrainOptions& options);

struct TokenizerFileOptions {
  bool add_bos = false;  // the post-processor puts <bos> before a text
  bool add_eos = false;  // and <eos> after it
};

// The tokenizer.json of a trained vocabulary, and the tokenizer_config.json beside it.
Json tokenizer_json(const TrainedBpe& trained, const BpeTrainOptions& options,
                    const TokenizerFileOptions& file);
Json tokenizer_config_json(const BpeTrainOptions& options);

}  // namespace tephra
