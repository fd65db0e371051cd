// SPDX-License-Identifier: Apache-2.0
// Encoders with warm caches for whichever thread needs one.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tephra/base/function_ref.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

class EncoderPool {
 public:
  explicit EncoderPool(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Lends an encoder for the time of the call.
  void use(FunctionRef<void(Encoder&)> work);

 private:
  const Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Encoder>> free_;
};

// The token that ends a document; Fault::usage when the tokenizer names none.
int32_t end_token(const Tokenizer& tokenizer);

}  // namespace tephra
