// SPDX-License-Identifier: Apache-2.0
// What a command gets from the words a person types, and what the person gets when they do not fit.
#include <gtest/gtest.h>

#include "tephra/base/error.h"
#include "tephra/cli/command.h"
#include "tephra/cli/run.h"

namespace tephra {
namespace {

struct Everything {
  std::string text = "none";
  int64_t count = 7;
  double factor = 0.5;
  bool on = false;
  std::optional<int64_t> maybe;
  int64_t more = 1;
  std::optional<std::string> word;
  std::vector<std::string> sets;
  std::vector<int64_t> ids;
  std::string device = "cpu";
  std::vector<std::string> files;
};

Everything seen;

void describe(Flags& flags, Everything& o) {
  flags.add("--text", o.text, "a text");
  flags.add("--count", o.count, "a count").range(1, 100);
  flags.add("--factor X", o.factor, "a factor").range(-1, 1);
  flags.add("--on", o.on, "a switch");
  flags.add("--maybe", o.maybe, "an optional count");
  flags.add("--more", o.more, "of --on: more").range(1, 9).of("--on");
  flags.add("--word", o.word, "an optional word");
  flags.add("--set KEY=VALUE", o.sets, "any number of settings");
  flags.add("--ids", o.ids, "numbers").range(0, 1000);
  flags.add("--device", o.device, "where").choices({"cpu", "gpu"});
  flags.add("FILES", o.files, "files");
  flags.example("tephra everything --on a b");
}

int run(const Everything& o) {
  seen = o;
  return 0;
}

Command everything() { return command<Everything>("everything", "for tests", describe, run); }

Everything parsed(const std::vector<std::string>& words) {
  seen = {};
  parse_command(everything(), words).run();
  return seen;
}

std::string complaint(const std::vector<std::string>& words) {
  try {
    parse_command(everything(), words);
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::usage);
    return e.what();
  }
  return "accepted";
}

TEST(Flags, GiveTheirDefaultsWhenNothingIsSaid) {
  const Everything o = parsed({});
  EXPECT_EQ(o.text, "none");
  EXPECT_EQ(o.count, 7);
  EXPECT_EQ(o.factor, 0.5);
  EXPECT_FALSE(o.on);
  EXPECT_FALSE(o.maybe || o.word);
  EXPECT_TRUE(o.sets.empty() && o.ids.empty() && o.files.empty());
}

TEST(Flags, AreNotTakenWhereTheyChangeNothing) {
  EXPECT_EQ(parsed({"--more", "1", "--on"}).more, 1);
  EXPECT_EQ(parsed({"--on", "--more", "3"}).more, 3);
  EXPECT_EQ(complaint({"--more", "1"}), "--more is for --on, which is not given");
}

TEST(Flags, TakeValuesOfEveryType) {
  const Everything o = parsed({"--text", "a b", "--count=3", "--factor", "-0.25", "--on", "--maybe",
                               "-9", "--word=", "--device", "gpu"});
  EXPECT_EQ(o.text, "a b");
  EXPECT_EQ(o.count, 3);
  EXPECT_EQ(o.factor, -0.25);
  EXPECT_TRUE(o.on);
  EXPECT_EQ(o.maybe, -9);
  EXPECT_EQ(o.word, "");
  EXPECT_EQ(o.device, "gpu");
}

TEST(Flags, TakeListsRepeatedOrWithCommas) {
  const Everything o =
      parsed({"[x,z]", "--set", "a=1", "--ids", "1,2,3", "--set=b=2,3", "--ids", "4", "y"});
  EXPECT_EQ(o.sets, (std::vector<std::string>{"a=1", "b=2,3"}));
  EXPECT_EQ(o.ids, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(o.files, (std::vector<std::string>{"[x,z]", "y"}));
}

TEST(Flags, TakeEveryWordAfterTwoDashesAsAnArgument) {
  EXPECT_EQ(parsed({"-", "--", "--on", "-x", "--"}).files,
            (std::vector<std::string>{"-", "--on", "-x", "--"}));
}

TEST(Flags, TakeAnyTextAsAValue) {
  for (const std::string text : {"", "-", "-h", "--help", "--on", "[x]", "[[1,2]]", "{}", "a=b",
                                 "%%", "\"q\"", "line\nline", "\xc3\xa9"}) {
    EXPECT_EQ(parsed({"--text", text}).text, text);
    EXPECT_EQ(parsed({"--text=" + text}).text, text);
  }
}

TEST(Flags, SayWhatIsWrong) {
  EXPECT_EQ(complaint({"--count", "3x"}), "--count: expected an integer, got '3x'");
  EXPECT_EQ(complaint({"--count", "3.0"}), "--count: expected an integer, got '3.0'");
  EXPECT_EQ(complaint({"--maybe", "99999999999999999999"}),
            "--maybe: expected an integer, got '99999999999999999999'");
  EXPECT_EQ(complaint({"--count", "101"}), "--count: expected 1 to 100, got 101");
  EXPECT_EQ(complaint({"--factor", "fast"}), "--factor: expected a number, got 'fast'");
  EXPECT_EQ(complaint({"--factor", "nan"}), "--factor: expected -1 to 1, got nan");
  EXPECT_EQ(complaint({"--ids", "1,,2"}), "--ids: expected an integer, got ''");
  EXPECT_EQ(complaint({"--ids", "1,2000"}), "--ids: expected 0 to 1000, got 2000");
  EXPECT_EQ(complaint({"--device", "tpu"}), "--device: expected one of cpu, gpu; got 'tpu'");
  EXPECT_EQ(complaint({"--text"}), "--text needs a value");
  EXPECT_EQ(complaint({"--count", "1", "--count", "2"}), "--count: given more than once");
  EXPECT_EQ(complaint({"--on=maybe"}), "--on takes no value, got 'maybe'");
  EXPECT_EQ(complaint({"--cout", "1"}), "there is no flag --cout; did you mean --count?");
  EXPECT_EQ(complaint({"--zzzzzzzz"}), "there is no flag --zzzzzzzz");
  EXPECT_EQ(complaint({"-x"}), "there is no flag -x");
}

TEST(Flags, NameTheWrongFlagBeforeTheMissingOne) {
  struct Options {
    std::string model;
  };
  const Command c = command<Options>(
      "c", "for tests",
      [](Flags& flags, Options& o) { flags.add("--model DIR", o.model, "a model").required(); },
      [](const Options&) { return 0; });
  const auto what = [&](const std::vector<std::string>& words) -> std::string {
    try {
      parse_command(c, words);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(what({"--modle", "x"}), "there is no flag --modle; did you mean --model?");
  EXPECT_EQ(what({}), "--model is required");
  EXPECT_EQ(what({"--model", "x", "y"}), "unexpected argument 'y'");
  EXPECT_EQ(what({"--threads", "0", "--model", "x"}), "--threads: expected 1 to 1024, got 0");
}

TEST(Flags, DescribeThemselves) {
  const std::string help = parse_command(everything(), {"--help"}).help;
  for (const char* part :
       {"for tests", "usage: tephra everything [FILES...] [flags]", "--text TEXT", "[none]",
        "--count N", "[7]", "--factor X", "--set KEY=VALUE", "--ids N,N,...", "--device cpu|gpu",
        "--threads N", "--quiet", "Examples:\n  tephra everything --on a b\n"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << " in\n" << help;
  }
}

TEST(Flags, HelpWinsOverWhateverElseIsWrong) {
  EXPECT_FALSE(parse_command(everything(), {"--zzz", "-h"}).help.empty());
}

int guarded_throwing(const std::function<void()>& thrower) {
  return guarded("tephra x", "tephra x --help", [&] {
    thrower();
    return 0;
  });
}

TEST(Guarded, TurnsEveryFaultIntoItsExitCode) {
  const std::pair<Fault, int> codes[] = {{Fault::usage, 2},     {Fault::data, 3},
                                         {Fault::device, 4},    {Fault::peer, 5},
                                         {Fault::internal, 70}, {Fault::interrupted, 130}};
  for (const auto& entry : codes) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(guarded_throwing([&] { throw Error(entry.first, "what", "this"); }), entry.second);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "tephra x: what\n  try: this\n");
  }
}

TEST(Guarded, TurnsOtherExceptionsIntoExitCodes) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(guarded_throwing([] { throw std::bad_alloc(); }), 4);
  EXPECT_EQ(guarded_throwing([] { throw std::out_of_range("at 3"); }), 70);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("tephra x: out of memory"), std::string::npos) << said;
  EXPECT_NE(said.find("at 3"), std::string::npos) << said;
  EXPECT_NE(said.find("please report"), std::string::npos) << said;
}

}  // namespace
}  // namespace tephra
