// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/parquet_values.h"

#include <algorithm>
#include <cstring>

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr int64_t kPlain = 0, kDeltaLength = 6;

class Bits {
 public:
  Bits(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t part = byte();
      value |= (part & 0x7f) << shift;
      if (part < 0x80) return value;
    }
    damaged();
  }
  int64_t zigzag() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  uint64_t byte() {
    if (at_ == bytes_.size()) damaged();
    return static_cast<unsigned char>(bytes_[at_++]);
  }
  // The `index`-th number of `width` bits from here.
  uint64_t packed(size_t index, int width) const {
    const size_t bit = index * static_cast<size_t>(width);
    uint64_t value = 0;
    for (int done = 0; done < width;) {
      const size_t at = bit + static_cast<size_t>(done);
      const auto part = static_cast<unsigned char>(bytes_[at_ + at / 8]) >> (at % 8);
      const int got = std::min(8 - static_cast<int>(at % 8), width - done);
      value |= (uint64_t{static_cast<unsigned>(part)} & ((uint64_t{1} << got) - 1)) << done;
      done += got;
    }
    return value;
  }
  void skip(size_t bytes) {
    if (bytes > bytes_.size() - at_) damaged();
    at_ += bytes;
  }
  bool has(size_t bytes) const { return bytes <= bytes_.size() - at_; }
  size_t position() const { return at_; }
  [[noreturn]] void damaged() const {
    throw Error(Fault::data, format("{}: the values of a page are damaged", where_));
  }

 private:
  std::string_view bytes_;
  const std::string& where_;
  size_t at_ = 0;
};

void plain_strings(std::string_view bytes, size_t count, std::vector<std::string_view>& out,
                   const std::string& where) {
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    uint32_t size = 0;
    require_data(bytes.size() - at >= 4, "{}: the values of a page are damaged", where);
    std::memcpy(&size, bytes.data() + at, 4);
    at += 4;
    require_data(bytes.size() - at >= size, "{}: the values of a page are damaged", where);
    out.push_back(bytes.substr(at, size));
    at += size;
  }
}

void strings_of_lengths(std::string_view bytes, const std::vector<int64_t>& lengths,
                        std::vector<std::string_view>& out, const std::string& where) {
  size_t at = 0;
  for (const int64_t length : lengths) {
    require_data(length >= 0 && static_cast<size_t>(length) <= bytes.size() - at,
                 "{}: the values of a page are damaged", where);
    out.push_back(bytes.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length);
  }
}

// Each string begins with so many bytes of the one before.
void delta_strings(std::string_view bytes, size_t count, std::vector<std::string_view>& out,
                   std::string& held, const std::string& where) {
  std::vector<int64_t> prefixes, lengths;
  size_t at = decode_delta(bytes, prefixes, count, where);
  at += decode_delta(bytes.substr(at), lengths, count, where);
  require_data(prefixes.size() == count && lengths.size() == count,
               "{}: the values of a page are damaged", where);
  std::vector<std::string_view> suffixes;
  strings_of_lengths(bytes.substr(at), lengths, suffixes, where);
  std::vector<size_t> begins;
  held.clear();
  size_t before = 0, before_size = 0;
  for (size_t i = 0; i < count; ++i) {
    require_data(prefixes[i] >= 0 && static_cast<size_t>(prefixes[i]) <= before_size &&
                     held.size() < (size_t{1} << 31),
                 "{}: the values of a page are damaged", where);
    const size_t begin = held.size();
    held.append(held, before, static_cast<size_t>(prefixes[i]));
    held += suffixes[i];
    begins.push_back(begin);
    before = begin;
    before_size = held.size() - begin;
  }
  begins.push_back(held.size());
  for (size_t i = 0; i < count; ++i) {
    out.push_back(std::string_view(held).substr(begins[i], begins[i + 1] - begins[i]));
  }
}

}  // namespace

size_t decode_hybrid(std::string_view bytes, int width, size_t count, std::vector<uint32_t>& out,
                     const std::string& where) {
  Bits in(bytes, where);
  out.clear();
  if (width < 0 || width > 32) in.damaged();
  while (out.size() < count) {
    const uint64_t head = in.varint();
    if ((head & 1) == 0) {
      uint32_t value = 0;
      for (int byte = 0; byte < (width + 7) / 8; ++byte) {
        value |= static_cast<uint32_t>(in.byte()) << (8 * byte);
      }
      if (head >> 1 == 0 || uint64_t{value} >> width != 0) in.damaged();
      out.resize(std::min<uint64_t>(count, out.size() + (head >> 1)), value);
      continue;
    }
    const uint64_t groups = head >> 1;
    if (groups == 0 || groups > (uint64_t{1} << 28)) in.damaged();
    const size_t size = groups * static_cast<size_t>(width);
    if (!in.has(size)) in.damaged();
    const size_t take = std::min<size_t>(groups * 8, count - out.size());
    for (size_t i = 0; i < take; ++i) out.push_back(static_cast<uint32_t>(in.packed(i, width)));
    in.skip(size);
  }
  return in.position();
}

size_t decode_delta(std::string_view bytes, std::vector<int64_t>& out, size_t most,
                    const std::string& where) {
  Bits in(bytes, where);
  out.clear();
  const uint64_t block = in.varint(), minis = in.varint(), total = in.varint();
  int64_t value = in.zigzag();
  if (minis == 0 || block == 0 || block > (1 << 20) || block % minis != 0 || total > most) {
    in.damaged();
  }
  const size_t mini = block / minis;
  if (mini % 8 != 0) in.damaged();
  if (total > 0) out.push_back(value);
  while (out.size() < total) {
    const int64_t least = in.zigzag();
    std::vector<int> widths;
    for (uint64_t m = 0; m < minis; ++m) widths.push_back(static_cast<int>(in.byte()));
    for (const int width : widths) {
      if (out.size() >= total) break;
      if (width > 64 || !in.has(mini / 8 * static_cast<size_t>(width))) in.damaged();
      for (size_t i = 0; i < mini && out.size() < total; ++i) {
        const uint64_t delta = static_cast<uint64_t>(least) + in.packed(i, width);
        value = static_cast<int64_t>(static_cast<uint64_t>(value) + delta);
        out.push_back(value);
      }
      in.skip(mini / 8 * static_cast<size_t>(width));
    }
  }
  return in.position();
}

void decode_strings(std::string_view bytes, int64_t encoding, size_t count,
                    std::vector<std::string_view>& out, std::string& held,
                    const std::string& where) {
  out.clear();
  if (encoding == kPlain) {
    plain_strings(bytes, count, out, where);
  } else if (encoding == kDeltaLength) {
    std::vector<int64_t> lengths;
    const size_t used = decode_delta(bytes, lengths, count, where);
    require_data(lengths.size() == count, "{}: the values of a page are damaged", where);
    strings_of_lengths(bytes.substr(used), lengths, out, where);
  } else if (encoding == kDeltaBytes) {
    delta_strings(bytes, count, out, held, where);
  } else {
    throw Error(Fault::data,
                format("{}: strings in encoding {} are not supported", where, encoding));
  }
}

}  // namespace tephra
