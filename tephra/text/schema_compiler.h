// SPDX-License-Identifier: Apache-2.0
// From a JSON schema to the rules of a JsonGrammar.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tephra/text/json_grammar.h"

namespace tephra {

class SchemaCompiler {
 public:
  SchemaCompiler(JsonGrammar& json, const Json& root) : json_(json), g_(json.g_), root_(root) {}

  ByteGrammar::Rule compile(const Json& schema, const std::string& where) {
    return rule_of(schema, where);
  }

 private:
  using Place = ByteGrammar::Place;
  using Rule = ByteGrammar::Rule;
  using Names = std::vector<std::string>;

  Rule rule_of(const Json& schema, const std::string& where);
  Place compile_schema(const Json& schema, const std::string& where);
  Place compile_type(const std::string& type, const Json& schema, const std::string& where);
  Place compile_choices(const Json& list, const std::string& where);
  // One of the values, of those that are of the type where one is given.
  Place compile_values(const Json& values, const Json* type, const std::string& where);
  Place compile_object(const Json& schema, const std::string& where);
  Place compile_array(const Json& schema, const std::string& where);
  Place compile_string(const Json& schema, const std::string& where);
  Place compile_pattern(const Json& schema, const std::string& where);
  Place compile_integer(const Json& schema, const std::string& where);

  Place member(const std::string& name, Rule value, Place next);
  Place other_key(const Names& names, Place next);
  const Json& resolve(const std::string& pointer, const std::string& where) const;

  JsonGrammar& json_;
  ByteGrammar& g_;
  const Json& root_;
  std::map<const Json*, Rule> rules_;
  int depth_ = 0;
};

}  // namespace tephra
