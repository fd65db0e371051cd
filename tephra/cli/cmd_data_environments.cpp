// SPDX-License-Identifier: Apache-2.0
// tephra data environments: the built-in tasks, listed or shown.
#include "tephra/base/error.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/data/environments/aggregation.h"

namespace tephra {
namespace {

struct Options {
  std::string action;
  std::string kind;
  int64_t level = 1;
  int64_t seed = 0;
  int64_t count = 1;
  std::string split = "train";
  std::string answer;
  int64_t aggregate = 0;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("ACTION", o.action, "list: the kinds; show: tasks of one kind")
      .required()
      .choices({"list", "show"});
  flags.add("KIND", o.kind, "of `show`: which environment");
  flags.add("--level", o.level, "difficulty, 1 or more, without end").range(1, 4e9);
  flags.add("--seed", o.seed, "the same seed gives the same task").range(0, 9e18);
  flags.add("--count", o.count, "show this many, from seeds that follow").range(1, 1e9);
  flags.add("--split", o.split, "which tasks: no held-out one is ever in training")
      .choices({"train", "held_out"});
  flags.add("--answer", o.answer, "say whether this answer is right; exit code 3 when it is not");
  flags
      .add("--aggregate C", o.aggregate,
           "with C attempts in the prompt, some wrong, as Markovian RSA asks; 0: as it is")
      .range(0, 64);
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra data environments list");
  flags.example("tephra data environments show addition --level 3 --seed 7");
  flags.example("tephra data environments show sorting --split held_out --count 5 --json");
  flags.example("tephra data environments show addition --aggregate 4");
  flags.example("tephra data environments show counting --answer 3");
}

void list(const Options& o) {
  Table table({Table::Align::left, Table::Align::left});
  table.add({"kind", "task"});
  Json document = Json::Array{};
  for (const Environment& environment : environments()) {
    table.add({environment.name, environment.summary});
    Json row;
    row["kind"] = environment.name;
    row["summary"] = environment.summary;
    document.push_back(row);
  }
  if (o.json) {
    print_json(document);
  } else {
    table.print();
  }
}

Json to_json(const Options& o, int64_t seed, const Task& task) {
  Json json;
  json["kind"] = o.kind;
  json["level"] = o.level;
  json["seed"] = seed;
  json["split"] = o.split;
  json["prompt"] = task.prompt;
  json["reasoning"] = task.reasoning;
  json["answer"] = task.answer;
  return json;
}

int show(const Options& o) {
  require(!o.kind.empty(), "show: which kind? `tephra data environments list` lists them");
  const Environment& environment = find_environment(o.kind);
  const Split split = o.split == "train" ? Split::train : Split::held_out;
  bool all_right = true;
  Json document = Json::Array{};
  for (int64_t seed = o.seed; seed < o.seed + o.count; ++seed) {
    const TaskOrigin origin{&environment, o.level, static_cast<uint64_t>(seed), split};
    Task task = generate(environment, o.level, origin.seed, split);
    if (o.aggregate > 0)
      task = with_attempts(origin, task, {.candidates = o.aggregate, .tail = {}});
    Json json = to_json(o, seed, task);
    const bool right = o.answer.empty() || verify(environment, task, o.answer);
    if (!o.answer.empty()) json["right"] = right;
    all_right = all_right && right;
    if (!o.json) {
      print("{}{}\n{}", seed > o.seed ? "\n" : "", task.prompt, solution(task));
      if (!o.answer.empty()) print("'{}' is {}", o.answer, right ? "right" : "wrong");
    }
    document.push_back(json);
  }
  if (o.json) print_json(document);
  return all_right ? 0 : exit_code(Fault::data);
}

int run(const Options& o) {
  if (o.action == "show") return show(o);
  require(o.kind.empty(), "list: takes no kind, got '{}'", o.kind);
  list(o);
  return 0;
}

}  // namespace

Command data_environments_command() {
  return command<Options>("data environments", "the built-in tasks: what they are, examples",
                          describe, run);
}

}  // namespace tephra
