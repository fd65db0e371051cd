// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/output_form.h"

#include <algorithm>
#include <set>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/serve/api_error.h"
#include "tephra/text/json_grammar.h"
#include "tephra/text/schema_words.h"
#include "tephra/text/tool_argument.h"

namespace tephra {
namespace {

using Place = ByteGrammar::Place;
constexpr Place kEnd = ByteGrammar::kReturn;
constexpr size_t kMostKept = 16;

// The grammars that the chat parser reads (text/chat_parser.h).
struct CallGrammar {
  explicit CallGrammar(ByteGrammar& grammar)
      : g(grammar), json(grammar, call_end_tags()), text(grammar.new_rule()) {
    std::set<int> own = {256};
    for (const std::string& tag : call_end_tags()) own.insert(tag.begin(), tag.end());
    std::vector<Place> others;
    int from = 0;
    for (const int c : own) {
      if (from < c) {
        others.push_back(
            g.byte(static_cast<unsigned char>(from), static_cast<unsigned char>(c - 1), kEnd));
      }
      from = c + 1;
    }
    const ByteGrammar::Rule other = g.new_rule();
    g.define(other, g.any_of(others));
    g.define(text, g.without(call_end_tags(), other, kEnd));
  }

  ByteGrammar& g;
  JsonGrammar json;
  ByteGrammar::Rule text;  // any, but for the tags
};

Place tool_value(CallGrammar& call, const ToolParameter& parameter, const std::string& where,
                 Place next) {
  ByteGrammar& g = call.g;
  const Place end = g.literal("</parameter>\n", next), line_end = g.literal("\n", end);
  const std::optional<ArgumentText> text = argument_text(parameter);
  if (!text) {
    return g.call(call.json.value_of(parameter.schema, parameter.root, where), line_end);
  }
  if (text->choices.empty()) return g.call(call.text, end);
  std::vector<Place> places;
  for (const std::string& choice : text->choices) places.push_back(g.literal(choice, line_end));
  return g.any_of(places);
}

// As it stands between <parameter= and >, so that it is read back as it is.
bool can_be_written(const std::string& parameter) {
  return !parameter.empty() && trim(parameter) == parameter &&
         parameter.find_first_of("<>\r\n") == parameter.npos;
}

std::vector<std::string> required_names(const Json& parameters, const Json& properties) {
  std::vector<std::string> names;
  const Json* list = parameters.find("required");
  if (list == nullptr) return names;
  require_field(list->is_array(), "tools", "#/required: expected a list of names, got {}",
                list->kind());
  for (const Json& name : list->array()) {
    require_field(name.is_string() && properties.find(name.string()) != nullptr, "tools",
                  "#/required: expected names of properties, got {}", clipped(name.dump(), 60));
    names.push_back(name.string());
  }
  return names;
}

// Further members of the object are never written.
void check_words(const Json& parameters) {
  static const std::set<std::string_view> kWords = {"type", "properties", "required",
                                                    "additionalProperties"};
  for (const auto& [word, value] : parameters.object()) {
    require_field(kWords.contains(word) || is_annotation(word), "tools",
                  "schema #: '{}' is not understood here; leave it out", clipped(word, 60));
  }
  const Json* type = parameters.find("type");
  require_field(type == nullptr || (type->is_string() && type->string() == "object"), "tools",
                "schema #: type: expected object");
}

Place tool_call(CallGrammar& call, const Json& function) {
  ByteGrammar& g = call.g;
  static const Json kNone = Json::Object{};
  const std::string name = function.find("name")->string();
  const Json* parameters = function.find("parameters");
  if (parameters == nullptr || parameters->is_null()) parameters = &kNone;
  check_words(*parameters);
  const Json* properties = parameters->find("properties");
  if (properties == nullptr) properties = &kNone;
  require_field(properties->is_object(), "tools", "#/properties: expected an object, got {}",
                properties->kind());
  const std::vector<std::string> required = required_names(*parameters, *properties);
  Place next = g.literal("</function>\n</zyphra_tool_call>", kEnd);
  for (size_t i = properties->object().size(); i-- > 0;) {
    const auto& [key, schema] = properties->object()[i];
    require_field(can_be_written(key), "tools",
                  "expected names of parameters without line breaks, < and >, got '{}'",
                  clipped(key, 60));
    const bool needed = std::find(required.begin(), required.end(), key) != required.end();
    const Place said = g.literal(
        "<parameter=" + key + ">\n",
        tool_value(call, {schema, *parameters}, "#/properties/" + clipped(key, 60), next));
    next = needed ? said : g.either(said, next);
  }
  return g.literal("<zyphra_tool_call>\n<function=" + name + ">\n", next);
}

Place some_tool_call(ByteGrammar& g, const ChatRequest& r) {
  CallGrammar call(g);
  std::vector<Place> places;
  for (const Json& tool : r.tools.array()) {
    const Json& function = *tool.find("function");
    const bool meant =
        r.tool_choice == ToolChoice::required || function.find("name")->string() == r.tool_name;
    if (meant) places.push_back(tool_call(call, function));
  }
  require_field(!places.empty(), "tool_choice", "there is no tool '{}'", clipped(r.tool_name, 60));
  return g.any_of(places);
}

}  // namespace

bool must_call(const ChatRequest& r) {
  return r.tool_choice == ToolChoice::required || r.tool_choice == ToolChoice::named;
}

OutputForms::OutputForms(const Tokenizer& tokenizer, const TokenIds& ids)
    : tokenizer_(tokenizer), ids_(ids) {}

// Made once, when it is first needed: on a large vocabulary it takes a moment.
std::shared_ptr<const TokenTrie> OutputForms::trie() {
  const std::lock_guard lock(mutex_);
  if (!trie_) {
    const std::vector<std::string> markers = {"</think>", "<zyphra_tool_call>",
                                              "</zyphra_tool_call>"};
    trie_ = std::make_shared<const TokenTrie>(TokenTrie::of(tokenizer_, markers));
  }
  return trie_;
}

OutputForms::MakeFilter OutputForms::kept(const std::string& key, bool thinking,
                                          const Build& build) {
  const std::string whole = (thinking ? "think " : "plain ") + key;
  std::shared_ptr<GrammarMasks> masks;
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.key == whole; });
    if (found != kept_.end() && !found->masks->crowded()) {
      kept_.splice(kept_.begin(), kept_, found);
      masks = kept_.front().masks;
    } else if (found != kept_.end()) {
      kept_.erase(found);
    }
  }
  if (!masks) {
    ByteGrammar g;
    Place start = build(g);
    if (thinking) {
      start = g.any_of({start, g.literal("\n", start), g.literal("\n\n", start)});
      start = g.until("</think>", start);
    }
    const ByteGrammar::Rule rule = g.new_rule();
    g.define(rule, start);
    std::vector<int32_t> ends(ids_.eos.begin(), ids_.eos.end());
    masks = std::make_shared<GrammarMasks>(trie(), std::move(g), rule, std::move(ends),
                                           ids_.vocab_size);
    const std::lock_guard lock(mutex_);
    kept_.push_front({whole, masks});
    if (kept_.size() > kMostKept) kept_.pop_back();
  }
  return [masks] { return std::make_unique<GrammarFilter>(masks); };
}

OutputForms::MakeFilter OutputForms::filter_for(const CommonRequest& r, bool thinking) {
  if (r.form == OutputForm::text) return nullptr;
  require_field(!r.ignore_eos, "ignore_eos", "cannot be had with a response_format, which ends");
  if (r.form == OutputForm::json_object) {
    return kept("object", thinking,
                [](ByteGrammar& g) { return g.call(JsonGrammar(g).any_object(), kEnd); });
  }
  try {
    return kept("schema " + r.schema.dump(), thinking,
                [&](ByteGrammar& g) { return g.call(JsonGrammar(g).value_of(r.schema), kEnd); });
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "response_format", "invalid_json_schema");
  }
}

OutputForms::MakeFilter OutputForms::filter_for(const ChatRequest& r, bool thinking) {
  if (!must_call(r)) return filter_for(static_cast<const CommonRequest&>(r), thinking);
  require_field(r.form == OutputForm::text, "response_format",
                "cannot be had together with a tool_choice that asks for a call");
  require_field(!r.ignore_eos, "ignore_eos",
                "cannot be had with a tool_choice that asks for a call");
  try {
    return kept("tool " + r.tool_name + " " + r.tools.dump(), thinking,
                [&](ByteGrammar& g) { return some_tool_call(g, r); });
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "tools", "invalid_json_schema");
  }
}

}  // namespace tephra
