// SPDX-License-Identifier: Apache-2.0
// Any text as a TOML config: what is accepted is dumped as TOML that reads back to the same dump.
#include <cstdlib>
#include <vector>

#include "fuzz/fuzz.h"
#include "tephra/base/config.h"

namespace {

struct Item {
  std::string name;
  double weight = 1;

  void fields(tephra::ConfigFields& f) {
    f.read("name", name, "a name", {.required = true});
    f.read("weight", weight, "a number", {.above = 0});
  }
};

struct Config {
  bool flag = false;
  int64_t count = 3;
  std::optional<double> rate;
  std::vector<std::string> words;
  std::vector<int64_t> numbers;
  std::vector<Item> items;
  Item item{.name = "default"};

  void fields(tephra::ConfigFields& f) {
    f.read("flag", flag, "a switch");
    f.read("count", count, "a size", {.min = 1, .max = 100});
    f.read("rate", rate, "may be absent");
    f.read("words", words, "texts");
    f.read("numbers", numbers, "integers");
    f.list("items", items, "several");
    f.table("item", item, "one");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  fuzz::expect_reads_or_refuses([&] {
    Config config;
    ConfigFile::parse(fuzz::text_of(data, size), "fuzz.toml").load(config);
    const std::string dumped = dump_config(config);
    Config again;
    ConfigFile::parse(dumped, "dump.toml").load(again);
    if (dump_config(again) != dumped) std::abort();
  });
  return 0;
}
