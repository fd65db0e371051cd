// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/chat_loop.h"

#include <charconv>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"

namespace tephra {

struct ChatLoop::Row {
  const char* name;
  const char* argument;
  const char* help;
  void (ChatLoop::*run)(std::string_view);
};

const std::vector<ChatLoop::Row>& ChatLoop::rows() {
  static const std::vector<Row> all = {
      {"help", "", "this list", &ChatLoop::help},
      {"reset", "", "forget the conversation; the system message stays", &ChatLoop::reset},
      {"system", "[TEXT]", "set the system message; without TEXT: none", &ChatLoop::system},
      {"retry", "", "answer the last message once more", &ChatLoop::retry},
      {"undo", "", "take back the last message and its answer", &ChatLoop::undo},
      {"set", "[NAME VALUE]", "a setting of the answers; alone: list them", &ChatLoop::set},
      {"save", "FILE", "the conversation, as a line of JSON", &ChatLoop::save},
      {"load", "FILE", "a conversation that was saved", &ChatLoop::load},
      {"quit", "", "end; so do Ctrl-D, and Ctrl-C twice", &ChatLoop::quit},
  };
  return all;
}

namespace {

double setting_number(std::string_view text, double least, double most, std::string_view name) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  require(whole && value >= least && value <= most, "{}: expected a number from {} to {}, got '{}'",
          name, least, most, clipped(text, 40));
  return value;
}

int64_t setting_integer(std::string_view text, int64_t least, int64_t most, std::string_view name) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  require(whole && value >= least && value <= most,
          "{}: expected a whole number from {} to {}, got '{}'", name, least, most,
          clipped(text, 40));
  return value;
}

constexpr int64_t kLargest = int64_t{1} << 53;

// One setting: how it is read ("default" has been taken care of where it may be said) and shown.
struct SettingRow {
  const char* name;
  const char* help;
  void (*set)(TalkSettings&, ChatScreen&, std::string_view);
  std::string (*show)(const TalkSettings&, const ChatScreen&);
};

using Talk = TalkSettings;
using Screen = ChatScreen;

const SettingRow kSettings[] = {
    {"temperature", "0 takes the likeliest token",
     [](Talk& t, Screen&, std::string_view v) {
       t.sampling.temperature = setting_number(v, 0, 100, "temperature");
     },
     [](const Talk& t, const Screen&) { return format("{}", t.sampling.temperature); }},
    {"top_p", "keep the likeliest tokens up to this share",
     [](Talk& t, Screen&, std::string_view v) {
       t.sampling.top_p = setting_number(v, 1e-6, 1, "top_p");
     },
     [](const Talk& t, const Screen&) { return format("{}", t.sampling.top_p); }},
    {"top_k", "keep this many tokens; 0 keeps all",
     [](Talk& t, Screen&, std::string_view v) {
       t.sampling.top_k = setting_integer(v, 0, 1 << 30, "top_k");
     },
     [](const Talk& t, const Screen&) { return format("{}", t.sampling.top_k); }},
    {"min_p", "drop tokens below this share of the likeliest's",
     [](Talk& t, Screen&, std::string_view v) {
       t.sampling.min_p = setting_number(v, 0, 1, "min_p");
     },
     [](const Talk& t, const Screen&) { return format("{}", t.sampling.min_p); }},
    {"repetition", "penalty; 1 is none",
     [](Talk& t, Screen&, std::string_view v) {
       t.sampling.repetition = setting_number(v, 0.01, 100, "repetition");
     },
     [](const Talk& t, const Screen&) { return format("{}", t.sampling.repetition); }},
    {"max_tokens", "of an answer; 0: all the room there is",
     [](Talk& t, Screen&, std::string_view v) {
       const int64_t most = setting_integer(v, 0, 1 << 30, "max_tokens");
       t.max_tokens = most > 0 ? std::optional(most) : std::nullopt;
     },
     [](const Talk& t, const Screen&) { return format("{}", t.max_tokens.value_or(0)); }},
    {"seed", "the same seed gives the same answer; random: draw anew",
     [](Talk& t, Screen&, std::string_view v) {
       t.seed =
           v == "random" ? std::nullopt : std::optional(setting_integer(v, 0, kLargest, "seed"));
     },
     [](const Talk& t, const Screen&) { return t.seed ? format("{}", *t.seed) : "random"; }},
    {"thinking", "on, off, or auto: as the model does",
     [](Talk& t, Screen&, std::string_view v) {
       require(v == "on" || v == "off" || v == "auto",
               "thinking: expected on, off or auto, got '{}'", clipped(v, 40));
       t.thinking = v == "auto" ? std::nullopt : std::optional(v == "on");
     },
     [](const Talk& t, const Screen&) {
       return std::string(!t.thinking ? "auto" : *t.thinking ? "on" : "off");
     }},
    {"thoughts", "show or hide: whether thinking is shown",
     [](Talk&, Screen& s, std::string_view v) {
       require(v == "show" || v == "hide", "thoughts: expected show or hide, got '{}'",
               clipped(v, 40));
       s.show_thoughts = v == "show";
     },
     [](const Talk&, const Screen& s) { return std::string(s.show_thoughts ? "show" : "hide"); }},
};

std::string remark_on(const TalkAnswer& a) {
  if (log_level() > LogLevel::info) return "";
  if (!a.whole) return "[stopped]";
  std::string text = format("[{} tokens", a.usage.new_tokens);
  const double growing = a.seconds - a.usage.first_token_seconds;
  if (a.usage.new_tokens > 1 && growing > 0) {
    text += format(", {:.1f} tokens/s", static_cast<double>(a.usage.new_tokens - 1) / growing);
  }
  text += format(", prompt {}", a.usage.prompt_tokens);
  if (a.usage.cached_tokens > 0) text += format(" ({} cached)", a.usage.cached_tokens);
  return text + (a.cut ? "; as long as allowed]" : "]");
}

}  // namespace

int ChatLoop::run() {
  bool warned = false;  // one Ctrl-C came at the prompt; the next one ends
  while (!over_) {
    std::string text;
    const ChatInput::Event event = input_.next("> ", text);
    if (event == ChatInput::Event::end) break;
    if (event == ChatInput::Event::interrupt) {
      if (warned || !input_.interactive() || !take_interrupt())
        return exit_code(Fault::interrupted);
      warned = true;
      screen_.note("\n(Ctrl-C once more or Ctrl-D ends)");
      continue;
    }
    warned = false;
    take(text);
    if (interrupted() && (!input_.interactive() || !take_interrupt())) {
      return exit_code(Fault::interrupted);
    }
  }
  if (input_.interactive() && !over_) screen_.note("");  // after the ^D
  return failed_ && !input_.interactive() ? exit_code(Fault::usage) : 0;
}

// A mistake is told and the talk goes on; a program that pipes lines in sees it by the exit code.
void ChatLoop::take(const std::string& text) {
  if (trim(text).empty()) return;
  try {
    if (text.starts_with("/") && !text.starts_with("//")) {
      command(std::string_view(text).substr(1));
    } else {
      answer(text.starts_with("//") ? text.substr(1) : text);
    }
  } catch (const Error& e) {
    const bool ends = e.fault() == Fault::internal || e.fault() == Fault::interrupted;
    if (ends || talk_.device_failed()) throw;
    failed_ = true;
    screen_.note(e.what() + (e.hint().empty() ? "" : "\n  try: " + e.hint()));
  }
}

void ChatLoop::answer(const std::string& text) {
  screen_.begin_answer();
  TalkAnswer a = talk_.say(
      text, [&](const ChatDelta& delta) { screen_.tell(delta); }, [] { return interrupted(); });
  screen_.end_answer(remark_on(a));
}

void ChatLoop::command(std::string_view line) {
  const size_t space = line.find_first_of(" \t\n");
  const std::string name(line.substr(0, space));
  const std::string_view rest = space == line.npos ? "" : trim(line.substr(space));
  std::vector<std::string> names = {"exit"};
  for (const Row& row : rows()) {
    if (name == row.name || (name == "exit" && std::string_view(row.name) == "quit")) {
      return (this->*row.run)(rest);
    }
    names.emplace_back(row.name);
  }
  const std::optional<std::string> near = nearest(name, names);
  throw Error(Fault::usage,
              format("there is no command /{}{}", clipped(name, 40),
                     near ? format("; did you mean /{}?", *near) : ""),
              "/help; a message that starts with / is written with //");
}

void ChatLoop::help(std::string_view) {
  for (const Row& row : rows()) {
    screen_.note(format("  {:<22}{}", format("/{} {}", row.name, row.argument), row.help));
  }
  screen_.note(
      "  Ctrl-C stops an answer. A line that ends with \\ goes on in the next one; lines of\n"
      "  \"\"\" enclose a block. A message that starts with / is written with //.");
}

void ChatLoop::reset(std::string_view) {
  talk_.reset();
  screen_.note("(a new conversation)");
}

void ChatLoop::system(std::string_view text) {
  talk_.set_system(std::string(text));
  screen_.note(text.empty() ? "(no system message)" : "(the system message is set)");
}

void ChatLoop::retry(std::string_view) {
  const std::optional<std::string> text = talk_.take_back();
  require(text.has_value(), "/retry: nothing has been said yet");
  answer(*text);
}

void ChatLoop::undo(std::string_view) {
  const std::optional<std::string> text = talk_.take_back();
  require(text.has_value(), "/undo: nothing has been said yet");
  screen_.note(format("(taken back: {})", clipped(*text, 60)));
}

void ChatLoop::save(std::string_view file) {
  require(!file.empty(), "/save: expected the name of a file");
  require(!talk_.empty(), "/save: nothing has been said yet");
  talk_.save(Path(file));
  screen_.note(format("(saved {} messages in {})", talk_.messages().array().size(), file));
}

void ChatLoop::load(std::string_view file) {
  require(!file.empty(), "/load: expected the name of a file");
  talk_.load(Path(file));
  screen_.note(format("(loaded {} messages{})", talk_.messages().array().size(),
                      talk_.system().empty() ? "" : " and a system message"));
}

void ChatLoop::list_settings() const {
  for (const SettingRow& row : kSettings) {
    screen_.note(
        format("  {:<12} {:<10} {}", row.name, row.show(talk_.settings, screen_), row.help));
  }
  screen_.note(format("  system       {}", talk_.system().empty() ? "(none)" : talk_.system()));
}

void ChatLoop::set(std::string_view words) {
  if (words.empty()) return list_settings();
  const size_t space = words.find_first_of(" \t=");
  const std::string name(words.substr(0, space));
  require(space != words.npos, "/set: expected NAME VALUE, got '{}'", clipped(words, 60));
  std::string_view value = trim(words.substr(space));
  if (value.starts_with('=')) value = trim(value.substr(1));
  std::vector<std::string> names;
  for (const SettingRow& row : kSettings) {
    names.emplace_back(row.name);
    if (name != row.name) continue;
    row.set(talk_.settings, screen_, value);
    screen_.note(format("({} {})", name, row.show(talk_.settings, screen_)));
    return;
  }
  const std::optional<std::string> near = nearest(name, names);
  throw Error(Fault::usage,
              format("/set: there is no setting '{}'{}", clipped(name, 40),
                     near ? format("; did you mean {}?", *near) : ""),
              "/set lists them");
}

}  // namespace tephra
