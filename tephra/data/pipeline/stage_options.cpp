// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/pipeline/stage_options.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

// Settings with their values as text.
struct SettingTexts {
  std::vector<std::pair<std::string, std::string>> all;

  template <class T>
  void read(std::string_view key, const T& value, std::string_view, const ConfigLimits& = {}) {
    all.emplace_back(key, text_of(value));
  }

 private:
  static std::string text_of(const std::string& value) { return value; }
  static std::string text_of(const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& value : values) text += value + "\n";
    return text;
  }
  template <class T>
  static std::string text_of(const std::optional<T>& value) {
    return value ? text_of(*value) : "(none)";
  }
  template <class T>
  static std::string text_of(const T& value) {
    return format("{}", value);
  }
};

std::string flag_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

// The flags whose values are not the defaults.
template <class T>
std::vector<std::string> changed_flags(T settings) {
  SettingTexts given, plain;
  settings.fields(given);
  T().fields(plain);
  std::vector<std::string> flags;
  for (size_t i = 0; i < given.all.size(); ++i) {
    if (given.all[i] != plain.all[i]) flags.push_back(flag_of(given.all[i].first));
  }
  return flags;
}

void check_effect(bool has, const char* flag, const char* without) {
  require(has, "{}: has no effect {}", flag, without);
}

// Names that were given one by one or with commas between them.
std::vector<std::string> names_in(const std::vector<std::string>& given, const char* flag) {
  std::vector<std::string> names;
  for (const std::string& part : given) {
    for (const std::string_view name : split(part, ',')) {
      const std::string each(trim(name));
      require(!each.empty(), "{}: expected names with commas between them, got '{}'", flag, part);
      require(std::find(names.begin(), names.end(), each) == names.end(), "{}: '{}' is given twice",
              flag, each);
      names.push_back(each);
    }
  }
  return names;
}

bool is_one_of(const std::string& flag, std::initializer_list<const char*> flags) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

}  // namespace

OnError on_error_setting(const std::string& text) {
  return text == "skip" ? OnError::skip : OnError::stop;
}

int64_t size_setting(const std::string& text, const char* flag) {
  const std::optional<int64_t> bytes = parse_bytes(text);
  require(bytes && *bytes > 0, "{}: expected a size such as 4GiB, got '{}'", flag, text);
  return *bytes;
}

FilterOptions FilterSettings::options(const CorpusContext& context) const {
  FilterOptions options;
  options.choice.presets = names_in(preset, "--preset");
  options.choice.mode = mode == "compat" ? FilterMode::compat : FilterMode::fixed;
  if (word_lists) {
    const auto& names = options.choice.presets;
    check_effect(std::find(names.begin(), names.end(), "zyda1") != names.end(), "--word-lists",
                 "without --preset zyda1");
    require_folder(*word_lists, "a folder of word lists");
    options.choice.word_lists = *word_lists;
  }
  options.choice.thresholds = threshold;
  options.text_field = context.text_field;
  options.keep_values = !no_values;
  options.keep_dropped = keep_dropped;
  return options;
}

std::vector<std::string> DedupSettings::references() const {
  return names_in(reference, "--reference");
}

void DedupSettings::check() const {
  for (const std::string& flag : changed_flags(*this)) {
    const bool of_lines = is_one_of(flag, {"--least-chars"});
    const bool of_substrings = is_one_of(flag, {"--least-bytes", "--remove-all"});
    const bool used = flag == "--unit" ? true
                      : of_lines       ? unit == "line" || unit == "paragraph"
                      : of_substrings  ? unit == "substring"
                                       : of_documents();
    require(used, "{}: has no effect with --unit {}", flag, unit);
  }
  if (!of_documents()) return;
  const DedupSettings plain;
  check_effect(!similarity || !no_verify, "--similarity", "with --no-verify");
  check_effect(score_field == plain.score_field || keep == "best", "--score-field",
               "without --keep best");
  check_effect(index_kind == plain.index_kind || save_index, "--index-kind",
               "without --save-index");
  check_effect(bloom_rate == plain.bloom_rate || index_kind == "bloom", "--bloom-rate",
               "without --index-kind bloom");
  const std::vector<std::string> compared = references();
  for (const std::string& name : names_in(rank, "--rank")) {
    require(std::find(compared.begin(), compared.end(), name) == compared.end(),
            "--rank: {} is given as --reference, too, which always stays", name);
  }
}

DedupOptions DedupSettings::options(const CorpusContext& context) const {
  check();
  DedupOptions options;
  options.preset = signature_preset(preset);
  options.text_field = context.text_field;
  options.score_field = score_field;
  options.keep = keep == "longest" ? Keep::longest : keep == "best" ? Keep::best : Keep::first;
  options.rank = names_in(rank, "--rank");
  options.references = references();
  options.across_sources = across_sources;
  options.verify = !no_verify;
  options.similarity = similarity;
  options.max_source_loss = max_loss;
  options.memory_bytes = context.memory_bytes;
  if (against_index) options.against_index = *against_index;
  if (save_index) options.save_index = *save_index;
  options.index.kind = index_kind == "bloom" ? IndexKind::bloom : IndexKind::full;
  options.index.bloom_rate = bloom_rate;
  return options;
}

LineDedupOptions DedupSettings::line_options(const CorpusContext& context) const {
  check();
  LineDedupOptions options;
  options.text_field = context.text_field;
  options.paragraphs = unit == "paragraph";
  options.least_chars = least_chars;
  options.memory_bytes = context.memory_bytes;
  return options;
}

SubstringDedupOptions DedupSettings::substring_options(const CorpusContext& context) const {
  check();
  SubstringDedupOptions options;
  options.text_field = context.text_field;
  options.least_bytes = least_bytes;
  options.remove_all = remove_all;
  options.memory_bytes = context.memory_bytes;
  return options;
}

StageRun DedupSettings::run(std::span<const CorpusFile> files, const CorpusContext& context,
                            const StageSettings& stage) const {
  if (of_documents()) return dedup_corpus(files, options(context), stage);
  if (unit == "substring") return dedup_substrings(files, substring_options(context), stage);
  return dedup_lines(files, line_options(context), stage);
}

ClassifyOptions ClassifySettings::options(const CorpusContext& context) const {
  ClassifyOptions options;
  options.text_field = context.text_field;
  options.name = field;
  options.keep = keep;
  options.least = least;
  options.sample_bytes = sample_bytes;
  return options;
}

TaskIndex DecontaminateSettings::index() const {
  require(least <= words || least == DecontaminateSettings().least,
          "--least: expected at most the {} words of --words, got {}", words, least);
  return TaskIndex(task, words, std::min(least, words));
}

MixOptions MixSettings::options(const CorpusContext& context) const {
  MixOptions options;
  options.text_field = context.text_field;
  if (preset == "zyda2") options.weights = zyda2_weights();
  for (const auto& [name, share] : parse_weights(weight)) options.weights[name] = share;
  require(!options.weights.empty(), "give --weight SOURCE=NUMBER for each source, or --preset");
  if (size) options.bytes = size_setting(*size, "--size");
  options.max_repeats = max_repeats;
  options.seed = static_cast<uint64_t>(seed);
  return options;
}

}  // namespace tephra
