// SPDX-License-Identifier: Apache-2.0
// Answers of a given form: JSON, JSON of a schema, a call of a tool. Grammars are kept, so that the
// second request of a form starts at once.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "tephra/infer/grammar_filter.h"
#include "tephra/serve/api_request.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

// Whether the answer is held to a call of a tool.
bool must_call(const ChatRequest& request);

class OutputForms {
 public:
  using MakeFilter = std::function<std::unique_ptr<TokenFilter>()>;

  OutputForms(const Tokenizer& tokenizer, const TokenIds& ids);

  // Null when the request asks for no form. `thinking`: the answer starts inside of reasoning,
  // which is free. ApiError when the form is not understood.
  MakeFilter filter_for(const CommonRequest& request, bool thinking);
  MakeFilter filter_for(const ChatRequest& request, bool thinking);

 private:
  using Build = std::function<ByteGrammar::Place(ByteGrammar&)>;
  MakeFilter kept(const std::string& key, bool thinking, const Build& build);
  std::shared_ptr<const TokenTrie> trie();

  struct Kept {
    std::string key;
    std::shared_ptr<GrammarMasks> masks;
  };

  const Tokenizer& tokenizer_;
  const TokenIds& ids_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTrie> trie_;
  std::list<Kept> kept_;  // the last used first
};

}  // namespace tephra
