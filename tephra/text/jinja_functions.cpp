// SPDX-License-Identifier: Apache-2.0
// Functions a template can call without a value: range, dict, namespace, cycler, joiner,
// raise_exception, strftime_now.
#include <algorithm>
#include <array>

#include "tephra/text/jinja_objects.h"
#include "tephra/text/jinja_runtime.h"

namespace tephra::jinja {
namespace {

Value range(Call& call) {
  const Items& bounds = call.more;
  if (bounds.empty() || bounds.size() > 3)
    fail("'range' takes 1 to 3 arguments, got {}", bounds.size());
  for (const Value& bound : bounds) {
    if (bound.is_undefined()) fail("'range': {}", bound.why_undefined());
    if (!bound.is_integral()) fail("'range' needs integers, got {}", bound.type_name());
  }
  auto made = std::make_shared<Sequence>();
  made->flavour = Flavour::range;
  made->range_start = bounds.size() > 1 ? bounds[0].integer() : 0;
  made->range_stop = bounds[bounds.size() > 1 ? 1 : 0].integer();
  made->range_step = bounds.size() > 2 ? bounds[2].integer() : 1;
  if (made->range_step == 0) fail("'range' cannot have a step of 0");
  const auto width = made->range_step > 0
                         ? static_cast<__int128>(made->range_stop) - made->range_start
                         : static_cast<__int128>(made->range_start) - made->range_stop;
  const __int128 step = made->range_step > 0 ? static_cast<__int128>(made->range_step)
                                             : -static_cast<__int128>(made->range_step);
  const __int128 count = width <= 0 ? 0 : (width + step - 1) / step;
  if (count > kMaxRange) fail("'range' of more than {} numbers", kMaxRange);
  call.runtime.budget.bytes(static_cast<int64_t>(count) * int64_t{sizeof(Value)});
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    made->items.emplace_back(made->range_start + i * made->range_step);
  }
  return std::shared_ptr<const Sequence>(std::move(made));
}

// dict(mapping or pairs, **named)
Value dict(Call& call) {
  Pairs pairs;
  if (call.has(0)) {
    if (call.at(0).is_dict()) {
      pairs = call.at(0).dict().pairs;
    } else {
      for (const Value& pair : call.runtime.items(call.at(0))) {
        const Items both = call.runtime.items(pair);
        if (both.size() != 2) fail("'dict' needs pairs, got {} items", both.size());
        pairs.emplace_back(both[0], both[1]);
      }
    }
  }
  for (auto& [name, value] : call.more_named)
    pairs.emplace_back(Value::text(name), std::move(value));
  return call.runtime.dict_of(pairs);
}

Value make_namespace(Call& call) {
  auto made = std::make_shared<Namespace>();
  const Value start = dict(call);
  for (const auto& [key, value] : start.dict().pairs) {
    if (key.is_text()) made->set(key.bytes(), value);
  }
  call.runtime.keep(made);
  return std::shared_ptr<Object>(std::move(made));
}

Value cycler(Call& call) {
  if (call.more.empty()) fail("'cycler' needs at least one item");
  const Value items = call.runtime.budget.tuple(std::move(call.more));
  return std::shared_ptr<Object>(std::make_shared<Cycler>(items));
}

Value joiner(Call& call) {
  return std::shared_ptr<Object>(
      std::make_shared<Joiner>(Value::text(call.has(0) ? call.runtime.str(call.at(0)) : ", ")));
}

Value raise_exception(Call& call) { throw Failure(call.runtime.str(call.at(0)), true); }

Value strftime_now(Call& call) {
  const std::string& pattern = call.text(0);
  if (pattern.empty()) return Value::text("");
  if (pattern.size() > 1000) fail("'strftime_now' takes at most 1000 characters");
  const std::time_t now = call.runtime.now();
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 16384> buffer{};
  const size_t length = std::strftime(buffer.data(), buffer.size(), pattern.c_str(), &parts);
  return call.runtime.budget.text(std::string(buffer.data(), length));
}

Value lipsum(Call&) {
  fail("'lipsum' makes random text, which is not supported in chat templates");
}

constexpr Builtin kFunctions[] = {
    {"cycler", "*", cycler},
    {"dict", "$mapping **", dict},
    {"joiner", "sep", joiner},
    {"lipsum", "* **", lipsum},
    {"namespace", "$mapping **", make_namespace},
    {"raise_exception", "message!", raise_exception},
    {"range", "*", range},
    {"strftime_now", "format!", strftime_now},
};

}  // namespace

std::span<const Builtin> functions() { return kFunctions; }

}  // namespace tephra::jinja
