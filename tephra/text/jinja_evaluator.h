// SPDX-License-Identifier: Apache-2.0
// Evaluates expressions in a chain of scopes; the renderer of statements builds on it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tephra/text/jinja_ast.h"
#include "tephra/text/jinja_runtime.h"

namespace tephra::jinja {

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;

  void set(const std::string& name, Value value);
};

class Evaluator : public Runtime {
 public:
  using Runtime::Runtime;

  Value evaluate(const Expr& e);
  int line() const { return current_line; }

 protected:
  // Counts nested work; the limit is far below what the stack holds.
  class Deeper {
   public:
    explicit Deeper(Evaluator& evaluator) : evaluator_(evaluator) {
      if (++evaluator_.depth_ > kMaxRunDepth) fail("macros or values nest too deep");
    }
    ~Deeper() { --evaluator_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Evaluator& evaluator_;
  };

  Value lookup(const std::string& name);
  // `input`: what a filter block or a block assignment feeds into the first filter of the chain.
  Value evaluate_filter(const Expr& e, const Value* input);
  Value evaluate_call(const Expr& e, const Value* caller);

  std::shared_ptr<Scope> current_scope;
  int current_line = 1;

 private:
  Arguments arguments_of(const Expr& e);
  Value evaluate_test(const Expr& e);
  Value evaluate_comparison(const Expr& e);
  bool compares(std::string_view op, const Value& a, const Value& b);
  Value evaluate_slice(const Expr& e);
  Value evaluate_parts(const Expr& e);
  Value evaluate_concat(const Expr& e);
  Value evaluate_dict(const Expr& e);
  Value evaluate_condition(const Expr& e);

  int depth_ = 0;
};

}  // namespace tephra::jinja
