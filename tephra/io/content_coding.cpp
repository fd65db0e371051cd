// SPDX-License-Identifier: Apache-2.0
#include "tephra/io/content_coding.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "tephra/base/text.h"

namespace tephra {
namespace {

// What comes out grows from a guess; false when there is no more room to give.
bool grow(std::string& out, size_t most) {
  if (out.size() >= most) return false;
  out.resize(std::min(most, std::max<size_t>(4096, 2 * out.size())));
  return true;
}

// `window_bits` says which of zlib's formats.
bool inflate_all(std::string_view bytes, int window_bits, size_t most, std::string& out) {
  z_stream state{};
  if (inflateInit2(&state, window_bits) != Z_OK) return false;
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> ends(&state, &inflateEnd);
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state.avail_in = static_cast<uInt>(bytes.size());
  out.clear();
  int code = Z_OK;
  while (code == Z_OK && grow(out, most)) {
    state.next_out = reinterpret_cast<Bytef*>(out.data() + state.total_out);
    state.avail_out = static_cast<uInt>(out.size() - state.total_out);
    code = ::inflate(&state, Z_NO_FLUSH);
    if (state.avail_in == 0 && state.avail_out > 0) break;
  }
  out.resize(state.total_out);
  return code == Z_STREAM_END;
}

bool unbrotli_all(std::string_view bytes, size_t most, std::string& out) {
  using State = std::unique_ptr<BrotliDecoderState, decltype(&BrotliDecoderDestroyInstance)>;
  const State state(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr),
                    &BrotliDecoderDestroyInstance);
  if (!state) return false;
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size(), filled = 0;
  out.clear();
  BrotliDecoderResult result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
  while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT && grow(out, most)) {
    auto* to = reinterpret_cast<uint8_t*>(out.data() + filled);
    size_t room = out.size() - filled;
    result = BrotliDecoderDecompressStream(state.get(), &left, &from, &room, &to, nullptr);
    filled = out.size() - room;
  }
  out.resize(filled);
  return result == BROTLI_DECODER_RESULT_SUCCESS;
}

bool unzstd_all(std::string_view bytes, size_t most, std::string& out) {
  using State = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;
  const State state(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  if (!state) return false;
  ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer to{nullptr, 0, 0};
  out.clear();
  size_t wanted = 1;
  while (wanted > 0 && !ZSTD_isError(wanted) && grow(out, most)) {
    to.dst = out.data();
    to.size = out.size();
    wanted = ZSTD_decompressStream(state.get(), &to, &from);
    if (from.pos == from.size && to.pos < to.size) break;
  }
  out.resize(to.pos);
  return wanted == 0;
}

bool decode(std::string_view coding, std::string_view bytes, size_t most, std::string& out) {
  constexpr int kGzip = 16 + MAX_WBITS, kZlib = MAX_WBITS, kRaw = -MAX_WBITS;
  if (coding == "gzip" || coding == "x-gzip") return inflate_all(bytes, kGzip, most, out);
  // The standard means zlib's format, some servers the raw one.
  if (coding == "deflate") {
    return inflate_all(bytes, kZlib, most, out) || inflate_all(bytes, kRaw, most, out);
  }
  if (coding == "br") return unbrotli_all(bytes, most, out);
  if (coding == "zstd") return unzstd_all(bytes, most, out);
  out = bytes;
  return coding.empty() || coding == "identity";
}

}  // namespace

std::optional<std::string> decode_content(std::string_view codings, std::string_view bytes,
                                          size_t most) {
  constexpr size_t kMostCodings = 4;
  const std::vector<std::string_view> each = split(codings, ',');
  if (bytes.size() > most || each.size() > kMostCodings) return std::nullopt;
  std::string body(bytes), out;
  for (auto coding = each.rbegin(); coding != each.rend(); ++coding) {
    if (!decode(trim(*coding), body, most, out)) return std::nullopt;
    body.swap(out);
  }
  return body;
}

}  // namespace tephra
