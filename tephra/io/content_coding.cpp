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

using End = DecodedContent::End;

// What comes out grows from a guess; false when there is no more room to give.
bool grow(std::string& out, size_t most) {
  if (out.size() >= most) return false;
  out.resize(std::min(most, std::max<size_t>(4096, 2 * out.size())));
  return true;
}

// `window_bits` says which of zlib's formats. Of gzip, members may follow each other.
End inflate_all(std::string_view bytes, int window_bits, size_t most, std::string& out) {
  z_stream state{};
  if (inflateInit2(&state, window_bits) != Z_OK) return End::damaged;
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> ends(&state, &inflateEnd);
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state.avail_in = static_cast<uInt>(bytes.size());
  out.clear();
  size_t filled = 0;
  for (;;) {
    if (filled == out.size() && !grow(out, most)) return End::too_long;
    state.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    state.avail_out = static_cast<uInt>(out.size() - filled);
    const int code = ::inflate(&state, Z_NO_FLUSH);
    filled = out.size() - state.avail_out;
    if (code == Z_STREAM_END && window_bits > MAX_WBITS && state.avail_in > 0 &&
        *state.next_in == 0x1f) {
      inflateReset(&state);
      continue;
    }
    const bool cut = (code == Z_OK || code == Z_BUF_ERROR) && state.avail_in == 0;
    if (code == Z_OK && !(cut && state.avail_out > 0)) continue;
    out.resize(filled);
    return code == Z_STREAM_END ? End::whole : cut ? End::cut : End::damaged;
  }
}

End unbrotli_all(std::string_view bytes, size_t most, std::string& out) {
  using State = std::unique_ptr<BrotliDecoderState, decltype(&BrotliDecoderDestroyInstance)>;
  const State state(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr),
                    &BrotliDecoderDestroyInstance);
  if (!state) return End::damaged;
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size(), filled = 0;
  out.clear();
  BrotliDecoderResult result = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
  while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) {
    if (!grow(out, most)) return End::too_long;
    auto* to = reinterpret_cast<uint8_t*>(out.data() + filled);
    size_t room = out.size() - filled;
    result = BrotliDecoderDecompressStream(state.get(), &left, &from, &room, &to, nullptr);
    filled = out.size() - room;
  }
  out.resize(filled);
  if (result == BROTLI_DECODER_RESULT_SUCCESS) return End::whole;
  return result == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT ? End::cut : End::damaged;
}

// Frames may follow each other.
End unzstd_all(std::string_view bytes, size_t most, std::string& out) {
  using State = std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)>;
  const State state(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  if (!state) return End::damaged;
  ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer to{nullptr, 0, 0};
  out.clear();
  for (;;) {
    if (to.pos == out.size() && !grow(out, most)) return End::too_long;
    to.dst = out.data();
    to.size = out.size();
    const size_t wanted = ZSTD_decompressStream(state.get(), &to, &from);
    const bool at_end = from.pos == from.size && (wanted == 0 || to.pos < to.size);
    if (!ZSTD_isError(wanted) && !at_end) continue;
    out.resize(to.pos);
    if (ZSTD_isError(wanted)) return End::damaged;
    return wanted == 0 ? End::whole : End::cut;
  }
}

End decode(std::string_view coding, std::string_view bytes, size_t most, std::string& out) {
  constexpr int kGzip = 16 + MAX_WBITS, kZlib = MAX_WBITS, kRaw = -MAX_WBITS;
  if (coding == "gzip" || coding == "x-gzip") return inflate_all(bytes, kGzip, most, out);
  // The standard means zlib's format, some servers the raw one.
  if (coding == "deflate") {
    const End end = inflate_all(bytes, kZlib, most, out);
    return end == End::damaged ? inflate_all(bytes, kRaw, most, out) : end;
  }
  if (coding == "br") return unbrotli_all(bytes, most, out);
  if (coding == "zstd") return unzstd_all(bytes, most, out);
  out = bytes;
  return coding.empty() || coding == "identity" ? End::whole : End::damaged;
}

}  // namespace

DecodedContent decode_content(std::string_view codings, std::string_view bytes, size_t most) {
  constexpr size_t kMostCodings = 4;
  const std::vector<std::string_view> each = split(codings, ',');
  if (bytes.size() > most) return {End::too_long, ""};
  if (each.size() > kMostCodings) return {End::damaged, ""};
  DecodedContent content{End::whole, std::string(bytes)};
  for (auto coding = each.rbegin(); coding != each.rend(); ++coding) {
    std::string out;
    const End end = decode(trim(*coding), content.body, most, out);
    if (end == End::too_long || end == End::damaged) return {end, ""};
    if (end == End::cut) content.end = End::cut;
    content.body = std::move(out);
  }
  return content;
}

}  // namespace tephra
