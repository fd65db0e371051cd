// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/tool_argument.h"

#include <algorithm>
#include <map>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/text/schema_words.h"

namespace tephra {
namespace {

constexpr int kMostSteps = 64;  // of references: more are not followed

// Kinds of values; sums of them are sets.
struct Kind {
  static constexpr unsigned kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16,
                            kArray = 32, kObject = 64, kEvery = 127;
};

unsigned kind_of(const Json& value) {
  if (value.is_null()) return Kind::kNull;
  if (value.is_bool()) return Kind::kBoolean;
  if (value.is_int()) return Kind::kInteger;
  if (value.is_number()) return Kind::kNumber;
  if (value.is_string()) return Kind::kString;
  return value.is_array() ? Kind::kArray : Kind::kObject;
}

unsigned kind_named(const Json& type) {
  static const std::map<std::string, unsigned> kNames = {
      {"null", Kind::kNull},     {"boolean", Kind::kBoolean},
      {"string", Kind::kString}, {"integer", Kind::kInteger},
      {"array", Kind::kArray},   {"number", Kind::kInteger | Kind::kNumber},
      {"object", Kind::kObject}};
  const auto found = type.is_string() ? kNames.find(type.string()) : kNames.end();
  return found == kNames.end() ? Kind::kEvery : found->second;
}

// Which kinds of values a schema has. What is not understood has every kind.
class KindReader {
 public:
  explicit KindReader(const Json& root) : root_(root) {}

  unsigned kinds(const Json& schema) {
    if (schema.is_bool()) return schema.boolean() ? Kind::kEvery : 0;
    if (!schema.is_object() || depth_ == kMostSteps) return Kind::kEvery;
    const auto [at, fresh] = known_.try_emplace(&schema, 0);  // a schema adds nothing to itself
    if (!fresh) return at->second;
    ++depth_;
    const unsigned found = of_words(schema);
    --depth_;
    return known_[&schema] = found;
  }

 private:
  template <class Of>
  static unsigned any(const Json& list, const Of& of) {
    if (!list.is_array()) return Kind::kEvery;
    unsigned found = 0;
    for (const Json& each : list.array()) found |= of(each);
    return found;
  }

  unsigned of_words(const Json& schema) {
    const auto inside = [&](const Json& each) { return kinds(each); };
    unsigned found = Kind::kEvery;
    for (const auto& [word, value] : schema.object()) {
      if (word == "$ref") {
        const Json* target = value.is_string() ? referred(root_, value.string()) : nullptr;
        if (target != nullptr) found &= kinds(*target);
      } else if (word == "type") {
        found &= value.is_array() ? any(value, kind_named) : kind_named(value);
      } else if (word == "const") {
        found &= kind_of(value);
      } else if (word == "enum") {
        found &= any(value, kind_of);
      } else if (word == "anyOf" || word == "oneOf") {
        found &= any(value, inside);
      } else if (word == "allOf" && value.is_array()) {
        for (const Json& each : value.array()) found &= kinds(each);
      }
    }
    if (found != Kind::kEvery) return found;
    // As schemas without a type are compiled.
    if (schema.find("properties") != nullptr) return Kind::kObject;
    return schema.find("items") != nullptr ? Kind::kArray : Kind::kEvery;
  }

  const Json& root_;
  std::map<const Json*, unsigned> known_;
  int depth_ = 0;
};

// What is left of a schema when its annotations are gone.
std::map<std::string, const Json*> words_of(const Json& schema) {
  std::map<std::string, const Json*> words;
  for (const auto& [word, value] : schema.object()) {
    if (!is_annotation(word)) words[word] = &value;
  }
  return words;
}

// Behind references and lists of one schema that say nothing else.
const Json& followed(const ToolParameter& parameter) {
  const Json* schema = &parameter.schema;
  for (int i = 0; i < kMostSteps && schema->is_object(); ++i) {
    const auto words = words_of(*schema);
    if (words.size() != 1) break;
    const auto& [word, value] = *words.begin();
    const Json* next = nullptr;
    if (word == "$ref" && value->is_string()) next = referred(parameter.root, value->string());
    if (word == "allOf" && value->is_array() && value->array().size() == 1) {
      next = &value->array()[0];
    }
    if (next == nullptr) break;
    schema = next;
  }
  return *schema;
}

bool says_nothing(const Json& schema) {
  return schema.is_object() ? words_of(schema).empty() : schema.is_bool() && schema.boolean();
}

bool holds_a_tag(const std::string& text) {
  const auto& tags = call_end_tags();
  return std::any_of(tags.begin(), tags.end(),
                     [&](const std::string& tag) { return text.find(tag) != text.npos; });
}

constexpr int kDeepestJson = 1024;  // as deep as a grammar lets a model write

// Of a key that is said twice the last one counts, as with most readers of JSON: grammars do not
// remember keys.
std::optional<Json> parsed_json(std::string_view text) {
  try {
    return Json::parse(trim(text), "argument", kDeepestJson, Json::Repeats::last);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const std::vector<std::string>& call_end_tags() {
  static const std::vector<std::string> kTags = {"</parameter>", "</function>",
                                                 "</zyphra_tool_call>"};
  return kTags;
}

std::optional<ArgumentText> argument_text(const ToolParameter& parameter) {
  const Json& schema = followed(parameter);
  if (says_nothing(schema)) return ArgumentText{};
  if (!schema.is_object()) return std::nullopt;
  auto words = words_of(schema);
  if (const auto type = words.find("type"); type != words.end()) {
    if (!type->second->is_string() || type->second->string() != "string") return std::nullopt;
    words.erase(type);
    if (words.empty()) return ArgumentText{};
  }
  if (words.size() != 1) return std::nullopt;
  const auto& [word, value] = *words.begin();
  Json::Array values;
  if (word == "const") values = {*value};
  if (word == "enum" && value->is_array()) values = value->array();
  ArgumentText text;
  for (const Json& each : values) {
    if (!each.is_string() || holds_a_tag(each.string())) return std::nullopt;
    text.choices.push_back(each.string());
  }
  if (text.choices.empty()) return std::nullopt;
  return text;
}

Json read_held_argument(const ToolParameter& parameter, std::string_view text) {
  if (says_nothing(followed(parameter))) return read_argument(text);
  if (argument_text(parameter)) return std::string(text);
  std::optional<Json> value = parsed_json(text);
  return value ? std::move(*value) : Json(std::string(text));
}

Json read_argument(const ToolParameter& parameter, std::string_view text) {
  if (says_nothing(followed(parameter))) return read_argument(text);
  const unsigned kinds = KindReader(parameter.root).kinds(parameter.schema);
  if (kinds == Kind::kString) return std::string(text);
  if (const std::optional<Json> value = parsed_json(text)) {
    const bool whole = value->is_int() && (kinds & Kind::kNumber) != 0;
    if (whole || (kind_of(*value) & kinds) != 0) return *value;
  }
  if ((kinds & Kind::kString) != 0) return std::string(text);
  const std::string_view word = trim(text);
  if ((kinds & Kind::kBoolean) != 0 && (word == "True" || word == "False")) return word == "True";
  if ((kinds & Kind::kNull) != 0 && word == "None") return {};
  return std::string(text);  // the caller's own check will say what is wrong with it
}

Json read_argument(std::string_view text) {
  const std::optional<Json> value = parsed_json(text);
  return value && !value->is_string() ? *value : Json(std::string(text));
}

}  // namespace tephra
