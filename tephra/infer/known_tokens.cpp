// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/known_tokens.h"

#include "tephra/base/log.h"

namespace tephra {

void warn_of_unknown_tokens(const Tokenizer& tokenizer, const Model& model, const Path& folder) {
  const int64_t rows = model.tokens().vocab_size;
  if (tokenizer.vocab_size() <= rows) return;
  log_warning(
      "{}: its tokens have ids up to {}, the model's vocabulary ids 0 to {}; texts with the others "
      "are refused. Is it the tokenizer of this model?",
      (folder / "tokenizer.json").string(), tokenizer.vocab_size() - 1, rows - 1);
}

}  // namespace tephra
