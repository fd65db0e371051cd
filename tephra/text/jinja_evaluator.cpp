// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_evaluator.h"

#include "tephra/base/text.h"
#include "tephra/text/jinja_objects.h"

namespace tephra::jinja {

void Scope::set(const std::string& name, Value value) {
  for (auto& [known, old] : variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Value Evaluator::lookup(const std::string& name) {
  for (const Scope* scope = current_scope.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return value;
    }
  }
  if (const Builtin* function = find_builtin(functions(), name)) {
    return std::shared_ptr<Object>(std::make_shared<Function>(*function));
  }
  return Value::undefined(format("'{}' is undefined", name));
}

Value Evaluator::evaluate(const Expr& e) {
  const Deeper deeper(*this);
  budget.step();
  current_line = e.line;
  switch (e.kind) {
    case ExprKind::constant:
      return e.constant;
    case ExprKind::name:
      return lookup(e.name);
    case ExprKind::list:
    case ExprKind::tuple:
      return evaluate_parts(e);
    case ExprKind::dict:
      return evaluate_dict(e);
    case ExprKind::attribute:
      return attribute(evaluate(*e.parts[0]), e.name);
    case ExprKind::subscript: {
      const Value value = evaluate(*e.parts[0]);
      return item(value, evaluate(*e.parts[1]));
    }
    case ExprKind::slice:
      return evaluate_slice(e);
    case ExprKind::call:
      return evaluate_call(e, nullptr);
    case ExprKind::filter:
      return evaluate_filter(e, nullptr);
    case ExprKind::test:
      return evaluate_test(e);
    case ExprKind::negate:
      return negated(evaluate(*e.parts[0]));
    case ExprKind::plus: {
      const Value value = evaluate(*e.parts[0]);
      if (value.is_undefined()) fail("{}", value.why_undefined());
      if (!value.is_number()) fail("'+' is not defined for a {}", value.type_name());
      return value.is_bool() ? Value(value.integer()) : value;
    }
    case ExprKind::binary: {
      const Value left = evaluate(*e.parts[0]), right = evaluate(*e.parts[1]);
      current_line = e.line;
      return binary(e.name, left, right);
    }
    case ExprKind::concat:
      return evaluate_concat(e);
    case ExprKind::compare:
      return evaluate_comparison(e);
    case ExprKind::all: {
      Value left = evaluate(*e.parts[0]);
      return truthy(left) ? evaluate(*e.parts[1]) : left;
    }
    case ExprKind::any: {
      Value left = evaluate(*e.parts[0]);
      return truthy(left) ? left : evaluate(*e.parts[1]);
    }
    case ExprKind::negation:
      return !truthy(evaluate(*e.parts[0]));
    case ExprKind::condition:
      return evaluate_condition(e);
  }
  return {};
}

Value Evaluator::evaluate_condition(const Expr& e) {
  if (truthy(evaluate(*e.parts[1]))) return evaluate(*e.parts[0]);
  if (e.parts.size() > 2) return evaluate(*e.parts[2]);
  return Value::undefined("an inline 'if' without 'else' was false, so there is no value");
}

Value Evaluator::evaluate_parts(const Expr& e) {
  Items items;
  for (const ExprPtr& part : e.parts) items.push_back(evaluate(*part));
  return budget.list(std::move(items), e.kind == ExprKind::tuple ? Flavour::tuple : Flavour::list);
}

Value Evaluator::evaluate_dict(const Expr& e) {
  Pairs pairs;
  for (size_t i = 0; i < e.parts.size(); i += 2) {
    Value key = evaluate(*e.parts[i]);
    pairs.emplace_back(std::move(key), evaluate(*e.parts[i + 1]));
  }
  return dict_of(pairs);
}

Value Evaluator::evaluate_concat(const Expr& e) {
  std::string text;
  for (const ExprPtr& part : e.parts) {
    text += str(evaluate(*part));
    budget.output(static_cast<int64_t>(text.size()));
  }
  return budget.text(std::move(text));
}

Value Evaluator::evaluate_slice(const Expr& e) {
  const Value value = evaluate(*e.parts[0]);
  Value bounds[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (!e.parts[i + 1]) continue;
    bounds[i] = evaluate(*e.parts[i + 1]);
    given[i] = &bounds[i];
  }
  return slice(value, given[0], given[1], given[2]);
}

bool Evaluator::compares(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return equal(a, b);
  if (op == "!=") return !equal(a, b);
  if (op == "in") return contains(b, a);
  if (op == "not in") return !contains(b, a);
  const int order = compare(a, b, op);
  if (op == "<") return order == -1;
  if (op == "<=") return order == -1 || order == 0;
  if (op == ">") return order == 1;
  return order == 1 || order == 0;
}

Value Evaluator::evaluate_comparison(const Expr& e) {
  Value left = evaluate(*e.parts[0]);
  for (size_t i = 0; i < e.names.size(); ++i) {
    Value right = evaluate(*e.parts[i + 1]);
    current_line = e.line;
    if (!compares(e.names[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Evaluator::arguments_of(const Expr& e) {
  Arguments out;
  for (const ExprPtr& part : e.arguments) out.positional.push_back(evaluate(*part));
  if (e.star) {
    for (Value& value : items(evaluate(*e.star))) out.positional.push_back(std::move(value));
  }
  for (const auto& [name, part] : e.keywords) out.named.emplace_back(name, evaluate(*part));
  if (e.star_star) {
    const Value more = evaluate(*e.star_star);
    if (!more.is_dict()) fail("what follows '**' must be a mapping, got {}", more.type_name());
    for (const auto& [name, value] : more.dict().pairs) {
      if (!name.is_text()) fail("what follows '**' must have strings as keys");
      for (const auto& [other, given] : out.named) {
        if (other == name.bytes()) fail("the argument '{}' is given twice", other);
      }
      out.named.emplace_back(name.bytes(), value);
    }
  }
  budget.bytes(static_cast<int64_t>(out.positional.size() * sizeof(Value)));
  return out;
}

Value Evaluator::evaluate_call(const Expr& e, const Value* caller) {
  const Value callee = evaluate(*e.parts[0]);
  Arguments arguments = arguments_of(e);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  current_line = e.line;
  return call(callee, std::move(arguments));
}

Value Evaluator::evaluate_filter(const Expr& e, const Value* input) {
  const Deeper deeper(*this);
  Value value;
  if (input != nullptr && e.parts[0]) {
    value = evaluate_filter(*e.parts[0], input);
  } else {
    value = e.parts[0] ? evaluate(*e.parts[0]) : *input;
  }
  Arguments arguments = arguments_of(e);
  current_line = e.line;
  if (e.builtin == nullptr) return call_filter(e.name, value, std::move(arguments));
  return run_builtin(*this, *e.builtin, value, std::move(arguments));
}

Value Evaluator::evaluate_test(const Expr& e) {
  const Value value = evaluate(*e.parts[0]);
  Arguments arguments = arguments_of(e);
  current_line = e.line;
  if (e.builtin == nullptr) return call_test(e.name, value, std::move(arguments));
  return truthy(run_builtin(*this, *e.builtin, value, std::move(arguments)));
}

}  // namespace tephra::jinja
