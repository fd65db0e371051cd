// SPDX-License-Identifier: Apache-2.0
// The data pipeline as a person runs it: kills in the middle, ranks, and errors. The example of
// docs/data-pipeline.md is run by tests/data/example_test.py.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <thread>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/data/pipeline/pipeline.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

Ran tephra_data(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "data");
  return Program{.path = TEPHRA_BINARY}(arguments);
}

int64_t number(const Json& json, std::initializer_list<const char*> keys) {
  const Json* at = &json;
  for (const char* key : keys) {
    at = at->find(key);
    if (at == nullptr) return -1;
  }
  return at->integer();
}

// Every file below a folder with its bytes.
std::string bytes_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    // Names with a dot are temporary ones of processes that were killed.
    if (entry.is_regular_file() && !entry.path().filename().string().starts_with('.')) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const fs::path& file : files) {
    all += file.lexically_relative(folder).string() + "\n" + read_file(file) + "\n";
  }
  return all;
}

void make_corpus(const Scratch& scratch, int documents) {
  const Ran made = Program{.path = "/usr/bin/python3"}({TEPHRA_SOURCE_DIR "/tools/make_corpus.py",
                                                        (scratch / "corpus").string(),
                                                        std::to_string(documents)});
  ASSERT_EQ(made.code, 0) << made.err;
}

// Records of a crawl that are no documents, and lines without a text: the summary says how many.
TEST(DataPipeline, TellsWhatReadersLeftOut) {
  const Scratch scratch;
  fs::create_directory(scratch / "in");
  const auto response = [](const std::string& head, const std::string& body) {
    const std::string all = "HTTP/1.1 " + head + "\r\n\r\n" + body;
    return "WARC/1.0\r\nWARC-Type: response\r\nContent-Length: " + std::to_string(all.size()) +
           "\r\n\r\n" + all + "\r\n\r\n";
  };
  const std::string html = "200 OK\r\nContent-Type: text/html";
  write_file(scratch / "in/a.warc",
             response(html, "<p>one") + response("404 Not Found", "") + response(html, "<br>") +
                 response("200 OK\r\nContent-Type: image/png", "x") + response(html, ""));
  write_file(scratch / "in/b.jsonl", "{\"text\":null}\n{\"text\":\"two\"}\n");
  const std::string told = "left out: 1 no_html, 2 no_text, 1 status";
  const Ran stage = tephra_data({"stats", (scratch / "in").string(), "--out",
                                 (scratch / "stats").string(), "--on-error", "skip"});
  EXPECT_EQ(stage.code, 0) << stage.err;
  EXPECT_NE(stage.err.find(told), std::string::npos) << stage.err;
  EXPECT_NE(stage.err.find("1 documents could not be read"), std::string::npos) << stage.err;
  write_file(scratch / "run.toml", "inputs = [\"" + (scratch / "in").string() + "\"]\nout = \"" +
                                       (scratch / "out").string() +
                                       "\"\non_error = \"skip\"\n[[stages]]\nkind = \"dedup\"\n");
  const Ran run = tephra_data({"run", (scratch / "run.toml").string()});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find(told), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("1 documents could not be read"), std::string::npos) << run.err;
}

// Starts a command and kills it after a while; whether it was still running.
bool killed_after(const std::vector<std::string>& arguments, int milliseconds) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv;
    std::string binary = TEPHRA_BINARY;
    argv.push_back(binary.data());
    std::vector<std::string> copy = arguments;
    for (std::string& argument : copy) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

TEST(DataPipelineSlow, IsTheSameAfterThirtyKills) {
  const Scratch scratch;
  make_corpus(scratch, 6000);
  const std::string web = (scratch / "corpus" / "web").string(),
                    books = (scratch / "corpus" / "books").string();
  const auto filter = [&](const std::string& out) {
    return std::vector<std::string>{"data",     "filter",       web,     books,
                                    "--preset", "zyda1,gopher", "--out", (scratch / out).string(),
                                    "--quiet"};
  };
  const auto dedup = [&](const std::string& in, const std::string& out) {
    return std::vector<std::string>{
        "data", "dedup", (scratch / in).string(), "--out", (scratch / out).string(), "--quiet"};
  };
  const auto one_pass = [&](const std::string& out) {
    const std::string toml = (scratch / (out + ".toml")).string();
    write_file(toml,
               "inputs = ['web=" + web + "']\nout = '" + (scratch / out).string() +
                   "'\n[[stages]]\nkind = 'filter'\n[[stages]]\nkind = 'filter'\nname = "
                   "'again'\npreset = ['gopher']\n[[stages]]\nkind = 'dedup'\nmax_loss = 1.0\n"
                   "[tokens]\nappend_eos = false\ntokenizer = '" TEPHRA_GOLDEN_DIR
                   "/tokenizer-byte-level'\n");
    return std::vector<std::string>{"data", "run", toml, "--quiet"};
  };
  const Program program{.path = TEPHRA_BINARY};
  ASSERT_EQ(program(filter("filtered")).code, 0);
  ASSERT_EQ(program(dedup("filtered", "unique")).code, 0);
  ASSERT_EQ(program(one_pass("passed")).code, 0);
  // Ten kills each, however fast the machine is: later and later, and a run that ended before its
  // kill begins anew with half the time.
  const auto kill_ten = [&](const std::string& out, const std::vector<std::string>& arguments) {
    int stopped = 0, finished = 0;
    for (double wait = 10; stopped < 10 && finished < 50; wait *= 1.5) {
      if (killed_after(arguments, static_cast<int>(wait))) {
        ++stopped;
      } else {
        ++finished;
        fs::remove_all(scratch / out);
        wait /= 3;
      }
    }
    EXPECT_EQ(stopped, 10) << out;
  };
  kill_ten("filtered2", filter("filtered2"));
  kill_ten("unique2", dedup("filtered", "unique2"));
  kill_ten("passed2", one_pass("passed2"));
  EXPECT_EQ(program(one_pass("passed2")).code, 0);
  // Done, or the last kill came between the end of the work and that of the process.
  for (const int code :
       {program(filter("filtered2")).code, program(dedup("filtered", "unique2")).code}) {
    EXPECT_TRUE(code == 0 || code == 2) << code;
  }
  EXPECT_TRUE(bytes_below(scratch / "filtered2") == bytes_below(scratch / "filtered"));
  EXPECT_TRUE(bytes_below(scratch / "unique2") == bytes_below(scratch / "unique"));
  for (const char* folder :
       {"filter/values", "again/values", "dedup/documents", "dedup/removed", "tokens"}) {
    EXPECT_TRUE(bytes_below(scratch / "passed2" / folder) ==
                bytes_below(scratch / "passed" / folder))
        << folder;
  }
}

// The commands that keep what they found in side files: an index that grows, marks of repeats, row
// groups of a Parquet file.
TEST(DataPipelineSlow, IndexesSubstringsAndParquetAreTheSameAfterKills) {
  const Scratch scratch;
  make_corpus(scratch, 3000);
  const auto path = [&](const std::string& name) { return (scratch / name).string(); };
  const Program program{.path = TEPHRA_BINARY};
  ASSERT_EQ(program({"data", "dedup", path("corpus/books"), "--out", path("first"), "--save-index",
                     path("seen"), "--quiet"})
                .code,
            0);
  fs::copy(scratch / "seen", scratch / "seen2", fs::copy_options::recursive);
  const auto dedup = [&](const std::string& out, const std::string& index) {
    return std::vector<std::string>{"data",
                                    "dedup",
                                    path("corpus/web"),
                                    "--out",
                                    path(out),
                                    "--quiet",
                                    "--against-index",
                                    path(index),
                                    "--save-index",
                                    path(index),
                                    "--max-loss",
                                    "1",
                                    "--output-format",
                                    "parquet"};
  };
  const auto repeats = [&](const std::string& out) {
    return std::vector<std::string>{
        "data", "dedup", path("corpus/web"), "--unit",  "substring",       "--least-bytes",
        "60",   "--out", path(out),          "--quiet", "--output-format", "parquet"};
  };
  ASSERT_EQ(program(dedup("whole", "seen")).code, 0);
  ASSERT_EQ(program(repeats("whole-repeats")).code, 0);
  int stopped = 0;
  for (int kill = 0; kill < 10; ++kill) {
    stopped += killed_after(dedup("stopped", "seen2"), 10 + 23 * kill);
    stopped += killed_after(repeats("stopped-repeats"), 10 + 23 * kill);
  }
  EXPECT_GT(stopped, 5);
  for (const int code :
       {program(dedup("stopped", "seen2")).code, program(repeats("stopped-repeats")).code}) {
    EXPECT_TRUE(code == 0 || code == 2) << code;
  }
  EXPECT_TRUE(bytes_below(scratch / "stopped") == bytes_below(scratch / "whole"));
  EXPECT_TRUE(bytes_below(scratch / "stopped-repeats") == bytes_below(scratch / "whole-repeats"));
  EXPECT_TRUE(bytes_below(scratch / "seen2") == bytes_below(scratch / "seen"));
}

TEST(DataPipeline, RemovesRepeatsAndComparesWithAnIndex) {
  const Scratch scratch;
  fs::create_directories(scratch / "old");
  fs::create_directories(scratch / "new");
  const std::string notice =
      "This long notice stands under every page of the site, word for word, and nobody reads it.";
  const std::string story =
      "Once there was a fisherman who lived with his wife in a hut by the sea "
      "and every day he went out and cast his line into the clear water.";
  write_file(scratch / "old/a.jsonl", "{\"text\":\"" + story + "\"}\n");
  write_file(scratch / "new/a.jsonl",
             "{\"text\":\"" + story +
                 " \"}\n{\"text\":\"One page of little more than what stands at its end. " +
                 notice + "\"}\n{\"text\":\"Two pages, and both of them about another matter: " +
                 notice + " Bye\"}\n");
  const auto path = [&](const std::string& name) { return (scratch / name).string(); };
  ASSERT_EQ(
      tephra_data({"dedup", path("old"), "--out", path("1"), "--save-index", path("seen")}).code,
      0);
  const Ran known = tephra_data(
      {"dedup", path("new"), "--out", path("2"), "--against-index", path("seen"), "--json"});
  ASSERT_EQ(known.code, 0) << known.err;
  EXPECT_EQ(number(Json::parse(known.out, "stdout"), {"counts", "known"}), 1);
  const Ran once = tephra_data({"dedup", path("2"), "--out", path("3"), "--unit", "substring",
                                "--least-bytes", "50", "--json"});
  ASSERT_EQ(once.code, 0) << once.err;
  EXPECT_EQ(number(Json::parse(once.out, "stdout"), {"counts", "removed_bytes"}),
            static_cast<int64_t>(notice.size()) + 1);  // and the space before it
  const Ran wrong = tephra_data(
      {"dedup", path("new"), "--out", path("4"), "--unit", "line", "--save-index", path("seen")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--save-index: has no effect with --unit line"), std::string::npos)
      << wrong.err;
  const Ran none =
      tephra_data({"dedup", path("new"), "--out", path("5"), "--against-index", path("old")});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("holds no dedup index"), std::string::npos) << none.err;
}

// The same command as each of so many ranks, at the same time.
std::vector<Ran> run_ranks(size_t count, const std::vector<std::string>& arguments) {
  std::vector<Ran> ran(count);
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < count; ++rank) {
    ranks.emplace_back([&, rank] {
      const Program program{.path = TEPHRA_BINARY,
                            .environment = {"SLURM_PROCID=" + std::to_string(rank),
                                            "SLURM_STEP_NUM_TASKS=" + std::to_string(count)}};
      ran[rank] = program(arguments);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return ran;
}

// The first rank tells of all.
void expect_one_report(const std::vector<Ran>& ran, const std::string& said) {
  EXPECT_EQ(ran[0].out, said);
  for (size_t rank = 0; rank < ran.size(); ++rank) {
    EXPECT_EQ(ran[rank].code, 0) << rank << ": " << ran[rank].err;
    EXPECT_TRUE(rank == 0 || ran[rank].out.empty()) << rank << ": " << ran[rank].out;
  }
}

TEST(DataPipeline, RanksGiveTheBytesOfOneProcess) {
  const Scratch scratch;
  make_corpus(scratch, 600);
  const std::string corpus = (scratch / "corpus").string();
  const auto arguments = [&](const std::string& out) {
    return std::vector<std::string>{"data",          "dedup",
                                    corpus + "/web", corpus + "/books",
                                    "--out",         (scratch / out).string(),
                                    "--quiet",       "--output-format",
                                    "parquet"};
  };
  ASSERT_EQ(Program{.path = TEPHRA_BINARY}(arguments("one")).code, 0);
  const std::vector<Ran> ran = run_ranks(4, arguments("four"));
  expect_one_report(ran, ran[0].out);
  EXPECT_NE(ran[0].out.find("documents kept"), std::string::npos) << ran[0].out;
  EXPECT_TRUE(bytes_below(scratch / "four") == bytes_below(scratch / "one"));
}

TEST(DataPipeline, RanksRunAPipelineToTheBytesOfOneProcess) {
  const Scratch scratch;
  make_corpus(scratch, 400);
  const std::string corpus = (scratch / "corpus").string();
  const auto arguments = [&](const std::string& out, const char* unit) {
    return std::vector<std::string>{
        "data",
        "run",
        TEPHRA_SOURCE_DIR "/configs/data/example.toml",
        "--set",
        "inputs=[\"web=" + corpus + "/web\", \"books=" + corpus + "/books\"]",
        "--set",
        "out=\"" + (scratch / out).string() + "\"",
        "--set",
        "stages.3.task=[\"quiz=" + corpus + "/quiz.jsonl\"]",
        "--set",
        std::string("stages.2.unit=") + unit,
        "--set",
        "tokens.tokenizer=\"" TEPHRA_GOLDEN_DIR "/tokenizer-byte-level\"",
        "--set",
        "tokens.append_eos=false",
        "--overwrite",
        "--quiet"};
  };
  // The second time, stages are done again because later ones want their documents.
  for (const char* unit : {"paragraph", "line"}) {
    const Ran one = Program{.path = TEPHRA_BINARY}(arguments("one", unit));
    ASSERT_EQ(one.code, 0) << one.err;
    expect_one_report(run_ranks(3, arguments("three", unit)), one.out);
    EXPECT_TRUE(bytes_below(scratch / "three") == bytes_below(scratch / "one")) << unit;
  }
  EXPECT_FALSE(fs::exists(scratch / "three" / "filter" / "documents"));
}

TEST(DataPipeline, RanksEndWhenOneFailsAndGoOnLater) {
  const Scratch scratch;
  fs::create_directory(scratch / "web");
  const std::string good = "{\"text\":\"" + std::string(200, 'a') + "\"}\n";
  write_file(scratch / "web" / "a.jsonl", good);
  write_file(scratch / "web" / "b.jsonl", "broken\n");
  const std::vector<std::string> filter = {"data",
                                           "filter",
                                           (scratch / "web").string(),
                                           "--out",
                                           (scratch / "out").string(),
                                           "--threshold",
                                           "zyda1.mean_word_length_max=1000"};
  const std::vector<Ran> failed = run_ranks(2, filter);
  EXPECT_EQ(failed[0].code, 5) << failed[0].err;
  EXPECT_NE(failed[0].err.find("rank 1 of 2 ended with an error"), std::string::npos)
      << failed[0].err;
  EXPECT_EQ(failed[1].code, 3) << failed[1].err;
  write_file(scratch / "web" / "b.jsonl", good);
  for (const Ran& ran : run_ranks(2, filter)) EXPECT_EQ(ran.code, 0) << ran.err;
  for (const auto& entry : fs::directory_iterator(scratch / "out")) {
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
  }
}

// A batch script of Slurm is one process, though it knows of four tasks.
TEST(DataPipeline, ABatchScriptRunsAlone) {
  const Scratch scratch;
  write_file(scratch / "a.jsonl", "{\"text\":\"x\"}\n");
  const Program program{.path = TEPHRA_BINARY,
                        .environment = {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=7"}};
  const Ran ran = program(
      {"data", "filter", (scratch / "a.jsonl").string(), "--out", (scratch / "out").string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(fs::exists(scratch / "out" / "report.json"));
}

// As docs/data-pipeline.md says: all shards, then the command without one; dedup's more than once.
TEST(DataPipeline, ShardsAreJoinedByTheCommandWithoutOne) {
  const Scratch scratch;
  make_corpus(scratch, 200);
  const std::string corpus = (scratch / "corpus").string();
  const auto run = [&](const std::string& command, const std::string& out,
                       const std::string& shard) {
    std::vector<std::string> words = {command, corpus + "/web", corpus + "/books", "--out",
                                      (scratch / out).string()};
    if (!shard.empty()) words.insert(words.end(), {"--shard", shard});
    const Ran ran = tephra_data(words);
    EXPECT_EQ(ran.code, 0) << command << " " << shard << ": " << ran.err;
    return ran;
  };
  run("filter", "one", "");
  run("dedup", "one-dedup", "");
  for (const char* shard : {"0/3", "1/3", "2/3"}) run("filter", "filtered", shard);
  run("filter", "filtered", "");
  EXPECT_TRUE(bytes_below(scratch / "filtered") == bytes_below(scratch / "one"));
  const Ran first = run("dedup", "unique", "0/2");
  EXPECT_NE(first.err.find("run each of them once more"), std::string::npos) << first.err;
  EXPECT_EQ(first.out, "") << "there is no result yet";
  for (const char* shard : {"1/2", "0/2", "1/2", "0/2", "1/2"}) run("dedup", "unique", shard);
  run("dedup", "unique", "");
  EXPECT_TRUE(bytes_below(scratch / "unique") == bytes_below(scratch / "one-dedup"));
}

// What a command's help lists under Flags.
std::vector<std::string> flags_of(const std::string& command) {
  const std::string help = tephra_data({command, "--help"}).out;
  std::vector<std::string> flags;
  for (const std::string_view line : split(help, '\n')) {
    if (!line.starts_with("  --")) continue;
    flags.emplace_back(trim(line).substr(0, trim(line).find(' ')));
  }
  std::sort(flags.begin(), flags.end());
  return flags;
}

TEST(DataPipeline, KeysOfAStageAreTheFlagsOfItsCommand) {
  const std::vector<std::string> of_the_file = {
      "--out",     "--text-field", "--on-error", "--max-document", "--memory",
      "--samples", "--level",      "--shard",    "--json",         "--overwrite",
      "--threads", "--quiet",      "--help",     "--list-rules"};
  for (const std::string& kind : pipeline_kinds()) {
    PipelineStage stage;
    stage.kind = kind;
    std::vector<std::string> keys = of_the_file;
    if (kind != "filter") keys.pop_back();
    for (const ConfigEntry& entry : describe_config(stage)) {
      if (entry.key == "kind" || entry.key == "name") continue;
      std::string flag = "--" + entry.key;
      std::replace(flag.begin(), flag.end(), '_', '-');
      keys.push_back(flag);
    }
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(flags_of(kind), keys) << kind;
  }
}

TEST(DataPipeline, ListsRulesWithoutACorpus) {
  const Ran ran = tephra_data({"filter", "--list-rules"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* text : {"zyda1.length_min", "below 100", "gopher.duplicate_10grams", "above 0.1",
                           "c4.sentences", "fineweb.short_lines", "of at most 30 characters"}) {
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << "\n" << ran.out;
  }
  const Ran json = tephra_data({"filter", "--list-rules", "--json", "--threshold", "c4.braces=7"});
  EXPECT_NE(json.out.find("\"limit\": 7"), std::string::npos) << json.out;
  const Ran unknown = tephra_data({"filter", "x", "--out", "y", "--threshold", "foo=1"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("tephra data filter --list-rules"), std::string::npos) << unknown.err;
  EXPECT_EQ(tephra_data({"filter"}).code, 2) << "else the inputs are required";
}

TEST(DataPipeline, WarnsOnceOfEachWordList) {
  const Scratch scratch;
  write_file(scratch / "a.jsonl", "{\"text\":\"x\"}\n");
  const std::string in = (scratch / "a.jsonl").string();
  const Ran ran = tephra_data(
      {"filter", in, "--out", (scratch / "out").string(), "--word-lists", scratch.path().string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const size_t first = ran.err.find("profanity.json: does not exist");
  ASSERT_NE(first, std::string::npos) << ran.err;
  EXPECT_EQ(ran.err.find("profanity.json", first + 1), std::string::npos) << ran.err;
}

TEST(DataPipeline, SaysWhichStageItDoes) {
  const Scratch scratch;
  write_file(scratch / "a.jsonl", "{\"text\":\"x\"}\n");
  write_file(scratch / "p.toml", "inputs = ['" + (scratch / "a.jsonl").string() + "']\nout = '" +
                                     (scratch / "out").string() +
                                     "'\n[[stages]]\nkind = 'filter'\n[[stages]]\nkind = 'dedup'\n"
                                     "name = 'lines'\nunit = 'line'\n");
  const Ran ran = tephra_data({"run", (scratch / "p.toml").string()});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("stage 1 of 2, filter"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("stage 2 of 2, lines (dedup)"), std::string::npos) << ran.err;
}

TEST(DataPipeline, RefusesWhatItCannotDo) {
  const Scratch scratch;
  fs::create_directory(scratch / "in");
  write_file(scratch / "in" / "a.jsonl", "{\"text\":\"x\"}\nbroken\n");
  const std::string in = (scratch / "in").string(), out = (scratch / "out").string();
  const Ran bad = tephra_data({"filter", in, "--out", out});
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.err.find("in/a:2"), std::string::npos) << bad.err;
  EXPECT_NE(bad.err.find("--on-error skip"), std::string::npos) << bad.err;
  const Ran other = tephra_data({"filter", in, "--out", out, "--on-error", "skip"});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--overwrite"), std::string::npos) << other.err;
  const Ran skipped =
      tephra_data({"filter", in, "--out", out, "--on-error", "skip", "--overwrite", "--json"});
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_EQ(number(Json::parse(skipped.out, "stdout"), {"counts", "bad_documents"}), 1);
  EXPECT_EQ(tephra_data({"filter", in, "--out", out}).code, 2);
  EXPECT_EQ(tephra_data({"filter", in, "--out", out, "--preset", "zyda3"}).code, 2);
  EXPECT_EQ(tephra_data({"dedup", in, "--out", out + "2", "--shard", "3/2"}).code, 2);
  EXPECT_EQ(tephra_data({"dedup", in, "--out", out + "2", "--memory", "lots"}).code, 2);
  EXPECT_EQ(tephra_data({"mix", in, "--out", out + "3"}).code, 2);
  EXPECT_EQ(tephra_data({"classify", in, "--out", out + "4", "--model", in + "/a.jsonl"}).code, 3);
}

TEST(DataPipeline, BenchHasARowForEachLoop) {
  const Ran ran =
      Program{.path = TEPHRA_BINARY}({"bench", "data", "--mb", "0.1", "--seconds", "0", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  std::vector<std::string> names;
  for (const Json& row : json.find("rows")->array()) {
    names.push_back(row.find("what")->string());
    EXPECT_GT(row.find("value")->number(), 0) << names.back();
  }
  for (const char* name :
       {"parse", "filter zyda1", "signatures zyda1", "signatures zyda2", "signatures fineweb",
        "signatures native", "join of bands", "compare sets of 700", "read and parse .gz",
        "end to end: zyda1 filter, native dedup", "language ID, a made model"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

// At a hundredth of the size that `tephra bench data --quality` has by default; bounds that hold
// for so few are wider only for recall.
TEST(DataPipeline, QualityHasARowForEachPromise) {
  const Ran ran =
      Program{.path = TEPHRA_BINARY}({"bench", "data", "--quality", "--pairs", "200", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  int rows = 0;
  const Json json = Json::parse(ran.out, "stdout");
  for (const Json& row : json.find("rows")->array()) {
    ++rows;
    const std::string what = row.find("what")->string();
    if (row.find("number")->integer() == 15) {
      EXPECT_LT(row.find("value")->number(), 0.15) << what;  // four standard errors of 200
    } else {
      EXPECT_TRUE(row.find("met")->boolean()) << what << " " << row.find("value")->number();
    }
  }
  EXPECT_GT(rows, 15);
}

TEST(DataQualitySlow, HoldsAtFullSize) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes of arithmetic; the small one runs";
#endif
  const Ran ran = Program{.path = TEPHRA_BINARY}({"bench", "data", "--quality", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  for (const Json& row : json.find("rows")->array()) {
    EXPECT_TRUE(row.find("met")->boolean())
        << row.find("what")->string() << " " << row.find("value")->number();
  }
}

TEST(DataPipeline, TrainsAndUsesAClassifier) {
  const Scratch scratch;
  make_corpus(scratch, 400);
  const std::string books = (scratch / "corpus" / "books").string();
  fs::create_directory(scratch / "junk");
  std::string junk;
  for (int i = 0; i < 100; ++i) {
    junk += "{\"text\":\"buy cheap offers now click " + std::to_string(i) + " here\"}\n";
  }
  write_file(scratch / "junk" / "a.jsonl", junk);
  const std::string model = (scratch / "q.bin").string();
  const Ran train = tephra_data({"classify-train", "good=" + books,
                                 "junk=" + (scratch / "junk").string(), "--out", model, "--json"});
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_GT(Json::parse(train.out, "stdout").find("accuracy")->number(), 0.95);
  const Ran used = tephra_data({"classify", books, "--model", model, "--keep", "good", "--out",
                                (scratch / "good").string(), "--json"});
  ASSERT_EQ(used.code, 0) << used.err;
  EXPECT_EQ(number(Json::parse(used.out, "stdout"), {"counts", "kept"}), 100);
}

}  // namespace
}  // namespace tephra
