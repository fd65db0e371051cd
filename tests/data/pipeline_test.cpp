// SPDX-License-Identifier: Apache-2.0
// The file of a pipeline: its keys, and what is refused before the first stage begins.
#include "tephra/data/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const std::string kLine =
    "{\"text\":\"A paragraph about nothing in particular, long enough to be kept by every rule "
    "that looks at length, and with words of the usual kind.\"}\n";

// A corpus of two sources, and pipelines over it.
struct SmallPipeline {
  Scratch scratch;

  SmallPipeline() {
    for (const char* source : {"web", "books"}) {
      std::filesystem::create_directories(scratch / source);
      write_file(scratch / source / "a.jsonl", kLine);
    }
  }

  PipelineConfig config(const std::string& rest) const {
    PipelineConfig config;
    ConfigFile::parse("inputs = ['" + (scratch / "web").string() + "', '" +
                          (scratch / "books").string() + "']\nout = '" +
                          (scratch / "out").string() + "'\n" + rest,
                      "p.toml")
        .load(config);
    return config;
  }

  // What is wrong, before anything is written.
  std::string refused(const std::string& rest) const {
    const Error error = error_of([&] { run_pipeline(config(rest), false); });
    EXPECT_EQ(error.fault(), Fault::usage) << error.what();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch / "out")) {
      ADD_FAILURE() << rest << " began: " << entry.path();
    }
    return std::string(error.what()) + " | " + error.hint();
  }
};

constexpr const char* kFilter = "[[stages]]\nkind = 'filter'\n";

std::string refused_key(const std::string& rest) {
  return error_of([&] { SmallPipeline().config(rest); }).what();
}

TEST(PipelineFile, RefusesKeysOfOtherKinds) {
  EXPECT_NE(refused_key("[[stages]]\nkind = 'filter'\nmodel = 'x'\n")
                .find("p.toml:5: there is no key 'stages[0].model'"),
            std::string::npos);
  EXPECT_NE(
      refused_key("[[stages]]\nkind = 'dedup'\nweight = ['web=1']\n").find("stages[0].weight"),
      std::string::npos);
  EXPECT_NE(refused_key("[[stages]]\npreset = ['c4']\n").find("'stages[0].kind': expected one of"),
            std::string::npos);
  EXPECT_NE(refused_key("[[stages]]\nkind = 'classify'\n").find("'stages[0].model'"),
            std::string::npos);
}

TEST(PipelineFile, TakesEveryFlag) {
  const SmallPipeline pipeline;
  const PipelineConfig config = pipeline.config(
      "max_document = '1MB'\n[[stages]]\nkind = 'filter'\npreset = ['c4,gopher']\nno_values = "
      "true\nkeep_dropped = true\n[[stages]]\nkind = 'dedup'\nunit = 'line'\nleast_chars = 5\n"
      "[[stages]]\nkind = 'classify'\nmodel = 'x'\nfield = 'lang'\nsample_bytes = 0\n[[stages]]\n"
      "kind = 'decontaminate'\ntask = ['x']\nleast = 3\n[[stages]]\nkind = 'mix'\npreset = "
      "'zyda2'\n[tokens]\ntokenizer = 'x'\nprepend_bos = true\n");
  const FilterOptions filter = config.stages[0].filter.options({});
  EXPECT_EQ(filter.choice.presets, (std::vector<std::string>{"c4", "gopher"}));
  EXPECT_TRUE(filter.keep_dropped && !filter.keep_values);
  EXPECT_EQ(config.stages[1].dedup.line_options({}).least_chars, 5);
  EXPECT_EQ(config.stages[2].classify.options({}).sample_bytes, 0);
  EXPECT_EQ(config.stages[3].decontaminate.least, 3);
  EXPECT_EQ(config.stages[4].mix.options({}).weights.size(), 4u);
  EXPECT_TRUE(config.tokens->prepend_bos);
}

TEST(PipelineFile, IsCheckedToItsEndBeforeTheFirstStage) {
  const SmallPipeline pipeline;
  const auto refuses = [&](const std::string& last, const std::string& said) {
    const std::string message = pipeline.refused(kFilter + last);
    EXPECT_NE(message.find(said), std::string::npos) << message;
  };
  refuses("[[stages]]\nkind = 'dedup'\nrank = ['webb']\n",
          "stage 2 of 2, dedup: --rank: the inputs have no source 'webb' | did you mean web?");
  refuses("[[stages]]\nkind = 'dedup'\nagainst_index = '/nowhere'\n", "holds no dedup index");
  refuses("[[stages]]\nkind = 'mix'\nweight = ['web=1']\n", "source books has none");
  refuses(
      "[[stages]]\nkind = 'dedup'\nreference = ['books']\n[[stages]]\nkind = 'mix'\n"
      "weight = ['web=1', 'books=1']\n",
      "no source 'books'");
  refuses("[[stages]]\nkind = 'mix'\nweight = ['web=1', 'books=1']\nsize = 'much'\n", "--size");
  refuses("[[stages]]\nkind = 'filter'\nname = 'again'\nthreshold = ['zyda1.lenth_min=3']\n",
          "did you mean zyda1.length_min?");
  refuses("[[stages]]\nkind = 'classify'\nmodel = '/nowhere.bin'\n", "/nowhere.bin");
  refuses("[[stages]]\nkind = 'decontaminate'\ntask = ['/nowhere.txt']\n", "/nowhere.txt");
  refuses("[tokens]\ntokenizer = '/nowhere'\n", "/nowhere");
}

TEST(PipelineFile, WantsATokenizerThatCanEndATextBeforeTheFirstStage) {
  const SmallPipeline pipeline;
  const std::string tokens =
      std::string("[tokens]\ntokenizer = '") + TEPHRA_GOLDEN_DIR + "/tokenizer-byte-level'\n";
  const std::string message = pipeline.refused(kFilter + tokens);
  EXPECT_NE(message.find("tokens: the tokenizer names no token that ends a text"),
            std::string::npos)
      << message;
  EXPECT_GT(
      run_pipeline(pipeline.config(kFilter + tokens + "append_eos = false\n"), false).tokens.tokens,
      0);
}

TEST(PipelineFile, AnIndexMayComeToBeOnTheWay) {
  const SmallPipeline pipeline;
  const std::string index = (pipeline.scratch / "seen").string();
  const PipelineConfig config = pipeline.config(
      "[[stages]]\nkind = 'dedup'\nmax_loss = 1.0\nsave_index = '" + index +
      "'\n[[stages]]\nkind = 'dedup'\nname = 'again'\nmax_loss = 1.0\nagainst_index = '" + index +
      "'\n");
  EXPECT_EQ(run_pipeline(config, false).stages[1].second.find("known")->integer(), 1);
}

// A kill between its report and the end of its cleaning.
TEST(PipelineFile, FinishesTheCleaningOfAStageThatIsDone) {
  const SmallPipeline pipeline;
  const PipelineConfig config = pipeline.config(
      "[[stages]]\nkind = 'dedup'\nreference = ['books']\nmax_loss = 1.0\n"
      "[tokens]\nappend_eos = false\ntokenizer = '" TEPHRA_GOLDEN_DIR "/tokenizer-byte-level'\n");
  const Path dedup = pipeline.scratch / "out" / "dedup";
  run_pipeline(config, false);
  for (const bool overwrite : {false, true}) {
    for (const char* left : {".dedup/signatures", ".mix", ".work", "documents/books"}) {
      std::filesystem::create_directories(dedup / left);
      write_file(dedup / left / "a.jsonl", kLine);
    }
    run_pipeline(config, overwrite);
    for (const char* left : {".dedup", ".mix", ".work", "documents/books"}) {
      EXPECT_FALSE(std::filesystem::exists(dedup / left)) << left;
    }
  }
}

// The settings of a stage's folder are those that made it: not its memory, nor other kinds' keys.
TEST(PipelineFile, AFolderHasTheSettingsThatMadeIt) {
  const SmallPipeline pipeline;
  run_pipeline(pipeline.config(std::string("memory = '100MB'\n") + kFilter), false);
  const std::string settings = read_file(pipeline.scratch / "out" / "filter" / "config.toml");
  EXPECT_NE(settings.find("preset = [\"zyda1\"]"), std::string::npos) << settings;
  for (const char* other : {"memory", "bloom_rate", "words", "seed", "out ="}) {
    EXPECT_EQ(settings.find(other), std::string::npos) << other << "\n" << settings;
  }
}

std::string no_effect(const DedupSettings& settings) {
  return error_of([&] { settings.check(); }).what();
}

TEST(StageSettings, WithoutEffectAreRefused) {
  DedupSettings settings;
  settings.no_verify = true;
  settings.similarity = 0.5;
  EXPECT_EQ(no_effect(settings), "--similarity: has no effect with --no-verify");
  settings = {.remove_all = true};
  EXPECT_EQ(no_effect(settings), "--remove-all: has no effect with --unit document");
  settings = {.unit = "line", .preset = "zyda1"};
  EXPECT_EQ(no_effect(settings), "--preset: has no effect with --unit line");
  settings = {.unit = "substring", .least_chars = 3};
  EXPECT_EQ(no_effect(settings), "--least-chars: has no effect with --unit substring");
  settings = {.rank = {"main,main"}};
  EXPECT_EQ(no_effect(settings), "--rank: 'main' is given twice");
  settings = {.rank = {"old"}, .reference = {"old"}};
  EXPECT_NE(no_effect(settings).find("given as --reference, too"), std::string::npos);
  settings = {.score_field = "quality"};
  EXPECT_EQ(no_effect(settings), "--score-field: has no effect without --keep best");
  settings = {.index_kind = "bloom"};
  EXPECT_EQ(no_effect(settings), "--index-kind: has no effect without --save-index");
  DedupSettings{.unit = "paragraph", .least_chars = 3}.check();

  const auto usage = [](FunctionRef<void()> call) { return std::string(error_of(call).what()); };
  EXPECT_EQ(usage([] {
              parse_weights(std::vector<std::string>{"main=1e308", "main=1"});
            }),
            "--weight: 'main' is given twice");
  EXPECT_EQ(usage([] {
              make_filters({{"zyda1"}, FilterMode::fixed, "", {"zyda1.xml=1", "zyda1.xml=2"}});
            }),
            "--threshold: 'zyda1.xml' is given twice");
  EXPECT_EQ(usage([] { DecontaminateSettings{.task = {"x"}, .words = 13, .least = 20}.index(); }),
            "--least: expected at most the 13 words of --words, got 20");
  EXPECT_EQ(usage([] { FilterSettings{.preset = {"c4"}, .word_lists = "/tmp"}.options({}); }),
            "--word-lists: has no effect without --preset zyda1");
}

TEST(FilterRules, SayWhatTheyMeasure) {
  FilterChoice choice;
  choice.presets = filter_preset_names();
  for (const FilterPreset& preset : make_filters(choice)) {
    for (const FilterRule& rule : preset.rules) {
      EXPECT_NE(value_meaning(rule.value), "") << rule.name;
    }
  }
  EXPECT_EQ(value_meaning("duplicate_10grams"),
            "share of characters in 10 words in a row that stood before");
}

TEST(PipelineFile, HasAReferenceOfItsKeys) {
  EXPECT_EQ(read_file(TEPHRA_SOURCE_DIR "/docs/data-config.md"), pipeline_reference())
      << "run: tephra data run --config-reference > docs/data-config.md";
}

}  // namespace
}  // namespace tephra
