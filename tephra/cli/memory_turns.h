// SPDX-License-Identifier: Apache-2.0
// Turns for the memory commands: from a file of JSON lines, and shown to people.
#pragma once

#include <string>
#include <vector>

#include "tephra/retrieve/memory/memory.h"

namespace tephra {

// "2023-10-22T10:55:05" or now, when it is nothing. Fault::usage names the flag.
int64_t time_flag(const std::optional<std::string>& text, const char* flag, int64_t otherwise);

// One turn a line: {"speaker", "text", "time", "session"}; role and content are understood as well.
// A turn without a time gets `now`. Empty lines are skipped. Fault::data names the line.
std::vector<Turn> turns_of_lines(std::string_view text, const std::string& where, int64_t now);

void print_turns(const TurnTable& table, const MemoryAnswer& answer, int64_t limit);

}  // namespace tephra
