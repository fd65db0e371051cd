// SPDX-License-Identifier: Apache-2.0
// The "pre_tokenizer" of a tokenizer.json: Sequence, Split, ByteLevel, Metaspace, Digits. It cuts
// text into the pieces that the model encodes one by one.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tephra/base/function_ref.h"
#include "tephra/base/json.h"

namespace tephra {

using PieceSink = FunctionRef<void(std::string_view piece)>;

class PreTokenizer {
 public:
  PreTokenizer();  // the whole text is one piece
  // Fault::data for a step that is not supported.
  explicit PreTokenizer(const Fields& step);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;

  // Pieces are views that live until the sink returns; none is empty. `first`: the text is the
  // beginning of what was given to encode, which Metaspace may ask.
  void split(std::string_view text, bool first, PieceSink sink) const;

  // Whether pieces are then spelled in ByteLevel's alphabet; the model does that by itself.
  bool byte_level() const { return byte_level_; }

  class Step;

 private:
  void add(const Fields& step);
  void run(size_t step, std::string_view text, bool first, PieceSink sink) const;

  std::vector<std::unique_ptr<Step>> steps_;
  bool byte_level_ = false;
};

}  // namespace tephra
