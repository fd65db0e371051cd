// SPDX-License-Identifier: Apache-2.0
// The tokenizer that needs no training: one token for each byte, and a few special ones.
#pragma once

#include <string>

#include "tephra/base/files.h"

namespace tephra {

// A tokenizer.json that Hugging Face's tokenizers read, too: byte-level BPE without merges. Ids:
// 0 <pad>, 1 <eos>, 2 <bos>, 3 <|im_start|>, 4 <|im_end|>, 5 <think>, 6 </think>, then the bytes
// from 16 on (7 to 15 are reserved).
std::string byte_tokenizer_json();

// tokenizer.json; tokenizer_config.json and generation_config.json, which say what begins and ends
// a text; and ChatML as chat_template.jinja, since the tokens for it are there.
void write_byte_tokenizer(const Path& folder);

}  // namespace tephra
