// SPDX-License-Identifier: Apache-2.0
// The words of an aggregation prompt (Markovian RSA): a problem and the ends of attempts at it. One
// wording for training, evaluation and serving, since a model is asked as it was taught.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/text/tokenizer.h"

namespace tephra {

// The problem comes first, so that the prompts of a round share their beginning.
std::string aggregation_text(std::string_view problem, std::span<const std::string> tails);

// The last `tokens` of these, as text: whole characters, special tokens left out; of no more tokens
// when it is encoded again.
std::string tail_text(const Tokenizer& tokenizer, std::span<const int32_t> ids, int64_t tokens);

// The same of a text.
std::string tail_text(const Tokenizer& tokenizer, std::string_view text, int64_t tokens);

}  // namespace tephra
