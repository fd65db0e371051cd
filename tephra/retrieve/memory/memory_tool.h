// SPDX-License-Identifier: Apache-2.0
// The operators as a tool that a language model may call: its definition in the form of OpenAI's
// "tools", and what a call gives back.
#pragma once

#include "tephra/base/json.h"
#include "tephra/retrieve/memory/memory.h"

namespace tephra {

constexpr const char* kMemoryToolName = "search_memory";

Json memory_tool_definition();

// `arguments`: {"chain": [...], "text": "...", "k": 10} or {"question": "..."}. Bad arguments are
// not an exception but {"error": "..."}: the model reads it and may try again.
Json call_memory_tool(Memory& memory, const Json& arguments);

Json to_json(const TurnTable& table, const MemoryAnswer& answer, int64_t limit);

}  // namespace tephra
