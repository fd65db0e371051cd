// SPDX-License-Identifier: Apache-2.0
// tephra memory tool and memory check: the operators for a model, and the state of a file.
#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/memory_tool.h"

namespace tephra {
namespace {

struct ToolOptions {
  std::optional<std::string> file;
  std::optional<std::string> call;
};

void describe_tool(Flags& flags, ToolOptions& o) {
  flags.add("--file FILE", o.file, "the memory to call the tool on");
  flags.add("--call JSON", o.call, "arguments of a call; without it, the tool's definition");
  flags.example("tephra memory tool");
  flags.example(
      "tephra memory tool --file chat.tmem --call "
      "'{\"chain\": [{\"op\": \"f_value\", \"column\": \"session\", \"values\": [3]}]}'");
}

int run_tool(const ToolOptions& o) {
  require(o.call.has_value() == o.file.has_value(), "--file and --call: expected both or neither");
  if (!o.call) {
    print_json(memory_tool_definition());
    return 0;
  }
  Memory memory = Memory::open_to_read(*o.file);
  const Json result = call_memory_tool(memory, Json::parse(*o.call, "--call"));
  print_json(result);
  return result.find("error") == nullptr ? 0 : exit_code(Fault::data);
}

struct CheckOptions {
  std::string file;
  std::optional<std::string> rescue;
  bool json = false;
};

void describe_check(Flags& flags, CheckOptions& o) {
  flags.add("FILE", o.file, "the memory").required();
  flags.add("--rescue NEW_FILE", o.rescue, "write the turns before the damage to a new file");
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra memory check chat.tmem");
  flags.example("tephra memory check chat.tmem --rescue saved.tmem");
}

// Reads as far as the file is sound.
struct Checked {
  TurnTable table;
  TurnFileState state;
  std::string problem;
};
Checked check(const Path& path) {
  Checked out;
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  try {
    out.state = read_turns(file->bytes(), path.string(), out.table);
  } catch (const Error& error) {
    if (error.fault() != Fault::data) throw;
    out.problem = error.what();
  }
  return out;
}

void rescue(const TurnTable& table, const Path& to) {
  require(!std::filesystem::exists(to), "{}: exists; give the name of a new file", to.string());
  TurnTable empty;
  TurnWriter writer(to, empty);
  std::vector<Turn> turns;
  for (int64_t row = 0; row < table.rows(); ++row) {
    turns.push_back(table.turn(row));
    if (turns.size() == 10'000 || row + 1 == table.rows()) {
      writer.append(turns);
      turns.clear();
    }
  }
}

int run_check(const CheckOptions& o) {
  const Checked checked = check(o.file);
  const TurnTable& table = checked.table;
  if (o.rescue) rescue(table, *o.rescue);
  if (o.json) {
    Json out;
    out["file"] = o.file;
    out["sound"] = checked.problem.empty();
    out["problem"] = checked.problem.empty() ? Json() : Json(checked.problem);
    out["turns"] = table.rows();
    out["sessions"] = int64_t{table.sessions()};
    out["records"] = checked.state.records;
    out["bytes"] = checked.state.good_bytes;
    out["unfinished_bytes"] = checked.state.torn_bytes;
    print_json(out);
  } else if (checked.problem.empty()) {
    print("{}: sound: {} turns in {} sessions, {}{}", o.file, human_count(table.rows()),
          human_count(table.sessions()), human_bytes(checked.state.good_bytes),
          checked.state.torn_bytes > 0
              ? format(", and {} bytes of a turn that was never acknowledged",
                       checked.state.torn_bytes)
              : "");
    if (table.rows() > 0) {
      print("from {} to {}", time_text(table.time(0)), time_text(table.time(table.rows() - 1)));
    }
  } else {
    print("{}", checked.problem);
  }
  if (o.rescue && !o.json) print("{}: {} turns saved", *o.rescue, human_count(table.rows()));
  return checked.problem.empty() ? 0 : exit_code(Fault::data);
}

}  // namespace

Command memory_tool_command() {
  return command<ToolOptions>("memory tool", "the memory's operators as a tool for a model",
                              describe_tool, run_tool);
}

Command memory_check_command() {
  return command<CheckOptions>("memory check", "whether a memory file is sound", describe_check,
                               run_check);
}

}  // namespace tephra
