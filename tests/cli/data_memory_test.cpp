// SPDX-License-Identifier: Apache-2.0
// Stages keep within --memory: the highest memory of the process on a corpus several times larger.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "tephra/base/files.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kCorpus = 200 * kMiB, kMemory = 48 * kMiB;
// What --help promises: 5 % more, and beside it the program itself.
constexpr int64_t kMost = kMemory * 105 / 100 + 64 * kMiB;

// Documents of about 2 kB, a fifth of them copies of earlier ones.
void write_corpus(const Path& path) {
  std::mt19937_64 random(1);
  std::ofstream out(path);
  std::vector<std::string> some;
  for (int64_t size = 0; size < kCorpus;) {
    std::string text;
    if (some.size() > 100 && random() % 5 == 0) {
      text = some[random() % some.size()];
    } else {
      while (text.size() < 2000) {
        uint64_t bits = random();
        for (uint64_t i = 0; i < 3 + bits % 7; ++i, bits /= 26) {
          text += static_cast<char>('a' + bits / 16 % 26);
        }
        text += bits % 11 == 0 ? ". " : " ";
      }
      if (some.size() < 5000) some.push_back(text);
    }
    out << "{\"text\":\"" << text << "\"}\n";
    size += static_cast<int64_t>(text.size());
  }
}

int64_t peak_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// The highest memory of the command, looked at while it runs; -1 when it fails.
int64_t peak_of_run(std::vector<std::string> arguments) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::string binary = TEPHRA_BINARY;
    std::vector<char*> argv = {binary.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int64_t peak = 0;
  for (int status = 0;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? peak : -1;
    peak = std::max(peak, peak_of(child));
  }
}

TEST(DataMemorySlow, IsKeptByFilterAndDedup) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "web");
  write_corpus(scratch / "web" / "a.jsonl");
  const std::string memory = std::to_string(kMemory);
  const int64_t filter =
      peak_of_run({"data", "filter", (scratch / "web").string(), "--out",
                   (scratch / "filtered").string(), "--memory", memory, "--quiet"});
  EXPECT_GT(filter, 0);
  EXPECT_LE(filter, kMost) << filter / kMiB << " MiB";
  const int64_t dedup = peak_of_run({"data", "dedup", (scratch / "filtered").string(), "--out",
                                     (scratch / "unique").string(), "--memory", memory, "--quiet"});
  EXPECT_GT(dedup, 0);
  EXPECT_LE(dedup, kMost) << dedup / kMiB << " MiB";
  // Many threads on one file.
  const int64_t many = peak_of_run({"data", "filter", (scratch / "web").string(), "--out",
                                    (scratch / "by_many").string(), "--memory", memory, "--threads",
                                    "16", "--quiet"});
  EXPECT_GT(many, 0);
  EXPECT_LE(many, kMost) << many / kMiB << " MiB";
  RecordProperty("filter_MiB", static_cast<int>(filter / kMiB));
  RecordProperty("filter_by_many_MiB", static_cast<int>(many / kMiB));
  RecordProperty("dedup_MiB", static_cast<int>(dedup / kMiB));
}

}  // namespace
}  // namespace tephra
