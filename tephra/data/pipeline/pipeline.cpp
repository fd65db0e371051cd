// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/pipeline/pipeline.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/corpus/output_lock.h"
#include "tephra/data/decontaminate/decontaminate_corpus.h"
#include "tephra/data/shard_record.h"
#include "tephra/data/tokenize.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMadeFrom =
    "# made from ";                                 // begins what is left out where inputs are gone
constexpr const char* kConfigFile = "config.toml";  // of a stage, with all that it depends on

CorpusContext context_of(const PipelineConfig& config) {
  return {config.text_field, size_setting(config.memory, "memory")};
}

bool is_document_dedup(const PipelineStage& stage) {
  return stage.kind == "dedup" && stage.dedup.of_documents();
}

// Stages that look at each document on its own can share a pass.
bool looks_at_documents(const PipelineStage& stage) {
  return stage.kind == "filter" || stage.kind == "classify" || stage.kind == "decontaminate";
}

StageJob document_job(const PipelineConfig& config, const PipelineStage& stage,
                      const StageSettings& settings) {
  const CorpusContext context = context_of(config);
  if (stage.kind == "filter") return filter_job(stage.filter.options(context), settings);
  if (stage.kind == "classify") {
    const ClassifyOptions options = stage.classify.options(context);
    const auto model =
        std::make_shared<const FastTextModel>(FastTextModel::load(stage.classify.model));
    return classify_job(model, options, settings);
  }
  const auto index = std::make_shared<const TaskIndex>(stage.decontaminate.index());
  return decontaminate_job(index, config.text_field, settings);
}

// All that decides what a stage writes: its own settings and those of the stages before it.
struct StageRecord {
  PipelineConfig config;
  void fields(ConfigFields& f) { config.stage_fields(f); }
};

// Files beside the documents that decide what a stage does.
std::vector<Path> files_of(const PipelineStage& stage) {
  std::vector<Path> files;
  if (stage.kind == "classify") files.emplace_back(stage.classify.model);
  if (stage.kind == "decontaminate") {
    for (const std::string& task : stage.decontaminate.task) {
      files.emplace_back(fs::exists(task) ? task : task.substr(task.find('=') + 1));
    }
  }
  if (stage.kind == "filter" && stage.filter.word_lists) {
    std::error_code ignored;  // a folder that is not there is told when lists are read
    for (const auto& entry : fs::directory_iterator(*stage.filter.word_lists, ignored)) {
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  }
  return files;
}

// Stages that are done do not need their inputs any more: nothing when they are gone.
std::string mark_of_inputs(const PipelineConfig& config) {
  try {
    return mark_of_files(corpus_files(config.inputs));
  } catch (const Error&) {
    return "";  // a stage that does need them says what is wrong
  }
}

// `inputs` says which documents it was made from.
std::string stage_config(const PipelineConfig& config, size_t count, std::string_view inputs) {
  StageRecord record{config};
  record.config.stages.resize(count);
  std::string text = dump_config(record);
  if (inputs.empty()) return text;
  text += format("{}{}\n", kMadeFrom, inputs);
  for (const PipelineStage& stage : record.config.stages) {
    for (const Path& file : files_of(stage)) {
      text += format("# with {}: {}\n", file.string(), mark_of_file(file));
    }
  }
  return text;
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
// again, and then an index is not what it was.
bool hands_on(const PipelineConfig& config, size_t at) {
  const PipelineStage& stage = config.stages[at];
  return !config.keep_stages && at + 1 < config.stages.size() && stage.output_format == "jsonl" &&
         !stage.dedup.against_index && !stage.dedup.save_index;
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
  StageFolder(const PipelineConfig& config, size_t at, const std::string& name,
              std::string_view inputs, const Shard& shard)
      : stage_(config.stages[at]),
        path_(Path(config.out) / name),
        want_(stage_config(config, at + 1, inputs)) {
    settings_.out = path_;
    settings_.on_error = on_error_setting(config.on_error);
    settings_.level = static_cast<int>(config.level);
    settings_.samples = config.samples;
    settings_.memory_bytes = size_setting(config.memory, "memory");
    settings_.max_line_bytes = size_setting(config.max_document, "max_document");
    settings_.shard = shard;
    if (stage_.output_format == "parquet") settings_.format = DocumentFormat::parquet;
    if (hands_on(config, at)) settings_.format = DocumentFormat::handed;
  }

  const PipelineStage& stage() const { return stage_; }
  const Path& path() const { return path_; }
  const StageSettings& settings() const { return settings_; }
  void join(const std::shared_ptr<Ranks>& ranks) { settings_.ranks = ranks; }
  // What comes back from Parquet may be spelt differently: who follows reads it from there.
  bool feeds() const { return settings_.format != DocumentFormat::parquet; }

  bool same() const {
    if (!fs::exists(path_ / kConfigFile)) return false;
    const std::string text = read_file(path_ / kConfigFile);
    return text == want_ || text.substr(0, text.find(kMadeFrom)) == want_;
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

  // Of a stage that is done, what a kill kept it from taking away after its report.
  void finish() const {
    constexpr const char* kLeft[] = {".dedup", ".mix", kWorkFolder};
    const auto is_left = [&](const char* name) { return fs::exists(path_ / name); };
    if (done() && std::any_of(std::begin(kLeft), std::end(kLeft), is_left)) finish_stage(path_);
  }

  void check_settings(bool overwrite) const {
    if (!fs::exists(path_ / kConfigFile) || same() || overwrite) return;
    throw Error(Fault::usage,
                format("{}: was made with other settings, from other stages, inputs or files",
                       path_.string()),
                "--overwrite makes it anew; another `name` keeps both");
  }

  void prepare(bool overwrite) const {
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
  PipelineRun(const PipelineConfig& config, const std::vector<std::string>& names,
              const Shard& shard, bool overwrite)
      : config_(config), shard_(shard), overwrite_(overwrite) {
    if (names.empty()) return;
    const std::string inputs = mark_of_inputs(config);
    for (size_t i = 0; i < names.size(); ++i) {
      folders_.emplace_back(config, i, names[i], inputs, shard);
    }
  }

  void run() {
    if (is_first()) {
      for (const StageFolder& folder : folders_) folder.finish();
    }
    must_ = stages_to_run();
    check();
    if (shard_.ranks) join_others();
    for (size_t at = 0; at < folders_.size();) {
      const size_t end = pass_end(at);
      if (!must_[end - 1]) {
        if (is_first()) log_info("{}: done before", title(end - 1));
      } else if (shard_.ranks) {
        run_with_ranks(at);
      } else if (looks_at_documents(folders_[at].stage())) {
        run_pass(at, end);
      } else {
        run_alone(at);
      }
      if (is_first()) {
        for (size_t i = at; i < end; ++i) {
          if (i > 0) folders_[i - 1].remove_handed();
        }
      }
      at = end;
    }
  }

  bool is_first() const { return shard_.index == 0; }
  const Shard& shard() const { return shard_; }
  const std::shared_ptr<Ranks>& ranks() const { return ranks_; }

 private:
  std::string title(size_t at) const {
    const std::string name = folders_[at].path().filename().string(),
                      &kind = folders_[at].stage().kind;
    return format("stage {} of {}, {}", at + 1, folders_.size(),
                  name == kind ? name : format("{} ({})", name, kind));
  }

  // What is to be done is for the first rank to say: the others may come when it has begun.
  void join_others() {
    std::string plan;
    for (const bool must : must_) plan += must ? '1' : '0';
    ranks_ = std::make_shared<Ranks>(Path(config_.out) / kRanksFolder, shard_, plan);
    for (size_t i = 0; i < folders_.size(); ++i) {
      must_[i] = ranks_->plan().at(i) == '1';
      folders_[i].join(ranks_);
    }
  }

  // Those that are not done, and those before them whose documents are gone.
  std::vector<bool> stages_to_run() const {
    std::vector<bool> must(folders_.size());
    bool wanted = false;  // the documents, by the stage after it
    for (size_t i = folders_.size(); i-- > 0;) {
      const StageFolder& folder = folders_[i];
      const bool has = folder.has_documents() || (!config_.keep_stages && folder.has_handed());
      must[i] = !folder.done() || ((wanted || config_.keep_stages) && !has);
      wanted = must[i];
    }
    return must;
  }

  // What would end a stage because of its settings ends the run before the first one.
  void check() {
    jobs_.resize(folders_.size());
    const auto first =
        static_cast<size_t>(std::find(must_.begin(), must_.end(), true) - must_.begin());
    if (first == must_.size()) return;
    std::vector<CorpusFile> files = input_of(first);
    for (size_t i = first; i < folders_.size(); ++i) {
      try {
        if (must_[i]) check_stage(i, files);
      } catch (const Error& error) {
        throw Error(error.fault(), format("{}: {}", title(i), error.what()), error.hint());
      }
      const std::vector<std::string> gone = folders_[i].stage().dedup.references();
      std::erase_if(files, [&](const CorpusFile& file) {
        return std::find(gone.begin(), gone.end(), file.source) != gone.end();
      });
    }
  }

  // `files`: with the sources that reach the stage.
  void check_stage(size_t at, std::span<const CorpusFile> files) {
    const StageFolder& folder = folders_[at];
    const PipelineStage& stage = folder.stage();
    folder.check_settings(overwrite_);
    if (looks_at_documents(stage)) jobs_[at] = document_job(config_, stage, folder.settings());
    if (stage.kind == "mix") check_mix(files, stage.mix.options(context_of(config_)));
    if (stage.kind == "dedup") stage.dedup.check();
    if (!is_document_dedup(stage)) return;
    DedupOptions options = stage.dedup.options(context_of(config_));
    for (size_t i = 0; i < at; ++i) {  // an index that comes to be before it is needed
      if (folders_[i].stage().dedup.save_index == stage.dedup.against_index) {
        options.against_index.reset();
      }
    }
    check_dedup(files, options);
  }

  StageJob job_of(size_t at) {
    if (!jobs_[at]) return document_job(config_, folders_[at].stage(), folders_[at].settings());
    StageJob job = std::move(*jobs_[at]);
    jobs_[at].reset();
    job.settings.ranks = ranks_;
    return job;
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
      log_info("{}", title(i));
      jobs.push_back(job_of(i));
      jobs.back().keeps_documents = i + 1 == end;
    }
    if (signs) {
      folders_[end].prepare(overwrite_);
      const DedupOptions options = folders_[end].stage().dedup.options(context_of(config_));
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
    if (is_first()) folder.prepare(overwrite_);
    ranks_->follow("the folder of " + title(at));
    run_prepared(at);
    ranks_->follow("the end of " + title(at));
  }

  void run_prepared(size_t at) {
    const StageFolder& folder = folders_[at];
    if (is_first()) log_info("{}", title(at));
    if (looks_at_documents(folder.stage())) {
      run_job(input_of(at), job_of(at));
    } else if (folder.stage().kind == "mix") {
      mix_corpus(input_of(at), folder.stage().mix.options(context_of(config_)), folder.settings());
    } else {
      folder.stage().dedup.run(input_of(at), context_of(config_), folder.settings());
    }
  }

  const PipelineConfig& config_;
  Shard shard_;
  bool overwrite_;
  std::shared_ptr<Ranks> ranks_;
  std::vector<StageFolder> folders_;
  std::vector<bool> must_;                     // be run
  std::vector<std::optional<StageJob>> jobs_;  // of those that look at documents
};

// The token shard of a pipeline; everything is looked at before there is anything to write.
class TokenStep {
 public:
  TokenStep(const PipelineConfig& config, bool overwrite)
      : tokenizer_(Tokenizer::load(config.tokens->tokenizer)),
        prefix_(config.tokens->out.empty() ? Path(config.out) / "tokens" / "corpus"
                                           : Path(config.tokens->out)),
        overwrite_(overwrite) {
    options_.text_field = config.text_field;
    options_.append_eos = config.tokens->append_eos;
    options_.prepend_bos = config.tokens->prepend_bos;
    options_.on_error = on_error_setting(config.on_error);
    // Stages that took a document may have added to its line.
    options_.max_document_bytes =
        std::max(options_.max_document_bytes,
                 2 * static_cast<size_t>(size_setting(config.max_document, "max_document")));
    options_.made_by = format("{} stages={}", mark_of_tokenizer(config.tokens->tokenizer),
                              hash_text(xxh3(stage_config(config, config.stages.size(), ""))));
    try {
      check_tokenize(tokenizer_, options_);
    } catch (const Error& error) {
      throw Error(error.fault(), format("tokens: {}", error.what()),
                  format("{}; or set append_eos and prepend_bos to false", error.hint()));
    }
    require(prefix_.has_filename(), "tokens: `out`: expected the beginning of file names, got '{}'",
            prefix_.string());
    make_writable_folder(prefix_.parent_path().empty() ? Path(".") : prefix_.parent_path());
    if (!overwrite) ShardRecord::check_settings(prefix_, options_);
  }

  TokenizeReport run(std::span<const std::string> inputs, const PipelineRun& stages) const {
    std::vector<Path> files;
    for (const CorpusFile& file : corpus_files(inputs)) files.push_back(file.path);
    TokenizeOptions options = options_;
    options.shard = stages.shard();
    options.ranks = stages.ranks();
    if (stages.is_first()) log_info("tokens");
    const NamedShard shard = make_shard(files, tokenizer_, prefix_, options, overwrite_);
    if (!shard.made && stages.is_first()) log_info("tokens: done before");
    return shard.report;
  }

 private:
  Tokenizer tokenizer_;
  Path prefix_;
  bool overwrite_;
  TokenizeOptions options_;
};

}  // namespace

PipelineResult run_pipeline(const PipelineConfig& config, bool overwrite) {
  const std::vector<std::string> names = folder_names(config);
  check_apart(config.inputs, config.out);
  for (const std::string& name : names) check_apart(config.inputs, Path(config.out) / name);
  const Shard shard = parse_shard("auto");
  lock_output(config.out, shard);
  lock_share(config.out, shard);
  std::optional<TokenStep> tokens;
  if (config.tokens) tokens.emplace(config, overwrite);
  PipelineResult result;
  {
    PipelineRun stages(config, names, shard, overwrite);
    stages.run();
    if (tokens) {
      const Path last = names.empty() ? Path() : Path(config.out) / names.back();
      result.tokens = tokens->run(
          names.empty() ? config.inputs : std::vector<std::string>{last.string()}, stages);
    }
    // The first rank takes the ranks' files away: not before all have read its last word.
    if (stages.ranks()) stages.ranks()->gather("the end of the pipeline");
    result.first = stages.is_first();
  }
  if (!result.first) return result;
  finish_stage(config.out);  // also what ranks that failed left, when one goes on alone
  for (const std::string& name : names) {
    result.stages.emplace_back(name, stage_counts(Path(config.out) / name));
  }
  return result;
}

}  // namespace tephra
