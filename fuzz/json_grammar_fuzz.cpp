// SPDX-License-Identifier: Apache-2.0
// Any text as a JSON schema: it is refused, or the texts that a walk through its grammar finds are
// JSON.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/text/json_grammar.h"

namespace {

using namespace tephra;

// Takes the byte that the input's next one chooses among those that go on.
void walk(ByteAutomaton& automaton, std::string_view choices) {
  std::string text;
  ByteAutomaton::State state = automaton.start();
  for (size_t i = 0; i < 200; ++i) {
    if (automaton.accepts(state)) (void)Json::parse(text, "walk", 1024);
    std::string next;
    for (int b = 0; b < 256; ++b) {
      if (automaton.step(state, static_cast<unsigned char>(b)) != ByteAutomaton::kDead) {
        next += static_cast<char>(b);
      }
    }
    if (next.empty()) {
      if (!automaton.accepts(state)) std::abort();  // a dead end
      return;
    }
    const auto choice = static_cast<unsigned char>(choices[i % choices.size()]);
    text += next[choice % next.size()];
    state = automaton.step(state, static_cast<unsigned char>(text.back()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::expect_reads_or_refuses([&] {
    const Json schema = Json::parse(text, "schema");
    ByteGrammar g;
    const ByteGrammar::Rule rule = JsonGrammar(g).value_of(schema);
    ByteAutomaton automaton(std::move(g), rule);
    walk(automaton, text);
  });
  return 0;
}
