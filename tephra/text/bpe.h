// SPDX-License-Identifier: Apache-2.0
// The BPE model of a tokenizer.json: a vocabulary, merges in order of rank, and what to do with
// characters it does not know. Merging takes the lowest rank first, the leftmost of equals.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/text/bpe_cutter.h"
#include "tephra/text/merge_table.h"
#include "tephra/text/piece_cache.h"
#include "tephra/text/token_table.h"

namespace tephra {

// Memory of one encoding thread.
struct BpeScratch {
  PieceCache cache;
  std::vector<int32_t> symbols;
  MergeScratch merge;
};

class Bpe {
 public:
  Bpe() = default;
  // `byte_level`: pieces are bytes, the vocabulary spells them in ByteLevel's alphabet.
  Bpe(const Fields& model, bool byte_level);

  const TokenTable& tokens() const { return tokens_; }

  // Appends the ids of one piece of valid UTF-8.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;

  // The same without cache and cuts, one merge after the other: what tests compare with.
  void encode_plainly(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  void read_vocabulary(const Fields& model);
  void read_merges(const Fields& model);
  void read_unknown(const Fields& model);
  void index_characters();
  void learn_cuts();

  int32_t whole_piece(std::string_view piece) const;
  void encode_segment(std::string_view segment, BpeScratch& scratch,
                      std::vector<int32_t>& ids) const;
  void append_symbols(std::string_view piece, std::vector<int32_t>& symbols) const;
  struct Unknown;
  void append_stranger(std::string_view spelled, Unknown& unknown,
                       std::vector<int32_t>& symbols) const;

  bool byte_level_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  int32_t unknown_id_ = TokenTable::kNone;
  TokenTable tokens_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};  // of byte-level bytes, or of <0xHH>
  std::vector<int32_t> character_ids_;   // by code point; shorter than Unicode
  BpeCutter cutter_;
  bool merges_strangers_ = false;
  bool may_cut_ = false;
};

}  // namespace tephra
