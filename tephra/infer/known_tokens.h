// SPDX-License-Identifier: Apache-2.0
// Whether a tokenizer and a model belong together.
#pragma once

#include "tephra/base/files.h"
#include "tephra/models/model.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

// Warns when the tokenizer has tokens that the model does not: texts with those cannot be read.
void warn_of_unknown_tokens(const Tokenizer& tokenizer, const Model& model, const Path& folder);

}  // namespace tephra
