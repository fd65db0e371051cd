// SPDX-License-Identifier: Apache-2.0
// JSON schemas as grammars: what they allow, what they do not, and what is not understood.
#include "tephra/text/json_grammar.h"

#include <gtest/gtest.h>

#include "tephra/base/clock.h"
#include "tephra/core/rng.h"
#include "tephra/text/token_trie.h"
#include "tephra/text/tokenizer.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

ByteAutomaton automaton_of(const std::string& schema) {
  const Json json = Json::parse(schema, "schema");
  ByteGrammar g;
  const ByteGrammar::Rule rule = JsonGrammar(g).value_of(json);
  return ByteAutomaton(std::move(g), rule);
}

void expect_texts(const std::string& schema, const std::vector<std::string>& good,
                  const std::vector<std::string>& bad) {
  ByteAutomaton a = automaton_of(schema);
  for (const std::string& text : good) EXPECT_TRUE(a.accepts(text)) << schema << " " << text;
  for (const std::string& text : bad) EXPECT_FALSE(a.accepts(text)) << schema << " " << text;
}

TEST(JsonGrammar, AnyValue) {
  expect_texts("true",
               {"null", "true", "-0.5e+10", "0", "\"a\\u00e9\\n\"", "\"\u00e9\U0001f600\"", "[]",
                "[1, [2], {}]", "{\"a\": {\"b\":[1,2]}}", "{\n  \"a\": 1\n}"},
               {"",
                "nul",
                "01",
                "1.",
                ".5",
                "+1",
                "--1",
                "\"a",
                "\"\n\"",
                "\"\\x\"",
                "\"\\ud800\"",
                "\"\xff\"",
                "\"\xc0\x80\"",
                "\"\xed\xa0\x80\"",
                "[1,]",
                "[,1]",
                "{a: 1}",
                "{\"a\"}",
                "{\"a\": 1,}",
                "1 ",
                " 1",
                "[1}",
                "1e"});
}

TEST(JsonGrammar, Objects) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "integer"},
      "b": {"type": "string"}, "c": {"type": "boolean"}}, "required": ["a", "c"],
      "additionalProperties": false})";
  expect_texts(schema, {R"({"a": 1, "c": true})", R"({"a":1,"b":"x","c":false})"},
               {"{}", R"({"a": 1})", R"({"c": true, "a": 1})", R"({"a": 1, "c": true, "d": 1})",
                R"({"a": 1.5, "c": true})", R"({"a": "1", "c": true})"});
  expect_texts(R"({"type": "object", "properties": {"a": {"type": "integer"}}})",
               {"{}", "{ }", R"({"a": 1})"}, {R"({"b": 1})"});
  expect_texts(R"({"type": "object"})", {"{}", R"({"x": [1]})"}, {"[]", "1"});
}

TEST(JsonGrammar, FurtherMembersNeverRepeatTheKnownOnes) {
  expect_texts(R"({"type": "object", "properties": {"ab": {"type": "integer"}},
                   "additionalProperties": {"type": "string"}})",
               {"{}", R"({"ab": 1})", R"({"ab": 1, "abc": "x", "z": ""})", R"({"a": "x"})",
                R"({"": "x"})", R"({"x\u0061": "y"})"},
               {R"({"ab": "x"})", R"({"a": 1})", R"({"ab": 1, "ab": "x"})", R"({"\u0061b": "x"})",
                R"({"z": "x", "ab": 1})"});
}

TEST(JsonGrammar, Arrays) {
  expect_texts(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
               {"[1]", "[1, 2, 3]", "[\n  1,\n  2\n]"}, {"[]", "[1, 2, 3, 4]", "[\"1\"]"});
  expect_texts(R"({"type": "array", "items": {"type": "integer"}, "minItems": 2})",
               {"[1,2]", "[1,2,3,4,5]"}, {"[]", "[1]"});
  expect_texts(R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}],
                   "items": false})",
               {R"(["a", null])"}, {"[]", R"(["a"])", R"(["a", null, 1])"});
  expect_texts(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
}

TEST(JsonGrammar, StringsAndNumbers) {
  expect_texts(R"({"type": "string", "minLength": 2, "maxLength": 3})",
               {"\"ab\"", "\"\u00e9\u00e9\u00e9\"", "\"\\n\\n\""}, {"\"a\"", "\"abcd\"", "ab"});
  expect_texts(R"({"type": "string", "minLength": 2})", {"\"ab\"", "\"abcdef\""}, {"\"a\""});
  expect_texts(R"({"type": "number"})", {"1", "-2.5", "1e5"}, {"true", "\"1\""});
  // What readers hold: doubles and integers of 64 bits.
  expect_texts(R"({"type": "number"})",
               {"9999999999999999999.9e289", "1e05", "-1E+99", "5e-324", "0e0"},
               {"-90020202.131026e+52029", "1e290", "1e300", "10000000000000000000", "1e-1000"});
  expect_texts(R"({"type": "integer"})",
               {"0", "-7", "9223372036854775807", "-9223372036854775807", "1500000000000000000"},
               {"-0", "01", "9223372036854775808", "10000000000000000000"});
  expect_texts(R"({"type": ["integer", "null"]})", {"1", "null"}, {"1.5", "true"});
  expect_texts(R"({"enum": ["red", 3, null, {"a": 1}]})", {"\"red\"", "3", "null", R"({"a":1})"},
               {"\"blue\"", "4", "true"});
  expect_texts(R"({"const": "x"})", {"\"x\""}, {"\"y\""});
  // Values and a type: what is both.
  expect_texts(R"({"type": "string", "enum": ["red", 3]})", {"\"red\""}, {"3"});
  expect_texts(R"({"type": ["integer", "null"], "enum": [3, 0.5, null]})", {"3", "null"}, {"0.5"});
}

TEST(JsonGrammar, Patterns) {
  expect_texts(R"x({"type": "string", "pattern": "^[A-Z]{2}-\\d+(a|bc)?$"})x",
               {R"("AB-1")", R"("AB-123bc")", R"("ZZ-0a")"},
               {R"("AB-")", R"("ABC-1")", R"("AB-1ab")", R"("xAB-1")", R"("")"});
  expect_texts(R"x({"type": "string", "pattern": "b+"})x", {R"("b")", R"("abba")", R"("b\n")"},
               {R"("")", R"("aaa")"});
  expect_texts(R"x({"type": "string", "pattern": "^[^a\"]*$"})x",
               {R"("")", "\"xyz\u00e9\U0001f600\"", R"("\n\\")"}, {R"("a")", R"("x\"")"});
  expect_texts(R"x({"type": "string", "pattern": "^(?:\u00e4|[\u0430-\u044f]){2,3}$"})x",
               {"\"\u00e4\u0431\"", "\"\u044f\u044f\u0430\""}, {"\"\u00e4\"", "\"zz\""});
  expect_texts(R"x({"type": "string", "pattern": "^[\\u4e00-\\u9fff\\x41]+\\f?$"})x",
               {"\"\u4e2dA\u6587\"", R"("A\u000c")"}, {R"("B")", R"("")"});
  expect_texts(R"({"type": "string", "format": "date-time"})",
               {R"("2026-11-15T10:30:00Z")", R"("1999-12-31T23:59:59.5+01:00")"},
               {R"("2026-02-30T10:30:00Z")", R"("2026-13-01T00:00:00Z")", R"("2026-11-15")"});
  expect_texts(R"({"type": "string", "format": "ipv4"})", {R"("127.0.0.1")", R"("255.249.199.9")"},
               {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"});
  expect_texts(R"({"type": "string", "format": "uuid"})",
               {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
}

TEST(JsonGrammar, IntegersOfARange) {
  for (const auto& [least, most] : std::vector<std::pair<int, int>>{{0, 9},
                                                                    {0, 0},
                                                                    {5, 123},
                                                                    {-7, 12},
                                                                    {-120, -99},
                                                                    {99, 101},
                                                                    {-1000, 1000},
                                                                    {250, 3000}}) {
    ByteAutomaton a = automaton_of(R"({"type": "integer", "minimum": )" + std::to_string(least) +
                                   R"(, "maximum": )" + std::to_string(most) + "}");
    for (int i = -3200; i <= 3200; ++i) {
      ASSERT_EQ(a.accepts(std::to_string(i)), i >= least && i <= most) << i << " " << least;
    }
  }
  ByteAutomaton above = automaton_of(R"({"type": "integer", "exclusiveMinimum": 17})");
  ByteAutomaton below = automaton_of(R"({"type": "integer", "maximum": -3})");
  for (int i = -300; i <= 300; ++i) {
    EXPECT_EQ(above.accepts(std::to_string(i)), i > 17);
    EXPECT_EQ(below.accepts(std::to_string(i)), i <= -3);
  }
  EXPECT_TRUE(above.accepts("9223372036854775807"));
  EXPECT_FALSE(above.accepts("9223372036854775808"));
  EXPECT_TRUE(below.accepts("-9223372036854775807"));
  EXPECT_FALSE(below.accepts("-10000000000000000000"));
  EXPECT_FALSE(above.accepts("018"));
  EXPECT_FALSE(above.accepts("-0"));
}

TEST(JsonGrammar, ChoicesAndReferences) {
  expect_texts(R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]})",
               {"1", "[]", "[1, [2, [3]]]"}, {"\"a\"", "[\"a\"]"});
  const std::string tree = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
      "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"},
      {"type": "null"}]}}, "required": ["v", "next"]}}})";
  expect_texts(tree, {R"({"v": 1, "next": null})", R"({"v": 1, "next": {"v": 2, "next": null}})"},
               {R"({"v": 1})", R"({"v": 1, "next": {}})"});
}

TEST(JsonGrammar, WritesMarkersWithAnEscape) {
  const auto expect = [](const std::string& schema, const std::vector<std::string>& good,
                         const std::vector<std::string>& bad) {
    const Json json = Json::parse(schema, "schema");
    ByteGrammar g;
    const ByteGrammar::Rule rule = JsonGrammar(g, {"</a>", "</bc>"}).value_of(json);
    ByteAutomaton a(std::move(g), rule);
    for (const std::string& text : good) EXPECT_TRUE(a.accepts(text)) << schema << " " << text;
    for (const std::string& text : bad) EXPECT_FALSE(a.accepts(text)) << schema << " " << text;
  };
  expect(R"({"type": "string"})",
         {R"("")", R"("a < b </b> </ab> \u00e9")", R"("<\/a>")", R"("\u003c/bc>")", R"("</a")"},
         {R"("</a>")", R"("x<</bc>y")", R"("</a)", "\"\n\""});
  expect("true", {R"({"</b>": ["</"]})"}, {R"({"</a>": 1})", R"(["</bc>"])"});
  // Where characters are counted or matched, every < is an escape.
  expect(R"({"type": "string", "maxLength": 4})", {R"("\u003c/a>")"}, {R"("</a>")", R"("<")"});
  expect(R"({"type": "string", "pattern": "/a"})", {R"("\u003c/a>")"}, {R"("</a>")", R"("</a")"});
  expect(R"({"type": "string", "pattern": "^.[;-=]$"})", {R"("\u003c;")", R"("=\u003c")"},
         {R"("=<")", R"("<=")"});
  expect(R"({"enum": ["</a>"]})", {R"("\u003c/a>")"}, {R"("</a>")"});
  expect(R"({"type": "object", "properties": {"</a>": {"type": "integer"}},
             "additionalProperties": {"type": "null"}})",
         {R"({"\u003c/a>": 1, "/": null})", R"({"/a>": null})"},
         {R"({"</a>": null})", R"({"\u003c/a>": null})", R"({"<": null})"});
}

// What could never end is not begun.
TEST(JsonGrammar, TakesNoWayThatHasNoEnd) {
  const std::string endless =
      R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/e"}}, "required": ["a"]})";
  const std::string defs = R"(, "$defs": {"e": )" + endless + "}}";
  expect_texts(R"({"anyOf": [{"$ref": "#/$defs/e"}, {"type": "null"}])" + defs, {"null"},
               {"{}", R"({"a": null})"});
  ByteAutomaton choice =
      automaton_of(R"({"anyOf": [{"$ref": "#/$defs/e"}, {"type": "null"}])" + defs);
  EXPECT_EQ(choice.step(choice.start(), "{"), ByteAutomaton::kDead);
  ByteAutomaton list = automaton_of(R"({"type": "array", "items": {"$ref": "#/$defs/e"})" + defs);
  EXPECT_TRUE(list.accepts("[]"));
  EXPECT_EQ(list.step(list.start(), "[{"), ByteAutomaton::kDead);
  ByteAutomaton nothing = automaton_of(
      R"({"anyOf": [{"type": "string", "pattern": "^a[^\\s\\S]$"}, {"type": "null"}]})");
  EXPECT_EQ(nothing.step(nothing.start(), "\""), ByteAutomaton::kDead);
}

TEST(ByteGrammar, RefusesToFollowWhatWouldTakeAllMemory) {
  ByteAutomaton a = automaton_of(R"x({"type": "string", "pattern": "^(a|b)*a(a|b){1000}$"})x");
  const std::string said = message_of([&] {
    ByteAutomaton::State state = a.step(a.start(), "\"");
    uint64_t bits = 88172645463325252;  // no pattern in the letters: each state is a new one
    for (int i = 0; i < 100000; ++i) {
      bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
      state = a.step(state, static_cast<unsigned char>(bits % 2 == 0 ? 'a' : 'b'));
    }
  });
  EXPECT_EQ(said, "grammar: the form is too involved to follow; make it smaller");
  EXPECT_LT(a.states(), 20000u);
}

std::string refusal_of(const std::string& schema) {
  return message_of([&] { automaton_of(schema); });
}

TEST(JsonGrammar, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(
      refusal_of(R"({"type": "object", "properties": {"a": {"type": "number", "multipleOf": 2}}})"),
      "schema #/properties/a: 'multipleOf' is not understood here; leave it out");
  for (const char* pattern : {"(?=a)", "a**", "(", "[z-a]", R"(\\b)", "a{2", "a{9999}", "^a|b$",
                              R"(\\1)", R"(\\u12)", R"(\\xg0)", R"(\\ud83d)", R"(\\u{1f600})"}) {
    const std::string said =
        refusal_of(std::string(R"({"type": "string", "pattern": ")") + pattern + "\"}");
    EXPECT_NE(said.find("pattern:"), std::string::npos) << pattern << " " << said;
  }
  EXPECT_EQ(refusal_of(R"({"type": "string", "format": "iri"})"),
            "schema #: format: expected date, time, date-time, uuid, email or ipv4, got 'iri'");
  EXPECT_EQ(refusal_of(R"({"type": "obj"})"),
            "schema #: type: expected object, array, string, integer, number, boolean or null, got "
            "'obj'");
  EXPECT_EQ(refusal_of(R"({"type": "string", "const": 5})"),
            "schema #/const: expected a value of the type \"string\", got none");
  EXPECT_EQ(refusal_of(R"({"type": "integer", "exclusiveMaximum": -9223372036854775808})"),
            "schema #: exclusiveMaximum: expected an integer of at most 18 digits, got "
            "-9223372036854775808");
  EXPECT_EQ(refusal_of(R"({"$ref": "#/$defs/x"})"), "schema #: $ref: there is no #/$defs/x");
  EXPECT_EQ(refusal_of(R"({"$ref": "http://x"})"),
            "schema #: $ref: expected a place in this schema such as #/$defs/name, got 'http://x'");
  EXPECT_EQ(refusal_of(R"({"$ref": "#"})"), "grammar: no text has this form");
  EXPECT_EQ(refusal_of(R"({"type": "object", "properties": {"a": {"$ref": "#"}},
                           "required": ["a"]})"),
            "grammar: no text has this form");
  EXPECT_EQ(refusal_of(R"({"not": {}})"), "schema #: 'not' is not understood here; leave it out");
  EXPECT_EQ(refusal_of(R"({"type": "string", "maxLength": 100000})"),
            "schema #: maxLength: expected an integer from 0 to 4096, got 100000");
  EXPECT_EQ(refusal_of("false"), "schema #: expected a schema, got false, which allows nothing");
  EXPECT_EQ(refusal_of(R"({"type": "object", "properties": {}, "required": ["a"],
                           "additionalProperties": false})"),
            "schema #/required: 'a' is not among the properties");
}

// Walks at random through what a vocabulary allows: whatever comes out is JSON of the schema.
TEST(TokenTrie, EveryWalkEndsInATextOfTheGrammar) {
  const Tokenizer tokenizer =
      Tokenizer::load(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level/tokenizer.json");
  const TokenTrie trie = TokenTrie::of(tokenizer, {});
  const std::string schema = R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 8}, "n": {"type": "integer", "minimum": -5, "maximum": 40},
      "list": {"type": "array", "items": {"enum": ["a", "bc", null]}, "maxItems": 3}},
      "required": ["name", "n", "list"]})";
  ByteAutomaton a = automaton_of(schema);
  for (uint32_t walk = 0; walk < 40; ++walk) {
    std::vector<int32_t> ids;
    std::string text;
    ByteAutomaton::State state = a.start();
    for (uint64_t step = 0; step < 200 && !a.accepts(state); ++step) {
      std::vector<uint64_t> bits(static_cast<size_t>(tokenizer.vocab_size() + 63) / 64);
      ASSERT_TRUE(trie.allowed(a, state, bits)) << text;
      std::vector<int32_t> choices;
      for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        const bool may = (bits[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
        const bool goes =
            !trie.bytes(id).empty() && a.step(state, trie.bytes(id)) != ByteAutomaton::kDead;
        ASSERT_EQ(may, goes) << id;
        if (may) choices.push_back(id);
      }
      const double u = uniform({7, walk, 0}, step);
      const int32_t id = choices[static_cast<size_t>(u * double(choices.size()))];
      ids.push_back(id);
      text += trie.bytes(id);
      state = a.step(state, trie.bytes(id));
    }
    if (!a.accepts(state)) continue;  // white space can go on for long
    const Json value = Json::parse(text, "walk");
    EXPECT_TRUE(value.find("name")->is_string());
    EXPECT_LE(value.find("n")->integer(), 40);
    EXPECT_LE(value.find("list")->array().size(), 3u);
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
}

TEST(ByteGrammar, GoesRoundMarkers) {
  ByteGrammar g;
  const ByteGrammar::Rule other = g.new_rule(), rule = g.new_rule();
  g.define(other, g.byte('x', 'z', ByteGrammar::kReturn));
  g.define(rule, g.without({"aab", "aac"}, other, g.literal("aab!", ByteGrammar::kReturn)));
  ByteAutomaton a(std::move(g), rule);
  for (const char* text : {"aab!", "aaab!", "xaaxaaaab!", "cabaab!", "acabaxaab!"}) {
    EXPECT_TRUE(a.accepts(text)) << text;
  }
  for (const char* text : {"", "aab", "aacaab!", "aaabaab!", "xaaacaab!", "daab!"}) {
    EXPECT_FALSE(a.accepts(text)) << text;
  }
}

TEST(ByteGrammar, ReadsUpToAMarker) {
  ByteGrammar g;
  const ByteGrammar::Rule rule = g.new_rule();
  g.define(rule, g.until("aab", g.literal("!", ByteGrammar::kReturn)));
  ByteAutomaton a(std::move(g), rule);
  EXPECT_TRUE(a.accepts("aab!"));
  EXPECT_TRUE(a.accepts("aaab!"));
  EXPECT_TRUE(a.accepts("xaaxaaaab!"));
  EXPECT_FALSE(a.accepts("aab"));
  EXPECT_FALSE(a.accepts("aabaab!"));
  EXPECT_FALSE(a.accepts("ab!"));
}

}  // namespace
}  // namespace tephra
