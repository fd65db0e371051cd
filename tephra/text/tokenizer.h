// SPDX-License-Identifier: Apache-2.0
// Tokenizers, as tokenizer.json describes them: text to ids and back, identical to Hugging Face's
// tokenizers for what is supported; anything else in the file is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/text/added_tokens.h"
#include "tephra/text/bpe.h"
#include "tephra/text/normalizer.h"
#include "tephra/text/post_processor.h"
#include "tephra/text/pretokenizer.h"
#include "tephra/text/token_decoder.h"

namespace tephra {

// What the post-processor adds: nothing, only what comes before the text (a prompt to be
// continued), or all.
enum class AddSpecial { none, before, all };

struct DecodeOptions {
  bool keep_special = true;  // false: leaves special tokens out
};

class Tokenizer {
 public:
  // A tokenizer.json, or a model folder that has one; there, tokenizer_config.json and
  // generation_config.json say which tokens begin and end a text. No such file is Fault::usage.
  static Tokenizer load(const Path& path);
  // From the text of a tokenizer.json; `where` names it in messages. Fault::data when it is wrong
  // or asks for something that is not supported.
  static Tokenizer parse(std::string_view json, const std::string& where);

  // Convenience for a few texts; an Encoder keeps its memory from text to text.
  std::vector<int32_t> encode(std::string_view text, AddSpecial special = AddSpecial::none) const;

  // Ids that no token has are left out; ask has() where that would be a mistake. Always valid
  // UTF-8.
  std::string decode(std::span<const int32_t> ids, DecodeOptions options = {}) const;

  bool has(int64_t id) const;
  std::string token(int32_t id) const;  // its text in the file; empty when no token has it
  // The bytes it adds inside of a text, which need not be UTF-8 by themselves.
  std::string bytes(int32_t id) const;
  std::optional<int32_t> find(std::string_view token) const;
  bool is_special(int32_t id) const;
  int64_t vocab_size() const { return vocab_size_; }  // largest id + 1, added tokens included

  // Nothing where the files do not say.
  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> pad() const { return pad_; }
  const std::vector<int32_t>& eos() const { return eos_; }

  const std::vector<AddedToken>& added_tokens() const { return added_; }
  const PostProcessor& post_processor() const { return post_; }
  const Bpe& model() const { return model_; }

 private:
  friend class Encoder;
  friend class TokenizerReader;

  Normalizer normalizer_;
  PreTokenizer pre_;
  Bpe model_;
  PostProcessor post_;
  TokenDecoder decoder_;
  std::vector<AddedToken> added_;  // by id
  AddedTokenFinder raw_added_, normalized_added_;
  int64_t vocab_size_ = 0;
  std::optional<int32_t> bos_, pad_;
  std::vector<int32_t> eos_;
};

// Encodes text after text with memory of its own: one a thread. Does not own the tokenizer.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Appends to `ids`. Bytes that are not UTF-8 count as U+FFFD.
  void encode(std::string_view text, std::vector<int32_t>& ids,
              AddSpecial special = AddSpecial::none);

 private:
  void encode_raw(std::string_view text, bool first, std::vector<int32_t>& ids);
  void encode_normalized(std::string_view text, bool first, std::vector<int32_t>& ids);

  const Tokenizer& tokenizer_;
  NormalizerScratch normalizer_;
  BpeScratch bpe_;
};

// Whole texts, in parallel; the result does not depend on the number of threads.
std::vector<std::vector<int32_t>> encode_batch(const Tokenizer& tokenizer,
                                               std::span<const std::string_view> texts,
                                               AddSpecial special = AddSpecial::none);

// Decodes token by token: only whole characters come out, and together they are what decode gives.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options = {})
      : tokenizer_(tokenizer), options_(options) {}

  std::string add(int32_t id);  // what can be said now; often nothing
  std::string finish();         // what is left: U+FFFD for a character that never ended

 private:
  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  std::vector<int32_t> ids_;  // told ones, for their effect on the next, then the held ones
  size_t told_ = 0;
};

}  // namespace tephra
