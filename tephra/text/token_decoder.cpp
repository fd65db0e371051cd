// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/token_decoder.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/text/byte_alphabet.h"
#include "tephra/text/text_step.h"
#include "tephra/text/unicode.h"

namespace tephra {

using Tokens = std::vector<std::string>;

class TokenDecoder::Step {
 public:
  virtual ~Step() = default;
  virtual void run(Tokens& tokens) const = 0;
  // For one token with others before and behind it.
  virtual std::string inside(std::string token) const = 0;
};

namespace {

class ByteLevelStep : public TokenDecoder::Step {
 public:
  void run(Tokens& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_spelling(token).value_or(token);
    tokens = {lossy_utf8(bytes)};
  }
  std::string inside(std::string token) const override {
    return bytes_of_spelling(token).value_or(token);
  }
};

class Replace : public TokenDecoder::Step {
 public:
  explicit Replace(const Fields& step) : pattern_(step), content_(step.string("content")) {}
  void run(Tokens& tokens) const override {
    std::string replaced;
    for (std::string& token : tokens) {
      replace_matches(token, pattern_, content_, replaced, kMostBytes);
      token.swap(replaced);
    }
  }
  std::string inside(std::string token) const override {
    Tokens one = {std::move(token)};
    run(one);
    return one[0];
  }

 private:
  static constexpr size_t kMostBytes = 1
                                       << 20;  // of one token: a hostile chain doubles it each time

  TextPattern pattern_;
  std::string content_;
};

// A row of byte tokens becomes its text, or one U+FFFD for each byte when it is not UTF-8.
class ByteFallback : public TokenDecoder::Step {
 public:
  void run(Tokens& tokens) const override {
    Tokens result;
    std::string row;
    const auto flush = [&] {
      if (find_invalid_utf8(row) == row.npos) {
        if (!row.empty()) result.push_back(row);
      } else {
        result.insert(result.end(), row.size(), "\xef\xbf\xbd");
      }
      row.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = parse_byte_token(token)) {
        row += static_cast<char>(*byte);
      } else {
        flush();
        result.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(result);
  }
  std::string inside(std::string token) const override {
    const auto byte = parse_byte_token(token);
    return byte ? std::string(1, static_cast<char>(*byte)) : token;
  }
};

class Fuse : public TokenDecoder::Step {
 public:
  void run(Tokens& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens = {std::move(all)};
  }
  std::string inside(std::string token) const override { return token; }
};

class Strip : public TokenDecoder::Step {
 public:
  explicit Strip(const Fields& step)
      : content_(step.string("content")),
        left_(step.integer("start")),
        right_(step.integer("stop")) {
    require_data(!content_.empty(), "{}: content: expected a character, got nothing", step.where());
  }
  void run(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view text = token;
      for (int64_t i = 0; i < left_ && text.starts_with(content_); ++i) {
        text.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < right_ && text.ends_with(content_); ++i) {
        text.remove_suffix(content_.size());
      }
      token = std::string(text);
    }
  }
  std::string inside(std::string token) const override { return token; }  // works at a text's ends

 private:
  std::string content_;
  int64_t left_, right_;
};

class MetaspaceStep : public TokenDecoder::Step {
 public:
  explicit MetaspaceStep(const Fields& step)
      : mark_(step.string_or("replacement", "▁")),
        prepended_(step.string_or("prepend_scheme",
                                  step.boolean_or("add_prefix_space", true) ? "always" : "never") !=
                   "never") {
    require_data(!mark_.empty(), "{}: replacement: expected a character, got nothing",
                 step.where());
  }
  void run(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = with_replaced(tokens[i], mark_, i == 0 && prepended_ ? "" : " ");
    }
  }
  std::string inside(std::string token) const override { return with_replaced(token, mark_, " "); }

 private:
  std::string mark_;
  bool prepended_;
};

}  // namespace

TokenDecoder::TokenDecoder() = default;
TokenDecoder::TokenDecoder(const Fields& step) : given_(true) { add(step); }
TokenDecoder::~TokenDecoder() = default;
TokenDecoder::TokenDecoder(TokenDecoder&&) noexcept = default;
TokenDecoder& TokenDecoder::operator=(TokenDecoder&&) noexcept = default;

void TokenDecoder::add(const Fields& step) {
  const std::string type = step.string("type");
  if (type == "Sequence") {
    for (const Fields& inner : sequence_of(step, "decoders")) add(inner);
  } else if (type == "ByteLevel") {
    steps_.push_back(std::make_unique<ByteLevelStep>());
  } else if (type == "Replace") {
    steps_.push_back(std::make_unique<Replace>(step));
  } else if (type == "ByteFallback") {
    steps_.push_back(std::make_unique<ByteFallback>());
  } else if (type == "Fuse") {
    steps_.push_back(std::make_unique<Fuse>());
  } else if (type == "Strip") {
    steps_.push_back(std::make_unique<Strip>(step));
  } else if (type == "Metaspace") {
    steps_.push_back(std::make_unique<MetaspaceStep>(step));
  } else {
    unsupported_step(step, "decoder");
  }
}

std::string TokenDecoder::bytes(std::string token) const {
  for (const auto& step : steps_) token = step->inside(std::move(token));
  return token;
}

std::string TokenDecoder::operator()(Tokens tokens) const {
  for (const auto& step : steps_) step->run(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (!given_ && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

}  // namespace tephra
