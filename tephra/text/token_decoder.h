// SPDX-License-Identifier: Apache-2.0
// The "decoder" of a tokenizer.json: from the texts of tokens to text. Sequence, ByteLevel,
// Replace, ByteFallback, Fuse, Strip, Metaspace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tephra/base/json.h"

namespace tephra {

class TokenDecoder {
 public:
  TokenDecoder();  // tokens with a space between, as a file without decoder means
  explicit TokenDecoder(const Fields& step);
  ~TokenDecoder();
  TokenDecoder(TokenDecoder&&) noexcept;
  TokenDecoder& operator=(TokenDecoder&&) noexcept;

  std::string operator()(std::vector<std::string> tokens) const;
  // The bytes that one token adds inside of a text; they need not be UTF-8 by themselves.
  std::string bytes(std::string token) const;

  class Step;

 private:
  void add(const Fields& step);

  bool given_ = false;
  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace tephra
