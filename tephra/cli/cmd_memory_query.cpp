// SPDX-License-Identifier: Apache-2.0
// tephra memory query: turns of a memory by when they were said and what about.
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/cli/command.h"
#include "tephra/cli/memory_turns.h"
#include "tephra/cli/output.h"
#include "tephra/retrieve/memory/memory_tool.h"

namespace tephra {
namespace {

struct Options {
  std::string file;
  std::string question;
  std::optional<std::string> now;
  std::optional<std::string> before;
  std::string me;
  int64_t session = 0;
  int64_t k = 10;
  int64_t limit = 20;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("FILE", o.file, "the memory").required();
  flags.add("QUESTION", o.question, "in plain words").required();
  flags.add("--now TIME", o.now, "when it is asked; without it, when the last turn was said");
  flags.add("--before FILE", o.before,
            "the turns before the question, a JSON object a line (speaker, text): a vague question "
            "takes its time or subject from them");
  flags.add("--me NAME", o.me, "who 'I' is in the question");
  flags.add("--session", o.session, "the stored session it is asked in; 0: in a later one")
      .range(0, 2e9);
  flags.add("--k", o.k, "turns of a search by content").range(1, 100'000);
  flags.add("--limit", o.limit, "turns to show; 0 shows all").range(0, 1e12);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra memory query chat.tmem 'What did we talk about last Friday?'");
  flags.example(
      "tephra memory query chat.tmem 'What did Ann say about bread in session 3?' --json");
}

int run(const Options& o) {
  Memory memory = Memory::open_to_read(o.file);
  if (memory.file_state().torn_bytes > 0) {
    log_warning("{}: {} bytes at its end are of a turn that was never acknowledged", o.file,
                memory.file_state().torn_bytes);
  }
  MemoryQuery query;
  query.question = o.question;
  query.asker = o.me;
  query.k = o.k;
  require(o.session <= memory.table().sessions() + 1,
          "--session: expected at most {}, the one after the last, got {}",
          memory.table().sessions() + 1, o.session);
  query.session = static_cast<int32_t>(o.session);
  if (o.now) query.now = time_flag(o.now, "--now", 0);
  if (o.before) {
    for (Turn& t : turns_of_lines(read_file(*o.before), *o.before, 0)) {
      query.before.push_back({std::move(t.speaker), std::move(t.text)});
    }
  }
  require_data(memory.table().rows() > 0, "{}: holds no turns yet; `tephra memory add` adds some",
               o.file);
  const MemoryAnswer answer = memory.query(query);
  if (o.json) {
    print_json(to_json(memory.table(), answer, o.limit == 0 ? INT64_MAX : o.limit));
    return 0;
  }
  for (const std::string& line : answer.explanation) log_info("{}", line);
  if (answer.rows.empty()) print("nothing was said then");
  print_turns(memory.table(), answer, o.limit);
  return 0;
}

}  // namespace

Command memory_query_command() {
  return command<Options>("memory query", "find what was said, by when and about what", describe,
                          run);
}

}  // namespace tephra
