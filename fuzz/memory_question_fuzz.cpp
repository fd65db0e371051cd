// SPDX-License-Identifier: Apache-2.0
// Any text as a question, with what stands before its first newline as the turn before it; and any
// text as a tool's arguments.
#include "fuzz/fuzz.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/memory_tool.h"

namespace {

tephra::Memory made_memory() {
  using namespace tephra;
  Memory memory;
  std::vector<Turn> turns;
  for (int i = 0; i < 40; ++i) {
    const int64_t day = day_number({2022, 11, 3}) + i * 9;
    turns.push_back({day * kDaySeconds + 3600 * (i % 24), 1 + i / 2, i % 2 == 0 ? "Ann" : "Ben",
                     i % 3 == 0 ? "the bread and the garden" : "the ferry in May"});
  }
  memory.add(std::move(turns));
  return memory;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  static Memory memory = made_memory();
  const std::string_view text = fuzz::text_of(data, size);
  const size_t line = std::min(text.find('\n'), text.size());
  fuzz::expect_reads_or_refuses([&] {
    MemoryQuery query;
    query.question = std::string(text.substr(std::min(line + 1, text.size())));
    query.before = {{"Ann", std::string(text.substr(0, line))}};
    memory.query(query);
  });
  fuzz::expect_reads_or_refuses([&] { call_memory_tool(memory, Json::parse(text, "fuzz")); });
  return 0;
}
