// SPDX-License-Identifier: Apache-2.0
#include <limits>

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

std::vector<int32_t> read_lengths(const Path& prefix, int64_t documents) {
  std::vector<int32_t> lengths(static_cast<size_t>(documents));
  const FileReader file(with_suffix(prefix, kLenPartial));
  file.read(0, std::as_writable_bytes(std::span(lengths)));
  return lengths;
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

TokenShardWriter::TokenShardWriter(const Path& prefix, int64_t vocab_size,
                                   const TokenShardState& from)
    : prefix_(prefix),
      vocab_size_(vocab_size),
      type_(type_for(vocab_size)),
      tokens_(from.tokens),
      lengths_(from.documents > 0 ? read_lengths(prefix, from.documents) : std::vector<int32_t>{}),
      lengths_written_(lengths_.size()),
      keep_(from.documents > 0) {
  TEPHRA_ASSERT(vocab_size > 0 && vocab_size <= std::numeric_limits<int32_t>::max(),
                "ids are 32-bit");
  const Path bin = with_suffix(prefix, kBinPartial), len = with_suffix(prefix, kLenPartial);
  using enum AppendFile::WhenFull;
  bin_ = std::make_unique<AppendFile>(bin, from.tokens * bytes_of(type_), fail);
  len_ = std::make_unique<AppendFile>(len, from.documents * kLengthBytes, fail);
}

TokenShardWriter::~TokenShardWriter() {
  if (keep_) return;
  std::error_code ignored;
  for (const char* suffix : {kBinPartial, kLenPartial}) {
    std::filesystem::remove(with_suffix(prefix_, suffix), ignored);
  }
}

bool TokenShardWriter::holds(const Path& prefix, int64_t vocab_size, const TokenShardState& state) {
  const int64_t bin = size_of(with_suffix(prefix, kBinPartial)),
                len = size_of(with_suffix(prefix, kLenPartial));
  if (bin < 0 || bin < state.tokens * bytes_of(type_for(vocab_size))) return false;
  if (len < 0 || len < state.documents * kLengthBytes) return false;
  int64_t tokens = 0;
  for (const int32_t length : read_lengths(prefix, state.documents)) {
    if (length < 0) return false;
    tokens += length;
  }
  return tokens == state.tokens;
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

void TokenShardWriter::write() {
  bin_->append(buffer_);
  buffer_.clear();
}

TokenShardState TokenShardWriter::flush() {
  write();
  const auto bytes = std::as_bytes(std::span(lengths_).subspan(lengths_written_));
  len_->append({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  lengths_written_ = lengths_.size();
  bin_->flush();
  len_->flush();
  keep_ = true;
  return {documents(), tokens_};
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
