// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/pipeline/pipeline.h"

#include <charconv>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
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

StageRun run_filter(const PipelineConfig& config, const PipelineStage& stage,
                    std::span<const CorpusFile> files, const StageSettings& settings) {
  FilterOptions options;
  options.choice.presets = stage.presets;
  options.choice.mode = stage.mode == "compat" ? FilterMode::compat : FilterMode::fixed;
  options.choice.word_lists = stage.word_lists.value_or("");
  options.choice.thresholds = stage.thresholds;
  options.text_field = config.text_field;
  options.keep_values = stage.keep_values;
  return filter_corpus(files, options, settings);
}

StageRun run_dedup(const PipelineConfig& config, const PipelineStage& stage,
                   std::span<const CorpusFile> files, const StageSettings& settings) {
  const int64_t memory = size_of(config.memory, "memory");
  if (stage.unit == "substring") {
    SubstringDedupOptions options;
    options.text_field = config.text_field;
    options.least_bytes = stage.least_bytes;
    options.remove_all = stage.remove_all;
    options.memory_bytes = memory;
    return dedup_substrings(files, options, settings);
  }
  if (stage.unit != "document") {
    LineDedupOptions options;
    options.text_field = config.text_field;
    options.paragraphs = stage.unit == "paragraph";
    options.memory_bytes = memory;
    return dedup_lines(files, options, settings);
  }
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
  options.memory_bytes = memory;
  if (stage.against_index) options.against_index = *stage.against_index;
  if (stage.save_index) options.save_index = *stage.save_index;
  options.index.kind = stage.index_kind == "bloom" ? IndexKind::bloom : IndexKind::full;
  options.index.bloom_rate = stage.bloom_rate;
  return dedup_corpus(files, options, settings);
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

StageRun run_one(const PipelineConfig& config, const PipelineStage& stage,
                 std::span<const CorpusFile> files, const StageSettings& settings) {
  if (stage.kind == "filter") return run_filter(config, stage, files, settings);
  if (stage.kind == "dedup") return run_dedup(config, stage, files, settings);
  if (stage.kind == "mix") return run_mix(config, stage, files, settings);
  const TaskIndex index(stage.tasks, stage.words, std::min<int64_t>(8, stage.words));
  return decontaminate_corpus(files, index, config.text_field, settings);
}

// All that decides what a stage writes: its own settings and those of the stages before it.
std::string stage_config(const PipelineConfig& config, size_t count) {
  PipelineConfig part = config;
  part.stages.resize(count);
  part.tokens.reset();
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

Json stage_counts(const Path& folder) {
  const Path path = folder / kReportFile;
  const Json report = Json::parse(read_file(path), path.string());
  const Json* counts = report.find("counts");
  return counts != nullptr ? *counts : Json(Json::Object{});
}

void run_stage_of(const PipelineConfig& config, size_t at, const std::vector<std::string>& names,
                  bool overwrite) {
  const Path folder = Path(config.out) / names[at];
  const std::string want = stage_config(config, at + 1);
  const bool same = fs::exists(folder / kConfigFile) && read_file(folder / kConfigFile) == want;
  if (same && fs::exists(folder / kReportFile)) {
    log_info("{}: done before", names[at]);
    return;
  }
  if (fs::exists(folder / kConfigFile) && !same && !overwrite) {
    throw Error(Fault::usage,
                format("{}: was made with other settings, or from other stages", folder.string()),
                "--overwrite makes it anew; another `name` keeps both");
  }
  prepare_output(folder, overwrite && !same);
  write_file(folder / kConfigFile, want);
  const std::vector<std::string> inputs =
      at == 0 ? config.inputs
              : std::vector<std::string>{(Path(config.out) / names[at - 1]).string()};
  StageSettings settings;
  settings.out = folder;
  settings.on_error = config.on_error == "skip" ? OnError::skip : OnError::stop;
  settings.level = static_cast<int>(config.level);
  settings.samples = config.samples;
  if (config.stages[at].output_format == "parquet") settings.format = DocumentFormat::parquet;
  log_info("{}: {}", names[at], config.stages[at].kind);
  run_one(config, config.stages[at], corpus_files(inputs), settings);
}

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
  make_writable_folder(config.out);
  PipelineResult result;
  for (size_t i = 0; i < names.size(); ++i) {
    run_stage_of(config, i, names, overwrite);
    result.stages.emplace_back(names[i], stage_counts(Path(config.out) / names[i]));
  }
  if (config.tokens) run_tokens(config, names, result);
  return result;
}

}  // namespace tephra
