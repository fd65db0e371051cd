// SPDX-License-Identifier: Apache-2.0
// The tree of a template. Expressions and statements are one struct each with a kind; which fields
// a kind uses is said beside it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tephra/text/jinja_builtin.h"
#include "tephra/text/jinja_value.h"

namespace tephra::jinja {

enum class ExprKind {
  constant,   // constant
  name,       // name
  list,       // parts
  tuple,      // parts
  dict,       // parts: key, value, key, value, ...
  attribute,  // parts[0].name
  subscript,  // parts[0][parts[1]]
  slice,      // parts[0][parts[1]:parts[2]:parts[3]], absent ones null
  call,       // parts[0](arguments)
  filter,     // parts[0] | name(arguments); parts[0] is null at the start of a filter block
  test,       // parts[0] is name(arguments)
  negate,     // parts[0]
  plus,       // parts[0]
  binary,     // parts[0] name parts[1]
  concat,     // parts, joined as text
  compare,    // parts[0] names[0] parts[1] names[1] parts[2] ...
  all,        // parts[0] and parts[1]
  any,        // parts[0] or parts[1]
  negation,   // not parts[0]
  condition,  // parts[0] if parts[1] else parts[2], which may be null
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind;
  int line = 0;
  int depth = 1;
  std::string name = {};
  Value constant = {};
  std::vector<ExprPtr> parts = {};
  std::vector<std::string> names = {};  // of a comparison

  // Of a call, filter or test.
  std::vector<ExprPtr> arguments = {};
  std::vector<std::pair<std::string, ExprPtr>> keywords = {};
  ExprPtr star = nullptr, star_star = nullptr;
  const Builtin* builtin = nullptr;  // of a filter or test; null when unknown
};

// What a value is assigned to: a name, an attribute of a namespace, or several targets.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> several;
  bool is_several = false;
};

enum class StmtKind {
  text,          // text
  print,         // values[0]
  loop,          // for target in values[0] if values[1]: body, otherwise
  condition,     // values[i] guards branches[i]; otherwise
  assign,        // target = values[0]
  assign_block,  // target = body, through values[0] where there is a filter
  with,          // targets[i] = values[i], then body
  macro,         // name, parameters, body
  call_block,    // values[0] is the call, body its caller
  filter_block,  // values[0] is the filter
  generation,    // body: what the assistant wrote
  leave,         // break
  next,          // continue
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
  std::string name;
  ExprPtr fallback;
};

struct MacroShape {
  std::vector<Parameter> parameters;
  bool takes_caller = false, takes_kwargs = false, takes_varargs = false;
};

struct Stmt {
  StmtKind kind;
  int line = 0;
  std::string name = {}, text = {};
  std::vector<ExprPtr> values = {};
  std::vector<Target> targets = {};
  Block body = {}, otherwise = {};
  std::vector<Block> branches = {};
  MacroShape macro = {};
  bool recursive = false;
};

}  // namespace tephra::jinja
