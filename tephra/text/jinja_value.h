// SPDX-License-Identifier: Apache-2.0
// Values of the template language, as Python has them: None, bool, int (64 bits here), float, str,
// sequences, dict, and objects with identity. Containers never change once made, so values are
// shared, not copied, and a template cannot build a cycle out of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tephra::jinja {

class Value;
class Object;
struct Dict;
struct Sequence;

using Items = std::vector<Value>;
using Pairs = std::vector<std::pair<Value, Value>>;

struct Text {
  std::string bytes;  // UTF-8
  bool markup;        // marked safe: adding plain text to it escapes that text
};

struct None {};
struct Undefined {
  std::shared_ptr<const std::string> why;  // what an error would say
};

class Value {
 public:
  Value() = default;                                                         // undefined
  Value(None) : data_(None()) {}                                             // NOLINT
  Value(bool value) : data_(value) {}                                        // NOLINT
  Value(int64_t value) : data_(value) {}                                     // NOLINT
  Value(double value) : data_(value) {}                                      // NOLINT
  Value(std::shared_ptr<const Text> value) : data_(std::move(value)) {}      // NOLINT
  Value(std::shared_ptr<const Sequence> value) : data_(std::move(value)) {}  // NOLINT
  Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}      // NOLINT
  Value(std::shared_ptr<Object> value) : data_(std::move(value)) {}          // NOLINT
  static Value undefined(std::string why);
  static Value text(std::string_view bytes);  // not counted in any budget: names and literals

  bool is_undefined() const { return holds<Undefined>(); }
  bool is_none() const { return holds<None>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_int() const { return holds<int64_t>(); }  // without bool
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_float() const { return holds<double>(); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_text() const { return holds<std::shared_ptr<const Text>>(); }
  bool is_sequence() const { return holds<std::shared_ptr<const Sequence>>(); }
  bool is_dict() const { return holds<std::shared_ptr<const Dict>>(); }
  bool is_object() const { return holds<std::shared_ptr<Object>>(); }

  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const;  // of an int or a bool
  double number() const;    // of any number
  const Text& text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
  const std::string& bytes() const { return text().bytes; }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Object& object() const { return *std::get<std::shared_ptr<Object>>(data_); }
  std::string why_undefined() const;

  bool same_as(const Value& other) const;  // Python's `is`
  int depth() const;                       // levels of containers
  std::string type_name() const;           // "str", "dict", ... for messages

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(data_);
  }
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>,
               std::shared_ptr<Object>>
      data_;
};

enum class Flavour { list, tuple, range, keys, values, items };

struct Sequence {
  Flavour flavour = Flavour::list;
  Items items;
  int depth = 1;
  int64_t range_start = 0, range_stop = 0, range_step = 1;  // of a range: how it prints
};

struct Dict {
  Pairs pairs;  // in the order of insertion
  int depth = 1;
};

struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime;

// A value with identity: a namespace, macro, method, loop, cycler, generator.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual Value attribute(Runtime&, std::string_view) { return {}; }  // undefined when absent
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, Arguments arguments);
  virtual std::string printed(Runtime& runtime);  // fails unless the type has one
  virtual int depth() const { return 1; }
  virtual void release() {}  // lets go of what it holds, in the end, where there may be cycles
};

// What is left of a lazy sequence (map, select, ...): it can be gone through once.
class Generator : public Object {
 public:
  explicit Generator(std::shared_ptr<const Sequence> items) : items_(std::move(items)) {}
  std::string type_name() const override { return "generator"; }
  int depth() const override { return items_->depth + 1; }
  const Value* next() { return at_ < items_->items.size() ? &items_->items[at_++] : nullptr; }

 private:
  std::shared_ptr<const Sequence> items_;
  size_t at_ = 0;
};

bool truthy(const Value& value);

}  // namespace tephra::jinja
