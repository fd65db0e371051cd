// SPDX-License-Identifier: Apache-2.0
// What a template may spend: steps, bytes of values, nesting. Everything a template makes is made
// here, so a hostile template ends in an error, not in a machine without memory.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tephra/base/format.h"
#include "tephra/text/jinja_value.h"

namespace tephra::jinja {

struct Limits {
  int64_t steps = 10'000'000;
  int64_t value_bytes = int64_t{512} << 20;  // of all values ever made, not of those alive
  int64_t output_bytes = int64_t{64} << 20;
};

constexpr int kMaxValueDepth = 100;     // containers in containers
constexpr int kMaxSyntaxDepth = 200;    // of one expression or of nested blocks
constexpr int kMaxRunDepth = 1200;      // nested evaluations, macro calls included
constexpr int64_t kMaxRange = 100'000;  // as in jinja2's sandbox

// An error without its place; the parser and the renderer add template name and line.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& what, bool raised = false)
      : std::runtime_error(what), raised_(raised) {}
  bool raised() const { return raised_; }  // by the template's own raise_exception

 private:
  bool raised_;
};

template <class... Args>
[[noreturn]] void fail(FormatString<Args...> message, const Args&... args) {
  throw Failure(tephra::format<Args...>(message, args...));
}

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(int64_t count = 1) {
    if ((steps_ += count) > limits_.steps) [[unlikely]]
      no_more_steps();
  }
  void scan(const Value& value);     // a step, and more where a text is read
  void bytes(int64_t count);         // also counts steps, since bytes take time
  void output(int64_t total) const;  // fails when the rendered text is longer than allowed

  Value text(std::string bytes, bool markup = false);
  Value list(Items items, Flavour flavour = Flavour::list);
  Value tuple(Items items) { return list(std::move(items), Flavour::tuple); }
  Value dict(Pairs pairs);
  Value generator(Items items);

 private:
  [[noreturn]] void no_more_steps() const;
  std::shared_ptr<const Sequence> sequence(Items items, Flavour flavour);

  Limits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace tephra::jinja
