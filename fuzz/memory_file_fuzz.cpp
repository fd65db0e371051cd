// SPDX-License-Identifier: Apache-2.0
// Any bytes as a memory file; what is read of it can be asked and is written and read again alike.
#include <cstdlib>

#include "fuzz/fuzz.h"
#include "tephra/retrieve/memory/memory.h"
#include "tephra/retrieve/memory/turn_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  fuzz::expect_reads_or_refuses([&] {
    TurnTable table;
    const std::string_view bytes = fuzz::text_of(data, size);
    const TurnFileState state = read_turns(std::as_bytes(std::span(bytes)), "fuzz", table);
    if (state.good_bytes + state.torn_bytes != static_cast<int64_t>(size)) std::abort();
    Memory memory;
    std::vector<Turn> turns;
    for (int64_t row = 0; row < table.rows(); ++row) turns.push_back(table.turn(row));
    if (turns.empty()) return;
    memory.add(std::move(turns));
    if (memory.table().rows() != table.rows()) std::abort();
    memory.query({.question = "What did we say about bread last Friday or in session 2?"});
  });
  return 0;
}
