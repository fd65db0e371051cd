// SPDX-License-Identifier: Apache-2.0
// One command's words: which flag gets which value, what is wrong with them, and --help.
#include <algorithm>
#include <memory>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/cli/flag_table.h"
#include "tephra/cli/run.h"

namespace tephra {
namespace {

// One flag or positional argument as it was typed.
struct Given {
  FlagSpec* flag;  // null: there is none of this name, or no place for it
  std::string name;
  std::optional<std::string> value;
};

FlagSpec* find(FlagTable& table, const std::string& name) {
  for (FlagSpec& flag : table.flags) {
    if (!flag.positional() && flag.name == name) return &flag;
  }
  return nullptr;
}

// The first positional argument that can still take a word.
FlagSpec* next_positional(FlagTable& table, const std::vector<Given>& given) {
  for (FlagSpec& flag : table.flags) {
    if (!flag.positional()) continue;
    const bool used =
        std::any_of(given.begin(), given.end(), [&](const Given& g) { return g.flag == &flag; });
    if (flag.list || !used) return &flag;
  }
  return nullptr;
}

// Any word may be the value of a flag that needs one, even one with dashes; after "--" all words
// are positional.
std::vector<Given> sort_words(FlagTable& table, const std::vector<std::string>& words) {
  std::vector<Given> given;
  bool only_positional = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (only_positional || !word.starts_with("-") || word == "-") {
      given.push_back({next_positional(table, given), word, word});
    } else if (word == "--") {
      only_positional = true;
    } else {
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      Given g{find(table, name == "-h" ? "--help" : name), name, {}};
      if (equals != std::string::npos) {
        g.value = word.substr(equals + 1);
      } else if (g.flag != nullptr && g.flag->takes_value() && i + 1 < words.size()) {
        g.value = words[++i];
      }
      given.push_back(g);
    }
  }
  return given;
}

[[noreturn]] void reject_unknown(const FlagTable& table, const std::string& name) {
  require(name.starts_with("-"), "unexpected argument '{}'", name);
  std::vector<std::string> names;
  for (const FlagSpec& flag : table.flags) {
    if (!flag.positional()) names.push_back(flag.name);
  }
  const std::optional<std::string> near = nearest(name, names);
  throw Error(Fault::usage, format("there is no flag {}{}", name,
                                   near ? format("; did you mean {}?", *near) : ""));
}

void apply(const FlagTable& table, const Given& given) {
  if (given.flag == nullptr) reject_unknown(table, given.name);
  FlagSpec& flag = *given.flag;
  if (flag.noted_in != nullptr) flag.noted_in->push_back(flag.name);
  if (!flag.takes_value()) {
    require(!given.value, "{} takes no value, got '{}'", flag.name, given.value.value_or(""));
    ++flag.times_given;
    return flag.take("");
  }
  require(given.value.has_value(), "{} needs a value", flag.name);
  require(++flag.times_given == 1 || flag.list, "{}: given more than once", flag.name);
  for (const auto& check : flag.checks) check(*given.value);
  flag.take(*given.value);
}

std::string usage_line(const Command& command, const FlagTable& table) {
  std::string line = format("usage: tephra {}", command.name);
  for (const FlagSpec& flag : table.flags) {
    if (flag.positional()) {
      const std::string word = flag.name + (flag.list ? "..." : "");
      line += flag.required ? " " + word : " [" + word + "]";
    } else if (flag.required) {
      line += " " + flag.name + " " + flag.placeholder;
    }
  }
  return line + " [flags]\n";
}

// One line per flag; the column is as wide as the longest name.
std::string flag_lines(const FlagTable& table, bool positional) {
  const auto left = [](const FlagSpec& flag) {
    return flag.positional() || !flag.takes_value() ? flag.name
                                                    : flag.name + " " + flag.placeholder;
  };
  size_t width = 0;
  for (const FlagSpec& flag : table.flags) width = std::max(width, left(flag).size());
  std::string text;
  for (const FlagSpec& flag : table.flags) {
    if (flag.positional() != positional) continue;
    text += format("  {:<{}}  {}", left(flag), width, flag.help);
    if (flag.required) text += " (required)";
    if (!flag.shown_default.empty()) text += " [" + flag.shown_default + "]";
    text += "\n";
  }
  return text;
}

std::string help_text(const Command& command, const FlagTable& table) {
  std::string text = format("{}\n\n{}", command.summary, usage_line(command, table));
  const std::string positional = flag_lines(table, true);
  if (!positional.empty()) text += "\nArguments:\n" + positional;
  text += "\nFlags:\n" + flag_lines(table, false);
  if (!table.examples.empty()) text += "\nExamples:\n";
  for (const std::string& line : table.examples) text += "  " + line + "\n";
  return text;
}

// What every command takes.
struct Common {
  std::optional<int64_t> threads;
  bool quiet = false;
  bool help = false;

  void describe(Flags& flags) {
    flags.add("--threads", threads, "CPU threads [the cores this process may use]").range(1, 1024);
    flags.add("--quiet", quiet, "no progress, only warnings and errors on stderr");
    flags.add("--help", help, "this text");
  }
};

void check_has_its_flag(FlagTable& table, const FlagSpec& flag) {
  std::string missing;
  for (const std::string& name : flag.of) {
    const FlagSpec* other = find(table, name);
    TEPHRA_ASSERT(other != nullptr, "a command describes the flag that another is of");
    if (other->times_given > 0) return;
    missing += (missing.empty() ? "" : " or ") + name;
  }
  require(missing.empty(), "{} is for {}, which {} not given", flag.name, missing,
          flag.of.size() == 1 ? "is" : "are");
}

void check_what_is_missing(FlagTable& table) {
  const bool alone = std::any_of(table.flags.begin(), table.flags.end(), [](const FlagSpec& flag) {
    return flag.alone && flag.times_given > 0;
  });
  for (const FlagSpec& flag : table.flags) {
    require(alone || !flag.required || flag.times_given > 0, "{} is required", flag.name);
    if (flag.times_given > 0) check_has_its_flag(table, flag);
  }
}

}  // namespace

Parsed parse_command(const Command& command, const std::vector<std::string>& words) {
  FlagTable table;
  Flags flags(&table);
  const std::function<int()> run = command.setup(flags);
  Common common;
  common.describe(flags);

  const std::vector<Given> given = sort_words(table, words);
  const FlagSpec* help = find(table, "--help");
  if (std::any_of(given.begin(), given.end(), [&](const Given& g) { return g.flag == help; })) {
    return {{}, help_text(command, table)};
  }
  for (const Given& g : given) apply(table, g);
  check_what_is_missing(table);
  return {[run, threads = common.threads, quiet = common.quiet] {
            if (threads) set_num_threads(static_cast<int>(*threads));
            if (quiet) set_log_level(LogLevel::warning);
            return run();
          },
          {}};
}

}  // namespace tephra
