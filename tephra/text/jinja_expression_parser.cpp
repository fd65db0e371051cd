// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_expression_parser.h"

#include <algorithm>

#include "tephra/base/text.h"

namespace tephra::jinja {
namespace {

// Syntax may nest so deep, no deeper: neither parsing, running nor freeing may end the stack.
constexpr int kMaxNesting = 120;

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> choices) {
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

}  // namespace

class ExpressionParser::Deeper {
 public:
  explicit Deeper(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxNesting) {
      parser_.error("the expression nests deeper than {} levels", kMaxNesting);
    }
  }
  ~Deeper() { --parser_.nesting_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  ExpressionParser& parser_;
};

Token ExpressionParser::next() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!skip_op(op)) error("expected '{}', got {}", op, described());
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) error("expected '{}', got {}", name, described());
}

std::string ExpressionParser::expect_any_name() {
  if (current().kind != TokenKind::name) error("expected a name, got {}", described());
  return next().text;
}

void ExpressionParser::expect(TokenKind kind) {
  if (current().kind != kind) {
    error("expected {}, got {}", kind == TokenKind::block_end ? "the tag's end '%}'" : "'}}'",
          described());
  }
  if (!unknown_.empty()) error_at(unknown_[0].line, unknown_[0].what);
  next();
}

void ExpressionParser::error_at(int line, const std::string& what) {
  fail("line {}: {}", line, what);
}

std::string ExpressionParser::described() const {
  switch (current().kind) {
    case TokenKind::data:
      return "text";
    case TokenKind::variable_begin:
      return "'{{'";
    case TokenKind::variable_end:
      return "'}}'";
    case TokenKind::block_begin:
      return "'{%'";
    case TokenKind::block_end:
      return "the tag's end '%}'";
    case TokenKind::string:
      return "a string";
    case TokenKind::integer:
      return "an integer";
    case TokenKind::real:
      return "a number";
    case TokenKind::end:
      return "the end of the template";
    default:
      return "'" + clipped(current().text, 60) + "'";
  }
}

ExprPtr ExpressionParser::checked(ExprPtr made) {
  int depth = 0;
  const auto look = [&](const ExprPtr& part) {
    if (part) depth = std::max(depth, part->depth);
  };
  for (const ExprPtr& part : made->parts) look(part);
  for (const ExprPtr& part : made->arguments) look(part);
  for (const auto& [name, part] : made->keywords) look(part);
  look(made->star);
  look(made->star_star);
  made->depth = depth + 1;
  if (made->depth > kMaxSyntaxDepth) {
    error("the expression has more than {} operations in a row", kMaxSyntaxDepth);
  }
  return made;
}

ExprPtr ExpressionParser::make(ExprKind kind, int line, ExprPtr a, ExprPtr b, ExprPtr c) {
  auto made = std::make_unique<Expr>(Expr{.kind = kind, .line = line});
  if (a) made->parts.push_back(std::move(a));
  if (b) made->parts.push_back(std::move(b));
  if (c) made->parts.push_back(std::move(c));
  return checked(std::move(made));
}

ExprPtr ExpressionParser::expression() {
  const Deeper deeper(*this);
  const size_t unknown = unknown_.size();
  ExprPtr value = either();
  while (is_name("if")) {
    const int line = next().line;
    unknown_.resize(unknown);  // the value turns out to be conditional
    const bool outer = std::exchange(conditional, true);
    ExprPtr condition = either();
    ExprPtr otherwise = skip_name("else") ? expression() : nullptr;
    conditional = outer;
    value = make(ExprKind::condition, line, std::move(value), std::move(condition),
                 std::move(otherwise));
  }
  return value;
}

ExprPtr ExpressionParser::either() {
  ExprPtr left = both();
  while (is_name("or")) {
    const int line = next().line;
    left = make(ExprKind::any, line, std::move(left), both());
  }
  return left;
}

ExprPtr ExpressionParser::both() {
  ExprPtr left = negation();
  while (is_name("and")) {
    const int line = next().line;
    left = make(ExprKind::all, line, std::move(left), negation());
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!is_name("not")) return comparison();
  const Deeper deeper(*this);
  const int line = next().line;
  return make(ExprKind::negation, line, negation());
}

ExprPtr ExpressionParser::comparison() {
  ExprPtr left = sum();
  auto made = std::make_unique<Expr>(Expr{.kind = ExprKind::compare, .line = current().line});
  while (true) {
    if (current().kind == TokenKind::op &&
        is_one_of(current().text, {"==", "!=", "<", "<=", ">", ">="})) {
      made->names.push_back(next().text);
    } else if (skip_name("in")) {
      made->names.emplace_back("in");
    } else if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      next();
      next();
      made->names.emplace_back("not in");
    } else {
      break;
    }
    if (made->parts.empty()) made->parts.push_back(std::move(left));
    made->parts.push_back(sum());
  }
  return made->names.empty() ? std::move(left) : checked(std::move(made));
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concatenation();
  while (is_op("+") || is_op("-")) {
    const Token op = next();
    left = make(ExprKind::binary, op.line, std::move(left), concatenation());
    left->name = op.text;
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  ExprPtr first = product();
  if (!is_op("~")) return first;
  ExprPtr made = make(ExprKind::concat, current().line, std::move(first));
  while (skip_op("~")) made->parts.push_back(product());
  return checked(std::move(made));
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const Token op = next();
    left = make(ExprKind::binary, op.line, std::move(left), power());
    left->name = op.text;
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary(true);
  while (is_op("**")) {
    const Token op = next();
    left = make(ExprKind::binary, op.line, std::move(left), unary(true));
    left->name = op.text;
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  const Deeper deeper(*this);
  ExprPtr value;
  if (is_op("-") || is_op("+")) {
    const Token op = next();
    value = make(op.text == "-" ? ExprKind::negate : ExprKind::plus, op.line, unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters_and_tests(std::move(value)) : std::move(value);
}

ExprPtr ExpressionParser::primary() {
  const int line = current().line;
  if (current().kind == TokenKind::name) {
    const std::string name = next().text;
    ExprPtr made = make(ExprKind::constant, line);
    if (is_one_of(name, {"true", "True"})) {
      made->constant = true;
    } else if (is_one_of(name, {"false", "False"})) {
      made->constant = false;
    } else if (is_one_of(name, {"none", "None"})) {
      made->constant = None();
    } else {
      made->kind = ExprKind::name;
      made->name = name;
      names_read.insert(name);
    }
    return made;
  }
  if (skip_op("(")) {
    ExprPtr inner = tuple(true, Ends::tag, true);
    expect_op(")");
    return inner;
  }
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  return literal();
}

ExprPtr ExpressionParser::literal() {
  const TokenKind kind = current().kind;
  if (kind != TokenKind::string && kind != TokenKind::integer && kind != TokenKind::real) {
    error("expected an expression, got {}", described());
  }
  ExprPtr made = make(ExprKind::constant, current().line);
  made->constant = current().value;
  std::string text = next().text;
  while (kind == TokenKind::string && current().kind == TokenKind::string) {
    text += next().text;  // strings side by side are one
    made->constant = Value::text(text);
  }
  return made;
}

ExprPtr ExpressionParser::list() {
  ExprPtr made = make(ExprKind::list, next().line);
  while (!is_op("]")) {
    if (!made->parts.empty()) expect_op(",");
    if (is_op("]")) break;
    made->parts.push_back(expression());
  }
  expect_op("]");
  return checked(std::move(made));
}

ExprPtr ExpressionParser::dict() {
  ExprPtr made = make(ExprKind::dict, next().line);
  while (!is_op("}")) {
    if (!made->parts.empty()) expect_op(",");
    if (is_op("}")) break;
    made->parts.push_back(expression());
    expect_op(":");
    made->parts.push_back(expression());
  }
  expect_op("}");
  return checked(std::move(made));
}

bool ExpressionParser::tuple_ends(Ends ends) const {
  if (current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
      current().kind == TokenKind::end || is_op(")")) {
    return true;
  }
  return (ends == Ends::in && is_name("in")) || (ends == Ends::recursive && is_name("recursive"));
}

ExprPtr ExpressionParser::tuple(bool with_condition, Ends ends, bool parenthesized) {
  const int line = current().line;
  std::vector<ExprPtr> parts;
  bool is_tuple = false;
  while (true) {
    if (!parts.empty()) expect_op(",");
    if (tuple_ends(ends)) break;
    parts.push_back(with_condition ? expression() : without_condition());
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!parts.empty()) return std::move(parts[0]);
    if (!parenthesized) error("expected an expression, got {}", described());
  }
  ExprPtr made = make(ExprKind::tuple, line);
  made->parts = std::move(parts);
  return checked(std::move(made));
}

ExprPtr ExpressionParser::postfix(ExprPtr value) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      value = subscript(std::move(value));
    } else if (is_op("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr value) {
  while (true) {
    if (is_op("|")) {
      next();
      value = filter(std::move(value));
    } else if (is_name("is")) {
      value = test(std::move(value));
    } else if (is_op("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr value) {
  const Token op = next();
  if (op.text == ".") {
    const Token name = next();
    if (name.kind == TokenKind::name) {
      ExprPtr made = make(ExprKind::attribute, name.line, std::move(value));
      made->name = name.text;
      return made;
    }
    if (name.kind != TokenKind::integer) error_at(name.line, "expected a name or number after '.'");
    ExprPtr index = make(ExprKind::constant, name.line);
    index->constant = name.value;
    return make(ExprKind::subscript, name.line, std::move(value), std::move(index));
  }
  ExprPtr made = subscribed(std::move(value));
  if (is_op(",")) error("several indices in [] are not supported");
  expect_op("]");
  return made;
}

ExprPtr ExpressionParser::subscribed(ExprPtr value) {
  const int line = current().line;
  ExprPtr bounds[3];
  if (!is_op(":")) {
    bounds[0] = expression();
    if (!is_op(":")) {
      return make(ExprKind::subscript, line, std::move(value), std::move(bounds[0]));
    }
  }
  for (int i = 1; i < 3 && skip_op(":"); ++i) {
    if (!is_op(":") && !is_op("]") && !is_op(",")) bounds[i] = expression();
  }
  ExprPtr made = make(ExprKind::slice, line, std::move(value));
  for (ExprPtr& bound : bounds) made->parts.push_back(std::move(bound));
  return checked(std::move(made));
}

void ExpressionParser::arguments(Expr& call) {
  const int line = current().line;
  const auto ensure = [&](bool ok) {
    if (!ok) error_at(line, "positional arguments come first, then names, then *, then **");
  };
  expect_op("(");
  bool first = true;
  while (!is_op(")")) {
    if (!first) expect_op(",");
    if (!first && is_op(")")) break;
    first = false;
    if (skip_op("*")) {
      ensure(!call.star && !call.star_star);
      call.star = expression();
    } else if (skip_op("**")) {
      ensure(!call.star_star);
      call.star_star = expression();
    } else if (current().kind == TokenKind::name && ahead().kind == TokenKind::op &&
               ahead().text == "=") {
      ensure(!call.star_star);
      const std::string name = next().text;
      next();
      for (const auto& [other, given] : call.keywords) {
        if (other == name) error("the argument '{}' is given twice", name);
      }
      call.keywords.emplace_back(name, expression());
    } else {
      ensure(!call.star && !call.star_star && call.keywords.empty());
      call.arguments.push_back(expression());
    }
  }
  expect_op(")");
}

ExprPtr ExpressionParser::call(ExprPtr value) {
  ExprPtr made = make(ExprKind::call, current().line, std::move(value));
  arguments(*made);
  return checked(std::move(made));
}

void ExpressionParser::resolve(Expr& use, std::span<const Builtin> table, std::string_view what) {
  use.builtin = find_builtin(table, use.name);
  if (use.builtin == nullptr && !conditional) {
    unknown_.push_back(
        {use.line, format("there is no {} '{}'{}", what, use.name, suggestion(use.name, table))});
  }
}

ExprPtr ExpressionParser::filter(ExprPtr value) {
  ExprPtr made = make(ExprKind::filter, current().line);
  made->parts.push_back(std::move(value));
  made->name = expect_any_name();
  while (skip_op(".")) made->name += "." + expect_any_name();
  if (is_op("(")) arguments(*made);
  resolve(*made, filters(), "filter");
  return checked(std::move(made));
}

ExprPtr ExpressionParser::filters_of(ExprPtr value, bool inline_start) {
  if (inline_start) value = filter(std::move(value));
  while (skip_op("|")) value = filter(std::move(value));
  return value;
}

ExprPtr ExpressionParser::test(ExprPtr value) {
  const int line = next().line;
  const bool negated = skip_name("not");
  ExprPtr made = make(ExprKind::test, line, std::move(value));
  made->name = expect_any_name();
  while (skip_op(".")) made->name += "." + expect_any_name();
  const TokenKind kind = current().kind;
  const bool starts_value = kind == TokenKind::name || kind == TokenKind::string ||
                            kind == TokenKind::integer || kind == TokenKind::real || is_op("[") ||
                            is_op("{");
  if (is_op("(")) {
    arguments(*made);
  } else if (starts_value && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) error("tests with 'is' cannot be chained");
    made->arguments.push_back(postfix(primary()));
  }
  resolve(*made, tests(), "test");
  made = checked(std::move(made));
  return negated ? make(ExprKind::negation, line, std::move(made)) : std::move(made);
}

void ExpressionParser::check_target_name(const std::string& name, int line) const {
  if (is_one_of(name, {"true", "True", "false", "False", "none", "None"})) {
    error_at(line, format("cannot assign to '{}'", name));
  }
}

Target ExpressionParser::target_item() {
  const Deeper deeper(*this);
  if (skip_op("(")) {
    Target inner = assign_target(Ends::tag);
    expect_op(")");
    return inner;
  }
  const int line = current().line;
  Target target;
  target.name = expect_any_name();
  check_target_name(target.name, line);
  return target;
}

Target ExpressionParser::assign_target(Ends ends) {
  if (tuple_ends(ends)) error("expected a name to assign to, got {}", described());
  Target first = target_item();
  if (!is_op(",")) return first;
  Target several;
  several.is_several = true;
  several.several.push_back(std::move(first));
  while (skip_op(",")) {
    if (tuple_ends(ends)) break;
    several.several.push_back(target_item());
  }
  return several;
}

}  // namespace tephra::jinja
