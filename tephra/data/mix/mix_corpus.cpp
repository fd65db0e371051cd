// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/mix/mix_corpus.h"

#include <charconv>
#include <cmath>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/document_work.h"
#include "tephra/data/corpus/first_pass.h"

namespace tephra {
namespace {

constexpr const char* kCountFolder = ".mix";

// Bytes of text of each source.
StageRun count_sources(std::span<const CorpusFile> files, const std::string& text_field,
                       StageSettings stage) {
  stage.what = "count";
  stage.inner = true;
  stage.out = stage.out / kCountFolder;
  stage.streams = {};
  stage.settings = "count " + text_field;
  return run_stage(files, stage, [&](const CorpusPiece& piece, PieceResult& result) {
    int64_t bytes = 0;
    each_document(piece, text_field, result, [&](const Document& document) {
      bytes += static_cast<int64_t>(document.text.size());
    });
    result.tally.count("bytes." + piece.file.source, bytes);
  });
}

void check_weights(const MixOptions& options, const std::map<std::string, int64_t>& source_bytes) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : source_bytes) {
    names.push_back(name);
    require(options.weights.contains(name),
            "--weight: source {} has none; give {}=0 to leave it out", name, name);
  }
  double sum = 0;
  for (const auto& [name, weight] : options.weights) {
    if (!source_bytes.contains(name)) {
      const std::optional<std::string> close = nearest(name, names);
      throw Error(Fault::usage, format("--weight: the inputs have no source '{}'", name),
                  close ? format("did you mean {}?", *close) : "");
    }
    require(weight >= 0 && std::isfinite(weight), "--weight: {} must not be negative, got {}", name,
            weight);
    sum += weight;
  }
  require(sum > 0, "--weight: at least one must be above 0");
}

}  // namespace

std::map<std::string, double> parse_weights(std::span<const std::string> settings) {
  std::map<std::string, double> weights;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    double weight = 0;
    bool ok = equals != std::string::npos;
    if (ok) {
      const char* end = setting.data() + setting.size();
      const auto [at, error] = std::from_chars(setting.data() + equals + 1, end, weight);
      ok = error == std::errc() && at == end;
    }
    require(ok, "--weight: expected SOURCE=NUMBER, got '{}'", setting);
    const std::string name = setting.substr(0, equals);
    require(weights.emplace(name, weight).second, "--weight: '{}' is given twice", name);
  }
  return weights;
}

std::map<std::string, double> mix_repeats(const MixOptions& options,
                                          const std::map<std::string, int64_t>& source_bytes) {
  check_weights(options, source_bytes);
  double sum = 0, most = INFINITY;
  for (const auto& [name, weight] : options.weights) sum += weight;
  for (const auto& [name, weight] : options.weights) {
    const auto bytes = static_cast<double>(source_bytes.at(name));
    require_data(weight == 0 || bytes > 0, "source {} has no text but the weight {}", name, weight);
    if (weight > 0) most = std::min(most, bytes * sum / weight);
  }
  const double total = options.bytes > 0 ? static_cast<double>(options.bytes) : most;
  std::map<std::string, double> repeats;
  for (const auto& [name, weight] : options.weights) {
    const auto bytes = static_cast<double>(source_bytes.at(name));
    const double each = weight == 0 ? 0 : total * weight / sum / bytes;
    if (each > options.max_repeats) {
      throw Error(Fault::usage,
                  format("source {} would be repeated {:.2f} times, more than {:.2f}", name, each,
                         options.max_repeats),
                  "a smaller --size or weight, or a larger --max-repeats");
    }
    repeats[name] = each;
  }
  return repeats;
}

int64_t copies_of(std::string_view id, double repeats, uint64_t seed) {
  const double whole = std::floor(repeats);
  const double chance = static_cast<double>(xxh64(id, seed) >> 11) * 0x1p-53;
  return static_cast<int64_t>(whole) + (chance < repeats - whole ? 1 : 0);
}

void check_mix(std::span<const CorpusFile> files, const MixOptions& options) {
  std::map<std::string, int64_t> sources;
  for (const CorpusFile& file : files) sources[file.source] = 0;
  check_weights(options, sources);
}

StageRun mix_corpus(std::span<const CorpusFile> files, const MixOptions& options,
                    StageSettings stage) {
  const StageRun counted_run = count_sources(files, options.text_field, stage);
  if (!counted_run.complete) return counted_run;
  std::map<std::string, int64_t> bytes;
  for (const CorpusFile& file : files)
    bytes[file.source] = counted_run.tally["bytes." + file.source];
  const std::map<std::string, double> repeats = mix_repeats(options, bytes);

  stage.what = "mix";
  stage.streams = {documents_stream(stage)};
  stage.settings = format("mix {} seed={} level={}", options.text_field, options.seed, stage.level);
  for (const auto& [name, each] : repeats) stage.settings += format(" {}={}", name, each);
  const auto work = [&](const CorpusPiece& piece, PieceResult& result) {
    const double each = repeats.at(piece.file.source);
    int64_t kept = 0, kept_bytes = 0;
    each_document(piece, options.text_field, result, [&](const Document& document) {
      const int64_t copies = copies_of(document.id, each, options.seed);
      for (int64_t i = 0; i < copies; ++i) append_document(result.streams[0], document);
      kept += copies;
      kept_bytes += copies * static_cast<int64_t>(document.text.size());
    });
    result.tally.count("kept", kept);
    result.tally.count("source." + piece.file.source + ".kept", kept);
    result.tally.count("source." + piece.file.source + ".kept_bytes", kept_bytes);
  };
  return run_later(files, reported_job(stage, work), FirstPass(files, counted_run));
}

const std::map<std::string, double>& zyda2_weights() {
  static const std::map<std::string, double> kWeights = {
      {"dclm", 4.0}, {"fwe3", 4.0}, {"zyda", 0.16}, {"dolma-cc", 0.24}};
  return kWeights;
}

}  // namespace tephra
