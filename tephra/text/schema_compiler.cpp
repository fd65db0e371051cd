// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/schema_compiler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/text/integer_range.h"
#include "tephra/text/pattern_grammar.h"
#include "tephra/text/schema_words.h"

namespace tephra {
namespace {

constexpr ByteGrammar::Place kEnd = ByteGrammar::kReturn;
constexpr int64_t kMostRepeats = 4096;  // of minLength, maxItems and such: each is written out
constexpr int kMostNesting = 64;

// Nothing but these and annotations.
void allow(const Json& schema, const std::string& where, const std::vector<std::string>& names) {
  for (const auto& [name, value] : schema.object()) {
    require(std::find(names.begin(), names.end(), name) != names.end() || is_annotation(name),
            "schema {}: '{}' is not understood here; leave it out", where, clipped(name, 60));
  }
}

int64_t count_of(const Json& schema, const char* name, int64_t fallback, const std::string& where) {
  const Json* found = schema.find(name);
  if (found == nullptr) return fallback;
  require(found->is_int() && found->integer() >= 0 && found->integer() <= kMostRepeats,
          "schema {}: {}: expected an integer from 0 to {}, got {}", where, name, kMostRepeats,
          clipped(found->dump(), 40));
  return found->integer();
}

bool is_of(const std::string& type, const Json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_bool();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() && std::trunc(value.number()) == value.number();
}

// Whether the value is of the type that is named beside it, or of one of these.
bool fits(const Json& value, const Json* type) {
  if (type == nullptr) return true;
  if (type->is_string()) return is_of(type->string(), value);
  return type->is_array() &&
         std::any_of(type->array().begin(), type->array().end(), [&](const Json& one) {
           return one.is_string() && is_of(one.string(), value);
         });
}

}  // namespace

SchemaCompiler::Rule SchemaCompiler::rule_of(const Json& schema, const std::string& where) {
  const auto known = rules_.find(&schema);
  if (known != rules_.end()) return known->second;
  const Rule rule = g_.new_rule();
  rules_[&schema] = rule;  // before its content, which may refer to it
  require(++depth_ <= kMostNesting, "schema {}: nested more than {} deep", where, kMostNesting);
  g_.define(rule, compile_schema(schema, where));
  --depth_;
  return rule;
}

SchemaCompiler::Place SchemaCompiler::compile_schema(const Json& schema, const std::string& where) {
  if (schema.is_bool() && schema.boolean()) return g_.call(json_.value_, kEnd);
  require(schema.is_object(), "schema {}: expected a schema, got {}", where,
          schema.is_bool() ? "false, which allows nothing" : schema.kind());
  if (const Json* reference = schema.find("$ref")) {
    allow(schema, where, {"$ref"});
    require(reference->is_string(), "schema {}: $ref: expected a string", where);
    const std::string& to = reference->string();
    return g_.call(rule_of(resolve(to, where), to), kEnd);
  }
  if (const Json* value = schema.find("const")) {
    allow(schema, where, {"const", "type"});
    return compile_values(Json::Array{*value}, schema.find("type"), where + "/const");
  }
  if (const Json* values = schema.find("enum")) {
    allow(schema, where, {"enum", "type"});
    return compile_values(*values, schema.find("type"), where + "/enum");
  }
  for (const char* name : {"anyOf", "oneOf"}) {
    if (const Json* list = schema.find(name)) {
      allow(schema, where, {name});
      return compile_choices(*list, where + "/" + name);
    }
  }
  if (const Json* list = schema.find("allOf")) {
    allow(schema, where, {"allOf"});
    require(list->is_array() && list->array().size() == 1,
            "schema {}: allOf is understood with one entry alone", where);
    return g_.call(rule_of(list->array()[0], where + "/allOf/0"), kEnd);
  }
  const Json* type = schema.find("type");
  if (type == nullptr) {
    // By what it says; a schema that says nothing allows everything.
    if (schema.find("properties") != nullptr) return compile_object(schema, where);
    if (schema.find("items") != nullptr) return compile_array(schema, where);
    allow(schema, where, {});
    return g_.call(json_.value_, kEnd);
  }
  if (type->is_string()) return compile_type(type->string(), schema, where);
  require(type->is_array() && !type->array().empty(),
          "schema {}: type: expected a name or a list of names", where);
  require(schema.object().size() == 1 || type->array().size() <= 2,
          "schema {}: several types with further words are not understood; use anyOf", where);
  std::vector<Place> places;
  for (const Json& each : type->array()) {
    require(each.is_string(), "schema {}: type: expected names", where);
    // "null" beside another type has no words of its own.
    places.push_back(each.string() == "null" ? g_.literal("null", kEnd)
                                             : compile_type(each.string(), schema, where));
  }
  return g_.any_of(places);
}

SchemaCompiler::Place SchemaCompiler::compile_type(const std::string& type, const Json& schema,
                                                   const std::string& where) {
  if (type == "object") return compile_object(schema, where);
  if (type == "array") return compile_array(schema, where);
  if (type == "string") return compile_string(schema, where);
  if (type == "integer") return compile_integer(schema, where);
  require(type == "number" || type == "boolean" || type == "null",
          "schema {}: type: expected object, array, string, integer, number, boolean or null, got "
          "'{}'",
          where, clipped(type, 40));
  allow(schema, where, {"type"});
  if (type == "number") return g_.call(json_.number_, kEnd);
  if (type == "null") return g_.literal("null", kEnd);
  return g_.either(g_.literal("true", kEnd), g_.literal("false", kEnd));
}

SchemaCompiler::Place SchemaCompiler::compile_choices(const Json& list, const std::string& where) {
  require(list.is_array() && !list.array().empty(), "schema {}: expected a list of schemas", where);
  std::vector<Place> places;
  for (size_t i = 0; i < list.array().size(); ++i) {
    places.push_back(g_.call(rule_of(list.array()[i], format("{}/{}", where, i)), kEnd));
  }
  return g_.any_of(places);
}

SchemaCompiler::Place SchemaCompiler::compile_values(const Json& values, const Json* type,
                                                     const std::string& where) {
  require(values.is_array() && !values.array().empty(), "schema {}: expected a list of values",
          where);
  std::vector<Place> places;
  for (const Json& value : values.array()) {
    if (fits(value, type)) places.push_back(g_.literal(json_.spelled(value), kEnd));
  }
  require(!places.empty(), "schema {}: expected a value of the type {}, got none", where,
          type == nullptr ? "" : clipped(type->dump(), 60));
  return g_.any_of(places);
}

SchemaCompiler::Place SchemaCompiler::member(const std::string& name, Rule value, Place next) {
  return g_.literal(json_.spelled(name) + ":", g_.call(json_.space_, g_.call(value, next)));
}

// A string that is none of the names. Escapes could spell a name, so there are none while the key
// could still become one.
SchemaCompiler::Place SchemaCompiler::other_key(const Names& names, Place next) {
  std::map<std::string, std::set<unsigned char>> children{{"", {}}};
  std::set<std::string> whole;
  for (const std::string& name : names) {
    const std::string dumped = json_.spelled(name);
    const std::string inside = dumped.substr(1, dumped.size() - 2);
    whole.insert(inside);
    for (size_t i = 0; i < inside.size(); ++i) {
      children[inside.substr(0, i)].insert(static_cast<unsigned char>(inside[i]));
      children.try_emplace(inside.substr(0, i + 1));
    }
  }
  const Place quote = g_.literal("\"", next);
  const Place free = json_.string_body(quote);
  std::map<std::string, Place> places;
  // Longest first, so that what follows a prefix is known.
  std::vector<std::string> prefixes;
  for (const auto& [prefix, bytes] : children) prefixes.push_back(prefix);
  std::sort(prefixes.begin(), prefixes.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  for (const std::string& prefix : prefixes) {
    std::vector<Place> choices;
    if (!whole.contains(prefix)) choices.push_back(quote);
    for (const unsigned char c : children[prefix]) {
      choices.push_back(g_.byte(c, c, places[prefix + static_cast<char>(c)]));
    }
    // Printable ASCII that leads away from every name; other characters only before the first.
    for (unsigned char c = 0x20; c < 0x7f; ++c) {
      if (c != '"' && c != '\\' && !json_.escapes(c) && !children[prefix].contains(c)) {
        choices.push_back(g_.byte(c, c, free));
      }
    }
    places[prefix] = g_.any_of(choices);
  }
  return g_.literal("\"", places[""]);
}

// Members in the order of the schema, optional ones left out at will, then others if allowed.
SchemaCompiler::Place SchemaCompiler::compile_object(const Json& schema, const std::string& where) {
  allow(schema, where, {"type", "properties", "required", "additionalProperties"});
  static const Json kNone = Json::Object{};
  static const Json kAnything = true;
  const Json* properties = schema.find("properties");
  const Json* more = schema.find("additionalProperties");
  if (more == nullptr && properties == nullptr) more = &kAnything;
  if (properties == nullptr) properties = &kNone;
  require(properties->is_object(), "schema {}/properties: expected an object", where);

  Names required, names;
  if (const Json* list = schema.find("required")) {
    require(list->is_array(), "schema {}/required: expected a list of names", where);
    for (const Json& name : list->array()) {
      require(name.is_string(), "schema {}/required: expected names", where);
      required.push_back(name.string());
    }
  }
  std::vector<Rule> values;
  for (const auto& [name, value] : properties->object()) {
    names.push_back(name);
    values.push_back(rule_of(value, where + "/properties/" + clipped(name, 60)));
  }
  for (const std::string& name : required) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    require(more == nullptr || !more->is_bool() || more->boolean(),
            "schema {}/required: '{}' is not among the properties", where, clipped(name, 60));
    names.push_back(name);
    values.push_back(more == nullptr ? json_.value_
                                     : rule_of(*more, where + "/additionalProperties"));
  }

  const Place close = g_.call(json_.space_, g_.literal("}", kEnd));
  Place first = close, later = close;  // what may come when no member, or some, were said
  const bool open = more != nullptr && !(more->is_bool() && !more->boolean());
  if (open) {
    const Rule value = rule_of(*more, where + "/additionalProperties");
    const Place loop = g_.later();
    const Place one =
        other_key(names, g_.literal(":", g_.call(json_.space_, g_.call(value, loop))));
    g_.set(loop, g_.either(close, g_.literal(",", g_.call(json_.space_, one))));
    first = g_.either(close, g_.call(json_.space_, one));
    later = loop;
  }
  for (size_t i = names.size(); i-- > 0;) {
    const bool needed = std::find(required.begin(), required.end(), names[i]) != required.end();
    const Place said = member(names[i], values[i], later);
    const Place as_first = g_.call(json_.space_, said);
    const Place as_later = g_.literal(",", g_.call(json_.space_, said));
    first = needed ? as_first : g_.either(as_first, first);
    later = needed ? as_later : g_.either(as_later, later);
  }
  return g_.literal("{", first);
}

SchemaCompiler::Place SchemaCompiler::compile_array(const Json& schema, const std::string& where) {
  allow(schema, where, {"type", "items", "prefixItems", "minItems", "maxItems"});
  static const Json kAnything = true;
  std::vector<Rule> fixed;
  if (const Json* prefix = schema.find("prefixItems")) {
    require(prefix->is_array(), "schema {}/prefixItems: expected a list of schemas", where);
    for (size_t i = 0; i < prefix->array().size(); ++i) {
      fixed.push_back(rule_of(prefix->array()[i], format("{}/prefixItems/{}", where, i)));
    }
  }
  const auto prefix = static_cast<int64_t>(fixed.size());
  const Json* items = schema.find("items");
  const bool closed = items != nullptr && items->is_bool() && !items->boolean();
  const int64_t least = count_of(schema, "minItems", prefix, where);
  const int64_t most = count_of(schema, "maxItems", closed ? prefix : -1, where);
  require(most < 0 || least <= most, "schema {}: minItems {} is more than maxItems {}", where,
          least, most);
  require(!closed || least <= prefix, "schema {}: minItems {} is more than the {} prefixItems",
          where, least, prefix);
  const Rule rest =
      closed ? json_.value_ : rule_of(items == nullptr ? kAnything : *items, where + "/items");
  const auto rule_at = [&](int64_t i) { return i < prefix ? fixed[static_cast<size_t>(i)] : rest; };

  const Place close = g_.call(json_.space_, g_.literal("]", kEnd));
  const int64_t written = most >= 0 ? most : std::max(least, prefix);
  Place next = close;  // after `i` items
  if (most < 0) {
    const Place loop = g_.later();
    const Place item = g_.literal(",", g_.call(json_.space_, g_.call(rest, loop)));
    g_.set(loop, g_.either(close, item));
    next = written > 0 ? loop : g_.either(close, g_.call(json_.space_, g_.call(rest, loop)));
  }
  for (int64_t i = written; i-- > 0;) {
    Place item = g_.call(json_.space_, g_.call(rule_at(i), next));
    if (i > 0) item = g_.literal(",", item);
    next = i >= least ? g_.either(close, item) : item;
  }
  return g_.literal("[", next);
}

SchemaCompiler::Place SchemaCompiler::compile_string(const Json& schema, const std::string& where) {
  if (schema.find("pattern") != nullptr || schema.find("format") != nullptr) {
    return compile_pattern(schema, where);
  }
  allow(schema, where, {"type", "minLength", "maxLength"});
  const int64_t least = count_of(schema, "minLength", 0, where);
  const int64_t most = count_of(schema, "maxLength", -1, where);
  require(most < 0 || least <= most, "schema {}: minLength {} is more than maxLength {}", where,
          least, most);
  if (least == 0 && most < 0) return g_.call(json_.string_, kEnd);
  const Place quote = g_.literal("\"", kEnd);
  Place next = most < 0 ? json_.string_body(quote) : quote;
  for (int64_t i = most < 0 ? least : most; i-- > 0;) {
    const Place one = g_.call(json_.character_, next);
    next = i >= least ? g_.either(quote, one) : one;
  }
  return g_.literal("\"", next);
}

SchemaCompiler::Place SchemaCompiler::compile_pattern(const Json& schema,
                                                      const std::string& where) {
  const char* name = schema.find("pattern") != nullptr ? "pattern" : "format";
  allow(schema, where, {"type", name});
  const Json& given = *schema.find(name);
  require(given.is_string(), "schema {}: {}: expected a string, got {}", where, name, given.kind());
  std::string_view pattern = given.string();
  if (name == std::string_view("format")) {
    pattern = pattern_of_format(pattern);
    require(!pattern.empty(),
            "schema {}: format: expected date, time, date-time, uuid, email or ipv4, got '{}'",
            where, clipped(given.string(), 40));
  }
  const Place quote = g_.literal("\"", kEnd);
  const PatternText text{.any = json_.text_, .escape_less = json_.escapes('<')};
  return g_.literal("\"", pattern_grammar(g_, pattern, where, text, quote));
}

SchemaCompiler::Place SchemaCompiler::compile_integer(const Json& schema,
                                                      const std::string& where) {
  allow(schema, where, {"type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"});
  constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
  int64_t least = -kUnbounded, most = kUnbounded;
  const auto bound = [&](const char* name, int64_t& to, int64_t shift, bool larger) {
    const Json* found = schema.find(name);
    if (found == nullptr) return;
    constexpr int64_t kMost = 1'000'000'000'000'000'000;
    require(found->is_int() && found->integer() > -kMost && found->integer() < kMost,
            "schema {}: {}: expected an integer of at most 18 digits, got {}", where, name,
            clipped(found->dump(), 40));
    const int64_t value = found->integer() + shift;
    to = larger ? std::max(to, value) : std::min(to, value);
  };
  bound("minimum", least, 0, true);
  bound("exclusiveMinimum", least, 1, true);
  bound("maximum", most, 0, false);
  bound("exclusiveMaximum", most, -1, false);
  if (least == -kUnbounded && most == kUnbounded) return g_.call(json_.integer_, kEnd);
  require(least <= most, "schema {}: minimum {} is more than maximum {}", where, least, most);
  return integer_range(g_, least, most, kEnd);
}

const Json& SchemaCompiler::resolve(const std::string& pointer, const std::string& where) const {
  require(pointer == "#" || pointer.starts_with("#/"),
          "schema {}: $ref: expected a place in this schema such as #/$defs/name, got '{}'", where,
          clipped(pointer, 60));
  const Json* found = referred(root_, pointer);
  require(found != nullptr, "schema {}: $ref: there is no {}", where, clipped(pointer, 60));
  return *found;
}

}  // namespace tephra
