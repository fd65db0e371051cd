// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/normalizer.h"

#include <optional>

#include "tephra/text/text_step.h"
#include "tephra/text/unicode.h"

namespace tephra {

class Normalizer::Step {
 public:
  virtual ~Step() = default;
  // May write to `scratch` and return a view of it; `text` never lies in it. Nothing longer than
  // `limit` bytes is made of replacements.
  virtual std::string_view run(std::string_view text, std::string& scratch, size_t limit) const = 0;
};

namespace {

using Step = Normalizer::Step;

constexpr size_t kMaxGrowth = 64;  // all steps together; NFKD can make 18 characters of one

class Form : public Step {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  std::string_view run(std::string_view text, std::string& scratch, size_t) const override {
    return normalized(text, form_, scratch);
  }

 private:
  NormalForm form_;
};

class Replace : public Step {
 public:
  explicit Replace(const Fields& step) : pattern_(step), content_(step.string("content")) {}
  std::string_view run(std::string_view text, std::string& scratch, size_t limit) const override {
    // One byte for one string is what every SentencePiece-like file does with its spaces.
    if (pattern_.is_regex() || pattern_.text().size() != 1) {
      replace_matches(text, pattern_, content_, scratch, limit);
      return scratch;
    }
    const char from = pattern_.text()[0];
    if (text.find(from) == text.npos) return text;
    scratch.clear();
    scratch.reserve(text.size() + text.size() / 2);
    for (const char c : text) {
      if (c == from) {
        scratch += content_;
        require_short(scratch, limit);
      } else {
        scratch += c;
      }
    }
    return scratch;
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend : public Step {
 public:
  explicit Prepend(const Fields& step) : prefix_(step.string("prepend")) {}
  std::string_view run(std::string_view text, std::string& scratch, size_t) const override {
    if (text.empty()) return text;
    scratch = prefix_;
    scratch += text;
    return scratch;
  }

 private:
  std::string prefix_;
};

class Strip : public Step {
 public:
  explicit Strip(const Fields& step)
      : left_(step.boolean("strip_left")), right_(step.boolean("strip_right")) {}
  std::string_view run(std::string_view text, std::string&, size_t) const override {
    while (left_ && !text.empty()) {
      const CodePoint c = first_code_point(text.data());
      if ((char_bits(c.value) & kSpace) == 0) break;
      text.remove_prefix(c.bytes);
    }
    while (right_ && !text.empty()) {
      size_t last = text.size() - 1;
      while ((static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
      if ((char_bits(first_code_point(text.data() + last).value) & kSpace) == 0) break;
      text = text.substr(0, last);
    }
    return text;
  }

 private:
  bool left_, right_;
};

std::optional<NormalForm> parse_form(const std::string& type) {
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  return std::nullopt;
}

}  // namespace

Normalizer::Normalizer() = default;
Normalizer::Normalizer(const Fields& step) { add(step); }
Normalizer::~Normalizer() = default;
Normalizer::Normalizer(Normalizer&&) noexcept = default;
Normalizer& Normalizer::operator=(Normalizer&&) noexcept = default;

void Normalizer::add(const Fields& step) {
  const std::string type = step.string("type");
  if (type == "Sequence") {
    for (const Fields& inner : sequence_of(step, "normalizers")) add(inner);
  } else if (const auto form = parse_form(type)) {
    steps_.push_back(std::make_unique<Form>(*form));
  } else if (type == "Replace") {
    steps_.push_back(std::make_unique<Replace>(step));
  } else if (type == "Prepend") {
    steps_.push_back(std::make_unique<Prepend>(step));
  } else if (type == "Strip") {
    steps_.push_back(std::make_unique<Strip>(step));
  } else {
    unsupported_step(step, "normalizer");
  }
}

std::string_view Normalizer::operator()(std::string_view text, NormalizerScratch& scratch) const {
  const size_t limit = kMaxGrowth * text.size() + (size_t{1} << 20);
  std::string* free = &scratch.a;
  std::string* other = &scratch.b;
  for (const auto& step : steps_) {
    text = step->run(text, *free, limit);
    if (text.data() == free->data()) std::swap(free, other);  // the text now lies in `other`
  }
  return text;
}

}  // namespace tephra
