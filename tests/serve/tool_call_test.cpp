// SPDX-License-Identifier: Apache-2.0
// Calls that a model is held to: whatever it says within the grammar is read back as one call, with
// an argument of the tool's schema.
#include <gtest/gtest.h>

#include <cmath>

#include "tephra/core/rng.h"
#include "tephra/serve/api_error.h"
#include "tephra/serve/output_form.h"
#include "tephra/text/byte_tokenizer.h"
#include "tephra/text/chat_parser.h"

namespace tephra {
namespace {

constexpr int32_t kEnd = 1;  // of the byte tokenizer

ChatRequest request_for(const std::string& schema, const std::string& more = "") {
  ChatRequest r;
  r.tool_choice = ToolChoice::required;
  r.tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "properties": {"p": )" +
                            schema + R"(}, "required": ["p"])" + more + "}}}]",
                        "tools");
  return r;
}

class ToolCalls : public ::testing::Test {
 protected:
  ToolCalls()
      : tokenizer_(Tokenizer::parse(byte_tokenizer_json(), "bytes")),
        trie_(TokenTrie::of(tokenizer_, {})),
        ids_{.vocab_size = tokenizer_.vocab_size(),
             .usable = tokenizer_.vocab_size(),
             .pad = 0,
             .bos = 2,
             .eos = {kEnd}},
        forms_(tokenizer_, ids_) {}

  // Says anything for a while; then tries to end each part of the call, in the wrong places, too.
  std::string walk(const ChatRequest& r, uint32_t seed) {
    static const std::vector<std::string> kWishes = {
        "</parameter>", "</function>", "</zyphra_tool_call>", "\"", "]", "}", "\n"};
    const std::unique_ptr<TokenFilter> filter = forms_.filter_for(r, false)();
    std::string text, wish;
    for (uint64_t step = 0; step < 3000; ++step) {
      const std::span<const uint64_t> bits = filter->allowed();
      if (may(bits, kEnd)) return text;
      const double u = uniform({11, seed, 0}, step);
      if (step > 120 && wish.empty()) {
        wish = kWishes[static_cast<size_t>(u * double(kWishes.size()))];
      }
      int32_t id = kEnd;
      for (; id == kEnd && !wish.empty(); wish.erase(0, 1)) id = allowed(bits, wish[0]);
      if (id == kEnd) id = anything(bits, u);
      text += trie_.bytes(id);
      filter->accept(id);
    }
    ADD_FAILURE() << "no end: " << text;
    return text;
  }

  std::string refusal(const ChatRequest& r) {
    try {
      forms_.filter_for(r, false);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.status(), 400);
      return e.what();
    }
    return "taken";
  }

  static Json argument(const ChatRequest& r, const std::string& text) {
    const ChatReply reply = ChatParser::parse(text, {.tools = r.tools, .held = true});
    EXPECT_EQ(reply.content, "");
    EXPECT_EQ(reply.tool_calls.size(), 1u) << text;
    if (reply.tool_calls.empty()) return {};
    EXPECT_EQ(reply.tool_calls[0].name, "f");
    const Json* value = reply.tool_calls[0].arguments.find("p");
    EXPECT_NE(value, nullptr) << text;
    return value == nullptr ? Json() : *value;
  }

 private:
  static bool may(std::span<const uint64_t> bits, int32_t id) {
    return (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
  }
  int32_t allowed(std::span<const uint64_t> bits, char c) const {
    for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
      if (trie_.bytes(id) == std::string(1, c) && may(bits, id)) return id;
    }
    return kEnd;
  }
  int32_t anything(std::span<const uint64_t> bits, double u) const {
    std::vector<int32_t> choices;
    for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
      if (may(bits, id)) choices.push_back(id);
    }
    return choices.at(static_cast<size_t>(u * double(choices.size())));
  }

  Tokenizer tokenizer_;
  TokenTrie trie_;
  TokenIds ids_;
  OutputForms forms_;
};

size_t characters(const Json& value) {
  const std::string& text = value.string();
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool is_one_of(const Json& value, const Json::Array& values) {
  return std::any_of(values.begin(), values.end(),
                     [&](const Json& each) { return each.dump() == value.dump(); });
}

struct Shape {
  std::string schema;
  std::function<bool(const Json&)> valid;
  std::string more = "";  // beside the properties
};

const std::vector<Shape>& shapes() {
  const auto string = [](const Json& v) { return v.is_string(); };
  const auto string_or_null = [](const Json& v) { return v.is_string() || v.is_null(); };
  const auto a_or_b = [](const Json& v) { return is_one_of(v, {"a", "b"}); };
  const auto finite = [](const Json& v) { return v.is_number() && std::isfinite(v.number()); };
  const auto strings = [](const Json& v) {
    return v.is_array() && std::all_of(v.array().begin(), v.array().end(),
                                       [](const Json& each) { return each.is_string(); });
  };
  static const std::vector<Shape> all = {
      {R"({"type": "string"})", string},
      {R"({"type": "string", "description": "a text"})", string},
      {R"({})", [](const Json&) { return true; }},
      {R"({"title": "Anything"})", [](const Json&) { return true; }},
      {R"({"enum": ["a", "b"]})", a_or_b},
      {R"({"type": "string", "enum": ["a", "b"]})", a_or_b},
      {R"({"enum": ["1", "null"]})",
       [](const Json& v) {
         return is_one_of(v, {"1", "null"});
       }},
      {R"({"enum": [" a\n", ""]})",
       [](const Json& v) {
         return is_one_of(v, {" a\n", ""});
       }},
      {R"({"enum": ["a", 1, null]})",
       [](const Json& v) {
         return is_one_of(v, {"a", 1, Json()});
       }},
      {R"({"const": "x"})", [](const Json& v) { return is_one_of(v, {"x"}); }},
      {R"({"$ref": "#/$defs/E"})", a_or_b, R"(, "$defs": {"E": {"enum": ["a", "b"]}})"},
      {R"({"allOf": [{"$ref": "#/$defs/E"}], "default": "a"})", a_or_b,
       R"(, "$defs": {"E": {"type": "string", "enum": ["a", "b"]}})"},
      {R"({"anyOf": [{"$ref": "#/$defs/E"}, {"type": "null"}]})",
       [](const Json& v) {
         return is_one_of(v, {"a", "b", Json()});
       },
       R"(, "$defs": {"E": {"type": "string", "enum": ["a", "b"]}})"},
      {R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", string_or_null},
      {R"({"type": ["string", "null"]})", string_or_null},
      {R"({"type": ["string", "integer"]})",
       [](const Json& v) { return v.is_string() || v.is_int(); }},
      {R"({"type": "string", "maxLength": 5})",
       [](const Json& v) { return v.is_string() && characters(v) <= 5; }},
      {R"({"type": "string", "minLength": 3})",
       [](const Json& v) { return v.is_string() && characters(v) >= 3; }},
      {R"({"type": "string", "pattern": "^<[a-c/]{2}>$"})",
       [](const Json& v) {
         return v.is_string() && v.string().size() == 4 && v.string()[0] == '<';
       }},
      {R"({"type": "string", "pattern": "meter>"})",
       [](const Json& v) {
         return v.is_string() && v.string().find("meter>") != std::string::npos;
       }},
      {R"({"type": "string", "format": "date"})",
       [](const Json& v) { return v.is_string() && v.string().size() == 10; }},
      {R"({"enum": ["</parameter>", "</function>"]})",
       [](const Json& v) {
         return is_one_of(v, {"</parameter>", "</function>"});
       }},
      {R"({"type": "string", "enum": ["</zyphra_tool_call>\n"]})",
       [](const Json& v) { return is_one_of(v, {"</zyphra_tool_call>\n"}); }},
      {R"({"type": "array", "items": {"type": "string"}, "minItems": 1})", strings},
      {R"({"type": "object", "properties": {"</parameter>": {"type": "string"}},
           "required": ["</parameter>"], "additionalProperties": {"type": "boolean"}})",
       [](const Json& v) { return v.is_object() && v.find("</parameter>") != nullptr; }},
      {R"({"type": "object", "additionalProperties": {"type": "integer"}})",
       [](const Json& v) { return v.is_object(); }},
      {R"({"type": "object"})", [](const Json& v) { return v.is_object(); }},
      {R"({"type": "number"})", finite},
      {R"({"type": "array", "items": {"type": "number"}, "minItems": 2})",
       [](const Json& v) { return v.is_array(); }},
      {R"({"type": "integer"})", [](const Json& v) { return v.is_int(); }},
      {R"({"type": "integer", "minimum": 7})",
       [](const Json& v) { return v.is_int() && v.integer() >= 7; }},
      {R"({"type": "boolean"})", [](const Json& v) { return v.is_bool(); }},
      {R"({"type": "null"})", [](const Json& v) { return v.is_null(); }},
  };
  return all;
}

TEST_F(ToolCalls, AreReadBackWithArgumentsOfTheSchema) {
  for (const Shape& shape : shapes()) {
    const ChatRequest r = request_for(shape.schema, shape.more);
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const std::string text = walk(r, seed);
      const Json value = argument(r, text);
      ASSERT_TRUE(shape.valid(value)) << shape.schema << " " << text << " " << value.dump();
    }
  }
}

TEST_F(ToolCalls, WhatTheSchemaSaysThatCannotBeHeldIsRefused) {
  const auto said = [&](const std::string& schema) { return refusal(request_for(schema)); };
  EXPECT_EQ(said(R"({"type": "string", "contentEncoding": "base64"})"),
            "schema #/properties/p: 'contentEncoding' is not understood here; leave it out");
  EXPECT_EQ(said(R"({"type": "string", "format": "iri"})"),
            "schema #/properties/p: format: expected date, time, date-time, uuid, email or ipv4, "
            "got 'iri'");
  EXPECT_EQ(said(R"({"type": "string", "maxLength": 4097})"),
            "schema #/properties/p: maxLength: expected an integer from 0 to 4096, got 4097");
  EXPECT_EQ(said(R"({"type": "string", "enum": []})"),
            "schema #/properties/p/enum: expected a list of values");
  EXPECT_EQ(said("false"),
            "schema #/properties/p: expected a schema, got false, which allows nothing");
  EXPECT_EQ(refusal(request_for("{}", R"(, "anyOf": [{"required": ["p"]}])")),
            "tools: schema #: 'anyOf' is not understood here; leave it out");
  ChatRequest r = request_for("{}");
  r.tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "properties": {"</parameter": {}}}}}])",
                        "tools");
  EXPECT_EQ(refusal(r),
            "tools: expected names of parameters without line breaks, < and >, got '</parameter'");
}

}  // namespace
}  // namespace tephra
