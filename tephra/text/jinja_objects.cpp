// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_objects.h"

#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

Value closure(Closure::Body body, int depth) {
  return std::shared_ptr<Object>(std::make_shared<Closure>(std::move(body), depth));
}

}  // namespace

Value Namespace::attribute(Runtime& runtime, std::string_view name) {
  runtime.budget.step(static_cast<int64_t>(attributes_.size()) / 8);
  for (const auto& [key, value] : attributes_) {
    if (key == name) return value;
  }
  return {};
}

void Namespace::set(const std::string& name, Value value) {
  for (auto& [key, old] : attributes_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes_.emplace_back(name, std::move(value));
}

std::string Namespace::printed(Runtime& runtime) {
  std::string out = "<Namespace {";
  for (const auto& [key, value] : attributes_) {
    if (!out.ends_with('{')) out += ", ";
    // What could lead back here has no text, so a cycle cannot be printed.
    if (value.depth() > 0) fail("a Namespace that holds containers has no text");
    out += python_quoted(key) + ": " + runtime.repr(value);
  }
  return out + "}>";
}

Value Cycler::attribute(Runtime&, std::string_view name) {
  const Items& items = items_.sequence().items;
  if (name == "current") return items[at_];
  if (name == "items") return items_;
  if (name == "pos") return static_cast<int64_t>(at_);
  if (name != "next" && name != "reset") return {};
  const bool next = name == "next";
  return closure(
      [self = shared_from_this(), next](Runtime&, const Arguments&) -> Value {
        const Items& all = self->items_.sequence().items;
        if (!next) {
          self->at_ = 0;
          return None();
        }
        const size_t at = self->at_;
        self->at_ = (at + 1) % all.size();
        return all[at];
      },
      depth() + 1);
}

Value Joiner::call(Runtime&, Arguments) {
  if (used_) return separator_;
  used_ = true;
  return Value::text("");
}

Value Loop::call(Runtime&, Arguments arguments) {
  if (!recurse_) fail("'loop' can be called only inside of {{% for ... recursive %}}");
  if (arguments.positional.size() != 1) fail("'loop' takes one argument");
  return recurse_(arguments.positional[0], level_ + 1);
}

Value Loop::neighbour(int64_t at, const char* which) const {
  const Items& items = items_.sequence().items;
  if (at < 0 || at >= length()) return Value::undefined(format("there is no {} item", which));
  return items[static_cast<size_t>(at)];
}

Value Loop::cycle(Arguments arguments) const {
  if (arguments.positional.empty()) fail("'loop.cycle' needs items");
  return arguments.positional[static_cast<size_t>(at_) % arguments.positional.size()];
}

Value Loop::changed(Runtime& runtime, Arguments arguments) {
  Items& now = arguments.positional;
  bool same = last_changed_.has_value() && last_changed_->size() == now.size();
  for (size_t i = 0; same && i < now.size(); ++i) same = runtime.equal((*last_changed_)[i], now[i]);
  if (same) return false;
  if (!std::exchange(kept_, true)) runtime.keep(shared_from_this());
  last_changed_ = std::move(now);
  return true;
}

Value Loop::attribute(Runtime&, std::string_view name) {
  if (name == "index") return at_ + 1;
  if (name == "index0") return at_;
  if (name == "revindex") return length() - at_;
  if (name == "revindex0") return length() - at_ - 1;
  if (name == "first") return at_ == 0;
  if (name == "last") return at_ + 1 >= length();
  if (name == "length") return length();
  if (name == "depth") return level_ + 1;
  if (name == "depth0") return level_;
  if (name == "previtem") return neighbour(at_ - 1, "previous");
  if (name == "nextitem") return neighbour(at_ + 1, "next");
  if (name == "cycle") {
    return closure([self = shared_from_this()](
                       Runtime&, Arguments arguments) { return self->cycle(std::move(arguments)); },
                   depth() + 1);
  }
  if (name == "changed") {
    return closure(
        [self = shared_from_this()](Runtime& runtime, Arguments arguments) {
          return self->changed(runtime, std::move(arguments));
        },
        depth() + 1);
  }
  return {};
}

}  // namespace tephra::jinja
