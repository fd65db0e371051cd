// SPDX-License-Identifier: Apache-2.0
// A command is a struct of options, a function that describes them, and one that runs. `--help` and
// the checks come from the description.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tephra {

struct FlagSpec;
struct FlagTable;

// One described flag; chain what applies.
class Flag {
 public:
  explicit Flag(FlagSpec* spec) : spec_(spec) {}
  Flag& required();
  // Any other value is a usage error that lists these.
  Flag& choices(const std::vector<std::string>& values);
  Flag& range(double low, double high);
  // Given, it is all that the command does: nothing else is required.
  Flag& alone();
  // Without that other flag, or one of the two, it would change nothing: a usage error that says
  // so.
  Flag& of(const std::string& other, const std::string& or_other = "");

 private:
  FlagSpec* spec_;
};

class Flags {
 public:
  explicit Flags(FlagTable* table) : table_(table) {}

  // "--name" for a flag, "--name DIR" to say what its value is; "NAME" (no dashes) for a positional
  // argument. The default shown in --help is the value's at the time of the call (none when it is
  // empty). A list flag may be repeated; a positional list takes all that remain.
  Flag add(const std::string& name, std::string& value, const std::string& help);
  Flag add(const std::string& name, int64_t& value, const std::string& help);
  Flag add(const std::string& name, double& value, const std::string& help);
  Flag add(const std::string& name, bool& value, const std::string& help);  // a switch
  Flag add(const std::string& name, std::optional<int64_t>& value, const std::string& help);
  Flag add(const std::string& name, std::optional<double>& value, const std::string& help);
  Flag add(const std::string& name, std::optional<std::string>& value, const std::string& help);
  Flag add(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // 1,2,3
  Flag add(const std::string& name, std::vector<int64_t>& values, const std::string& help);

  // Of the flags described from here on, the names of those that are given come into `names`; null
  // ends it. For a command that has uses with flags of their own.
  void note_given(std::vector<std::string>* names);

  // A line under "Examples:" of --help.
  void example(const std::string& line);

 private:
  FlagTable* table_;
};

// Refuses the first of the flags that were noted as given, if any: here they would change nothing.
// `why` says what they are for: "for --match numeric".
void refuse_given(const std::vector<std::string>& names, const std::string& why);

// A row of the table in commands.cpp. `name` may have two words: "checkpoint inspect". Every
// command also takes --threads N, --quiet and --help.
struct Command {
  const char* name;
  const char* summary;
  // Describes the options into `flags` and returns what runs them.
  std::function<std::function<int()>(Flags& flags)> setup;
  const char* group = "";  // the heading of `tephra --help`, given by the table
};

template <class Options>
Command command(const char* name, const char* summary, void (*describe)(Flags&, Options&),
                int (*run)(const Options&)) {
  return {name, summary, [=](Flags& flags) -> std::function<int()> {
            auto options = std::make_shared<Options>();
            describe(flags, *options);
            return [=] { return run(*options); };
          }};
}

// Every command, in the order of the table.
std::vector<Command> all_commands();

// Parses and runs; returns the exit code. Prints errors to stderr as: what went wrong, then the
// hint. Output that could not be written (a full disk behind stdout) is an error too.
int run_command_line(int argc, char** argv);

}  // namespace tephra
