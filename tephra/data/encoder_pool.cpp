// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/encoder_pool.h"

#include "tephra/base/error.h"

namespace tephra {

void EncoderPool::use(FunctionRef<void(Encoder&)> work) {
  std::unique_ptr<Encoder> encoder;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      encoder = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!encoder) encoder = std::make_unique<Encoder>(tokenizer_);
  work(*encoder);
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(encoder));
}

int32_t end_token(const Tokenizer& tokenizer) {
  if (tokenizer.eos().empty()) {
    throw Error(Fault::usage, "the tokenizer names no token that ends a text",
                "give \"eos_token\" in tokenizer_config.json beside tokenizer.json");
  }
  return tokenizer.eos()[0];
}

}  // namespace tephra
