// SPDX-License-Identifier: Apache-2.0
// JSON of a given schema as a grammar of bytes: every text it allows is valid for the schema. What
// of JSON Schema is understood is in docs/serving.md; anything else is an error that names it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/text/byte_grammar.h"

namespace tephra {

class JsonGrammar {
 public:
  // `never`: what no text holds as it stands. Such markers begin with an < and can be had with that
  // one escaped.
  explicit JsonGrammar(ByteGrammar& grammar, std::vector<std::string> never = {});

  using Place = ByteGrammar::Place;
  using Rule = ByteGrammar::Rule;

  // A value of this schema, which must outlive the call. Fault::usage when it asks for something
  // that is not understood, with the place in the schema.
  Rule value_of(const Json& schema) { return value_of(schema, schema, "#"); }
  // The same for a part of a larger schema, at `where`, in which references are looked up.
  Rule value_of(const Json& schema, const Json& root, const std::string& where);
  Rule any_object() const { return object_; }

 private:
  friend class SchemaCompiler;
  void define_basics();
  void define_string();
  void define_number();
  void define_containers();
  Place characters_without(const std::set<unsigned char>& ascii) const;  // one of them
  Place string_body(Place next) const;  // characters, any number of them
  std::string spelled(const Json& value) const;
  // Whether this character is written as an escape where the markers are not looked for.
  bool escapes(uint32_t character) const { return !never_.empty() && character == '<'; }

  ByteGrammar& g_;
  std::vector<std::string> never_;
  // text_: any number of character_; free_: of those that character_ only has as escapes, too.
  Rule space_, character_, text_, free_, string_, integer_, number_, value_, object_, array_;
};

}  // namespace tephra
