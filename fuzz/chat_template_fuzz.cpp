// SPDX-License-Identifier: Apache-2.0
// Any text as a chat template, rendered with messages and tools under tight bounds; and as a
// model's answer, which must parse alike whole and in pieces.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/text/chat_parser.h"
#include "tephra/text/chat_template.h"

namespace {

using namespace tephra;

const Json& messages() {
  static const auto* const json = new Json(Json::parse(
      R"([{"role":"system","content":"Be brief."},
          {"role":"user","content":"Hi \u00e9"},
          {"role":"assistant","content":"Hello","reasoning_content":"greet",
           "tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1.5}}}]},
          {"role":"tool","content":"7"}])",
      "messages"));
  return *json;
}

const Json& tools() {
  static const auto* const json = new Json(
      Json::parse(R"([{"type":"function","function":{"name":"f","description":"d","parameters":
          {"type":"object","properties":{"x":{"type":"number"}}}}}])",
                  "tools"));
  return *json;
}

void check_parser(std::string_view text) {
  const ChatReply whole = ChatParser::parse(text, {.starts_thinking = false, .tools = tools()});
  ChatParser parser({.starts_thinking = false, .tools = tools()});
  ChatReply sum;
  const auto add = [&](const ChatDelta& d) {
    sum.reasoning += d.reasoning;
    sum.content += d.content;
    for (const ToolCall& call : d.tool_calls) sum.tool_calls.push_back(call);
  };
  const size_t step = text.empty() ? 1 : 1 + static_cast<unsigned char>(text[0]) % 7;
  for (size_t i = 0; i < text.size(); i += step) add(parser.add(text.substr(i, step)));
  add(parser.finish());
  if (sum.reasoning != whole.reasoning || sum.content != whole.content) std::abort();
  if (sum.tool_calls.size() != whole.tool_calls.size()) std::abort();
  for (size_t i = 0; i < whole.tool_calls.size(); ++i) {
    if (sum.tool_calls[i].arguments.dump() != whole.tool_calls[i].arguments.dump()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  ChatOptions options;
  options.max_steps = 20'000;
  options.max_value_bytes = 4 << 20;
  options.max_output_bytes = 1 << 20;
  options.clock = [] { return std::time_t{1'700'000'000}; };
  fuzz::expect_reads_or_refuses([&] {
    const ChatTemplate parsed = ChatTemplate::parse(text, "chat_template.jinja");
    (void)parsed.render(messages(), tools(), options);
  });
  check_parser(text);
  return 0;
}
