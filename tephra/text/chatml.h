// SPDX-License-Identifier: Apache-2.0
// Chat templates that runs can ask for by name: ChatML, which is that of the byte tokenizer, and
// the form of the built-in tasks.
#pragma once

#include <string_view>

namespace tephra {

// <|im_start|>ROLE\nCONTENT<|im_end|>\n; the assistant's reasoning in <think>\n ... \n</think>\n\n
// before its content, in every turn. The assistant wrote its turn from the reasoning on, its end
// included.
extern const std::string_view kChatmlTemplate;

// The last question and a newline, as the built-in tasks are written: for models that learnt from
// those alone. Earlier turns and system messages, which such a model has never seen, are left out.
extern const std::string_view kTasksTemplate;

}  // namespace tephra
