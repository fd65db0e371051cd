// SPDX-License-Identifier: Apache-2.0
// Objects that templates make: namespaces, cyclers, joiners, loops; macros are in the renderer.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "tephra/text/jinja_runtime.h"

namespace tephra::jinja {

// The one thing a template can change.
class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  Value attribute(Runtime&, std::string_view name) override;
  std::string printed(Runtime& runtime) override;
  void set(const std::string& name, Value value);
  void release() override { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

class Function : public Object {
 public:
  explicit Function(const Builtin& builtin) : builtin_(builtin) {}
  std::string type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return run_builtin(runtime, builtin_, Value(), std::move(arguments));
  }

 private:
  const Builtin& builtin_;
};

// A callable made of a closure, for the methods of the objects here.
class Closure : public Object {
 public:
  using Body = std::function<Value(Runtime&, Arguments)>;
  Closure(Body body, int depth) : body_(std::move(body)), depth_(depth) {}
  std::string type_name() const override { return "method"; }
  bool callable() const override { return true; }
  int depth() const override { return depth_; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return body_(runtime, std::move(arguments));
  }

 private:
  Body body_;
  int depth_;
};

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}
  std::string type_name() const override { return "Cycler"; }
  int depth() const override { return items_.depth() + 1; }
  Value attribute(Runtime& runtime, std::string_view name) override;

 private:
  Value items_;
  size_t at_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  int depth() const override { return separator_.depth() + 1; }
  Value call(Runtime& runtime, Arguments arguments) override;

 private:
  Value separator_;
  bool used_ = false;
};

// The variable `loop`.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  using Recurse = std::function<Value(const Value& iterable, int64_t depth)>;

  Loop(Value items, int64_t level, Recurse recurse)
      : items_(std::move(items)), level_(level), recurse_(std::move(recurse)) {}
  std::string type_name() const override { return "LoopContext"; }
  int depth() const override { return items_.depth() + 1; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Arguments arguments) override;
  Value attribute(Runtime& runtime, std::string_view name) override;
  std::string printed(Runtime&) override {
    return format("<LoopContext {}/{}>", at_ + 1, length());
  }

  void go_to(int64_t at) { at_ = at; }
  void release() override { last_changed_.reset(); }

 private:
  int64_t length() const { return static_cast<int64_t>(items_.sequence().items.size()); }
  Value neighbour(int64_t at, const char* which) const;
  Value cycle(Arguments arguments) const;
  Value changed(Runtime& runtime, Arguments arguments);

  Value items_;
  int64_t level_;
  Recurse recurse_;
  int64_t at_ = 0;
  std::optional<Items> last_changed_;
  bool kept_ = false;
};

}  // namespace tephra::jinja
