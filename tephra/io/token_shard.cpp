// SPDX-License-Identifier: Apache-2.0
#include "tephra/io/token_shard.h"

#include <cstring>

#include "tephra/base/error.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {

using token_shard::kHeaderBytes;
using token_shard::with_suffix;

int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
      return 4;
    case TokenType::i64:
      return 8;
  }
  return 0;
}

std::string to_text(TokenType type) {
  const bool is_signed = type != TokenType::u8 && type != TokenType::u16;
  return format("{}{}", is_signed ? 'i' : 'u', 8 * bytes_of(type));
}

namespace {

// The arrays of an index start at odd addresses, so they are copied out, not pointed at.
template <class T>
T load(const std::byte* base, int64_t index) {
  T value;
  std::memcpy(&value, base + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void widen(const std::byte* from, std::span<int32_t> out, int64_t vocab_size, int64_t first,
           const Path& path) {
  for (size_t i = 0; i < out.size(); ++i) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): an i8 is a number here
    const auto token = static_cast<int64_t>(load<T>(from, static_cast<int64_t>(i)));
    if (token < 0 || token >= vocab_size) [[unlikely]] {
      throw Error(Fault::data,
                  format("{}: token {} is {}; the vocabulary has ids 0 to {}", path.string(),
                         first + static_cast<int64_t>(i), token, vocab_size - 1),
                  "the shard was made with another tokenizer");
    }
    out[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

// Where the arrays of an index lie.
struct TokenShardIndex {
  static const std::byte* lengths(const TokenShard& s) {
    return s.idx_->bytes().data() + kHeaderBytes;
  }
  static const std::byte* pointers(const TokenShard& s) { return lengths(s) + 4 * s.sequences_; }
  static const std::byte* documents(const TokenShard& s) { return pointers(s) + 8 * s.sequences_; }

  // Token where a sequence begins.
  static int64_t sequence_begin(const TokenShard& s, int64_t sequence) {
    return sequence == s.sequences_ ? s.tokens_
                                    : load<int64_t>(pointers(s), sequence) / bytes_of(s.type_);
  }

  static void read_header(TokenShard& s, const std::string& where);
  static void check_sequences(TokenShard& s, const std::string& where);
  static void check_documents(const TokenShard& s, const std::string& where);
};

void TokenShardIndex::read_header(TokenShard& s, const std::string& where) {
  const std::span<const std::byte> bytes = s.idx_->bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  const std::byte* at = bytes.data();
  const size_t magic = token_shard::kMagic.size();
  require_data(size >= kHeaderBytes && std::memcmp(at, token_shard::kMagic.data(), magic) == 0,
               "{}: expected an index that starts with MMIDIDX; this is no token shard", where);
  const auto version = load<uint64_t>(at + magic, 0);
  require_data(version == token_shard::kVersion, "{}: expected version 1, got {}", where, version);
  const auto code = static_cast<uint8_t>(at[magic + 8]);
  s.type_ = static_cast<TokenType>(code);
  require_data(bytes_of(s.type_) > 0,
               "{}: expected tokens of an integer type (code 1 to 5, or 8), got code {}", where,
               code);
  const auto sequences = load<uint64_t>(at + magic + 9, 0);
  const auto entries = load<uint64_t>(at + magic + 17, 0);
  const auto rest = static_cast<uint64_t>(size - kHeaderBytes);
  const bool fits = sequences <= rest / 12 && entries <= rest / 8;
  require_data(fits && rest == 12 * sequences + 8 * entries,
               "{}: {} sequences and {} document entries take {} bytes, but the file has {}", where,
               sequences, entries,
               fits ? format("{}", 12 * sequences + 8 * entries + kHeaderBytes) : "far more", size);
  require_data(entries >= 1, "{}: the document table is empty; it starts with 0", where);
  s.sequences_ = static_cast<int64_t>(sequences);
  s.documents_ = static_cast<int64_t>(entries) - 1;
}

// Sequences lie one after another, as every known writer leaves them.
void TokenShardIndex::check_sequences(TokenShard& s, const std::string& where) {
  const int64_t width = bytes_of(s.type_);
  const auto bin_bytes = static_cast<int64_t>(s.bin_->bytes().size());
  int64_t next = 0;
  for (int64_t i = 0; i < s.sequences_; ++i) {
    const auto length = load<int32_t>(lengths(s), i);
    const auto pointer = load<int64_t>(pointers(s), i);
    require_data(length >= 0, "{}: sequence {} has length {}", where, i, length);
    require_data(pointer == next, "{}: sequence {} is at byte {}, but the one before ends at {}",
                 where, i, pointer, next);
    next += length * width;
    require_data(next <= bin_bytes, "{}: sequence {} ends at byte {} of a .bin of {} bytes", where,
                 i, next, bin_bytes);
  }
  require_data(next == bin_bytes, "{}: covers {} bytes, but the .bin has {}", where, next,
               bin_bytes);
  s.tokens_ = next / width;
}

void TokenShardIndex::check_documents(const TokenShard& s, const std::string& where) {
  int64_t before = 0;
  for (int64_t i = 0; i <= s.documents_; ++i) {
    const auto sequence = load<int64_t>(documents(s), i);
    const bool ordered = i == 0 ? sequence == 0 : sequence >= before;
    require_data(ordered && sequence <= s.sequences_,
                 "{}: document entry {} is sequence {}; expected a rising list from 0 to {}", where,
                 i, sequence, s.sequences_);
    before = sequence;
  }
  require_data(before == s.sequences_, "{}: the documents end at sequence {} of {}", where, before,
               s.sequences_);
}

std::shared_ptr<const TokenShard> TokenShard::open(const Path& prefix) {
  const std::shared_ptr<TokenShard> shard(new TokenShard);
  const std::string suffix = prefix.extension().string();
  shard->prefix_ = prefix;
  if (suffix == ".bin" || suffix == ".idx") shard->prefix_.replace_extension();
  const Path idx = with_suffix(shard->prefix_, ".idx");
  shard->idx_ = MappedFile::open(idx);
  shard->bin_ = MappedFile::open(with_suffix(shard->prefix_, ".bin"));
  TokenShardIndex::read_header(*shard, idx.string());
  TokenShardIndex::check_sequences(*shard, idx.string());
  TokenShardIndex::check_documents(*shard, idx.string());
  return shard;
}

void TokenShard::read(int64_t first, std::span<int32_t> out, int64_t vocab_size) const {
  TEPHRA_ASSERT(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens_,
                "a read stays within the shard");
  const std::byte* from = bin_->bytes().data() + first * bytes_of(type_);
  switch (type_) {
    case TokenType::u8:
      return widen<uint8_t>(from, out, vocab_size, first, bin_->path());
    case TokenType::i8:
      return widen<int8_t>(from, out, vocab_size, first, bin_->path());
    case TokenType::i16:
      return widen<int16_t>(from, out, vocab_size, first, bin_->path());
    case TokenType::u16:
      return widen<uint16_t>(from, out, vocab_size, first, bin_->path());
    case TokenType::i32:
      return widen<int32_t>(from, out, vocab_size, first, bin_->path());
    case TokenType::i64:
      return widen<int64_t>(from, out, vocab_size, first, bin_->path());
  }
}

int64_t TokenShard::document_begin(int64_t document) const {
  const std::byte* table = TokenShardIndex::documents(*this);
  return TokenShardIndex::sequence_begin(*this, load<int64_t>(table, document));
}

// Binary search for the last document that begins at or before the token: of empty documents that
// begin there, too, the one that holds it is the last.
int64_t TokenShard::document_of(int64_t token) const {
  int64_t low = 0, high = documents_;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (document_begin(middle) <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace tephra
