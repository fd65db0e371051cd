// SPDX-License-Identifier: Apache-2.0
// JSON of a given schema as a grammar of bytes: every text it allows is valid for the schema. What
// of JSON Schema is understood is in docs/serving.md; anything else is an error that names it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/text/byte_grammar.h"

namespace tephra {

class JsonGrammar {
 public:
  explicit JsonGrammar(ByteGrammar& grammar);

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
  Place string_body(Place next) const;  // characters, any number of them

  ByteGrammar& g_;
  Rule space_, character_, text_, string_, integer_, number_, value_, object_, array_;
};

}  // namespace tephra
