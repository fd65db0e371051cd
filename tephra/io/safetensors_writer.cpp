// SPDX-License-Identifier: Apache-2.0
// The writer: the header follows from the entries alone, so the data can be streamed behind it.
#include <algorithm>
#include <span>
#include <unordered_set>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/base/large_pages.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/io/safetensors.h"
#include "tephra/io/safetensors_format.h"

namespace tephra {
namespace {

using safetensors::kCacheLine;
using safetensors::kHeaderAlignment;
using safetensors::kLengthBytes;
using safetensors::kMaxHeaderBytes;
using safetensors::kMetadataKey;

void place(const std::string& where, std::vector<TensorEntry>& entries) {
  std::unordered_set<std::string_view> seen;
  int64_t at = 0;
  for (TensorEntry& entry : entries) {
    require(is_utf8(entry.name) && entry.name != kMetadataKey,
            "{}: '{}' cannot be the name of a tensor", where, entry.name);
    require(seen.insert(entry.name).second, "{}: two tensors have the name '{}'", where,
            entry.name);
    entry.begin = at;
    at += entry.shape.numel() * size_of(entry.dtype);
    entry.end = at;
  }
}

// Padded with spaces, so that the data begins on a multiple of eight; on a cache line where tensors
// of bytes, which kernels read by whole lines, may follow.
std::string header_text(const std::vector<TensorEntry>& entries, const Metadata& metadata) {
  Json::Object header;
  if (!metadata.empty()) {
    Json::Object strings(metadata.begin(), metadata.end());
    header.emplace_back(kMetadataKey, std::move(strings));
  }
  for (const TensorEntry& entry : entries) {
    Json::Object fields;
    fields.emplace_back("dtype", safetensors::type_name(entry.dtype));
    fields.emplace_back("shape", Json::Array(entry.shape.dims().begin(), entry.shape.dims().end()));
    fields.emplace_back("data_offsets", Json::Array{entry.begin, entry.end});
    header.emplace_back(entry.name, std::move(fields));
  }
  std::string text = Json(std::move(header)).dump();
  const bool bytes = std::any_of(entries.begin(), entries.end(),
                                 [](const TensorEntry& e) { return e.dtype == DType::u8; });
  const int64_t multiple = bytes ? kCacheLine : kHeaderAlignment;
  const int64_t size = kLengthBytes + static_cast<int64_t>(text.size());
  text.resize(static_cast<size_t>(ceil_div(size, multiple) * multiple - kLengthBytes), ' ');
  return text;
}

// Hands a file on in pieces that begin at multiples of 2 MiB: a system whose cache has large pages
// keeps it in them, and whoever maps it soon after reads it faster.
class LargePieces {
 public:
  explicit LargePieces(const Path& path) : file_(path) {}

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const bool whole = pending_.empty() && bytes.size() >= kPiece;
      const size_t taken =
          whole ? bytes.size() / kPiece * kPiece : std::min(kPiece - pending_.size(), bytes.size());
      const auto part = bytes.first(taken);
      if (whole) {
        file_.write(part);
      } else {
        pending_.insert(pending_.end(), part.begin(), part.end());
        if (pending_.size() == kPiece) write_pending();
      }
      bytes = bytes.subspan(taken);
    }
  }
  void commit() {
    write_pending();
    file_.commit();
  }

 private:
  static constexpr auto kPiece = static_cast<size_t>(kLargePage);

  void write_pending() {
    file_.write(pending_);
    pending_.clear();
  }

  AtomicFile file_;
  std::vector<std::byte> pending_;  // the beginning of a piece
};

void write_tensor(LargePieces& file, const Tensor& x) {
  if (x.numel() == 0) return;
  const auto* data = static_cast<const std::byte*>(x.raw());
  if (x.dense()) {
    file.write({data, static_cast<size_t>(x.bytes())});
    return;
  }
  write_tensor(file, clone(x));
}

}  // namespace

void write_safetensors(const Path& path, std::vector<TensorEntry> entries, const Metadata& metadata,
                       FunctionRef<Tensor(const TensorEntry&)> produce) {
  const std::string where = path.string();
  place(where, entries);
  const std::string header = header_text(entries, metadata);
  const uint64_t length = header.size();
  require(
      length <= kMaxHeaderBytes,
      "{}: {} tensors need a header of {} bytes, the format allows {}; write more than one file",
      where, entries.size(), length, kMaxHeaderBytes);

  LargePieces file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const TensorEntry& entry : entries) {
    const Tensor x = produce(entry);
    TEPHRA_ASSERT(x.defined() && x.dtype() == entry.dtype && x.shape() == entry.shape,
                  "a produced tensor has the dtype and shape that were announced");
    write_tensor(file, x);
  }
  file.commit();
}

void write_safetensors(const Path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, x] : tensors) entries.push_back({name, x.dtype(), x.shape()});
  size_t next = 0;
  write_safetensors(path, std::move(entries), metadata,
                    [&](const TensorEntry&) { return tensors[next++].second; });
}

}  // namespace tephra
