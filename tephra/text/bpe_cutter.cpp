// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/bpe_cutter.h"

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr uint32_t kSpaceMark = 0x2581;
constexpr uint8_t kSpaceMarkKind = 128;
constexpr uint32_t kSharedKinds = 127;  // 129 to 255

}  // namespace

BpeCutter::Unit BpeCutter::unit_at(const char* p) {
  const auto b = static_cast<unsigned char>(*p);
  if (b < 0x80) return {b, 1};
  const CodePoint c = first_code_point(p);
  const auto bytes = static_cast<uint8_t>(c.bytes);
  if (c.value == kSpaceMark) return {kSpaceMarkKind, bytes};
  return {static_cast<uint8_t>(kSpaceMarkKind + 1 + c.value % kSharedKinds), bytes};
}

void BpeCutter::learn(std::string_view token) {
  int before = -1;
  for (size_t at = 0; at < token.size();) {
    const Unit unit =
        bytes_ ? Unit{static_cast<uint8_t>(token[at]), 1} : unit_at(token.data() + at);
    if (before >= 0) {
      joined_[static_cast<size_t>(before)][unit.kind >> 3] |=
          static_cast<uint8_t>(1 << (unit.kind & 7));
    }
    before = unit.kind;
    at += unit.bytes;
  }
}

size_t BpeCutter::byte_segment(std::string_view piece) const {
  size_t at = 1;
  while (at < piece.size() &&
         joined(static_cast<uint8_t>(piece[at - 1]), static_cast<uint8_t>(piece[at]))) {
    ++at;
  }
  return at;
}

size_t BpeCutter::character_segment(std::string_view piece) const {
  Unit unit = unit_at(piece.data());
  size_t at = unit.bytes;
  while (at < piece.size()) {
    const Unit next = unit_at(piece.data() + at);
    if (!joined(unit.kind, next.kind)) break;
    unit = next;
    at += unit.bytes;
  }
  return at;
}

}  // namespace tephra
