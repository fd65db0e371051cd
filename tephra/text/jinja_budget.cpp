// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_budget.h"

#include <algorithm>

#include "tephra/base/text.h"

namespace tephra::jinja {
namespace {

constexpr int64_t kPerValue = 64;      // the control block and header of anything made
constexpr int64_t kBytesPerStep = 64;  // copying this much takes about as long as a step
constexpr int64_t kBytesPerScan = 32;  // and going through this much by characters

int checked_depth(int depth) {
  if (depth > kMaxValueDepth) fail("values nested deeper than {} levels", kMaxValueDepth);
  return depth;
}

}  // namespace

void Budget::no_more_steps() const {
  fail("the template takes more than {} steps; it may loop too often", human_count(limits_.steps));
}

void Budget::scan(const Value& value) {
  step(1 + (value.is_text() ? static_cast<int64_t>(value.bytes().size()) / kBytesPerScan : 0));
}

void Budget::bytes(int64_t count) {
  if (count > limits_.value_bytes - bytes_) {  // a sum could overflow
    fail("the template makes values of more than {}", human_bytes(limits_.value_bytes));
  }
  bytes_ += count;
  step(count / kBytesPerStep);
}

void Budget::output(int64_t total) const {
  if (total > limits_.output_bytes) {
    fail("the template writes more than {}", human_bytes(limits_.output_bytes));
  }
}

Value Budget::text(std::string bytes_of_text, bool markup) {
  bytes(kPerValue + static_cast<int64_t>(bytes_of_text.size()));
  return std::make_shared<const Text>(Text{std::move(bytes_of_text), markup});
}

std::shared_ptr<const Sequence> Budget::sequence(Items items, Flavour flavour) {
  bytes(kPerValue + static_cast<int64_t>(items.size() * sizeof(Value)));
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  auto made = std::make_shared<Sequence>();
  made->flavour = flavour;
  made->depth = checked_depth(depth + 1);
  made->items = std::move(items);
  return made;
}

Value Budget::list(Items items, Flavour flavour) { return sequence(std::move(items), flavour); }

Value Budget::dict(Pairs pairs) {
  bytes(kPerValue + static_cast<int64_t>(pairs.size() * 2 * sizeof(Value)));
  int depth = 0;
  for (const auto& [key, value] : pairs) depth = std::max({depth, key.depth(), value.depth()});
  auto made = std::make_shared<Dict>();
  made->depth = checked_depth(depth + 1);
  made->pairs = std::move(pairs);
  return std::shared_ptr<const Dict>(std::move(made));
}

Value Budget::generator(Items items) {
  return std::shared_ptr<Object>(
      std::make_shared<Generator>(sequence(std::move(items), Flavour::list)));
}

}  // namespace tephra::jinja
