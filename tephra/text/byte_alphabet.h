// SPDX-License-Identifier: Apache-2.0
// ByteLevel's alphabet: every byte has one printable character, so that tokens of any bytes are
// text. Printable Latin-1 stands for itself, the other 68 bytes for U+0100 to U+0143 in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tephra {

const std::array<uint16_t, 256>& byte_alphabet();  // byte -> character

// The bytes that a token of this alphabet stands for; nothing when another character is in it.
std::optional<std::string> bytes_of_spelling(std::string_view token);
std::string spelling_of_bytes(std::string_view bytes);

// "<0x0A>" -> 10, as SentencePiece names its byte tokens.
std::optional<uint8_t> parse_byte_token(std::string_view token);
std::string byte_token(uint8_t byte);

}  // namespace tephra
