// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/thrift.h"

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr int kMaxDepth = 32;

}  // namespace

void ThriftReader::damaged() const {
  throw Error(Fault::data, format("{}: its metadata is damaged at byte {}", where_, at_));
}

uint8_t ThriftReader::byte() {
  if (at_ == bytes_.size()) damaged();
  return static_cast<uint8_t>(bytes_[at_++]);
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t part = byte();
    value |= uint64_t{part & 0x7fu} << shift;
    if (part < 0x80) return value;
  }
  damaged();
}

int64_t ThriftReader::integer() {
  const uint64_t zigzag = varint();
  return static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1);
}

std::string_view ThriftReader::text() {
  const uint64_t size = varint();
  if (size > bytes_.size() - at_) damaged();
  const std::string_view value = bytes_.substr(at_, size);
  at_ += size;
  return value;
}

void ThriftReader::read_struct(const std::function<bool(int id, int type)>& field) {
  if (++depth_ > kMaxDepth) damaged();
  int id = 0;
  for (;;) {
    const uint8_t head = byte();
    if (head == stop) break;
    id = (head >> 4) != 0 ? id + (head >> 4) : static_cast<int>(integer());
    const int type = head & 15;
    if (!field(id, type)) skip(type, 0);
  }
  --depth_;
}

void ThriftReader::read_list(const std::function<void(int type)>& element) {
  const uint8_t head = byte();
  const uint64_t size = (head >> 4) == 15 ? varint() : head >> 4;
  if (size > bytes_.size() - at_) damaged();  // each takes at least a byte
  for (uint64_t i = 0; i < size; ++i) element(head & 15);
}

void ThriftReader::skip(int type, int depth) {
  if (depth > kMaxDepth) damaged();
  switch (type) {
    case yes:
    case no:
      break;
    case i8:
      byte();
      break;
    case i16:
    case i32:
    case i64:
      varint();
      break;
    case f64:
      for (int i = 0; i < 8; ++i) byte();
      break;
    case binary:
      text();
      break;
    case list:
    case set:
      // Booleans of lists take a byte, unlike those of structs.
      read_list([&](int each) { each <= no ? static_cast<void>(byte()) : skip(each, depth + 1); });
      break;
    case map: {
      const uint64_t size = varint();
      const uint8_t types = size > 0 ? byte() : 0;
      if (size > bytes_.size()) damaged();
      for (uint64_t i = 0; i < size; ++i) {
        skip(types >> 4, depth + 1);
        skip(types & 15, depth + 1);
      }
      break;
    }
    case structure:
      read_struct([&](int, int each) {
        skip(each, depth + 1);
        return true;
      });
      break;
    default:
      damaged();
  }
}

}  // namespace tephra
