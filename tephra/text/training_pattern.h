// SPDX-License-Identifier: Apache-2.0
// The split pattern of byte-level tokenizers that Tephra trains: GPT-4's.
#pragma once

#include <string_view>

namespace tephra {

constexpr std::string_view kTrainingPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace tephra
