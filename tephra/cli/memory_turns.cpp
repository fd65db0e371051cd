// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/memory_turns.h"

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/cli/output.h"
#include "tephra/retrieve/memory/civil_time.h"

namespace tephra {
namespace {

constexpr size_t kMaxLine = 64 << 20;

std::string either(const Fields& fields, const char* name, const char* other) {
  return fields.has(name) || !fields.has(other) ? fields.string(name) : fields.string(other);
}

int32_t session_of(const Fields& fields) {
  const int64_t session = fields.integer_or("session", 0);
  require_data(session >= 0 && session <= INT32_MAX, "{}: session: expected 1 or more, got {}",
               fields.where(), session);
  return static_cast<int32_t>(session);
}

Turn turn_of(const Json& json, const std::string& where, int64_t now) {
  require_data(json.is_object(), "{}: expected an object, got {}", where, json.kind());
  const Fields fields(json, where);
  Turn turn;
  turn.speaker = either(fields, "speaker", "role");
  turn.text = either(fields, "text", "content");
  turn.session = session_of(fields);
  turn.time = now;
  if (fields.has("time")) {
    const std::string text = fields.string("time");
    const auto time = parse_time(text);
    require_data(time.has_value(), "{}: time: expected one like 2023-10-22T10:55:05, got '{}'",
                 where, clipped(text, 40));
    turn.time = *time;
  }
  return turn;
}

}  // namespace

int64_t time_flag(const std::optional<std::string>& text, const char* flag, int64_t otherwise) {
  if (!text) return otherwise;
  const auto time = parse_time(*text);
  require(time.has_value(), "{}: expected a time like 2023-10-22T10:55:05 or a date, got '{}'",
          flag, clipped(*text, 40));
  return *time;
}

std::vector<Turn> turns_of_lines(std::string_view text, const std::string& where, int64_t now) {
  std::vector<Turn> turns;
  int64_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const std::string place = format("{}:{}", where, number);
    require_data(line.size() <= kMaxLine, "{}: expected a line of at most {}, got {}", place,
                 human_bytes(static_cast<int64_t>(kMaxLine)),
                 human_bytes(static_cast<int64_t>(line.size())));
    turns.push_back(turn_of(Json::parse(line, place), place, now));
  }
  return turns;
}

void print_turns(const TurnTable& table, const MemoryAnswer& answer, int64_t limit) {
  const auto count = static_cast<int64_t>(answer.rows.size());
  const int64_t shown = limit == 0 ? count : std::min(limit, count);
  for (int64_t i = 0; i < shown; ++i) {
    const ScoredRow& r = answer.rows[static_cast<size_t>(i)];
    print("[{}] session {}, {}  {}: {}", r.row, table.session(r.row), time_text(table.time(r.row)),
          table.speaker_name(r.row), std::string(table.text(r.row)));
  }
  if (shown < count) {
    print("... and {} more turns; --limit 0 shows all", human_count(count - shown));
  }
}

}  // namespace tephra
