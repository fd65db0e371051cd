// SPDX-License-Identifier: Apache-2.0
// ChatML as a chat template: the one of the byte tokenizer, and for tokenizers without any.
#pragma once

#include <string_view>

namespace tephra {

// <|im_start|>ROLE\nCONTENT<|im_end|>\n; the assistant's reasoning in <think>\n ... \n</think>\n\n
// before its content, in every turn. The assistant wrote its turn from the reasoning on, its end
// included.
extern const std::string_view kChatmlTemplate;

}  // namespace tephra
