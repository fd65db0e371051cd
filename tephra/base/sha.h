// SPDX-License-Identifier: Apache-2.0
// SHA-256 and SHA-1 (FIPS 180-4), by which hubs name content. SHA-1 is there to meet git's names;
// trust rests on SHA-256 alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tephra {

enum class ShaKind { sha1, sha256 };

// Of content that comes in parts.
class Sha {
 public:
  explicit Sha(ShaKind kind);
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  std::string finish();  // its raw bytes, 20 or 32; nothing may be added afterwards

 private:
  void add_blocks(const unsigned char* bytes, size_t count);

  ShaKind kind_;
  std::array<uint32_t, 8> state_;
  std::array<unsigned char, 64> held_;
  uint64_t bytes_ = 0;
};

std::string sha256(std::string_view text);        // raw
std::string hex_text(std::string_view bytes);     // lower case
std::string base64_text(std::string_view bytes);  // with padding

}  // namespace tephra
