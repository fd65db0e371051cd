// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/pretokenizer.h"

#include "tephra/base/error.h"
#include "tephra/text/split_behavior.h"
#include "tephra/text/split_scanner.h"
#include "tephra/text/text_step.h"
#include "tephra/text/unicode.h"

namespace tephra {

class PreTokenizer::Step {
 public:
  virtual ~Step() = default;
  virtual void run(std::string_view text, bool first, PieceSink sink) const = 0;
};

namespace {

void scan(std::string_view text, SplitScanner scanner, PieceSink sink) {
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p != end;) {
    const size_t length = scanner(p, end);
    sink({p, length});
    p += length;
  }
}

class Split : public PreTokenizer::Step {
 public:
  explicit Split(const Fields& step)
      : pattern_(step),
        behavior_(parse_split_behavior(step)),
        invert_(step.boolean_or("invert", false)) {
    if (pattern_.is_regex() && behavior_ == SplitBehavior::isolated) {
      scanner_ = find_split_scanner(pattern_.text());
    }
  }
  void run(std::string_view text, bool, PieceSink sink) const override {
    if (scanner_ != nullptr) return scan(text, scanner_, sink);
    SegmentJoiner segments(text, behavior_, invert_, sink);
    pattern_.each_match(text, [&](size_t begin, size_t end) { segments.add_match(begin, end); });
    segments.finish();
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
  SplitScanner scanner_ = nullptr;
};

// Its spelling of bytes as letters happens in the model.
class ByteLevel : public PreTokenizer::Step {
 public:
  ByteLevel(bool prefix_space, bool use_regex) : prefix_space_(prefix_space), regex_(use_regex) {}
  void run(std::string_view text, bool, PieceSink sink) const override {
    std::string with_space;
    if (prefix_space_ && text.front() != ' ') {
      with_space = " ";
      with_space += text;
      text = with_space;
    }
    if (!regex_) return sink(text);
    scan(text, find_split_scanner(kGpt2Pattern), sink);
  }

 private:
  bool prefix_space_, regex_;
};

class Metaspace : public PreTokenizer::Step {
 public:
  explicit Metaspace(const Fields& step)
      : mark_(step.string_or("replacement", "▁")), split_(step.boolean_or("split", true)) {
    const std::string by_prefix = step.boolean_or("add_prefix_space", true) ? "always" : "never";
    scheme_ = step.string_or("prepend_scheme", by_prefix);
    require_data(scheme_ == "always" || scheme_ == "first" || scheme_ == "never",
                 "{}: prepend_scheme: expected always, first or never, got '{}'", step.where(),
                 scheme_);
    require_data(!mark_.empty(), "{}: replacement: expected a character, got nothing",
                 step.where());
  }
  void run(std::string_view text, bool first, PieceSink sink) const override {
    std::string marked;
    const bool prepend = scheme_ == "always" || (scheme_ == "first" && first);
    if (prepend && text.front() != ' ' && !text.starts_with(mark_)) marked = mark_;
    for (const char c : text) {
      if (c == ' ') {
        marked += mark_;
      } else {
        marked += c;
      }
    }
    if (!split_) return sink(marked);
    SegmentJoiner segments(marked, SplitBehavior::merged_with_next, false, sink);
    for (size_t at = 0; (at = marked.find(mark_, at)) != marked.npos; at += mark_.size()) {
      segments.add_match(at, at + mark_.size());
    }
    segments.finish();
  }

 private:
  std::string mark_;
  std::string scheme_;
  bool split_;
};

class Digits : public PreTokenizer::Step {
 public:
  explicit Digits(const Fields& step)
      : behavior_(step.boolean_or("individual_digits", false) ? SplitBehavior::isolated
                                                              : SplitBehavior::contiguous) {}
  void run(std::string_view text, bool, PieceSink sink) const override {
    SegmentJoiner segments(text, behavior_, false, sink);
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = first_code_point(text.data() + at);
      if ((char_bits(c.value) & kNumber) != 0) segments.add_match(at, at + c.bytes);
      at += c.bytes;
    }
    segments.finish();
  }

 private:
  SplitBehavior behavior_;
};

}  // namespace

PreTokenizer::PreTokenizer() = default;
PreTokenizer::PreTokenizer(const Fields& step) { add(step); }
PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;

void PreTokenizer::add(const Fields& step) {
  const std::string type = step.string("type");
  require_data(!byte_level_, "{}: expected ByteLevel to be the last pre_tokenizer, got {} after it",
               step.where(), type);
  if (type == "Sequence") {
    for (const Fields& inner : sequence_of(step, "pretokenizers")) add(inner);
  } else if (type == "Split") {
    steps_.push_back(std::make_unique<Split>(step));
  } else if (type == "ByteLevel") {
    byte_level_ = true;
    const bool prefix_space = step.boolean_or("add_prefix_space", true);
    const bool use_regex = step.boolean_or("use_regex", true);
    if (prefix_space || use_regex) {
      steps_.push_back(std::make_unique<ByteLevel>(prefix_space, use_regex));
    }
  } else if (type == "Metaspace") {
    steps_.push_back(std::make_unique<Metaspace>(step));
  } else if (type == "Digits") {
    steps_.push_back(std::make_unique<Digits>(step));
  } else {
    unsupported_step(step, "pre_tokenizer");
  }
}

void PreTokenizer::split(std::string_view text, bool first, PieceSink sink) const {
  if (!text.empty()) run(0, text, first, sink);
}

void PreTokenizer::run(size_t step, std::string_view text, bool first, PieceSink sink) const {
  if (step == steps_.size()) return sink(text);
  if (step + 1 == steps_.size()) return steps_[step]->run(text, first, sink);
  bool at_start = first;
  steps_[step]->run(text, first, [&](std::string_view piece) {
    run(step + 1, piece, at_start, sink);
    at_start = false;
  });
}

}  // namespace tephra
