// SPDX-License-Identifier: Apache-2.0
// Flags and --help on top of CLI11. Values are converted here and not by CLI11, so that every
// message has our form: flag: expected, got.
#include "tephra/cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/cli/parse.h"

namespace tephra {
namespace {

template <class T>
T to_number(const std::string& name, std::string_view text) {
  constexpr bool kInteger = std::is_integral_v<T>;
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && stop == end && !text.empty();
  if (!whole || !std::isfinite(static_cast<double>(value))) {
    throw Error(Fault::usage, format("{}: expected {}, got '{}'", name,
                                     kInteger ? "an integer" : "a number", text));
  }
  return value;
}

void convert(const std::string&, const std::string& text, std::string& value) { value = text; }
void convert(const std::string& name, const std::string& text, int64_t& value) {
  value = to_number<int64_t>(name, text);
}
void convert(const std::string& name, const std::string& text, double& value) {
  value = to_number<double>(name, text);
}
template <class T>
void convert(const std::string& name, const std::string& text, std::optional<T>& value) {
  convert(name, text, value.emplace());
}

std::string shown(const std::string& value) { return value; }
std::string shown(int64_t value) { return format("{}", value); }
std::string shown(double value) { return format("{}", value); }
template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? shown(*value) : "";
}

template <class T>
const char* placeholder(const T&) {
  return std::is_same_v<T, int64_t> ? "N" : std::is_same_v<T, double> ? "X" : "TEXT";
}
template <class T>
const char* placeholder(const std::optional<T>&) {
  return placeholder(T());
}

bool is_positional(const CLI::Option& option) { return option.get_positional(); }

// "--model DIR" names the flag --model and its placeholder.
CLI::Option* add_option(void* app, const std::string& name, const char* fallback,
                        const std::string& help, CLI::callback_t convert_all) {
  const size_t space = name.find(' ');
  CLI::Option* option =
      static_cast<CLI::App*>(app)->add_option(name.substr(0, space), std::move(convert_all), help);
  option->type_name(space == std::string::npos ? fallback : name.substr(space + 1));
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

template <class T>
Flag add_single(void* app, const std::string& name, T& value, const std::string& help) {
  const std::string flag = name.substr(0, name.find(' '));
  CLI::Option* option =
      add_option(app, name, placeholder(value), help, [&value, flag](const CLI::results_t& given) {
        require(given.size() == 1, "{}: expected once, got {} times", flag, given.size());
        convert(flag, given[0], value);
        return true;
      });
  option->default_str(shown(value));
  return Flag(option);
}

CLI::Option* make_list(CLI::Option* option) {
  return is_positional(*option) ? option->expected(-1) : option->expected(1);
}

CLI::Validator validator(std::function<std::string(const std::string&)> complaint) {
  return CLI::Validator([complaint](std::string& text) { return complaint(text); }, "");
}

std::string join(const std::vector<std::string>& words, const char* between) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : between) + word;
  return line;
}

std::string usage_line(const Command& command, const CLI::App& app) {
  std::string line = format("usage: tephra {}", command.name);
  for (const CLI::Option* option : app.get_options()) {
    if (is_positional(*option)) {
      const std::string word = option->get_name() + (option->get_expected_max() > 1 ? "..." : "");
      line += option->get_required() ? " " + word : " [" + word + "]";
    } else if (option->get_required()) {
      line += " " + option->get_name() + " " + option->get_type_name();
    }
  }
  return line + " [flags]\n";
}

// One line per option; the columns are as wide as the longest name.
std::string option_lines(const CLI::App& app, bool positional) {
  std::vector<std::pair<std::string, std::string>> rows;
  size_t width = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (is_positional(*option) != positional) continue;
    std::string left = option->get_name();
    if (!positional && option->get_expected_max() > 0) left += " " + option->get_type_name();
    std::string right = option->get_description();
    if (option->get_required()) right += " (required)";
    if (!option->get_default_str().empty()) right += " [" + option->get_default_str() + "]";
    width = std::max(width, left.size());
    rows.emplace_back(left, right);
  }
  std::string text;
  for (const auto& [left, right] : rows) text += format("  {:<{}}  {}\n", left, width, right);
  return text;
}

std::string help_text(const Command& command, const CLI::App& app) {
  std::string text = format("{}\n\n{}", command.summary, usage_line(command, app));
  const std::string positional = option_lines(app, true);
  if (!positional.empty()) text += "\n" + positional;
  text += "\nFlags:\n" + option_lines(app, false);
  if (!app.get_footer().empty()) text += "\nExamples:\n" + app.get_footer();
  return text;
}

struct Words {
  std::vector<std::string> list;
  bool help = false;
};

// CLI11 reads "--name=" as a flag whose value is the next word; we hand it the two apart. A word
// that is the value of a flag does not ask for help.
Words split_values(const CLI::App& app, const std::vector<std::string>& words) {
  Words apart;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = name.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
    const bool takes_value = option != nullptr && option->get_expected_max() > 0;
    apart.help = apart.help || word == "--help" || word == "-h";
    apart.list.push_back(takes_value ? name : word);
    if (takes_value && equals != std::string::npos) {
      apart.list.push_back(word.substr(equals + 1));
    } else if (takes_value && i + 1 < words.size()) {
      apart.list.push_back(words[++i]);
    }
  }
  return apart;
}

void reject_unknown(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining();
  if (unknown.empty()) return;
  const std::string word = unknown[0].substr(0, unknown[0].find('='));
  if (!word.starts_with("-")) {
    throw Error(Fault::usage, format("unexpected argument '{}'", word));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (!is_positional(*option)) names.push_back(option->get_name());
  }
  const std::optional<std::string> near = nearest(word, names);
  throw Error(Fault::usage, format("there is no flag {}{}", word,
                                   near ? format("; did you mean {}?", *near) : ""));
}

void parse_words(CLI::App& app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::RequiredError& e) {
    reject_unknown(app);
    throw Error(Fault::usage, e.what());
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string what = e.what();
    throw Error(Fault::usage, format("{} needs a value", what.substr(0, what.find(':'))));
  } catch (const CLI::ParseError& e) {
    throw Error(Fault::usage, e.what());
  } catch (const Error&) {
    reject_unknown(app);
    throw;
  }
  reject_unknown(app);
}

}  // namespace

Flag& Flag::required() {
  static_cast<CLI::Option*>(option_)->required();
  return *this;
}

Flag& Flag::choices(std::vector<std::string> values) {
  auto* option = static_cast<CLI::Option*>(option_);
  option->type_name(join(values, "|"));
  option->check(validator([values](const std::string& text) -> std::string {
    if (std::find(values.begin(), values.end(), text) != values.end()) return "";
    return format("expected one of {}; got '{}'", join(values, ", "), text);
  }));
  return *this;
}

Flag& Flag::range(double low, double high) {
  auto* option = static_cast<CLI::Option*>(option_);
  option->check(validator([low, high](const std::string& text) -> std::string {
    for (const std::string_view part : split(text, ',')) {
      double value = 0;
      const char* end = part.data() + part.size();
      const auto [stop, error] = std::from_chars(part.data(), end, value);
      if (error != std::errc() || stop != end) return "";  // the conversion says it better
      if (!(value >= low && value <= high)) {
        return format("expected {} to {}, got {}", low, high, part);
      }
    }
    return "";
  }));
  return *this;
}

Flag Flags::add(const std::string& name, std::string& value, const std::string& help) {
  return add_single(app_, name, value, help);
}
Flag Flags::add(const std::string& name, int64_t& value, const std::string& help) {
  return add_single(app_, name, value, help);
}
Flag Flags::add(const std::string& name, double& value, const std::string& help) {
  return add_single(app_, name, value, help);
}
Flag Flags::add(const std::string& name, std::optional<int64_t>& value, const std::string& help) {
  return add_single(app_, name, value, help);
}
Flag Flags::add(const std::string& name, std::optional<double>& value, const std::string& help) {
  return add_single(app_, name, value, help);
}
Flag Flags::add(const std::string& name, std::optional<std::string>& value,
                const std::string& help) {
  return add_single(app_, name, value, help);
}

Flag Flags::add(const std::string& name, bool& value, const std::string& help) {
  TEPHRA_ASSERT(!value, "a switch can only be turned on");
  return Flag(static_cast<CLI::App*>(app_)->add_flag(name, value, help));
}

Flag Flags::add(const std::string& name, std::vector<std::string>& values,
                const std::string& help) {
  return Flag(
      make_list(add_option(app_, name, "TEXT", help, [&values](const CLI::results_t& given) {
        values = given;
        return true;
      })));
}

Flag Flags::add(const std::string& name, std::vector<int64_t>& values, const std::string& help) {
  const std::string flag = name.substr(0, name.find(' '));
  return Flag(make_list(
      add_option(app_, name, "N,N,...", help, [&values, flag](const CLI::results_t& given) {
        values.clear();
        for (const std::string& list : given) {
          for (const std::string_view part : split(list, ',')) {
            values.push_back(to_number<int64_t>(flag, part));
          }
        }
        return true;
      })));
}

void Flags::example(const std::string& line) {
  auto* app = static_cast<CLI::App*>(app_);
  app->footer(app->get_footer() + "  " + line + "\n");
}

Parsed parse_command(const Command& command, const std::vector<std::string>& words) {
  auto app = std::make_shared<CLI::App>();
  app->set_help_flag();  // ours wins over whatever else is wrong
  app->allow_extras();
  Flags flags(app.get());
  const std::function<int()> run = command.setup(flags);
  auto threads = std::make_shared<std::optional<int64_t>>();
  auto quiet = std::make_shared<bool>(false);
  bool help = false;
  flags.add("--threads", *threads, "CPU threads [the cores this process may use]").range(1, 1024);
  flags.add("--quiet", *quiet, "no progress, only warnings and errors on stderr");
  flags.add("--help", help, "this text");
  const Words apart = split_values(*app, words);
  if (apart.help) return {{}, help_text(command, *app)};
  parse_words(*app, apart.list);
  return {[=] {
            if (*threads) set_num_threads(static_cast<int>(**threads));
            if (*quiet) set_log_level(LogLevel::warning);
            return run();
          },
          {}};
}

}  // namespace tephra
