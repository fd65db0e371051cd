// SPDX-License-Identifier: Apache-2.0
// Tokenized documents in Megatron's two files: PREFIX.bin (the tokens) and PREFIX.idx (where each
// document begins). docs/formats/token-shards.md gives the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tephra/base/append_file.h"
#include "tephra/base/files.h"
#include "tephra/base/hash.h"

namespace tephra {

// How a token is stored; the value is the format's own code.
enum class TokenType : uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

int64_t bytes_of(TokenType type);
std::string to_text(TokenType type);

// Reads by mapping, from any thread. Everything in the index is checked before it is used; a file
// that does not hold together is Fault::data.
class TokenShard {
 public:
  // `prefix` with or without .bin or .idx.
  static std::shared_ptr<const TokenShard> open(const Path& prefix);

  const Path& prefix() const { return prefix_; }
  TokenType type() const { return type_; }
  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }

  // Tokens [first, first + out.size()) of the concatenated documents. One that is negative or not
  // below `vocab_size` is Fault::data.
  void read(int64_t first, std::span<int32_t> out, int64_t vocab_size) const;

  // First token of a document; documents() gives tokens().
  int64_t document_begin(int64_t document) const;
  // The document that holds this token.
  int64_t document_of(int64_t token) const;

 private:
  friend struct TokenShardIndex;
  TokenShard() = default;

  Path prefix_;
  std::shared_ptr<MappedFile> bin_, idx_;
  TokenType type_ = TokenType::i32;
  int64_t tokens_ = 0, documents_ = 0, sequences_ = 0;
};

// How far a shard is.
struct TokenShardState {
  int64_t documents = 0, tokens = 0;
  uint64_t hash = 0;  // of the bytes of both
};

// Both files appear whole or not at all: the tokens first, the index, without which they are no
// shard, last. Until then tokens and lengths grow in PREFIX.bin.partial and PREFIX.len.partial.
class TokenShardWriter {
 public:
  // Two bytes a token when every id below `vocab_size` fits, four otherwise.
  TokenShardWriter(const Path& prefix, int64_t vocab_size);
  // Goes on from a state that flush() of an earlier writer gave; what was written after it is cut
  // off. Nothing when those bytes are not there any more, each as it was.
  static std::unique_ptr<TokenShardWriter> go_on(const Path& prefix, int64_t vocab_size,
                                                 const TokenShardState& from);
  // Not committed, it leaves what flush() has promised, and nothing when that was never called.
  ~TokenShardWriter();
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;

  // Whether both files have the sizes of a shard that was committed in this state.
  static bool wrote(const Path& prefix, int64_t vocab_size, const TokenShardState& state);

  void add_document(std::span<const int32_t> tokens);
  // All documents of a shard that was made for the same vocabulary, by copying. The hash is what
  // flush() said when that one was whole.
  TokenShardState add_shard(const TokenShard& shard);
  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return static_cast<int64_t>(lengths_.size()); }
  TokenShardState flush();               // all so far is on disk, and is how far the shard is
  void commit(const Path& record = {});  // `record` tells of an older shard: it goes with its index

 private:
  struct Hashes {  // of what is written
    Xxh3 tokens, lengths;
    uint64_t both() const;
  };
  struct Begun {  // by an earlier writer
    int64_t tokens = 0;
    std::vector<int32_t> lengths;
    Hashes hashes;
  };
  static std::optional<Begun> read_begun(const Path& prefix, TokenType type,
                                         const TokenShardState& state);
  TokenShardWriter(const Path& prefix, int64_t vocab_size, Begun from);
  void write();
  void write_tokens(std::string_view bytes);
  void write_lengths();

  Path prefix_;
  int64_t vocab_size_;
  TokenType type_;
  int64_t tokens_;
  std::vector<int32_t> lengths_;
  size_t lengths_written_;
  Hashes hashes_;
  std::string buffer_;
  std::unique_ptr<AppendFile> bin_, len_;
  bool keep_;  // what is there
};

}  // namespace tephra
