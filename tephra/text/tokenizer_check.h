// SPDX-License-Identifier: Apache-2.0
// A tokenizer against vectors: [{"text", "ids", "decoded"}], where encoding adds no special tokens
// and decoding keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct TokenVector {
  std::string text;
  std::vector<int32_t> ids;
  std::optional<std::string> decoded;  // not checked when the file does not say
};

std::vector<TokenVector> read_token_vectors(const Path& path);

struct VectorDifference {
  size_t vector = 0;
  std::string what;  // one line: encoding or decoding, where, expected and got
};

struct VectorReport {
  size_t vectors = 0;
  std::vector<VectorDifference> differences;  // at most one a vector, in order
};

VectorReport check_token_vectors(const Tokenizer& tokenizer,
                                 const std::vector<TokenVector>& vectors);

}  // namespace tephra
