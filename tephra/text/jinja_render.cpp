// SPDX-License-Identifier: Apache-2.0
// Statements: text goes to the current buffer, names live in a chain of scopes. Loops, macros and
// blocks that capture text open a scope of their own; conditions do not.
#include "tephra/text/jinja_render.h"

#include <algorithm>

#include "tephra/text/jinja_evaluator.h"
#include "tephra/text/jinja_objects.h"

namespace tephra::jinja {
namespace {

enum class Flow { normal, leave, next };

class Renderer : public Evaluator {
 public:
  using Evaluator::Evaluator;

  Output render(const Block& body, Variables variables) {
    Output output;
    output_ = &output;
    buffer_ = &output.text;
    current_scope = std::make_shared<Scope>();
    current_scope->variables = std::move(variables);
    const Opened top(*this);
    block(body);
    return output;
  }

  ~Renderer() {
    for (const auto& object : kept_objects) object->release();
  }
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

 private:
  class Macro;

  // A scope inside of the current one, until the end of the block.
  class Opened {
   public:
    explicit Opened(Renderer& renderer) : renderer_(renderer), outer_(renderer.current_scope) {
      renderer.current_scope = std::make_shared<Scope>();
      renderer.current_scope->parent = outer_;
    }
    ~Opened() { renderer_.current_scope = std::move(outer_); }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;

   private:
    Renderer& renderer_;
    std::shared_ptr<Scope> outer_;
  };

  // Text goes to a string of its own, until the end of the block.
  class Captured {
   public:
    explicit Captured(Renderer& renderer) : renderer_(renderer), outer_(renderer.buffer_) {
      renderer.buffer_ = &text;
    }
    ~Captured() { renderer_.buffer_ = outer_; }
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;

    std::string text;

   private:
    Renderer& renderer_;
    std::string* outer_;
  };

  void write(std::string_view text) {
    budget.step(static_cast<int64_t>(text.size()) / 64);
    budget.output(static_cast<int64_t>(buffer_->size() + text.size()));
    *buffer_ += text;
  }

  Flow block(const Block& body) {
    const Deeper deeper(*this);
    for (const auto& statement : body) {
      if (const Flow flow = run(*statement); flow != Flow::normal) return flow;
    }
    return Flow::normal;
  }

  Flow run(const Stmt& s) {
    budget.step();
    current_line = s.line;
    switch (s.kind) {
      case StmtKind::text:
        write(s.text);
        break;
      case StmtKind::print:
        write(str(evaluate(*s.values[0])));
        break;
      case StmtKind::loop:
        return loop(s);
      case StmtKind::condition:
        return condition(s);
      case StmtKind::assign:
        assign(s.targets[0], evaluate(*s.values[0]));
        break;
      case StmtKind::assign_block:
        return assign_block(s);
      case StmtKind::with:
        return with(s);
      case StmtKind::macro:
        define_macro(s);
        break;
      case StmtKind::call_block:
        call_block(s);
        break;
      case StmtKind::filter_block:
        return filter_block(s);
      case StmtKind::generation:
        generation(s);
        break;
      case StmtKind::leave:
        return Flow::leave;
      case StmtKind::next:
        return Flow::next;
    }
    return Flow::normal;
  }

  Flow condition(const Stmt& s) {
    for (size_t i = 0; i < s.values.size(); ++i) {
      if (truthy(evaluate(*s.values[i]))) return block(s.branches[i]);
    }
    return block(s.otherwise);
  }

  void assign(const Target& target, const Value& value) {
    if (target.is_several) {
      const Items parts = items(value);
      if (parts.size() != target.several.size()) {
        fail("{} names are assigned {} values", target.several.size(), parts.size());
      }
      for (size_t i = 0; i < parts.size(); ++i) assign(target.several[i], parts[i]);
    } else if (target.attribute.empty()) {
      current_scope->set(target.name, value);
    } else {
      const Value holder = lookup(target.name);
      auto* space = holder.is_object() ? dynamic_cast<Namespace*>(&holder.object()) : nullptr;
      if (space == nullptr) {
        fail("cannot set '{}.{}': '{}' is {}, not a namespace()", target.name, target.attribute,
             target.name, holder.is_undefined() ? "undefined" : "a " + holder.type_name());
      }
      budget.bytes(int64_t{sizeof(Value)});
      space->set(target.attribute, value);
    }
  }

  Flow assign_block(const Stmt& s) {
    Captured captured(*this);
    {
      const Opened inner(*this);
      if (const Flow flow = block(s.body); flow != Flow::normal) return flow;
    }
    Value value = budget.text(std::move(captured.text));
    assign(s.targets[0], s.values[0] ? evaluate_filter(*s.values[0], &value) : value);
    return Flow::normal;
  }

  Flow filter_block(const Stmt& s) {
    std::string text;
    {
      Captured captured(*this);
      const Opened inner(*this);
      if (const Flow flow = block(s.body); flow != Flow::normal) return flow;
      text = std::move(captured.text);
    }
    const Value value = budget.text(std::move(text));
    write(str(evaluate_filter(*s.values[0], &value)));
    return Flow::normal;
  }

  Flow with(const Stmt& s) {
    Items values;
    for (const ExprPtr& value : s.values) values.push_back(evaluate(*value));
    const Opened inner(*this);
    for (size_t i = 0; i < values.size(); ++i) assign(s.targets[i], values[i]);
    return block(s.body);
  }

  void generation(const Stmt& s) {
    const bool direct = buffer_ == &output_->text;
    const size_t first = buffer_->size();
    const Opened inner(*this);
    block(s.body);
    if (direct) output_->generation.emplace_back(first, buffer_->size());
  }

  Flow loop(const Stmt& s) {
    const Value iterable = evaluate(*s.values[0]);
    if (!s.recursive) return go_through(s, iterable, 0);
    write(recursive_loop(s, iterable, 0).bytes());
    return Flow::normal;
  }

  Value recursive_loop(const Stmt& s, const Value& iterable, int64_t level) {
    const Deeper deeper(*this);
    Captured captured(*this);
    const std::shared_ptr<Scope> outer = current_scope;
    go_through(s, iterable, level);
    current_scope = outer;
    return budget.text(std::move(captured.text));
  }

  // The items that pass the loop's own condition.
  Items filtered(const Stmt& s, Items all) {
    if (!s.values[1]) return all;
    Items kept;
    for (Value& item : all) {
      const Opened inner(*this);
      assign(s.targets[0], item);
      if (truthy(evaluate(*s.values[1]))) kept.push_back(std::move(item));
    }
    return kept;
  }

  Flow go_through(const Stmt& s, const Value& iterable, int64_t level) {
    const Value items_value = budget.list(filtered(s, items(iterable)));
    const Items& all = items_value.sequence().items;
    Loop::Recurse recurse;
    if (s.recursive) {
      recurse = [this, &s, scope = current_scope](const Value& inner, int64_t depth) {
        const std::shared_ptr<Scope> calling = std::exchange(current_scope, scope);
        Value text = recursive_loop(s, inner, depth);
        current_scope = calling;
        return text;
      };
    }
    const auto state = std::make_shared<Loop>(items_value, level, std::move(recurse));
    bool finished_one = false;
    for (size_t i = 0; i < all.size(); ++i) {
      state->go_to(static_cast<int64_t>(i));
      const Opened inner(*this);
      current_scope->set("loop", std::shared_ptr<Object>(state));
      assign(s.targets[0], all[i]);
      const Flow flow = block(s.body);
      if (flow == Flow::leave) break;
      // jinja2 counts an iteration for `else` only when it reaches its end.
      if (flow == Flow::normal) finished_one = true;
    }
    if (finished_one || s.otherwise.empty()) return Flow::normal;
    const Opened inner(*this);
    return block(s.otherwise);
  }

  void define_macro(const Stmt& s);
  void call_block(const Stmt& s);
  Value macro_of(const Stmt& s);

  Output* output_ = nullptr;
  std::string* buffer_ = nullptr;
};

// A macro, or the body of a call block: it reads the names of the place where it is written.
class Renderer::Macro : public Object {
 public:
  Macro(Renderer& renderer, const Stmt& s, std::shared_ptr<Scope> scope)
      : renderer_(renderer), s_(s), home_(std::move(scope)) {}
  std::string type_name() const override { return "Macro"; }
  bool callable() const override { return true; }
  std::string printed(Runtime&) override { return "<Macro '" + s_.name + "'>"; }
  void release() override { home_.reset(); }
  Value attribute(Runtime&, std::string_view name) override {
    return name == "name" ? Value::text(s_.name) : Value();
  }

  Value call(Runtime&, Arguments arguments) override {
    Renderer& r = renderer_;
    const Deeper deeper(r);
    const int line = r.current_line;
    const std::shared_ptr<Scope> calling = std::exchange(r.current_scope, home_);
    const Restore restore{r, calling};
    Captured captured(r);
    const Opened inner(r);
    bind(std::move(arguments));
    r.block(s_.body);
    r.current_line = line;
    return r.budget.text(std::move(captured.text));
  }

 private:
  struct Restore {
    Renderer& renderer;
    std::shared_ptr<Scope> scope;
    ~Restore() { renderer.current_scope = scope; }
  };

  void bind(Arguments arguments) {
    const std::vector<Parameter>& parameters = s_.macro.parameters;
    Scope& scope = *renderer_.current_scope;
    auto& named = arguments.named;
    const size_t positional = std::min(arguments.positional.size(), parameters.size());
    std::vector<bool> missing(parameters.size(), false);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].name;
      const auto at = std::find_if(named.begin(), named.end(),
                                   [&](const auto& pair) { return pair.first == name; });
      if (i < positional) {
        scope.set(name, arguments.positional[i]);
      } else if (at != named.end()) {
        scope.set(name, at->second);
        named.erase(at);
      } else {
        missing[i] = true;
      }
    }
    special_arguments(arguments);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!missing[i]) continue;
      const Parameter& parameter = parameters[i];
      scope.set(parameter.name,
                parameter.fallback
                    ? renderer_.evaluate(*parameter.fallback)
                    : Value::undefined(format("the parameter '{}' was not given", parameter.name)));
    }
  }

  void special_arguments(Arguments& arguments) {
    const MacroShape& macro = s_.macro;
    Scope& scope = *renderer_.current_scope;
    auto& named = arguments.named;
    if (macro.takes_caller) {
      const auto at = std::find_if(named.begin(), named.end(),
                                   [](const auto& pair) { return pair.first == "caller"; });
      Value caller = Value::undefined("the macro was not called by a call block: no caller");
      if (at != named.end()) {
        caller = at->second;
        named.erase(at);
      }
      scope.set("caller", std::move(caller));
    }
    if (macro.takes_kwargs) {
      Pairs pairs;
      for (auto& [name, value] : named) pairs.emplace_back(Value::text(name), std::move(value));
      scope.set("kwargs", renderer_.budget.dict(std::move(pairs)));
    } else if (!named.empty()) {
      fail("the macro '{}' has no parameter named '{}'", s_.name, named[0].first);
    }
    const size_t known = macro.parameters.size();
    if (macro.takes_varargs) {
      const size_t from = std::min(known, arguments.positional.size());
      scope.set("varargs", renderer_.budget.tuple(Items(
                               arguments.positional.begin() + static_cast<std::ptrdiff_t>(from),
                               arguments.positional.end())));
    } else if (arguments.positional.size() > known) {
      fail("the macro '{}' takes at most {} arguments, got {}", s_.name, known,
           arguments.positional.size());
    }
  }

  Renderer& renderer_;
  const Stmt& s_;
  std::shared_ptr<Scope> home_;  // where it is written
};

Value Renderer::macro_of(const Stmt& s) {
  auto made = std::make_shared<Macro>(*this, s, current_scope);
  budget.bytes(256);
  keep(made);  // a macro in a scope that the macro reads is a cycle
  return std::shared_ptr<Object>(std::move(made));
}

void Renderer::define_macro(const Stmt& s) { current_scope->set(s.name, macro_of(s)); }

void Renderer::call_block(const Stmt& s) {
  const Value caller = macro_of(s);
  write(str(evaluate_call(*s.values[0], &caller)));
}

}  // namespace

Output run_template(const Block& body, Variables variables, const RunOptions& options) {
  Renderer renderer(options.limits, options.clock);
  try {
    return renderer.render(body, std::move(variables));
  } catch (const Failure& failure) {
    throw Failure(format("line {}: {}", renderer.line(), failure.what()), failure.raised());
  }
}

}  // namespace tephra::jinja
