// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_parser.h"

#include <algorithm>
#include <functional>

#include "tephra/base/text.h"
#include "tephra/text/jinja_expression_parser.h"

namespace tephra::jinja {
namespace {

using Words = std::vector<std::string>;

constexpr int kMaxBlocks = 60;  // blocks in blocks

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block whole() { return statements_until({}); }

 private:
  using Rule = std::unique_ptr<Stmt> (Parser::*)();
  struct Tag {
    const char* name;
    Rule rule;
  };
  static const std::vector<Tag>& tags();

  std::unique_ptr<Stmt> make(StmtKind kind) const {
    return std::make_unique<Stmt>(Stmt{.kind = kind, .line = current().line});
  }

  // Statements up to a tag that starts with one of `ends`, of which the name is not yet taken.
  Block statements_until(const Words& ends) {
    if (++open_ > kMaxBlocks) error("blocks nest deeper than {} levels", kMaxBlocks);
    const int opened = current().line;
    Block body;
    while (current().kind != TokenKind::end) {
      const TokenKind kind = current().kind;
      if (kind == TokenKind::data) {
        auto text = make(StmtKind::text);
        text->text = next().text;
        body.push_back(std::move(text));
      } else if (kind == TokenKind::variable_begin) {
        next();
        auto print = make(StmtKind::print);
        print->values.push_back(tuple(true));
        expect(TokenKind::variable_end);
        body.push_back(std::move(print));
      } else {
        expect_begin();
        if (current().kind == TokenKind::name &&
            std::find(ends.begin(), ends.end(), current().text) != ends.end()) {
          --open_;
          return body;
        }
        statement(body, ends);
      }
    }
    --open_;
    if (!ends.empty()) {
      error_at(opened, format("the block that starts here has no {{% {} %}}", ends.back()));
    }
    return body;
  }

  void expect_begin() {
    if (current().kind != TokenKind::block_begin) error("unexpected {}", described());
    next();
  }

  void statement(Block& body, const Words& ends) {
    if (current().kind != TokenKind::name) error("expected a tag's name, got {}", described());
    const std::string name = current().text;
    Words known;
    for (const Tag& tag : tags()) {
      if (name == tag.name) {
        if (auto made = (this->*tag.rule)()) body.push_back(std::move(made));
        for (auto& more : std::exchange(prints_, {})) body.push_back(std::move(more));
        expect(TokenKind::block_end);
        return;
      }
      known.emplace_back(tag.name);
    }
    for (const char* refused : {"extends", "include", "import", "from", "block", "autoescape"}) {
      if (name == refused) {
        error("the tag '{}' is not supported: a chat template is one file without escaping", name);
      }
    }
    known.insert(known.end(), ends.begin(), ends.end());
    const auto near = nearest(name, known);
    if (!ends.empty() && name.starts_with("end")) {
      error("unexpected tag '{}'; the innermost open block ends with '{}'", name, ends.back());
    }
    error("there is no tag '{}'{}", clipped(name, 60),
          near ? format("; did you mean '{}'?", *near) : std::string());
  }

  // The body of a block: behind the opening tag, up to and with the name of the closing one.
  Block body_until(const char* end) {
    Block body = body_up_to({end});
    next();
    return body;
  }

  Block body_up_to(const Words& ends) {
    skip_op(":");
    expect(TokenKind::block_end);
    return statements_until(ends);
  }

  // Bodies with variables of their own check their filters at once again, as jinja2 does.
  Block own_body_until(const char* end) {
    const bool outer = std::exchange(conditional, false);
    Block body = body_until(end);
    conditional = outer;
    return body;
  }

  std::unique_ptr<Stmt> parse_for() {
    auto made = make(StmtKind::loop);
    next();
    made->targets.push_back(assign_target(Ends::in));
    check_no_loop(made->targets[0], made->line);
    expect_name("in");
    made->values.push_back(tuple(false, Ends::recursive));
    made->values.push_back(skip_name("if") ? expression() : nullptr);
    made->recursive = skip_name("recursive");
    const bool outer = std::exchange(conditional, false);
    ++loops_;
    made->body = body_up_to({"else", "endfor"});
    --loops_;
    if (next().text == "else") made->otherwise = body_until("endfor");
    conditional = outer;
    return made;
  }

  void check_no_loop(const Target& target, int line) const {
    if (target.name == "loop") error_at(line, "cannot assign to the loop's own variable 'loop'");
    for (const Target& part : target.several) check_no_loop(part, line);
  }

  std::unique_ptr<Stmt> parse_if() {
    auto made = make(StmtKind::condition);
    const bool outer = conditional;
    std::string word;
    do {
      next();
      made->values.push_back(tuple(false));
      conditional = true;
      made->branches.push_back(body_up_to({"elif", "else", "endif"}));
      word = current().text;
    } while (word == "elif");
    next();
    if (word == "else") made->otherwise = body_until("endif");
    conditional = outer;
    return made;
  }

  std::unique_ptr<Stmt> parse_set() {
    auto made = make(StmtKind::assign);
    next();
    if (ahead().kind == TokenKind::op && ahead().text == ".") {
      Target target;
      target.name = expect_any_name();
      next();
      target.attribute = expect_any_name();
      made->targets.push_back(std::move(target));
    } else {
      made->targets.push_back(assign_target(Ends::tag));
    }
    if (skip_op("=")) {
      made->values.push_back(tuple(true));
      return made;
    }
    made->kind = StmtKind::assign_block;
    made->values.push_back(filters_of(nullptr));
    made->body = own_body_until("endset");
    return made;
  }

  std::unique_ptr<Stmt> parse_with() {
    auto made = make(StmtKind::with);
    next();
    while (current().kind != TokenKind::block_end) {
      if (!made->targets.empty()) expect_op(",");
      Target target;
      const int line = current().line;
      target.name = expect_any_name();
      check_target_name(target.name, line);
      made->targets.push_back(std::move(target));
      expect_op("=");
      made->values.push_back(expression());
    }
    made->body = own_body_until("endwith");
    return made;
  }

  void signature(Stmt& made) {
    expect_op("(");
    bool defaults = false;
    while (!is_op(")")) {
      if (!made.macro.parameters.empty()) expect_op(",");
      const int line = current().line;
      Parameter parameter;
      parameter.name = expect_any_name();
      check_target_name(parameter.name, line);
      for (const Parameter& other : made.macro.parameters) {
        if (other.name == parameter.name) error("two parameters are named '{}'", other.name);
      }
      if (skip_op("=")) {
        parameter.fallback = expression();
        defaults = true;
      } else if (defaults) {
        error("the parameter '{}' has no default but follows one that has", parameter.name);
      }
      made.macro.parameters.push_back(std::move(parameter));
    }
    expect_op(")");
  }

  // The body of a macro or of a call block, and which special arguments it uses.
  void macro_body(Stmt& made, const char* end) {
    const std::set<std::string> outer_names = std::exchange(names_read, {});
    const int outer_loops = std::exchange(loops_, 0);
    made.body = own_body_until(end);
    loops_ = outer_loops;
    const auto special = [&](const char* name) {
      const bool declared =
          std::any_of(made.macro.parameters.begin(), made.macro.parameters.end(),
                      [&](const Parameter& parameter) { return parameter.name == name; });
      return names_read.count(name) > 0 && !declared;
    };
    made.macro.takes_caller = special("caller");
    made.macro.takes_kwargs = special("kwargs");
    made.macro.takes_varargs = special("varargs");
    names_read.insert(outer_names.begin(), outer_names.end());
  }

  std::unique_ptr<Stmt> parse_macro() {
    auto made = make(StmtKind::macro);
    next();
    const int line = current().line;
    made->name = expect_any_name();
    check_target_name(made->name, line);
    signature(*made);
    macro_body(*made, "endmacro");
    return made;
  }

  std::unique_ptr<Stmt> parse_call() {
    auto made = make(StmtKind::call_block);
    next();
    made->name = "caller";
    if (is_op("(")) signature(*made);
    made->values.push_back(expression());
    if (made->values[0]->kind != ExprKind::call) {
      error_at(made->line, "a call block needs a call: {% call macro() %}");
    }
    macro_body(*made, "endcall");
    return made;
  }

  std::unique_ptr<Stmt> parse_filter() {
    auto made = make(StmtKind::filter_block);
    next();
    made->values.push_back(filters_of(nullptr, true));
    made->body = own_body_until("endfilter");
    return made;
  }

  std::unique_ptr<Stmt> parse_generation() {
    auto made = make(StmtKind::generation);
    next();
    macro_body(*made, "endgeneration");
    return made;
  }

  std::unique_ptr<Stmt> parse_print() {
    next();
    while (current().kind != TokenKind::block_end) {
      if (!prints_.empty()) expect_op(",");
      auto print = make(StmtKind::print);
      print->values.push_back(expression());
      prints_.push_back(std::move(print));
    }
    return nullptr;
  }

  std::unique_ptr<Stmt> parse_break() {
    auto made = make(current().text == "break" ? StmtKind::leave : StmtKind::next);
    if (loops_ == 0) error("'{}' stands outside of a loop", current().text);
    next();
    return made;
  }

  int open_ = 0;
  int loops_ = 0;
  Block prints_;
};

const std::vector<Parser::Tag>& Parser::tags() {
  static const std::vector<Tag> kTags = {
      {"for", &Parser::parse_for},
      {"if", &Parser::parse_if},
      {"set", &Parser::parse_set},
      {"with", &Parser::parse_with},
      {"macro", &Parser::parse_macro},
      {"call", &Parser::parse_call},
      {"filter", &Parser::parse_filter},
      {"print", &Parser::parse_print},
      {"break", &Parser::parse_break},
      {"continue", &Parser::parse_break},
      {"generation", &Parser::parse_generation},
  };
  return kTags;
}

}  // namespace

Block parse_template(std::string_view source) { return Parser(tokenize(source)).whole(); }

}  // namespace tephra::jinja
