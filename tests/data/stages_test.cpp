// SPDX-License-Identifier: Apache-2.0
// Whole stages on small corpora: filter, decontaminate, mix, stats and its page.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tephra/base/json.h"
#include "tephra/data/classify/classify_corpus.h"
#include "tephra/data/classify/fasttext_train.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/decontaminate/decontaminate_corpus.h"
#include "tephra/data/dedup/line_dedup.h"
#include "tephra/data/filter/filter_corpus.h"
#include "tephra/data/line_reader.h"
#include "tephra/data/mix/mix_corpus.h"
#include "tephra/data/pipeline/pipeline.h"
#include "tephra/data/stats/stats_corpus.h"
#include "tephra/data/stats/stats_page.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

struct StageCorpus {
  Scratch scratch;
  std::vector<std::string> inputs;

  void add(const std::string& source, const std::string& lines) {
    std::filesystem::create_directories(scratch / source);
    write_file(scratch / source / "a.jsonl", lines);
    inputs.push_back((scratch / source).string());
  }
  std::vector<CorpusFile> files() const { return corpus_files(inputs); }
  StageSettings stage(const std::string& out) const {
    StageSettings settings;
    settings.out = scratch / out;
    return settings;
  }
  std::string read(const std::string& name) const {
    return read_decompressed(scratch / name, 1 << 24);
  }
};

std::string document(const std::string& text) {
  Json json;
  json["url"] = "u";
  json["text"] = text;
  return json.dump() + "\n";
}

const std::string kProse =
    "A paragraph about nothing in particular, long enough to be kept by every rule that looks at "
    "length, and with words of the usual kind.";

TEST(FilterCorpus, KeepsFieldsAddsIdsAndTellsWhyOthersWent) {
  StageCorpus corpus;
  corpus.add("web", document(kProse) + document("short") + document(kProse + std::string(12, '-')));
  FilterOptions options;
  options.keep_dropped = true;
  const StageRun run = filter_corpus(corpus.files(), options, corpus.stage("out"));
  EXPECT_EQ(run.tally["kept"], 2);
  EXPECT_EQ(run.tally["dropped_only_by.zyda1.length_min"], 1);
  const std::string kept = corpus.read("out/documents/web/a.jsonl.zst");
  EXPECT_EQ(kept, "{\"url\":\"u\",\"text\":\"" + kProse +
                      "\",\"tephra_id\":\"web/a:1\"}\n{\"url\":\"u\",\"text\":\"" + kProse +
                      "-\",\"tephra_id\":\"web/a:3\"}\n");
  const std::string values = corpus.read("out/values/web/a.jsonl.zst");
  EXPECT_NE(values.find(R"({"id":"web/a:2","dropped_by":["zyda1.length_min"],"zyda1.length":5,)"),
            std::string::npos)
      << values;
  const std::string dropped = corpus.read("out/dropped/web/a.jsonl.zst");
  EXPECT_NE(dropped.find(R"("tephra_dropped_by":["zyda1.length_min"]})"), std::string::npos);
  // The ids of the first stage stay.
  const std::vector<std::string> next = {(corpus.scratch / "out").string()};
  filter_corpus(corpus_files(next), {}, corpus.stage("out2"));
  EXPECT_EQ(corpus.read("out2/documents/web/a.jsonl.zst"), kept);
}

TEST(FilterCorpus, CountsBadDocuments) {
  StageCorpus corpus;
  corpus.add("web", document(kProse) + "{broken\n{\"text\":7}\n{\"text\":\"\xff\"}\n[]\n");
  StageSettings stage = corpus.stage("out");
  EXPECT_EQ(error_of([&] { filter_corpus(corpus.files(), {}, stage); }).fault(), Fault::data);
  stage = corpus.stage("out2");
  stage.on_error = OnError::skip;
  const StageRun run = filter_corpus(corpus.files(), {}, stage);
  EXPECT_EQ(run.tally[counted::kBad], 4);
  EXPECT_EQ(run.tally["kept"], 1);
}

TEST(FilterCorpus, SurvivesAMillionRepeats) {
  StageCorpus corpus;
  for (const char* part : {"a", "a.", "1.", "a@", "- ", "\n", "www", "\xc3\xa9"}) {
    std::string text;
    while (text.size() < 1'000'000) text += part;
    corpus.add("s" + std::to_string(corpus.inputs.size()), document(text));
  }
  FilterOptions options;
  options.choice.presets = {"zyda1", "c4", "gopher", "fineweb"};
  EXPECT_EQ(filter_corpus(corpus.files(), options, corpus.stage("out")).tally["dropped"], 8);
}

TEST(Decontaminate, NamesTheTaskAndTheWords) {
  StageCorpus corpus;
  const std::string question =
      "If a train leaves the station at noon and goes sixty miles in an hour, when is it there?";
  corpus.add("web", document("Nothing to see here, really, move along now please and thank you.") +
                        document("Quiz! " + question + " Answer below.") +
                        document("What is two plus two minus one times three?"));
  write_file(corpus.scratch / "quiz.jsonl",
             "{\"question\":\"" + question +
                 "\",\"n\":3}\n{\"q\":[\"What is two plus two minus one "
                 "times three\"]}\n{\"q\":\"too short\"}\n");
  const std::vector<std::string> tasks = {"quiz=" + (corpus.scratch / "quiz.jsonl").string()};
  const TaskIndex index(tasks, 13, 8);
  EXPECT_EQ(index.skipped(), 1);
  const StageRun run = decontaminate_corpus(corpus.files(), index, "text", corpus.stage("out"));
  EXPECT_EQ(run.tally["kept"], 1);
  EXPECT_EQ(run.tally["contaminated_by.quiz"], 2);
  EXPECT_NE(corpus.read("out/removed/web/a.jsonl.zst")
                .find(R"({"id":"web/a:2","task":"quiz","words":"if a)"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { TaskIndex(tasks, 3, 4); }).fault(), Fault::usage);
}

TEST(Mix, GivesEachSourceItsShare) {
  StageCorpus corpus;
  std::string web, books;
  for (int i = 0; i < 3000; ++i) web += document("web " + std::to_string(10000 + i));
  for (int i = 0; i < 1000; ++i) books += document("book" + std::to_string(10000 + i));
  corpus.add("web", web);
  corpus.add("books", books);
  MixOptions options;
  options.weights = {{"web", 1}, {"books", 1}};
  const StageRun even = mix_corpus(corpus.files(), options, corpus.stage("even"));
  EXPECT_EQ(even.tally["source.books.kept"], 1000);
  EXPECT_NEAR(static_cast<double>(even.tally["source.web.kept"]), 1000, 80);
  options.weights = {{"web", 0}, {"books", 1}};
  options.bytes = 22500;  // two and a half times
  const StageRun twice = mix_corpus(corpus.files(), options, corpus.stage("twice"));
  EXPECT_EQ(twice.tally["source.web.kept"], 0);
  EXPECT_NEAR(static_cast<double>(twice.tally["source.books.kept"]), 2500, 60);
  options.max_repeats = 2;
  EXPECT_EQ(error_of([&] { mix_corpus(corpus.files(), options, corpus.stage("more")); }).fault(),
            Fault::usage);
  options.weights = {{"web", 1}};
  EXPECT_NE(std::string(
                error_of([&] { mix_corpus(corpus.files(), options, corpus.stage("none")); }).what())
                .find("source books has none"),
            std::string::npos);
}

std::vector<LabelledText> labelled(int count) {
  std::vector<LabelledText> texts;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i % 37);
    texts.push_back({"good", "the essay number " + n + " argues with care about " + n});
    texts.push_back({"junk", "buy cheap " + n + " now click here offer " + n + " free"});
  }
  return texts;
}

TEST(FastText, LearnsWritesReadsAndPredictsTheSame) {
  const std::vector<LabelledText> texts = labelled(200);
  FastTextTraining how;
  how.buckets = 1000;
  const FastTextModel model = train_fasttext(texts, how);
  EXPECT_EQ(accuracy(model, texts), 1.0);
  const Scratch scratch;
  model.save(scratch / "m.bin");
  const FastTextModel back = FastTextModel::load(scratch / "m.bin");
  EXPECT_EQ(back.input, model.input);
  EXPECT_EQ(back.labels(), model.labels());
  back.save(scratch / "again.bin");
  EXPECT_EQ(read_file(scratch / "again.bin"), read_file(scratch / "m.bin"));
  FastTextModel::Scratch memory;
  const auto guess = back.predict("free offer, click now", memory);
  EXPECT_EQ(back.labels()[guess.label], "junk");
  EXPECT_GT(guess.probability, 0.6);
  const std::string whole = read_file(scratch / "m.bin");
  for (const size_t size : {size_t{0}, size_t{7}, size_t{60}, size_t{300}, whole.size() - 1}) {
    write_file(scratch / "cut.bin", whole.substr(0, size));
    EXPECT_EQ(error_of([&] { FastTextModel::load(scratch / "cut.bin"); }).fault(), Fault::data)
        << size;
  }
}

TEST(FastText, TreeOfLabelsIsHuffmans) {
  const LabelTree tree({9, 5, 3, 1});
  // 1 and 3 join first, then with 5, then with 9.
  ASSERT_EQ(tree.nodes.size(), 7u);
  EXPECT_EQ(tree.nodes[4].left, 3);
  EXPECT_EQ(tree.nodes[4].right, 2);
  EXPECT_EQ(tree.nodes[5].left, 4);
  EXPECT_EQ(tree.nodes[5].right, 1);
}

TEST(FastText, HashIsTheFormats) {
  EXPECT_EQ(fasttext_hash(""), 2166136261u);
  EXPECT_EQ(fasttext_hash("a"), 0xe40c292cu);                           // FNV-1a
  EXPECT_NE(fasttext_hash("\xe9"), (2166136261u ^ 0xe9u) * 16777619u);  // signed bytes
}

TEST(Classify, LabelsDocumentsAndKeepsTheWanted) {
  StageCorpus corpus;
  corpus.add("web", document("the essay argues with care about it") +
                        document("click here for a free offer now"));
  const FastTextModel model = train_fasttext(labelled(200), {});
  ClassifyOptions options;
  options.name = "quality";
  options.keep = {"good"};
  const StageRun run = classify_corpus(corpus.files(), model, options, corpus.stage("out"));
  EXPECT_EQ(run.tally["label.junk"], 1);
  const std::string kept = corpus.read("out/documents/web/a.jsonl.zst");
  EXPECT_NE(kept.find(R"("quality":"good","quality_score":)"), std::string::npos) << kept;
  options.keep = {"god"};
  EXPECT_EQ(
      error_of([&] { classify_corpus(corpus.files(), model, options, corpus.stage("no")); }).hint(),
      "did you mean good?");
}

TEST(Classify, LooksAtStretchesFromBeginningToEnd) {
  const std::string text = std::string(5000, 'a') + "\xe4\xbd\xa0" + std::string(5000, 'b');
  EXPECT_LE(sampled_text(text, 300).size(), 302u);
  EXPECT_EQ(sampled_text(text, 300).back(), 'b');
  EXPECT_EQ(sampled_text(text, 0), text);
  EXPECT_EQ(sampled_text("short", 300), "short");
  // Whole words, of every part of the text.
  std::string words;
  for (int i = 1000; i < 3000; ++i) words += std::to_string(i) + " ";
  const std::string sample = sampled_text(words, 2048);
  EXPECT_TRUE(sample.starts_with("1000 1001 "));
  for (const char* word : {" 1300 ", " 1600 ", " 1850 ", " 2150 ", " 2400 ", " 2700 ", " 2999"}) {
    EXPECT_NE(sample.find(word), std::string::npos) << word << "\n" << sample;
  }
  EXPECT_EQ(sample.find("  "), std::string::npos) << sample;
}

TEST(Classify, LooksAtAllOfATextThatASampleLeavesInDoubt) {
  const FastTextModel model = train_fasttext(labelled(200), {});
  FastTextModel::Scratch memory;
  std::string text;
  for (int i = 0; i < 1000; ++i) {
    text += i > 200 && i < 450 ? "click free offer " : "kelu " + std::to_string(i) + " tamo ";
  }
  EXPECT_LT(model.predict(sampled_text(text, 300), memory).probability, 0.6);
  const auto whole = model.predict(text, memory),
             guess = predict_by_sample(model, text, 300, memory);
  EXPECT_EQ(model.labels()[guess.label], "junk");
  EXPECT_EQ(guess.probability, whole.probability);
  const std::string plain(2000, 'x'), junk = "click here for a free offer now " + plain;
  EXPECT_EQ(predict_by_sample(model, junk, 0, memory).probability,
            model.predict(junk, memory).probability);
}

TEST(FastText, WordsThatAreKnownChangeNoBit) {
  FastTextTraining how;
  how.buckets = 1000;
  const FastTextModel model = train_fasttext(labelled(200), how);
  FastTextModel::Scratch used;
  for (int i = 0; i < 40000; ++i) {  // more words than places
    model.predict("free " + std::to_string(i), used);
  }
  for (const char* text :
       {"free offer 39999, click now", "the essay argues 17 with care",
        "a_word_that_is_longer_than_those_that_are_kept free", "", "free free"}) {
    FastTextModel::Scratch fresh;
    const auto a = model.predict(text, fresh), b = model.predict(text, used);
    EXPECT_EQ(a.label, b.label) << text;
    EXPECT_EQ(a.probability, b.probability) << text;
  }
}

TEST(Pipeline, RunsStagesAndGoesOnWhereItWas) {
  StageCorpus corpus;
  const std::string other =
      "Quite another paragraph, also of a decent length, that has little to do with the first one "
      "but reads well enough for a rule.";
  corpus.add("web", document(kProse) + document("short") + document(kProse) + document(other));
  PipelineConfig config;
  const std::string toml = "inputs = ['" + corpus.inputs[0] + "']\nout = '" +
                           (corpus.scratch / "out").string() +
                           "'\n[[stages]]\nkind = 'filter'\n[[stages]]\nkind = 'dedup'\n";
  ConfigFile::parse(toml, "p.toml").load(config);
  const PipelineResult result = run_pipeline(config, false);
  ASSERT_EQ(result.stages.size(), 2u);
  EXPECT_EQ(result.stages[1].second.find("kept")->integer(), 2);
  std::filesystem::remove_all(corpus.scratch / "web");  // nothing is read again
  EXPECT_EQ(run_pipeline(config, false).stages[1].second.find("kept")->integer(), 2);
  corpus.add("web", document("x"));  // but other documents are noticed
  const Error other_inputs = error_of([&] { run_pipeline(config, false); });
  EXPECT_EQ(other_inputs.fault(), Fault::usage);
  EXPECT_NE(std::string(other_inputs.what()).find("inputs"), std::string::npos)
      << other_inputs.what();
  config.stages[0].filter.threshold = {"zyda1.length_min=1"};
  EXPECT_EQ(error_of([&] { run_pipeline(config, false); }).fault(), Fault::usage);
  config.stages[0].filter.mode = "compat";
  EXPECT_EQ(run_pipeline(config, true).stages[0].second.find("documents")->integer(), 1);
}

TEST(Pipeline, MakesTokensOnce) {
  StageCorpus corpus;
  corpus.add("web", document(kProse) + document("short"));
  PipelineConfig config;
  ConfigFile::parse("inputs = ['" + corpus.inputs[0] + "']\nout = '" +
                        (corpus.scratch / "out").string() +
                        "'\n[[stages]]\nkind = 'filter'\n[tokens]\nappend_eos = false\n"
                        "tokenizer = '" TEPHRA_GOLDEN_DIR "/tokenizer-byte-level'\n",
                    "p.toml")
      .load(config);
  const PipelineResult first = run_pipeline(config, false);
  EXPECT_EQ(first.tokens.documents, 1);
  const Path bin = corpus.scratch / "out/tokens/corpus.bin";
  const auto made = std::filesystem::last_write_time(bin);
  const PipelineResult again = run_pipeline(config, false);
  EXPECT_EQ(again.tokens.documents, 1);
  EXPECT_EQ(again.tokens.tokens, first.tokens.tokens);
  EXPECT_TRUE(std::filesystem::last_write_time(bin) == made) << "nothing was written again";
  EXPECT_EQ(run_pipeline(config, true).tokens.tokens, first.tokens.tokens);
  const auto anew = std::filesystem::last_write_time(bin);
  EXPECT_FALSE(anew == made);
  config.stages[0].filter.threshold = {"zyda1.length_min=1"};
  config.stages[0].name = "other";
  const Error error = error_of([&] { run_pipeline(config, false); });
  EXPECT_EQ(error.fault(), Fault::usage) << error.what();
  EXPECT_FALSE(std::filesystem::exists(corpus.scratch / "out/other")) << "before the first stage";
  EXPECT_EQ(run_pipeline(config, true).tokens.documents, 2);
  EXPECT_FALSE(std::filesystem::last_write_time(bin) == anew);
}

TEST(Pipeline, TakesIndexesSubstringsAndParquet) {
  StageCorpus corpus;
  corpus.add(
      "web",
      document(kProse) +
          document("Before it there stood a good deal of other text, which nobody has read: " +
                   kProse + " After it came as much again, of the same sort.") +
          document("Nothing of the above, and long enough to be a document."));
  PipelineConfig config;
  const std::string toml =
      "inputs = ['" + corpus.inputs[0] + "']\nout = '" + (corpus.scratch / "out").string() +
      "'\n[[stages]]\nkind = 'dedup'\nsimilarity = 1.0\nsave_index = '" +
      (corpus.scratch / "seen").string() +
      "'\n[[stages]]\nkind = 'dedup'\nname = 'repeats'\nunit = 'substring'\nleast_bytes = 100\n"
      "output_format = 'parquet'\n";
  ConfigFile::parse(toml, "p.toml").load(config);
  const PipelineResult result = run_pipeline(config, false);
  ASSERT_EQ(result.stages[0].second.find("kept")->integer(), 3);
  EXPECT_EQ(result.stages[1].second.find("removed_bytes")->integer(),
            static_cast<int64_t>(kProse.size()));
  EXPECT_TRUE(std::filesystem::exists(corpus.scratch / "out/repeats/documents/web/a.parquet"));
  EXPECT_TRUE(std::filesystem::exists(corpus.scratch / "seen/index.json"));
}

// All files below a folder with their bytes, but for configs, which say how it was run.
std::string files_below(const Path& folder) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() != ".toml") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const Path& file : files) all += file.lexically_relative(folder).string() + read_file(file);
  return all;
}

TEST(Pipeline, LeavesTheSameInOnePassAsStageByStage) {
  StageCorpus corpus;
  std::mt19937 random(3);
  std::string lines;
  for (int i = 0; i < 4000; ++i) {
    std::string text = i % 5 == 0 ? kProse : "";
    while (text.size() < 700) {
      text += std::string(2 + random() % 8, static_cast<char>('a' + random() % 26)) + " ";
    }
    lines += document(i % 7 == 0 ? "short" : text);
  }
  corpus.add("web", lines);
  write_file(corpus.scratch / "quiz.txt", kProse + "\n");
  const auto run = [&](const std::string& out, bool keep, const std::string& memory = "4GiB",
                       const std::string& format = "jsonl") {
    PipelineConfig config;
    const std::string toml =
        "inputs = ['" + corpus.inputs[0] + "']\nout = '" + (corpus.scratch / out).string() +
        "'\nkeep_stages = " + (keep ? "true" : "false") + "\nmemory = '" + memory +
        "'\n[[stages]]\nkind = 'filter'\n[[stages]]\nkind = 'decontaminate'\ntask = ['" +
        (corpus.scratch / "quiz.txt").string() + "']\noutput_format = '" + format +
        "'\n[[stages]]\nkind = 'dedup'\nmax_loss = 1.0\n[[stages]]\nkind = 'filter'\nname = "
        "'again'\n";
    ConfigFile::parse(toml, "p.toml").load(config);
    return run_pipeline(config, false);
  };
  const PipelineResult stages = run("stages", true), pass = run("pass", false);
  EXPECT_TRUE(std::filesystem::exists(corpus.scratch / "stages" / "filter" / "documents"));
  // Without keep_stages only the last stage's documents stay.
  for (const char* stage : {"filter", "decontaminate", "dedup"}) {
    EXPECT_FALSE(std::filesystem::exists(corpus.scratch / "pass" / stage / "documents")) << stage;
    std::filesystem::remove_all(corpus.scratch / "stages" / stage / "documents");
  }
  EXPECT_TRUE(files_below(corpus.scratch / "stages") == files_below(corpus.scratch / "pass"));
  ASSERT_EQ(stages.stages.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(stages.stages[i].second.dump(), pass.stages[i].second.dump());
  }
  EXPECT_GT(pass.stages[1].second.find("removed")->integer(), 0);
  const auto tables = [&](bool keep, const char* memory) {
    run(memory, keep, memory, "parquet");
    for (const char* stage : {"filter", "dedup"}) {
      std::filesystem::remove_all(corpus.scratch / memory / stage / "documents");
    }
    return files_below(corpus.scratch / memory);
  };
  EXPECT_TRUE(tables(true, "4GiB") == tables(false, "1MiB")) << "row groups are cut by content";
  // Done before; nothing is read again.
  std::filesystem::remove_all(corpus.scratch / "web");
  EXPECT_EQ(run("pass", false).stages[3].second.dump(), pass.stages[3].second.dump());
}

TEST(Pipeline, MakesDocumentsAgainThatALaterStageNeeds) {
  StageCorpus corpus;
  corpus.add("web", document(kProse) + document("short") + document(kProse + " More.") +
                        document("Another text, " + std::string(100, 'x')));
  PipelineConfig config;
  const std::string toml =
      "inputs = ['" + corpus.inputs[0] + "']\nout = '" + (corpus.scratch / "out").string() +
      "'\n[[stages]]\nkind = 'filter'\nthreshold = ['zyda1.length_min=3']\n[[stages]]\nkind = "
      "'dedup'\n[[stages]]\nkind = 'dedup'\nname = 'lines'\nunit = 'line'\n";
  ConfigFile::parse(toml, "p.toml").load(config);
  const Path out = corpus.scratch / "out";
  run_pipeline(config, false);
  for (const char* stage : {"filter", "dedup"}) {
    EXPECT_FALSE(std::filesystem::exists(out / stage / "documents")) << stage;
    EXPECT_FALSE(std::filesystem::exists(out / stage / "handed")) << stage;
  }
  // Another last stage reads what the one before leaves: that is gone, so all are done again.
  config.stages[2].dedup.unit = "paragraph";
  const std::string before = read_file(out / "dedup" / "report.json");
  run_pipeline(config, true);
  EXPECT_EQ(read_file(out / "dedup" / "report.json"), before);
  const std::string documents = read_decompressed(out / "lines/documents/web/a.jsonl.zst", 1 << 20);
  std::filesystem::remove_all(out / "lines");
  config.keep_stages = true;
  run_pipeline(config, false);
  EXPECT_TRUE(std::filesystem::exists(out / "filter" / "documents"));
  EXPECT_EQ(read_decompressed(out / "lines/documents/web/a.jsonl.zst", 1 << 20), documents);
  std::filesystem::remove_all(corpus.scratch / "web");
  std::filesystem::remove_all(out / "lines");
  config.keep_stages = false;
  run_pipeline(config, false);  // with the documents that were kept
  EXPECT_EQ(read_decompressed(out / "lines/documents/web/a.jsonl.zst", 1 << 20), documents);
}

TEST(Pipeline, KeepsTheDocumentsOfAStageWithAnIndex) {
  StageCorpus corpus;
  corpus.add("web", document(kProse) + document("Another text, " + std::string(100, 'x')));
  PipelineConfig config;
  const Path out = corpus.scratch / "out";
  const std::string index = (corpus.scratch / "seen").string();
  ConfigFile::parse("inputs = ['" + corpus.inputs[0] + "']\nout = '" + out.string() +
                        "'\n[[stages]]\nkind = 'dedup'\nsave_index = '" + index +
                        "'\n[[stages]]\nkind = 'dedup'\nname = 'lines'\nunit = 'line'\n",
                    "p.toml")
      .load(config);
  run_pipeline(config, false);
  EXPECT_TRUE(std::filesystem::exists(out / "dedup" / "documents"));
  config.stages[1].dedup.unit = "paragraph";
  EXPECT_EQ(run_pipeline(config, true).stages[0].second.find("kept")->integer(), 2);
}

TEST(LineDedup, KeepsTheFirstOfEqualLines) {
  StageCorpus corpus;
  const std::string menu = "Home | About | Contact | Imprint";
  corpus.add("a", document(menu + "\nFirst page of its own words.\nok") +
                      document("  " + menu + "\nSecond page of its own words.\nok"));
  corpus.add("b", document(menu));
  const StageRun run = dedup_lines(corpus.files(), {}, corpus.stage("out"));
  EXPECT_EQ(run.tally["removed_pieces"], 2);
  EXPECT_EQ(run.tally["emptied_documents"], 1);
  const std::string kept = corpus.read("out/documents/a/a.jsonl.zst");
  EXPECT_NE(kept.find(menu + "\\nFirst"), std::string::npos) << kept;
  EXPECT_NE(kept.find(R"("text":"Second page of its own words.\nok")"), std::string::npos) << kept;
  LineDedupOptions options;
  options.memory_bytes = 1;
  options.paragraphs = true;
  EXPECT_EQ(dedup_lines(corpus.files(), options, corpus.stage("p")).tally["removed_pieces"], 0);
}

TEST(Stats, PageSaysWhatTheCommandSays) {
  const Json report =
      Json::parse(R"({"stage":"dedup","counts":{"removed":17,"known":10,"source.web.documents":50,)"
                  R"("source.web.removed":17,"source.a.b.documents":9,"removed_of.web.web":4,)"
                  R"("removed_of.web.a.b":13,"length.web.6":1,"length.web.9":2,)"
                  R"("left_out.no_html":31}})",
                  "report");
  const std::string page = stats_page(std::vector<StageReport>{{"unique", report}});
  const auto has = [&](const std::string& text) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  };
  has("<b>27</b><span>removed</span>");
  has("<b>10</b><span>removed, known by the index</span>");
  has("<th>documents<th>removed");
  has("<td>web, for one of a.b<td>13");
  has("<td>web, for one of its own<td>4");
  has("<h3>Left out while reading, by reason</h3>");
  has("<td>no_html<td>31");
  has("<td>64 B to 127 B<td>0");  // an empty class between two
}

TEST(Stats, CountsBySourceAndDrawsAPage) {
  StageCorpus corpus;
  corpus.add("web", document("Two words") + document("<b>你好</b>"));
  const StageRun run = stats_corpus(corpus.files(), {}, corpus.stage("out"));
  EXPECT_EQ(run.tally["source.web.documents"], 2);
  EXPECT_EQ(run.tally["source.web.words"], 2 + 4);
  EXPECT_EQ(run.tally["source.web.characters"], 9 + 9);
  const std::string text = read_file(corpus.scratch / "out" / "report.json");
  const std::string page = stats_page(std::vector<StageReport>{{"out", Json::parse(text, "r")}});
  EXPECT_NE(page.find("&lt;b>你好"), std::string::npos);
  EXPECT_EQ(page.find("<b>你"), std::string::npos);
  EXPECT_NE(page.find("Length of documents: web"), std::string::npos);
}

}  // namespace
}  // namespace tephra
