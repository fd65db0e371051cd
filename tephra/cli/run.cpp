// SPDX-License-Identifier: Apache-2.0
// From the words of the command line to an exit code: finds the command, runs it, and turns every
// exception into a sentence.
#include "tephra/cli/run.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>

#include "tephra/base/error.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

using Words = std::vector<std::string>;

std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

// The commands whose name starts with `prefix` (all when empty), under their headings.
std::string listing(const std::string& prefix) {
  const std::vector<Command> commands = all_commands();
  size_t width = 0;
  for (const Command& c : commands) width = std::max(width, std::string(c.name).size());
  std::string text, group;
  for (const Command& c : commands) {
    if (!prefix.empty() && first_word(c.name) != prefix) continue;
    if (group != c.group) text += format("\n{}:\n", group = c.group);
    text += format("  {:<{}}  {}\n", c.name, width, c.summary);
  }
  return text;
}

std::string overview() {
  return format(
      "tephra {}: foundation models from text to a served model\n\n"
      "usage: tephra COMMAND [flags]\n{}\n"
      "Every command explains itself: tephra COMMAND --help\n"
      "Exit codes: 0 done, 2 usage, 3 data, 4 device, 5 another rank, 70 a fault of tephra's own, "
      "130 stopped by a signal\n",
      TEPHRA_VERSION, listing(""));
}

std::string overview_of(const std::string& word) {
  return format("usage: tephra {} COMMAND [flags]\n{}", word, listing(word));
}

// A command and the words after its name.
struct Choice {
  Command command;
  Words rest;
};

[[noreturn]] void reject_unknown_command(const Words& words) {
  Words names;
  const bool two = words.size() > 1 && !listing(words[0]).empty();
  for (const Command& c : all_commands()) {
    const std::string name = c.name;
    if (two && first_word(name) == words[0]) names.push_back(name);
    if (!two) names.push_back(first_word(name));
  }
  const std::string given = two ? words[0] + " " + words[1] : words[0];
  const std::optional<std::string> near = nearest(given, names);
  throw Error(Fault::usage,
              format("there is no command '{}'{}", given,
                     near ? format("; did you mean '{}'?", *near) : ""),
              two ? format("tephra {} --help", words[0]) : "tephra --help");
}

Choice choose(const Words& words) {
  for (const size_t length : {size_t{2}, size_t{1}}) {
    if (words.size() < length) continue;
    const std::string name = length == 2 ? words[0] + " " + words[1] : words[0];
    for (const Command& c : all_commands()) {
      if (c.name == name) return {c, Words(words.begin() + static_cast<long>(length), words.end())};
    }
  }
  reject_unknown_command(words);
}

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h" || word == "help";
}

// What can be answered without a command: the overviews and the version. Nothing when there is one.
std::optional<int> answer_directly(const Words& words) {
  if (words.empty()) {
    std::fputs(overview().c_str(), stderr);
    return exit_code(Fault::usage);
  }
  if (words[0] == "--version") {
    std::fputs(format("tephra {}\n", TEPHRA_VERSION).c_str(), stdout);
    return 0;
  }
  if (asks_for_help(words[0]) && words.size() == 1) {
    std::fputs(overview().c_str(), stdout);
    return 0;
  }
  const bool only_prefix = words.size() == 1 || asks_for_help(words[1]);
  const std::vector<Command> commands = all_commands();
  const auto named = [&](const Command& c) { return c.name == words[0]; };
  if (!only_prefix || std::any_of(commands.begin(), commands.end(), named)) return {};
  if (listing(words[0]).empty()) return {};
  std::fputs(overview_of(words[0]).c_str(), words.size() == 1 ? stderr : stdout);
  return words.size() == 1 ? exit_code(Fault::usage) : 0;
}

// Messages quote names from files, which may hold anything; a terminal must not act on it.
void complain(const std::string& who, const std::string& what, const std::string& hint) {
  std::fflush(stdout);
  std::string text = format("{}: {}\n", who, what);
  if (!hint.empty()) text += format("  try: {}\n", hint);
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\n') || code == 0x7f) c = '?';
  }
  std::fputs(text.c_str(), stderr);
}

// What is wrong with the flags is told alike, whether they are parsed or put to use: with --help.
int run_parsed(const std::string& who, const std::function<int()>& run) {
  return guarded(who, "", [&] {
    try {
      return run();
    } catch (const Error& e) {
      const std::string_view what = e.what();
      const bool of_flags = e.fault() == Fault::usage && e.hint().empty() &&
                            (what.starts_with("--") || what.starts_with("expected --"));
      if (!of_flags) throw;
      throw Error(e.fault(), e.what(), who + " --help");
    }
  });
}

int dispatch(Words words) {
  if (const std::optional<int> code = answer_directly(words)) return *code;
  if (asks_for_help(words[0])) {  // tephra help generate
    std::rotate(words.begin(), words.begin() + 1, words.end());
    words.back() = "--help";
  }
  const Choice choice = choose(words);
  const std::string who = format("tephra {}", choice.command.name);
  Parsed parsed;
  const int code = guarded(who, who + " --help", [&] {
    parsed = parse_command(choice.command, choice.rest);
    return 0;
  });
  if (code != 0) return code;
  if (!parsed.run) {
    std::fputs(parsed.help.c_str(), stdout);
    return 0;
  }
  install_signal_handlers();
  return run_parsed(who, parsed.run);
}

// Buffered output is written only now; what could not be written must not look like success.
int finish_output(int code) {
  errno = 0;
  std::cout.flush();
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.good();
  if (!failed) return code;
  if (errno == EPIPE) return 141;  // the reader had enough; as a shell reports SIGPIPE
  complain(
      "tephra",
      format("cannot write the output{}{}", errno ? ": " : "", errno ? std::strerror(errno) : ""),
      "");
  return code != 0 ? code : exit_code(Fault::data);
}

// A path that cannot be used, unless the disk itself failed.
Fault fault_of(const std::error_code& error) {
  const bool disk = error == std::errc::no_space_on_device || error == std::errc::io_error;
  return disk ? Fault::data : Fault::usage;
}

}  // namespace

int guarded(const std::string& who, const std::string& usage_hint,
            const std::function<int()>& body) {
  try {
    return body();
  } catch (const Error& e) {
    const bool plain_usage = e.fault() == Fault::usage && e.hint().empty();
    complain(who, e.what(), plain_usage ? usage_hint : e.hint());
    return exit_code(e.fault());
  } catch (const std::bad_alloc&) {
    complain(who, "out of memory", "a smaller model, batch or sequence length");
    return exit_code(Fault::device);
  } catch (const std::filesystem::filesystem_error& e) {
    const std::string path = e.path1().string();
    complain(who, path.empty() ? e.what() : format("{}: {}", path, e.code().message()), usage_hint);
    return exit_code(fault_of(e.code()));
  } catch (const std::exception& e) {
    complain(who, format("unexpected error: {}", e.what()),
             "please report this, with the command that led here");
    return exit_code(Fault::internal);
  }
}

int run_command_line(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  return finish_output(guarded("tephra", "tephra --help", [&] { return dispatch(words); }));
}

}  // namespace tephra
