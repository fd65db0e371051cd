// SPDX-License-Identifier: Apache-2.0
// tephra data classify and classify-train: labels for documents by models in fastText's format.
#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/flag_fields.h"
#include "tephra/cli/output.h"
#include "tephra/data/classify/classify_corpus.h"
#include "tephra/data/classify/fasttext_train.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/json_line.h"
#include "tephra/data/line_reader.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  ClassifySettings classify;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  FlagFields fields(flags);
  o.classify.fields(fields);
  flags.example(
      "tephra data classify unique --out good --model quality.bin --keep good --least 0.5");
  flags.example(
      "tephra data classify crawl --out english --model lid.176.bin --field lang --keep en");
}

int run(const Options& o) {
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
  const FastTextModel model = FastTextModel::load(o.classify.model);
  const ClassifyOptions options = o.classify.options(corpus_context(o.corpus));
  const StageSettings stage = stage_settings(o.corpus);
  const StageRun run = classify_corpus(files, model, options, stage);
  tell_troubles(run, o.corpus);
  if (told_as_json(run, o.corpus)) return 0;
  print("{}: {} of {} documents kept", o.corpus.out, human_count(run.tally["kept"]),
        human_count(run.tally[counted::kDocuments]));
  for (const std::string& label : model.labels()) {
    if (const int64_t count = run.tally["label." + label]; count > 0) {
      print("{}: {}", label, human_count(count));
    }
  }
  return 0;
}

struct TrainOptions {
  std::vector<std::string> inputs;
  std::string out;
  std::string text_field = "text";
  FastTextTraining how;
  double held_out = 0.1;
  int64_t max_bytes = 4096;
  int64_t seed = 0;
  bool json = false;
};

void describe_train(Flags& flags, TrainOptions& o) {
  flags
      .add("INPUT", o.inputs,
           "LABEL=PATH for each kind of documents: files or folders that stages take")
      .required();
  flags.add("--out FILE", o.out, "model to write, such as quality.bin").required();
  flags.add("--text-field", o.text_field, "the key that holds the text");
  flags.add("--dim", o.how.dim, "width of the vectors").range(1, 4096);
  flags.add("--word-ngrams", o.how.word_ngrams, "words in a row that are features").range(1, 10);
  flags.add("--buckets", o.how.buckets, "rows for them").range(1, 1e8);
  flags.add("--min-count", o.how.min_count, "of words that get a row of their own").range(1, 1e9);
  flags.add("--epochs", o.how.epochs, "passes over the texts").range(1, 1000);
  flags.add("--learning-rate", o.how.learning_rate, "at the start; falls to 0").range(0, 100);
  flags.add("--held-out", o.held_out, "share of texts for the accuracy").range(0, 0.9);
  flags.add("--sample-bytes", o.max_bytes, "of a text that is used; 0: all").range(0, 1e12);
  flags.add("--seed", o.seed, "of the start, the order and the held-out texts").range(0, 1e18);
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra data classify-train good=books junk=crawl/dropped --out quality.bin");
}

constexpr size_t kMaxLineBytes = size_t{1} << 30;

// What a document lacks, with its place.
template <class F>
auto at_line(const LineReader& lines, const F& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.fault(), format("{}: {}", lines.where(), error.what()));
  }
}

int run_train(const TrainOptions& o) {
  const std::vector<CorpusFile> files = corpus_files(o.inputs);
  std::vector<LabelledText> texts, held_out;
  int64_t seen = 0;
  const auto every = static_cast<int64_t>(o.held_out > 0 ? std::max(1.0, 1 / o.held_out) : 0);
  for (const CorpusFile& file : files) {
    LineReader lines(file.path, open_documents(file.path), kMaxLineBytes);
    JsonLine parser;
    std::string_view line;
    while (lines.next(line)) {
      if (trim(line).empty()) continue;
      const std::string text =
          at_line(lines, [&] { return std::string(parser.string_field(line, o.text_field)); });
      const bool held = every > 0 && seen++ % every == every - 1;
      (held ? held_out : texts).push_back({file.source, sampled_text(text, o.max_bytes)});
    }
  }
  FastTextTraining how = o.how;
  how.seed = static_cast<uint64_t>(o.seed);
  const FastTextModel model = train_fasttext(texts, how);
  model.save(o.out);
  const double right = accuracy(model, held_out);
  if (o.json) {
    Json json;
    json["out"] = o.out;
    json["texts"] = static_cast<int64_t>(texts.size());
    json["held_out"] = static_cast<int64_t>(held_out.size());
    json["accuracy"] = right;
    print_json(json);
    return 0;
  }
  print("{}: {} labels from {} texts; {:.2f} % of {} held-out texts right", o.out,
        model.labels().size(), human_count(static_cast<int64_t>(texts.size())), 100 * right,
        human_count(static_cast<int64_t>(held_out.size())));
  return 0;
}

}  // namespace

Command data_classify_command() {
  return command<Options>("data classify", "label documents by a fastText model", describe, run);
}

Command data_classify_train_command() {
  return command<TrainOptions>("data classify-train",
                               "train a fastText model on labelled documents", describe_train,
                               run_train);
}

}  // namespace tephra
