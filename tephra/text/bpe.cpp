// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/bpe.h"

#include <algorithm>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/text/byte_alphabet.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr int32_t kNone = TokenTable::kNone;

// "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> parse_merge(const Json& item, size_t rank,
                                                          const std::string& where) {
  if (item.is_array() && item.array().size() == 2 && item.array()[0].is_string() &&
      item.array()[1].is_string()) {
    return {item.array()[0].string(), item.array()[1].string()};
  }
  require_data(item.is_string(), "{}: merges[{}]: expected \"a b\" or [\"a\", \"b\"], got {}",
               where, rank, item.kind());
  const std::string_view text = item.string();
  const size_t space = text.find(' ');
  require_data(space != text.npos && text.find(' ', space + 1) == text.npos,
               "{}: merges[{}]: expected two tokens with a space between, got '{}'", where, rank,
               clipped(text, 80));
  return {text.substr(0, space), text.substr(space + 1)};
}

void refuse_if_set(const Fields& model, std::string_view key) {
  if (model.has(key) && !(model.json().find(key)->is_string() && model.string(key).empty())) {
    throw Error(Fault::data, format("{}: {} is not supported", model.where(), key));
  }
}

}  // namespace

Bpe::Bpe(const Fields& model, bool byte_level) : byte_level_(byte_level), cutter_(byte_level) {
  const std::string type = model.string_or("type", "BPE");
  require_data(type == "BPE", "{}: type: expected BPE, got '{}'; other models are not supported",
               model.where(), clipped(type, 40));
  if (model.has("dropout") && model.number("dropout") != 0) {
    throw Error(Fault::data, format("{}: dropout is not supported", model.where()));
  }
  refuse_if_set(model, "continuing_subword_prefix");
  refuse_if_set(model, "end_of_word_suffix");
  read_vocabulary(model);
  read_unknown(model);
  index_characters();
  read_merges(model);
  learn_cuts();
}

void Bpe::read_vocabulary(const Fields& model) {
  const Fields vocabulary = model.object("vocab");
  std::vector<std::pair<std::string_view, int64_t>> tokens;
  tokens.reserve(vocabulary.json().object().size());
  for (const auto& [token, id] : vocabulary.json().object()) {
    require_data(id.is_int(), "{}: vocab: '{}': expected an integer, got {}", model.where(),
                 clipped(token, 40), id.kind());
    tokens.emplace_back(token, id.integer());
  }
  tokens_ = TokenTable(tokens, model.where() + ": vocab");
}

void Bpe::read_merges(const Fields& model) {
  const Json::Array& merges = model.array("merges");
  merges_.reserve(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = parse_merge(merges[rank], rank, model.where());
    joined.assign(left);
    joined += right;
    const auto id_of = [&](std::string_view token) {
      const int32_t id = tokens_.find(token);
      require_data(id != kNone, "{}: merges[{}]: '{}' is not in the vocabulary", model.where(),
                   rank, clipped(token, 80));
      return id;
    };
    const int32_t left_id = id_of(left), right_id = id_of(right);
    merges_.add(left_id, right_id, id_of(joined));
    merges_strangers_ |= left_id == unknown_id_ || right_id == unknown_id_;
    merges_strangers_ |= byte_fallback_ && (parse_byte_token(left) || parse_byte_token(right));
  }
}

void Bpe::read_unknown(const Fields& model) {
  byte_fallback_ = model.boolean_or("byte_fallback", false);
  fuse_unknown_ = model.boolean_or("fuse_unk", false);
  ignore_merges_ = model.boolean_or("ignore_merges", false);
  if (!model.has("unk_token")) return;
  const std::string token = model.string("unk_token");
  unknown_id_ = tokens_.find(token);
  require_data(unknown_id_ != kNone, "{}: unk_token: '{}' is not in the vocabulary", model.where(),
               clipped(token, 40));
}

void Bpe::index_characters() {
  for (size_t b = 0; b < 256; ++b) {
    byte_ids_[b] = tokens_.find(byte_level_ ? to_utf8(byte_alphabet()[b])
                                            : byte_token(static_cast<uint8_t>(b)));
  }
  if (byte_level_) return;
  for (int32_t id = 0; id < tokens_.size(); ++id) {
    const std::string_view token = tokens_[id];
    if (token.empty()) continue;
    const CodePoint c = first_code_point(token.data());
    if (c.bytes != token.size()) continue;
    if (c.value >= character_ids_.size()) character_ids_.resize(c.value + 1, kNone);
    character_ids_[c.value] = id;
  }
}

// Cuts look at the text, so they are right only where the text is what gets merged: byte tokens and
// the unknown token stand for other text than they spell, fused unknowns span characters, and an
// unknown waits behind the byte tokens that follow it.
void Bpe::learn_cuts() {
  const bool no_bytes_missing = std::count(byte_ids_.begin(), byte_ids_.end(), kNone) == 0;
  const bool no_unknowns = (byte_level_ || byte_fallback_) && no_bytes_missing;
  const bool unknown_waits = unknown_id_ != kNone && (fuse_unknown_ || byte_fallback_);
  may_cut_ = !merges_strangers_ && (no_unknowns || !unknown_waits);
  for (uint32_t rank = 0; rank < merges_.size(); ++rank) {
    const std::string_view token = tokens_[merges_.merged(rank)];
    if (!byte_level_) {
      cutter_.learn(token);
    } else if (const auto bytes = bytes_of_spelling(token)) {
      cutter_.learn(*bytes);
    }
  }
}

int32_t Bpe::whole_piece(std::string_view piece) const {
  return tokens_.find(byte_level_ ? spelling_of_bytes(piece) : std::string(piece));
}

struct Bpe::Unknown {
  bool pending = false;
};

// A character without a token: its bytes where they all have one, else the unknown token, else
// nothing at all. As in the reference, bytes do not end a row of fused unknowns.
void Bpe::append_stranger(std::string_view spelled, Unknown& unknown,
                          std::vector<int32_t>& symbols) const {
  if (byte_fallback_) {
    const size_t before = symbols.size();
    for (const char b : spelled) {
      const int32_t id = byte_level_ ? tokens_.find(byte_token(static_cast<uint8_t>(b)))
                                     : byte_ids_[static_cast<unsigned char>(b)];
      if (id == kNone) break;
      symbols.push_back(id);
    }
    if (symbols.size() - before == spelled.size()) return;
    symbols.resize(before);
  }
  if (unknown_id_ == kNone) return;
  if (unknown.pending && !fuse_unknown_) symbols.push_back(unknown_id_);
  unknown.pending = true;
}

void Bpe::append_symbols(std::string_view piece, std::vector<int32_t>& symbols) const {
  Unknown unknown;
  const auto append = [&](int32_t id, std::string_view spelled) {
    if (id == kNone) return append_stranger(spelled, unknown, symbols);
    if (unknown.pending) symbols.push_back(unknown_id_);
    unknown.pending = false;
    symbols.push_back(id);
  };
  for (size_t at = 0; at < piece.size();) {
    if (byte_level_) {
      const auto b = static_cast<unsigned char>(piece[at++]);
      append(byte_ids_[b], byte_ids_[b] == kNone ? to_utf8(byte_alphabet()[b]) : std::string());
      continue;
    }
    const CodePoint c = first_code_point(piece.data() + at);
    append(c.value < character_ids_.size() ? character_ids_[c.value] : kNone,
           piece.substr(at, c.bytes));
    at += c.bytes;
  }
  if (unknown.pending) symbols.push_back(unknown_id_);
}

void Bpe::encode_segment(std::string_view segment, BpeScratch& scratch,
                         std::vector<int32_t>& ids) const {
  const bool short_enough = segment.size() <= PieceCache::kMaxBytes;
  PieceCache::Key key;
  if (short_enough) {
    key = PieceCache::key_of(segment);
    bool found = false;
    const std::span<const int32_t> known = scratch.cache.find(key, found);
    if (found) {
      for (const int32_t id : known) ids.push_back(id);
      return;
    }
  }
  scratch.symbols.clear();
  if (const int32_t id = ignore_merges_ ? whole_piece(segment) : kNone; id != kNone) {
    scratch.symbols.push_back(id);
  } else {
    append_symbols(segment, scratch.symbols);
    merges_.merge(scratch.symbols, scratch.merge);
  }
  ids.insert(ids.end(), scratch.symbols.begin(), scratch.symbols.end());
  if (short_enough && scratch.symbols.size() <= PieceCache::kMaxIds) {
    scratch.cache.insert(key, scratch.symbols);
  }
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  // A short byte-level piece is a word, and a word is what the cache holds. With ignore_merges a
  // piece means another thing than a segment, so there pieces stay whole.
  const bool whole = byte_level_ && piece.size() <= PieceCache::kMaxBytes;
  if (whole || !may_cut_ || ignore_merges_) return encode_segment(piece, scratch, ids);
  while (!piece.empty()) {
    const size_t length = cutter_.segment(piece);
    encode_segment(piece.substr(0, length), scratch, ids);
    piece.remove_prefix(length);
  }
}

void Bpe::encode_plainly(std::string_view piece, std::vector<int32_t>& ids) const {
  if (ignore_merges_ && whole_piece(piece) != kNone) {
    ids.push_back(whole_piece(piece));
    return;
  }
  std::vector<int32_t> symbols;
  append_symbols(piece, symbols);
  for (;;) {
    size_t best = symbols.size();
    uint32_t lowest = MergeTable::kNoRank;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const uint32_t rank = merges_.rank(symbols[i], symbols[i + 1]);
      if (rank < lowest) {
        lowest = rank;
        best = i;
      }
    }
    if (best == symbols.size()) break;
    symbols[best] = merges_.merged(lowest);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

}  // namespace tephra
