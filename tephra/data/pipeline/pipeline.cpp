// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/pipeline/pipeline.h"

#include <charconv>
#include <chrono>
#include <thread>

#include "tephra/base/error.h"
#include "tephra/base/function_ref.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/data/classify/classify_corpus.h"
#include "tephra/data/corpus/output_lock.h"
#include "tephra/data/decontaminate/decontaminate_corpus.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/line_dedup.h"
#include "tephra/data/dedup/substring_dedup.h"
#include "tephra/data/filter/filter_corpus.h"
#include "tephra/data/mix/mix_corpus.h"
#include "tephra/data/tokenize.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.toml";  // of a stage, with all that it depends on

int64_t size_of(const std::string& text, const char* key) {
  const std::optional<int64_t> bytes = parse_bytes(text);
  require(bytes && *bytes > 0, "{}: expected a size such as 4GiB, got '{}'", key, text);
  return *bytes;
}

FilterOptions filter_options(const PipelineConfig& config, const PipelineStage& stage) {
  FilterOptions options;
  options.choice.presets = stage.presets;
  options.choice.mode = stage.mode == "compat" ? FilterMode::compat : FilterMode::fixed;
  options.choice.word_lists = stage.word_lists.value_or("");
  options.choice.thresholds = stage.thresholds;
  options.text_field = config.text_field;
  options.keep_values = stage.keep_values;
  return options;
}

ClassifyOptions classify_options(const PipelineConfig& config, const PipelineStage& stage) {
  ClassifyOptions options;
  options.text_field = config.text_field;
  options.name = stage.label;
  options.keep = stage.keep_labels;
  options.least = stage.least;
  return options;
}

bool is_document_dedup(const PipelineStage& stage) {
  return stage.kind == "dedup" && stage.unit == "document";
}

DedupOptions dedup_options(const PipelineConfig& config, const PipelineStage& stage) {
  DedupOptions options;
  options.preset = signature_preset(stage.signature);
  options.text_field = config.text_field;
  options.score_field = stage.score_field;
  options.keep = stage.keep == "longest" ? Keep::longest
                 : stage.keep == "best"  ? Keep::best
                                         : Keep::first;
  options.rank = stage.rank;
  options.references = stage.references;
  options.across_sources = stage.across_sources;
  options.verify = stage.verify;
  options.similarity = stage.similarity;
  options.max_source_loss = stage.max_loss;
  options.memory_bytes = size_of(config.memory, "memory");
  if (stage.against_index) options.against_index = *stage.against_index;
  if (stage.save_index) options.save_index = *stage.save_index;
  options.index.kind = stage.index_kind == "bloom" ? IndexKind::bloom : IndexKind::full;
  options.index.bloom_rate = stage.bloom_rate;
  return options;
}

StageRun run_dedup(const PipelineConfig& config, const PipelineStage& stage,
                   std::span<const CorpusFile> files, const StageSettings& settings) {
  if (is_document_dedup(stage)) {
    return dedup_corpus(files, dedup_options(config, stage), settings);
  }
  if (stage.unit == "substring") {
    SubstringDedupOptions options;
    options.text_field = config.text_field;
    options.least_bytes = stage.least_bytes;
    options.remove_all = stage.remove_all;
    options.memory_bytes = size_of(config.memory, "memory");
    return dedup_substrings(files, options, settings);
  }
  LineDedupOptions options;
  options.text_field = config.text_field;
  options.paragraphs = stage.unit == "paragraph";
  options.memory_bytes = size_of(config.memory, "memory");
  return dedup_lines(files, options, settings);
}

StageRun run_mix(const PipelineConfig& config, const PipelineStage& stage,
                 std::span<const CorpusFile> files, const StageSettings& settings) {
  MixOptions options;
  options.text_field = config.text_field;
  options.weights = parse_weights(stage.weights);
  if (stage.size) options.bytes = size_of(*stage.size, "size");
  options.max_repeats = stage.max_repeats;
  options.seed = static_cast<uint64_t>(stage.seed);
  return mix_corpus(files, options, settings);
}

// Stages that look at each document on its own can share a pass.
bool looks_at_documents(const PipelineStage& stage) {
  return stage.kind == "filter" || stage.kind == "classify" || stage.kind == "decontaminate";
}

StageJob document_job(const PipelineConfig& config, const PipelineStage& stage,
                      const StageSettings& settings) {
  if (stage.kind == "filter") return filter_job(filter_options(config, stage), settings);
  if (stage.kind == "classify") {
    require(stage.model.has_value(), "stages: classify needs a `model`");
    const auto model = std::make_shared<const FastTextModel>(FastTextModel::load(*stage.model));
    return classify_job(model, classify_options(config, stage), settings);
  }
  const auto index = std::make_shared<const TaskIndex>(stage.tasks, stage.words,
                                                       std::min<int64_t>(8, stage.words));
  return decontaminate_job(index, config.text_field, settings);
}

// All that decides what a stage writes: its own settings and those of the stages before it.
std::string stage_config(const PipelineConfig& config, size_t count) {
  PipelineConfig part = config;
  part.stages.resize(count);
  part.tokens.reset();
  const PipelineConfig plain{};  // how it is done decides nothing
  part.memory = plain.memory;
  part.keep_stages = plain.keep_stages;
  return dump_config(part);
}

std::vector<std::string> folder_names(const PipelineConfig& config) {
  std::vector<std::string> names;
  for (const PipelineStage& stage : config.stages) {
    const std::string name = stage.name.empty() ? stage.kind : stage.name;
    require(name.find('/') == std::string::npos && !name.starts_with('.'),
            "stages: '{}' cannot be the name of a folder", name);
    for (const std::string& other : names) {
      require(other != name, "stages: two are called '{}'; give one of them a name", name);
    }
    names.push_back(name);
  }
  return names;
}

// Whether the documents of a stage are only for the next one. Who wants them again does the stage
// again, which ranks do not agree upon, nor is an index what it was then.
bool hands_on(const PipelineConfig& config, size_t at, const Shard& shard) {
  const PipelineStage& stage = config.stages[at];
  return !config.keep_stages && !shard.ranks && at + 1 < config.stages.size() &&
         stage.output_format == "jsonl" && !stage.against_index && !stage.save_index;
}

Json stage_counts(const Path& folder) {
  const Path path = folder / kReportFile;
  const Json report = Json::parse(read_file(path), path.string());
  const Json* counts = report.find("counts");
  return counts != nullptr ? *counts : Json(Json::Object{});
}

// A stage and its folder.
class StageFolder {
 public:
  StageFolder(const PipelineConfig& config, size_t at, const std::string& name)
      : stage_(config.stages[at]),
        path_(Path(config.out) / name),
        want_(stage_config(config, at + 1)) {
    settings_.out = path_;
    settings_.on_error = config.on_error == "skip" ? OnError::skip : OnError::stop;
    settings_.level = static_cast<int>(config.level);
    settings_.samples = config.samples;
    settings_.memory_bytes = size_of(config.memory, "memory");
    settings_.shard = parse_shard("auto");
    if (stage_.output_format == "parquet") settings_.format = DocumentFormat::parquet;
    if (hands_on(config, at, settings_.shard)) settings_.format = DocumentFormat::handed;
  }

  const PipelineStage& stage() const { return stage_; }
  const Path& path() const { return path_; }
  const StageSettings& settings() const { return settings_; }
  // What comes back from Parquet may be spelt differently: who follows reads it from there.
  bool feeds() const { return settings_.format != DocumentFormat::parquet; }

  bool same() const {
    return fs::exists(path_ / kConfigFile) && read_file(path_ / kConfigFile) == want_;
  }
  bool done() const { return same() && fs::exists(path_ / kReportFile); }
  bool has_documents() const { return done() && fs::exists(path_ / kDocumentsFolder); }
  bool has_handed() const { return done() && fs::exists(path_ / kHandedFolder / kDocumentsFolder); }
  // What the next stage reads.
  std::vector<CorpusFile> output() const {
    const Path from = has_documents() ? path_ : path_ / kHandedFolder;
    require(fs::exists(from / kDocumentsFolder),
            "{}: its documents were not kept; remove the folder to make them again",
            path_.string());
    return corpus_files(std::vector<std::string>{from.string()});
  }
  void remove_handed() const { fs::remove_all(path_ / kHandedFolder); }

  void prepare(bool overwrite) const {
    if (fs::exists(path_ / kConfigFile) && !same() && !overwrite) {
      throw Error(Fault::usage,
                  format("{}: was made with other settings, or from other stages", path_.string()),
                  "--overwrite makes it anew; another `name` keeps both");
    }
    if (done()) {  // only for its documents: what it left is written once more
      fs::remove(path_ / kReportFile);
      return;
    }
    prepare_output(path_, !same() && overwrite);
    write_file(path_ / kConfigFile, want_);
  }

 private:
  const PipelineStage& stage_;
  Path path_;
  std::string want_;
  StageSettings settings_;
};

class PipelineRun {
 public:
  PipelineRun(const PipelineConfig& config, const std::vector<std::string>& names, bool overwrite)
      : config_(config), overwrite_(overwrite) {
    for (size_t i = 0; i < names.size(); ++i) folders_.emplace_back(config, i, names[i]);
  }

  void run() {
    must_ = stages_to_run();
    for (size_t at = 0; at < folders_.size();) {
      const size_t end = pass_end(at);
      if (!must_[end - 1]) {
        if (!shard_.ranks)
          log_info("{}: done before", folders_[end - 1].path().filename().string());
      } else if (shard_.ranks) {
        run_with_ranks(at);
      } else if (looks_at_documents(folders_[at].stage())) {
        run_pass(at, end);
      } else {
        run_alone(at);
      }
      if (shard_.index == 0) {
        for (size_t i = at; i < end; ++i) {
          if (i > 0) folders_[i - 1].remove_handed();
        }
      }
      at = end;
    }
  }

 private:
  // Those that are not done, and those before them whose documents are gone.
  std::vector<bool> stages_to_run() const {
    std::vector<bool> must(folders_.size());
    bool wanted = false;  // the documents, by the stage after it
    for (size_t i = folders_.size(); i-- > 0;) {
      const StageFolder& folder = folders_[i];
      const bool has = folder.has_documents() || (!config_.keep_stages && folder.has_handed());
      must[i] = !folder.done() || ((wanted || config_.keep_stages) && !has && !shard_.ranks);
      wanted = must[i];
    }
    return must;
  }

  // After the last stage of the pass that begins with this one.
  size_t pass_end(size_t at) const {
    size_t end = at + 1;
    if (config_.keep_stages || shard_.ranks || !looks_at_documents(folders_[at].stage()))
      return end;
    while (end < folders_.size() && folders_[end - 1].feeds() &&
           looks_at_documents(folders_[end].stage())) {
      ++end;
    }
    return end;
  }

  std::vector<CorpusFile> input_of(size_t at) const {
    return at == 0 ? corpus_files(config_.inputs) : folders_[at - 1].output();
  }

  // Also the signatures of a deduplication that follows: it reads the documents twice more, so
  // those are written.
  void run_pass(size_t begin, size_t end) {
    for (size_t i = begin; i + 1 < end; ++i) {
      if (folders_[i].has_documents() || folders_[i].has_handed()) begin = i + 1;
    }
    const bool signs = !config_.keep_stages && end < folders_.size() && folders_[end - 1].feeds() &&
                       is_document_dedup(folders_[end].stage()) && must_[end];
    const std::vector<CorpusFile> files = input_of(begin);
    std::vector<StageJob> jobs;
    for (size_t i = begin; i < end; ++i) {
      folders_[i].prepare(overwrite_);
      log_info("{}: {}", folders_[i].path().filename().string(), folders_[i].stage().kind);
      jobs.push_back(document_job(config_, folders_[i].stage(), folders_[i].settings()));
      jobs.back().keeps_documents = i + 1 == end;
    }
    if (signs) {
      folders_[end].prepare(overwrite_);
      const DedupOptions options = dedup_options(config_, folders_[end].stage());
      jobs.push_back(dedup_signature_job(options, folders_[end].settings()));
    }
    const std::vector<StageRun> runs = run_jobs(files, jobs);
    for (size_t j = 0; j < jobs.size(); ++j) {
      if (runs[j].complete && jobs[j].finish) jobs[j].finish(runs[j]);
    }
  }

  void run_alone(size_t at) {
    folders_[at].prepare(overwrite_);
    run_prepared(at);
  }

  // Under mpirun or srun: stage by stage, each shared out by files. The first rank prepares it and
  // writes its report; the others wait for both.
  void run_with_ranks(size_t at) {
    const StageFolder& folder = folders_[at];
    const bool first = shard_.index == 0;
    if (first) folder.prepare(overwrite_);
    wait_until([&] { return folder.same(); });
    begin_rank(folder.path(), shard_);
    run_prepared(at);
    wait_until([&] { return folder.done(); });
  }

  static void wait_until(FunctionRef<bool()> is_so) {
    while (!is_so()) {
      stop_if_interrupted();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  void run_prepared(size_t at) {
    const StageFolder& folder = folders_[at];
    log_info("{}: {}", folder.path().filename().string(), folder.stage().kind);
    if (looks_at_documents(folder.stage())) {
      run_job(input_of(at), document_job(config_, folder.stage(), folder.settings()));
    } else if (folder.stage().kind == "mix") {
      run_mix(config_, folder.stage(), input_of(at), folder.settings());
    } else {
      run_dedup(config_, folder.stage(), input_of(at), folder.settings());
    }
  }

  const PipelineConfig& config_;
  bool overwrite_;
  Shard shard_ = parse_shard("auto");
  std::vector<StageFolder> folders_;
  std::vector<bool> must_;  // be run
};

void run_tokens(const PipelineConfig& config, const std::vector<std::string>& names,
                PipelineResult& result) {
  const PipelineTokens& tokens = *config.tokens;
  const std::vector<std::string> inputs =
      names.empty() ? config.inputs
                    : std::vector<std::string>{(Path(config.out) / names.back()).string()};
  std::vector<Path> files;
  for (const CorpusFile& file : corpus_files(inputs)) files.push_back(file.path);
  const Path prefix =
      tokens.out.empty() ? Path(config.out) / "tokens" / "corpus" : Path(tokens.out);
  make_writable_folder(prefix.parent_path().empty() ? Path(".") : prefix.parent_path());
  TokenizeOptions options;
  options.text_field = config.text_field;
  options.append_eos = tokens.append_eos;
  options.skip_bad = config.on_error == "skip";
  const TokenizeReport report =
      tokenize_files(files, Tokenizer::load(tokens.tokenizer), prefix, options);
  result.documents = report.documents;
  result.tokens = report.tokens;
}

}  // namespace

PipelineResult run_pipeline(const PipelineConfig& config, bool overwrite) {
  const std::vector<std::string> names = folder_names(config);
  check_apart(config.inputs, config.out);
  for (const std::string& name : names) check_apart(config.inputs, Path(config.out) / name);
  lock_output(config.out, parse_shard("auto"));
  PipelineResult result;
  PipelineRun(config, names, overwrite).run();
  for (const std::string& name : names) {
    result.stages.emplace_back(name, stage_counts(Path(config.out) / name));
  }
  // One shard is written, by one process.
  if (parse_shard("auto").index == 0) {
    if (config.tokens) run_tokens(config, names, result);
    finish_stage(config.out);
  }
  return result;
}

}  // namespace tephra
