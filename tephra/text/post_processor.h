// SPDX-License-Identifier: Apache-2.0
// The "post_processor" of a tokenizer.json: which special tokens come before and after one text.
// TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which adds none), Sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "tephra/base/json.h"

namespace tephra {

struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

PostProcessor parse_post_processor(const Fields& step);

}  // namespace tephra
