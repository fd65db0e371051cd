// SPDX-License-Identifier: Apache-2.0
// zlib, Brotli's library and zstd for their formats; Snappy and LZ4 blocks are short enough to be
// read by hand.
#include "tephra/io/page_codec.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr size_t kMaxPageBytes = size_t{1} << 28;

// Bytes from front to back; asking for more than there are is a failure, not an error by itself.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return at_ == bytes_.size(); }
  bool byte(uint32_t& value) {
    if (empty()) return false;
    value = static_cast<unsigned char>(bytes_[at_++]);
    return true;
  }
  // Little-endian.
  bool number(int size, uint32_t& value) {
    value = 0;
    for (int i = 0; i < size; ++i) {
      uint32_t part = 0;
      if (!byte(part)) return false;
      value |= part << (8 * i);
    }
    return true;
  }
  bool take(size_t size, std::string_view& bytes) {
    if (bytes_.size() - at_ < size) return false;
    bytes = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

// What comes out, from front to back, within memory of its size.
class Output {
 public:
  explicit Output(std::span<char> to) : to_(to) {}

  bool full() const { return at_ == to_.size(); }
  bool copy(Input& from, size_t size) {
    std::string_view bytes;
    if (size > to_.size() - at_ || !from.take(size, bytes)) return false;
    std::copy(bytes.begin(), bytes.end(), to_.begin() + static_cast<ptrdiff_t>(at_));
    at_ += size;
    return true;
  }
  // `size` bytes from `offset` bytes back; they may overlap what is written.
  bool repeat(size_t offset, size_t size) {
    if (offset == 0 || offset > at_ || size > to_.size() - at_) return false;
    char* out = to_.data() + at_;
    if (offset >= size) {
      std::memcpy(out, out - offset, size);
    } else {
      for (size_t i = 0; i < size; ++i) out[i] = out[static_cast<ptrdiff_t>(i - offset)];
    }
    at_ += size;
    return true;
  }

 private:
  std::span<char> to_;
  size_t at_ = 0;
};

bool unsnap(std::string_view from, std::span<char> to) {
  Input in(from);
  Output out(to);
  uint64_t total = 0;
  uint32_t byte = 0x80;
  for (int shift = 0; (byte & 0x80) != 0; shift += 7) {
    if (shift > 35 || !in.byte(byte)) return false;
    total |= uint64_t{byte & 0x7f} << shift;
  }
  if (total != to.size()) return false;
  while (!in.empty()) {
    uint32_t tag = 0, value = 0;
    in.byte(tag);
    if ((tag & 3) == 0) {
      size_t length = tag >> 2;
      if (length >= 60) {
        if (!in.number(static_cast<int>(length) - 59, value)) return false;
        length = value;
      }
      if (!out.copy(in, length + 1)) return false;
    } else if ((tag & 3) == 1) {
      if (!in.byte(value)) return false;
      if (!out.repeat((tag >> 5) << 8 | value, 4 + (tag >> 2 & 7))) return false;
    } else {
      if (!in.number((tag & 3) == 2 ? 2 : 4, value)) return false;
      if (!out.repeat(value, 1 + (tag >> 2))) return false;
    }
  }
  return out.full();
}

bool unlz4(std::string_view from, std::span<char> to) {
  Input in(from);
  Output out(to);
  const auto extended = [&](size_t& length) {
    uint32_t byte = 255;
    while (byte == 255) {
      if (!in.byte(byte)) return false;
      length += byte;
    }
    return true;
  };
  while (!in.empty()) {
    uint32_t token = 0, offset = 0;
    in.byte(token);
    size_t literals = token >> 4, match = token & 15;
    if (literals == 15 && !extended(literals)) return false;
    if (!out.copy(in, literals)) return false;
    if (in.empty()) break;  // the last sequence has no match
    if (!in.number(2, offset)) return false;
    if (match == 15 && !extended(match)) return false;
    if (!out.repeat(offset, match + 4)) return false;
  }
  return out.full();
}

bool gunzip(std::string_view from, std::span<char> to) {
  z_stream state{};
  constexpr int kGzipOrZlib = 32;
  if (inflateInit2(&state, kGzipOrZlib + MAX_WBITS) != Z_OK) return false;
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
  state.avail_in = static_cast<uInt>(from.size());
  state.next_out = reinterpret_cast<Bytef*>(to.data());
  state.avail_out = static_cast<uInt>(to.size());
  const int code = ::inflate(&state, Z_FINISH);
  const bool ok = code == Z_STREAM_END && state.avail_out == 0;
  inflateEnd(&state);
  return ok;
}

bool unbrotli(std::string_view from, std::span<char> to) {
  size_t got = to.size();
  const BrotliDecoderResult result =
      BrotliDecoderDecompress(from.size(), reinterpret_cast<const uint8_t*>(from.data()), &got,
                              reinterpret_cast<uint8_t*>(to.data()));
  return result == BROTLI_DECODER_RESULT_SUCCESS && got == to.size();
}

bool unzstd(std::string_view from, std::span<char> to) {
  using Unpacker = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;
  thread_local const Unpacker kUnpacker(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  ZSTD_DCtx* context = kUnpacker.get();
  if (context == nullptr) throw Error(Fault::device, "out of memory while decompressing");
  return ZSTD_decompressDCtx(context, to.data(), to.size(), from.data(), from.size()) == to.size();
}

bool decompress(PageCodec codec, std::string_view from, std::span<char> to) {
  switch (codec) {
    case PageCodec::none:
      std::copy_n(from.begin(), std::min(from.size(), to.size()), to.begin());
      return from.size() == to.size();
    case PageCodec::snappy:
      return unsnap(from, to);
    case PageCodec::gzip:
      return gunzip(from, to);
    case PageCodec::brotli:
      return unbrotli(from, to);
    case PageCodec::zstd:
      return unzstd(from, to);
    case PageCodec::lz4_raw:
      return unlz4(from, to);
  }
  return false;
}

}  // namespace

void decompress_page(PageCodec codec, std::string_view from, size_t size, RawBytes& to,
                     const std::string& where) {
  require_data(size <= kMaxPageBytes && from.size() <= kMaxPageBytes,
               "{}: expected pages of at most 256 MiB, got one of {} bytes", where, size);
  require_data(decompress(codec, from, to.resize(size)), "{}: a page is damaged", where);
}

}  // namespace tephra
