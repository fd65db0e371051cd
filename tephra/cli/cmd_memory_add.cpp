// SPDX-License-Identifier: Apache-2.0
// tephra memory add: turns of a conversation into its memory file.
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/memory_turns.h"
#include "tephra/cli/output.h"
#include "tephra/cli/text_input.h"
#include "tephra/retrieve/memory/civil_time.h"

namespace tephra {
namespace {

struct Options {
  std::string file;
  std::optional<std::string> speaker;
  std::optional<std::string> text;
  std::optional<std::string> time;
  std::optional<std::string> lines;
  int64_t session = 0;
  bool new_session = false;
  std::string clock = "refuse";
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("FILE", o.file, "the memory; made if there is none").required();
  flags.add("--speaker NAME", o.speaker, "who said it");
  flags.add("--text TEXT", o.text, "what was said; without it, all of stdin");
  flags.add("--time TIME", o.time, "when, like 2023-10-22T10:55:05; without it, now");
  flags.add("--lines FILE", o.lines,
            "many turns at once, a JSON object a line: speaker, text, time, session; - is stdin");
  flags
      .add("--session", o.session,
           "number of the session; 0 goes on with the last one, or begins one after 20 minutes")
      .range(0, 2e9);
  flags.add("--new-session", o.new_session, "begin a new session");
  flags.add("--clock", o.clock, "what to do with a time before the last turn's")
      .choices({"refuse", "clamp"});
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra memory add chat.tmem --speaker Ann --text 'The bread came out well.'");
  flags.example("tephra memory add chat.tmem --lines turns.jsonl");
}

std::vector<Turn> turns_of(const Options& o) {
  require(!(o.new_session && o.session > 0), "--new-session and --session: expected one of them");
  const int64_t now = time_flag(o.time, "--time", wall_clock());
  if (o.lines) {
    require(!o.text && !o.speaker, "--lines: expected no --speaker and --text beside it");
    const bool piped = *o.lines == "-";
    const std::string text =
        piped ? input_text(std::nullopt, std::nullopt) : read_file(*o.lines, int64_t{1} << 34);
    std::vector<Turn> turns = turns_of_lines(text, piped ? "stdin" : *o.lines, now);
    require_data(!turns.empty(), "{}: holds no turns", piped ? "stdin" : *o.lines);
    return turns;
  }
  require(o.speaker.has_value(), "--speaker: who said it? Give a name, or many turns with --lines");
  const std::string text = input_text(o.text, std::nullopt);
  return {{now, 0, *o.speaker, std::string(trim(text))}};
}

int run(const Options& o) {
  std::vector<Turn> turns = turns_of(o);
  Memory memory = Memory::open_to_add(o.file);
  const TurnTable& table = memory.table();
  if (o.session > 0) {
    for (Turn& turn : turns) turn.session = static_cast<int32_t>(o.session);
  }
  if (o.new_session) turns[0].session = table.sessions() + 1;
  // The machine's own clock may be set back; a chat goes on all the same.
  const bool own_clock = !o.time && !o.lines;
  const bool behind = own_clock && table.rows() > 0 && turns[0].time < table.time(table.rows() - 1);
  if (behind) {
    log_warning("the clock shows {}, before the last turn: the turn gets that one's time, {}",
                time_text(turns[0].time), time_text(table.time(table.rows() - 1)));
  }
  const int64_t first =
      memory.add(std::move(turns),
                 o.clock == "clamp" || behind ? BackwardsClock::clamp : BackwardsClock::refuse);
  const int64_t added = table.rows() - first;
  if (o.json) {
    Json out;
    out["file"] = o.file;
    out["first"] = first;
    out["added"] = added;
    out["turns"] = table.rows();
    out["session"] = int64_t{table.sessions()};
    print_json(out);
  } else {
    print("{}: {} added, {} turns in {} sessions", o.file, human_count(added),
          human_count(table.rows()), human_count(table.sessions()));
  }
  return 0;
}

}  // namespace

Command memory_add_command() {
  return command<Options>("memory add", "keep turns of a conversation", describe, run);
}

}  // namespace tephra
