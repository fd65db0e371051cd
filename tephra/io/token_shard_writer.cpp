// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "tephra/base/error.h"
#include "tephra/io/token_shard.h"
#include "tephra/io/token_shard_format.h"

namespace tephra {
namespace {

using token_shard::kBinPartial;
using token_shard::kLenPartial;
using token_shard::with_suffix;

constexpr size_t kWriteBytes = size_t{4} << 20;
constexpr int64_t kLengthBytes = sizeof(int32_t);

TokenType type_for(int64_t vocab_size) {
  return vocab_size <= 65536 ? TokenType::u16 : TokenType::i32;
}

int64_t size_of(const Path& path) {  // -1 when there is none
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? -1 : static_cast<int64_t>(size);
}

// The first `bytes` of a file in pieces.
template <class F>
void each_piece(const Path& path, int64_t bytes, const F& use) {
  const FileReader file(path);
  std::string piece;
  for (int64_t at = 0; at < bytes; at += std::ssize(piece)) {
    piece.resize(std::min(kWriteBytes, static_cast<size_t>(bytes - at)));
    file.read(at, std::as_writable_bytes(std::span(piece)));
    use(std::string_view(piece));
  }
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Collects small pieces into large writes.
class IndexFile {
 public:
  explicit IndexFile(const Path& path) : file_(path) {}

  template <class T>
  void put(T value) {
    append(buffer_, value);
    if (buffer_.size() >= kWriteBytes) flush();
  }
  void put_text(std::string_view text) { buffer_ += text; }
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  std::string buffer_;
};

}  // namespace

uint64_t TokenShardWriter::Hashes::both() const {
  const uint64_t values[] = {tokens.value(), lengths.value()};
  return xxh3(std::as_bytes(std::span(values)));
}

TokenShardWriter::TokenShardWriter(const Path& prefix, int64_t vocab_size)
    : TokenShardWriter(prefix, vocab_size, Begun()) {}

TokenShardWriter::TokenShardWriter(const Path& prefix, int64_t vocab_size, Begun from)
    : prefix_(prefix),
      vocab_size_(vocab_size),
      type_(type_for(vocab_size)),
      tokens_(from.tokens),
      lengths_(std::move(from.lengths)),
      lengths_written_(lengths_.size()),
      hashes_(from.hashes),
      keep_(!lengths_.empty()) {
  TEPHRA_ASSERT(vocab_size > 0 && vocab_size <= std::numeric_limits<int32_t>::max(),
                "ids are 32-bit");
  const Path bin = with_suffix(prefix, kBinPartial), len = with_suffix(prefix, kLenPartial);
  using enum AppendFile::WhenFull;
  bin_ = std::make_unique<AppendFile>(bin, tokens_ * bytes_of(type_), fail);
  len_ = std::make_unique<AppendFile>(len, std::ssize(lengths_) * kLengthBytes, fail);
}

std::unique_ptr<TokenShardWriter> TokenShardWriter::go_on(const Path& prefix, int64_t vocab_size,
                                                          const TokenShardState& from) {
  std::optional<Begun> begun = read_begun(prefix, type_for(vocab_size), from);
  if (!begun) return nullptr;
  return std::unique_ptr<TokenShardWriter>(
      new TokenShardWriter(prefix, vocab_size, std::move(*begun)));
}

TokenShardWriter::~TokenShardWriter() {
  if (keep_) return;
  std::error_code ignored;
  for (const char* suffix : {kBinPartial, kLenPartial}) {
    std::filesystem::remove(with_suffix(prefix_, suffix), ignored);
  }
}

// A kill leaves the bytes that were flushed; a failing disk may not.
std::optional<TokenShardWriter::Begun> TokenShardWriter::read_begun(const Path& prefix,
                                                                    TokenType type,
                                                                    const TokenShardState& state) {
  const Path bin = with_suffix(prefix, kBinPartial), len = with_suffix(prefix, kLenPartial);
  const int64_t bin_bytes = state.tokens * bytes_of(type);
  if (size_of(bin) < std::max<int64_t>(0, bin_bytes)) return std::nullopt;
  if (size_of(len) < std::max<int64_t>(0, state.documents * kLengthBytes)) return std::nullopt;
  Begun begun{state.tokens, std::vector<int32_t>(static_cast<size_t>(state.documents)), {}};
  FileReader(len).read(0, std::as_writable_bytes(std::span(begun.lengths)));
  begun.hashes.lengths.add(std::as_bytes(std::span(begun.lengths)));
  each_piece(bin, bin_bytes, [&](std::string_view piece) {
    begun.hashes.tokens.add(std::as_bytes(std::span(piece)));
  });
  if (begun.hashes.both() != state.hash) return std::nullopt;
  return begun;
}

bool TokenShardWriter::wrote(const Path& prefix, int64_t vocab_size, const TokenShardState& state) {
  const int64_t index =
      token_shard::kHeaderBytes + state.documents * (kLengthBytes + 8) + (state.documents + 1) * 8;
  return size_of(with_suffix(prefix, ".bin")) == state.tokens * bytes_of(type_for(vocab_size)) &&
         size_of(with_suffix(prefix, ".idx")) == index;
}

void TokenShardWriter::add_document(std::span<const int32_t> tokens) {
  require(tokens.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()),
          "{}: a document has {} tokens; the format counts them in 31 bits", prefix_.string(),
          tokens.size());
  for (const int32_t token : tokens) {
    TEPHRA_ASSERT(token >= 0 && token < vocab_size_, "a token is an id of the vocabulary");
    if (type_ == TokenType::u16) {
      append(buffer_, static_cast<uint16_t>(token));
    } else {
      append(buffer_, token);
    }
  }
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  tokens_ += static_cast<int64_t>(tokens.size());
  if (buffer_.size() >= kWriteBytes) write();
}

TokenShardState TokenShardWriter::add_shard(const TokenShard& shard) {
  TEPHRA_ASSERT(shard.type() == type_, "a part is made for the same vocabulary");
  write();
  Hashes hashes;
  const int64_t bytes = shard.tokens() * bytes_of(type_);
  each_piece(with_suffix(shard.prefix(), ".bin"), bytes, [&](std::string_view piece) {
    hashes.tokens.add(std::as_bytes(std::span(piece)));
    write_tokens(piece);
  });
  const size_t before = lengths_.size();
  for (int64_t d = 0; d < shard.documents(); ++d) {
    lengths_.push_back(static_cast<int32_t>(shard.document_begin(d + 1) - shard.document_begin(d)));
  }
  hashes.lengths.add(std::as_bytes(std::span(lengths_).subspan(before)));
  tokens_ += shard.tokens();
  return {shard.documents(), shard.tokens(), hashes.both()};
}

void TokenShardWriter::write() {
  write_tokens(buffer_);
  buffer_.clear();
}

void TokenShardWriter::write_tokens(std::string_view bytes) {
  bin_->append(bytes);
  hashes_.tokens.add(std::as_bytes(std::span(bytes)));
}

void TokenShardWriter::write_lengths() {
  const auto bytes = std::as_bytes(std::span(lengths_).subspan(lengths_written_));
  len_->append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  hashes_.lengths.add(bytes);
  lengths_written_ = lengths_.size();
}

TokenShardState TokenShardWriter::flush() {
  write();
  write_lengths();
  bin_->flush();
  len_->flush();
  keep_ = true;
  return {documents(), tokens_, hashes_.both()};
}

// Both files are written in full before either has its name, so a full disk leaves what was there.
void TokenShardWriter::commit(const Path& record) {
  write();
  const Path idx = with_suffix(prefix_, ".idx");
  IndexFile file(idx);
  file.put_text(token_shard::kMagic);
  file.put(token_shard::kVersion);
  file.put(static_cast<uint8_t>(type_));
  file.put(uint64_t{lengths_.size()});
  file.put(uint64_t{lengths_.size() + 1});
  for (const int32_t length : lengths_) file.put(length);
  int64_t at = 0;
  for (const int32_t length : lengths_) {
    file.put(at);
    at += length * bytes_of(type_);
  }
  for (size_t i = 0; i <= lengths_.size(); ++i) file.put(static_cast<int64_t>(i));
  file.flush();
  bin_->flush();
  bin_->close();
  std::error_code none;
  std::filesystem::remove(idx, none);  // an older index must never meet the new tokens
  if (!record.empty()) std::filesystem::remove(record, none);
  std::filesystem::rename(bin_->path(), with_suffix(prefix_, ".bin"));
  flush_folder(prefix_.has_parent_path() ? prefix_.parent_path() : Path("."));
  file.commit();
  std::filesystem::remove(len_->path(), none);  // they are in the index
}

}  // namespace tephra
