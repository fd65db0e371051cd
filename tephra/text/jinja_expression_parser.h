// SPDX-License-Identifier: Apache-2.0
// Expressions, in jinja2's order of precedence; the parser of statements builds on it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/text/jinja_ast.h"
#include "tephra/text/jinja_budget.h"
#include "tephra/text/jinja_lexer.h"

namespace tephra::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  enum class Ends { tag, in, recursive };  // what may follow a tuple without parentheses

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next();
  bool is_name(std::string_view name) const {
    return current().kind == TokenKind::name && current().text == name;
  }
  bool is_op(std::string_view op) const {
    return current().kind == TokenKind::op && current().text == op;
  }
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect(TokenKind kind);

  template <class... Args>
  [[noreturn]] void error(FormatString<Args...> message, const Args&... args) const {
    error_at(current().line, tephra::format<Args...>(message, args...));
  }
  [[noreturn]] static void error_at(int line, const std::string& what);
  std::string described() const;  // the current token, for messages

  ExprPtr expression();
  ExprPtr without_condition() { return either(); }
  ExprPtr tuple(bool with_condition, Ends ends = Ends::tag, bool parenthesized = false);
  ExprPtr filters_of(ExprPtr value, bool inline_start = false);
  Target assign_target(Ends ends);
  void check_target_name(const std::string& name, int line) const;

  // Names read so far, so that a macro knows whether it uses caller, kwargs or varargs.
  std::set<std::string> names_read;
  // Inside of a conditional an unknown filter or test only fails when it is reached.
  bool conditional = false;

 private:
  class Deeper;

  ExprPtr make(ExprKind kind, int line, ExprPtr a = nullptr, ExprPtr b = nullptr,
               ExprPtr c = nullptr);
  ExprPtr checked(ExprPtr made);
  ExprPtr either();
  ExprPtr both();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr literal();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr value);
  ExprPtr filters_and_tests(ExprPtr value);
  ExprPtr subscript(ExprPtr value);
  ExprPtr subscribed(ExprPtr value);
  ExprPtr call(ExprPtr value);
  ExprPtr filter(ExprPtr value);
  ExprPtr test(ExprPtr value);
  void arguments(Expr& call);
  void resolve(Expr& use, std::span<const Builtin> table, std::string_view what);
  bool tuple_ends(Ends ends) const;
  Target target_item();

  struct Unknown {
    int line;
    std::string what;
  };

  std::vector<Token> tokens_;
  std::vector<Unknown> unknown_;  // filters and tests of the tag being read that do not exist
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace tephra::jinja
