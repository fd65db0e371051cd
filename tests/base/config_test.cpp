// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tephra/base/config.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

struct Muon {
  double momentum = 0.95;
  void fields(ConfigFields& f) {
    f.read("momentum", momentum, "of the matrices", {.min = 0, .max = 1});
  }
};

struct Phase {
  int64_t tokens = 0;
  std::vector<double> weights{1};
  void fields(ConfigFields& f) {
    f.read("tokens", tokens, "how long", {.above = 0, .required = true});
    f.read("weights", weights, "of the sources", {.min = 0});
    f.check(!weights.empty(), "weights", "needs at least one");
  }
};

struct Sample {
  std::string name = "run \"1\"\n";
  bool fast = false;
  std::optional<int64_t> seed;
  std::string kind = "muon";
  std::vector<std::string> files;
  double lr = 3e-4;
  Muon muon;
  std::optional<Muon> second;
  std::vector<Phase> phases{{.tokens = 7}};
  void fields(ConfigFields& f) {
    f.read("name", name, "what it is called");
    f.read("fast", fast, "or slow");
    f.read("seed", seed, "of everything");
    f.read("kind", kind, "the optimizer", {.choices = {"muon", "adamw"}});
    f.read("files", files, "read in order");
    f.read("lr", lr, "peak learning rate", {.above = 0});
    f.table("muon", muon, "for matrices");
    f.table("second", second, "for others");
    f.list("phases", phases, "one after another");
  }
};

Sample load_sample(std::string_view text, const std::vector<std::string>& overrides = {}) {
  Sample run;
  ConfigFile::parse(text, "a.toml", overrides).load(run);
  return run;
}

std::string sample_error(std::string_view text, const std::vector<std::string>& overrides = {}) {
  const Error error = error_of([&] { load_sample(text, overrides); });
  EXPECT_EQ(error.fault(), Fault::usage);
  return error.what();
}

// Each level would be a frame on the stack of whoever reads or frees it.
TEST(Config, RefusesKeysThatNestWithoutEnd) {
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  for (const std::string& text : {deep + " = 1", "[" + deep + "]", "x = {" + deep + " = 1}"}) {
    EXPECT_EQ(std::string(error_of([&] { ConfigFile::parse("\n" + text, "a.toml"); }).what()),
              "a.toml:2: a key of more than 256 names");
  }
  const std::string dots(1000, '.');
  EXPECT_NO_THROW(ConfigFile::parse("# " + dots + "\n", "a.toml"));
}

TEST(Config, GivesTypedValuesAndKeepsDefaults) {
  const Sample run = load_sample(R"(
name = "x"
seed = 5
lr = 1
files = ["a", "b"]
[muon]
momentum = 0.5
[[phases]]
tokens = 1_000
weights = [1, 2.5]
[[phases]]
tokens = 2
)");
  EXPECT_EQ(run.name, "x");
  EXPECT_EQ(run.seed, 5);
  EXPECT_EQ(run.lr, 1.0);
  EXPECT_EQ(run.kind, "muon");
  EXPECT_EQ(run.files, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(run.muon.momentum, 0.5);
  EXPECT_FALSE(run.second.has_value());
  ASSERT_EQ(run.phases.size(), 2u);
  EXPECT_EQ(run.phases[0].tokens, 1000);
  EXPECT_EQ(run.phases[0].weights, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(run.phases[1].weights, std::vector<double>{1});
  EXPECT_EQ(load_sample("").phases[0].tokens, 7) << "the default list stays when the file has none";
  EXPECT_EQ(load_sample("[second]").second->momentum, 0.95);
}

TEST(Config, NamesUnknownKeysWithTheirLineAndTheNearestOne) {
  EXPECT_EQ(sample_error("name = \"x\"\nlrr = 1\n"),
            "a.toml:2: there is no key 'lrr'; did you mean 'lr'?");
  EXPECT_EQ(sample_error("[muon]\n\nmomentun = 1\n"),
            "a.toml:3: there is no key 'muon.momentun'; did you mean 'muon.momentum'?");
  EXPECT_EQ(sample_error("[[phases]]\ntokens = 1\n[[phases]]\ntokens = 1\nzzz = 1"),
            "a.toml:5: there is no key 'phases[1].zzz'");
  EXPECT_EQ(sample_error("[[phases]]\ntoken = 1\nweights = []"),
            "a.toml:2: there is no key 'phases[0].token'; did you mean 'phases[0].tokens'?")
      << "says more than that tokens is missing";
  EXPECT_EQ(error_of([] { load_sample("zzz = 1"); }).hint(),
            "keys here: name, fast, seed, kind, files, lr, muon, second, phases");
}

TEST(Config, SaysWhereExpectedAndGot) {
  EXPECT_EQ(sample_error("\nlr = \"x\""),
            "a.toml:2: key 'lr': expected a number, got a string (\"x\")");
  EXPECT_EQ(sample_error("seed = 1.0"),
            "a.toml:1: key 'seed': expected an integer, got a number (1.0)");
  EXPECT_EQ(sample_error("lr = 1979-05-27"),
            "a.toml:1: key 'lr': expected a number, got a date or time");
  EXPECT_EQ(sample_error("files = [\"a\", 2]"),
            "a.toml:1: key 'files': expected a list of strings, got a list ([\"a\", 2])");
  EXPECT_EQ(sample_error("muon = 1"), "a.toml:1: key 'muon': expected a table, got an integer (1)");
  EXPECT_EQ(sample_error("[phases]\ntokens = 1"),
            "a.toml:1: key 'phases': expected a list of tables, [[phases]], got a table");
  EXPECT_EQ(sample_error("phases = [1]"),
            "a.toml:1: key 'phases[0]': expected a table, got an integer (1)");
}

TEST(Config, HoldsValuesToTheirLimits) {
  EXPECT_EQ(sample_error("lr = 0"), "a.toml:1: key 'lr': expected more than 0, got 0");
  EXPECT_EQ(sample_error("lr = nan"), "a.toml:1: key 'lr': expected a finite number, got nan");
  EXPECT_EQ(sample_error("[muon]\nmomentum = 2.5"),
            "a.toml:2: key 'muon.momentum': expected at most 1, got 2.5");
  EXPECT_EQ(sample_error("kind = \"muoon\""),
            "a.toml:1: key 'kind': expected one of muon, adamw; got \"muoon\"; did you mean muon?");
  EXPECT_EQ(sample_error("[[phases]]\ntokens = 1\nweights = [1, -2]"),
            "a.toml:3: key 'phases[0].weights': expected at least 0, got -2");
  EXPECT_EQ(sample_error("[[phases]]\ntokens = 1\nweights = []"),
            "a.toml:3: key 'phases[0].weights': needs at least one");
  EXPECT_EQ(sample_error("\n[[phases]]\n"),
            "a.toml:2: key 'phases[0].tokens': expected an integer, but the key is missing");
}

TEST(Config, SaysWhereATextIsNoToml) {
  const std::string error = sample_error("name = \"x\"\nlr = = 3\n");
  EXPECT_EQ(error.rfind("a.toml:2:6: ", 0), 0u) << error;
}

TEST(Config, TakesOverrides) {
  const Sample run = load_sample("[[phases]]\ntokens = 1",
                                 {"lr=0.5", "name=two words", "kind = adamw", "muon.momentum=0.25",
                                  "phases.0.tokens=9", "files=[\"q\"]", "second.momentum=1"});
  EXPECT_EQ(run.lr, 0.5);
  EXPECT_EQ(run.name, "two words");
  EXPECT_EQ(run.kind, "adamw");
  EXPECT_EQ(run.muon.momentum, 0.25);
  EXPECT_EQ(run.phases[0].tokens, 9);
  EXPECT_EQ(run.files, std::vector<std::string>{"q"});
  EXPECT_EQ(run.second->momentum, 1.0);
}

TEST(Config, SaysWhichOverrideIsWrong) {
  EXPECT_EQ(sample_error("lr = 1", {"lrr=2"}),
            "--set lrr=2: there is no key 'lrr'; did you mean 'lr'?");
  EXPECT_EQ(sample_error("lr = 1", {"lr=x"}),
            "--set lr=x: key 'lr': expected a number, got a string (\"x\")");
  EXPECT_EQ(sample_error("", {"lr"}), "--set lr: expected KEY=VALUE, such as optim.lr=1e-3");
  EXPECT_EQ(sample_error("lr = 1", {"lr.a=1"}),
            "--set lr.a=1: 'a' lies within an integer, not a table");
  EXPECT_EQ(sample_error("[[phases]]\ntokens=1", {"phases.1.tokens=1"}),
            "--set phases.1.tokens=1: expected an element of a list of 1 (0 to 0), got '1'");
  EXPECT_EQ(sample_error("", {"a..b=1"}), "--set a..b=1: a name in the key is empty");
}

TEST(Config, DumpsWhatReadsBackToTheSame) {
  Sample run;
  run.lr = 1e-5;
  run.muon.momentum = 1;
  run.second = Muon{.momentum = 0.1};
  run.phases = {{.tokens = 1}, {.tokens = 2, .weights = {0.1, 3}}};
  const std::string text = dump_config(run);
  EXPECT_EQ(text, R"(name = "run \"1\"\u000a"
fast = false
# seed is not set
kind = "muon"
files = []
lr = 1e-05

[muon]
momentum = 1.0

[second]
momentum = 0.1

[[phases]]
tokens = 1
weights = [1.0]

[[phases]]
tokens = 2
weights = [0.1, 3.0]
)");
  EXPECT_EQ(dump_config(load_sample(text)), text);
  EXPECT_EQ(load_sample(text).name, run.name);
}

TEST(Config, DocumentsEveryKey) {
  const std::vector<ConfigEntry> entries = describe_config<Sample>();
  std::string keys;
  for (const ConfigEntry& entry : entries) keys += entry.key + " ";
  EXPECT_EQ(keys,
            "name fast seed kind files lr muon muon.momentum second second.momentum phases[] "
            "phases[].tokens phases[].weights ");
  const std::string table = config_markdown(entries);
  EXPECT_NE(table.find("| `lr` | a number | `0.0003` | peak learning rate (more than 0) |"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("| `kind` | a string | `\"muon\"` | the optimizer (muon \\| adamw) |"),
            std::string::npos);
  EXPECT_NE(table.find("| `phases[].tokens` | an integer | required |"), std::string::npos);
}

}  // namespace
// Found by fuzzing: toml++ 3.3 asserts, or runs into undefined behaviour, on these.
TEST(Config, RefusesWhatTomlPlusPlusTripsOver) {
  for (const std::string text :
       {"[:x]\n", "\xef\xb3\xbfg = true\n", "\"\"\"\"\n", "x = \"\"\"o\\\xef\xb6\xbf\"\"\"\n"}) {
    try {
      ConfigFile::parse(text, "a.toml");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage) << text;
    }
  }
}

}  // namespace tephra
