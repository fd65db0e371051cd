// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/chat_parser.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

Json tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
    "deep": {"type": "boolean"}, "tags": {"type": "array"}, "where": {"type": "object"},
    "share": {"type": "number"}, "note": {"type": ["string", "null"]}, "unit": {"enum": ["1", "b"]},
    "mode": {"$ref": "#/$defs/mode"}, "code": {"type": "string", "maxLength": 9}, "any": {},
    "more": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "loop": {"$ref": "#/$defs/loop"},
    "mixed": {"enum": ["a", 1, true]}},
    "$defs": {"mode": {"enum": ["null", "b"]}, "loop": {"anyOf": [{"$ref": "#/$defs/loop"},
      {"$ref": "#/$defs/loop"}, {"type": "null"}]}}}}}])",
                     "tools");
}

std::string shown(const ChatReply& reply) {
  Json out;
  out["reasoning"] = reply.reasoning;
  out["content"] = reply.content;
  for (const ToolCall& call : reply.tool_calls) {
    out["calls"].push_back(Json::Object{{"name", call.name}, {"arguments", call.arguments}});
  }
  return out.dump();
}

void append(ChatReply& reply, ChatDelta delta) {
  reply.reasoning += delta.reasoning;
  reply.content += delta.content;
  for (ToolCall& call : delta.tool_calls) reply.tool_calls.push_back(std::move(call));
}

const std::string kCall =
    "<zyphra_tool_call>\n<function=weather>\n<parameter=city>\n42\n</parameter>\n"
    "<parameter=days>\n2\n</parameter>\n</function>\n</zyphra_tool_call>";

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = {
      "",
      "Hello",
      "\nI think.\n</think>\n\nHello.\n\nBye\n",
      "<think>\nTwice\n</think>\n\nHello",
      "a < b <thi <z </think> c",
      "<think>\n\n</think>\n\nHi",
      "no end\n\n",
      "reason\n</think>\n\n" + kCall,
      "reason\n</think>\n\nLet me see.\n" + kCall + "\n" + kCall + "\nDone.",
      "</think>" + kCall + "tail",
      "x</think><zyphra_tool_call>nonsense</zyphra_tool_call> more",
      "x</think><zyphra_tool_call>\n<function=weather>\n<parameter=city>\nBe",
      "x</think>a\n\n<zyphra_tool_call><zyphra_tool_call>" + kCall,
      "x</think><zyphra_tool_call><function=></function></zyphra_tool_call>",
      "x</think><zyphra_tool_call><function=f></function></zyphra_tool_call>",
      "x</think><zyphra_tool_call",
      "\n\n\n",
  };
  return all;
}

TEST(ChatParser, EveryCutGivesTheSameReplyAndNoHalfMarker) {
  for (const bool thinking : {false, true}) {
    for (const std::string& text : texts()) {
      SCOPED_TRACE(text);
      const ChatParserOptions options{.starts_thinking = thinking, .tools = tools()};
      const std::string whole = shown(ChatParser::parse(text, options));
      for (size_t first = 0; first <= text.size(); ++first) {
        const size_t last = text.size() < 50 ? text.size() : first;  // two cuts of short texts only
        for (size_t second = first; second <= last; ++second) {
          ChatParser parser(options);
          ChatReply reply;
          append(reply, parser.add(text.substr(0, first)));
          append(reply, parser.add(text.substr(first, second - first)));
          append(reply, parser.add(text.substr(second)));
          append(reply, parser.finish());
          ASSERT_EQ(shown(reply), whole) << first << ", " << second;
        }
      }
      ChatParser parser(options);
      ChatReply reply;
      for (const char c : text) append(reply, parser.add(std::string(1, c)));
      append(reply, parser.finish());
      EXPECT_EQ(shown(reply), whole);
    }
  }
}

TEST(ChatParser, PartsReasoningContentAndCalls) {
  const ChatReply reply = ChatParser::parse("I should look.\n</think>\n\nLet me see.\n" + kCall,
                                            {.starts_thinking = true, .tools = tools()});
  EXPECT_EQ(reply.reasoning, "I should look.");
  EXPECT_EQ(reply.content, "Let me see.");
  ASSERT_EQ(reply.tool_calls.size(), 1u);
  EXPECT_EQ(reply.tool_calls[0].name, "weather");
  EXPECT_EQ(reply.tool_calls[0].arguments.dump(), R"({"city":"42","days":2})");
}

TEST(ChatParser, ThinkingMayBeOpenedByTheModelOrByThePrompt) {
  EXPECT_EQ(shown(ChatParser::parse("<think>\na\n</think>\n\nb")),
            R"({"reasoning":"a","content":"b"})");
  EXPECT_EQ(shown(ChatParser::parse("a\n</think>\n\nb", {.starts_thinking = true, .tools = {}})),
            R"({"reasoning":"a","content":"b"})");
  EXPECT_EQ(shown(ChatParser::parse("a <think> b")), R"({"reasoning":"","content":"a <think> b"})");
  EXPECT_EQ(shown(ChatParser::parse("never closed", {.starts_thinking = true, .tools = {}})),
            R"({"reasoning":"never closed","content":""})");
}

TEST(ChatParser, ArgumentsHaveTheTypesOfTheSchema) {
  const auto arguments = [](const std::string& parameter, const std::string& value,
                            const Json& known) {
    return ChatParser::parse("<zyphra_tool_call>\n<function=weather>\n<parameter=" + parameter +
                                 ">\n" + value + "\n</parameter>\n</function>\n</zyphra_tool_call>",
                             {.starts_thinking = false, .tools = known})
        .tool_calls.at(0)
        .arguments.dump();
  };
  EXPECT_EQ(arguments("city", "007", tools()), R"({"city":"007"})");
  EXPECT_EQ(arguments("city", "line\n\nline ", tools()), R"({"city":"line\n\nline "})");
  EXPECT_EQ(arguments("days", " 7 ", tools()), R"({"days":7})");
  EXPECT_EQ(arguments("days", "7.5", tools()), R"({"days":"7.5"})");
  EXPECT_EQ(arguments("share", "7", tools()), R"({"share":7})");
  EXPECT_EQ(arguments("deep", "True", tools()), R"({"deep":true})");
  EXPECT_EQ(arguments("deep", "false", tools()), R"({"deep":false})");
  EXPECT_EQ(arguments("tags", "[1, \"a\"]", tools()), R"({"tags":[1,"a"]})");
  EXPECT_EQ(arguments("where", "{\"lat\": 1.5}", tools()), R"({"where":{"lat":1.5}})");
  EXPECT_EQ(arguments("where", R"({"a": 1, "a": 2})", tools()), R"({"where":{"a":2}})");
  const std::string deep = std::string(500, '[') + std::string(500, ']');
  EXPECT_EQ(arguments("tags", deep, tools()), R"({"tags":)" + deep + "}");
  EXPECT_EQ(arguments("note", "null", tools()), R"({"note":null})");
  EXPECT_EQ(arguments("note", "a null", tools()), R"({"note":"a null"})");
  // Text where the schema has strings alone, JSON that it has, and text if it has strings, too.
  EXPECT_EQ(arguments("unit", "1", tools()), R"({"unit":"1"})");
  EXPECT_EQ(arguments("mode", "null", tools()), R"({"mode":"null"})");
  EXPECT_EQ(arguments("code", "\"q\"", tools()), R"({"code":"\"q\""})");
  EXPECT_EQ(arguments("note", "\"q\"", tools()), R"({"note":"q"})");
  EXPECT_EQ(arguments("note", "5", tools()), R"({"note":"5"})");
  EXPECT_EQ(arguments("note", "None", tools()), R"({"note":"None"})");
  EXPECT_EQ(arguments("more", "5", tools()), R"({"more":5})");
  EXPECT_EQ(arguments("more", "5.5", tools()), R"({"more":"5.5"})");
  EXPECT_EQ(arguments("mixed", "a", tools()), R"({"mixed":"a"})");
  EXPECT_EQ(arguments("mixed", "true", tools()), R"({"mixed":true})");
  EXPECT_EQ(arguments("any", "\"q\"", tools()), R"({"any":"\"q\""})");
  EXPECT_EQ(arguments("loop", "None", tools()), R"({"loop":null})");
  EXPECT_EQ(arguments("other", "3", tools()), R"({"other":3})");
  EXPECT_EQ(arguments("city", "3", Json()), R"({"city":3})");
  EXPECT_EQ(arguments("city", "\"q\"", Json()), R"({"city":"\"q\""})");
}

TEST(ChatParser, MalformedCallsAreContentWordForWord) {
  for (const std::string text :
       {"<zyphra_tool_call>{\"name\": \"f\"}</zyphra_tool_call>",
        "<zyphra_tool_call>\n<function=f>\n",
        "<zyphra_tool_call><function=f>text</function></zyphra_tool_call>",
        "<zyphra_tool_call><function=f><parameter=a>1</function></zyphra_tool_call>"}) {
    const ChatReply reply = ChatParser::parse(text);
    EXPECT_EQ(reply.content, text);
    EXPECT_TRUE(reply.tool_calls.empty());
  }
}

}  // namespace
}  // namespace tephra
