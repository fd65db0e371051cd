// SPDX-License-Identifier: Apache-2.0
// The "normalizer" of a tokenizer.json: Sequence, NFC, NFD, NFKC, NFKD, Replace, Prepend, Strip.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/json.h"

namespace tephra {

struct NormalizerScratch {
  std::string a, b;
};

class Normalizer {
 public:
  Normalizer();  // leaves text as it is
  // Fault::data for a step that is not supported.
  explicit Normalizer(const Fields& step);
  ~Normalizer();
  Normalizer(Normalizer&&) noexcept;
  Normalizer& operator=(Normalizer&&) noexcept;

  // The text itself when nothing changes, else held by `scratch`. Valid UTF-8 only.
  std::string_view operator()(std::string_view text, NormalizerScratch& scratch) const;

  class Step;

 private:
  void add(const Fields& step);

  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace tephra
