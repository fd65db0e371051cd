// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/memory/memory_tool.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/retrieve/memory/civil_time.h"

namespace tephra {
namespace {

constexpr int64_t kMaxRows = 200;  // of one call: what a context can bear

Json object(std::initializer_list<std::pair<std::string, Json>> fields) {
  return Json::Object(fields.begin(), fields.end());
}

Json strings(const std::vector<std::string>& values) {
  Json out = Json::Array{};
  for (const std::string& value : values) out.push_back(value);
  return out;
}

Json described(const char* type, const char* text) {
  return object({{"type", type}, {"description", text}});
}

Json operator_schema() {
  const Json op = object({{"type", "string"}, {"enum", strings({"f_value", "f_between"})}});
  const Json column = object({{"type", "string"}, {"enum", strings(column_names())}});
  Json value;
  value["anyOf"] = Json::Array{object({{"type", "string"}}), object({{"type", "integer"}})};
  const Json values = object(
      {{"type", "array"},
       {"items", value},
       {"description",
        "f_value: the values to keep. f_between: the lowest and the highest, both kept. response "
        "and session are numbers (session 1 is the first), speaker a name, date 2023-10-22, month "
        "2023-10, week 2023-W42, weekday Monday, clock 10:55, timestamp 2023-10-22T10:55:05."}});
  return object({{"type", "object"},
                 {"properties", object({{"op", op}, {"column", column}, {"values", values}})},
                 {"required", strings({"op", "column", "values"})}});
}

}  // namespace

Json memory_tool_definition() {
  const Json chain = object({{"type", "array"},
                             {"items", operator_schema()},
                             {"description", "Filters, applied one after the other."}});
  const Json properties = object(
      {{"question", described("string",
                              "A question in plain words, such as 'what did we say last "
                              "Friday about the garden?'. Use it or chain and text.")},
       {"chain", chain},
       {"text", described("string", "Words to search for among the turns that the chain kept.")},
       {"k", described("integer", "How many turns a search gives at most. Default 10.")}});
  const Json parameters = object({{"type", "object"}, {"properties", properties}});
  const Json function = object(
      {{"name", kMemoryToolName},
       {"description",
        "Finds turns of earlier conversations by when they were said, by whom, and about what."},
       {"parameters", parameters}});
  return object({{"type", "function"}, {"function", function}});
}

Json to_json(const TurnTable& table, const MemoryAnswer& answer, int64_t limit) {
  Json turns = Json::Array{};
  for (const ScoredRow& r : answer.rows) {
    if (static_cast<int64_t>(turns.array().size()) >= limit) break;
    Json turn;
    turn["response"] = r.row;
    turn["session"] = int64_t{table.session(r.row)};
    turn["time"] = time_text(table.time(r.row));
    turn["speaker"] = table.speaker_name(r.row);
    turn["text"] = std::string(table.text(r.row));
    if (answer.ranked) turn["score"] = r.score;
    turns.push_back(turn);
  }
  Json out;
  out["chain"] = to_json(answer.chain);
  out["terms"] = strings(answer.terms);
  out["explanation"] = strings(answer.explanation);
  out["kept"] = answer.kept;
  out["found"] = static_cast<int64_t>(answer.rows.size());
  out["turns"] = turns;
  return out;
}

Json call_memory_tool(Memory& memory, const Json& arguments) {
  try {
    require_data(arguments.is_object(), "arguments: expected an object, got {}", arguments.kind());
    const Fields fields(arguments, "arguments");
    const int64_t k = fields.integer_or("k", 10);
    require_data(k >= 1 && k <= kMaxRows, "arguments: k: expected 1 to {}, got {}", kMaxRows, k);
    if (fields.has("question")) {
      MemoryQuery query;
      query.question = fields.string("question");
      query.k = k;
      return to_json(memory.table(), memory.query(query), kMaxRows);
    }
    require_data(fields.has("chain") || fields.has("text"),
                 "arguments: expected a question, a chain or a text");
    const Chain chain = fields.has("chain")
                            ? chain_from_json(*arguments.find("chain"), "arguments: chain")
                            : Chain{};
    return to_json(memory.table(), memory.select(chain, fields.string_or("text", ""), k), kMaxRows);
  } catch (const Error& error) {
    if (error.fault() == Fault::internal) throw;
    Json out;
    out["error"] = error.what();
    return out;
  }
}

}  // namespace tephra
