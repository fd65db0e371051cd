// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/classify/classify_corpus.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/document_work.h"
#include "tephra/data/corpus/json_text.h"

namespace tephra {
namespace {

constexpr size_t kStretchBytes = 256, kMostStretches = 16;
constexpr double kSure = 0.6;  // below it, a sample and the whole may differ

void check_labels(const FastTextModel& model, const ClassifyOptions& options) {
  for (const std::string& label : options.keep) {
    const auto& labels = model.labels();
    if (std::find(labels.begin(), labels.end(), label) != labels.end()) continue;
    const std::optional<std::string> close = nearest(label, labels);
    throw Error(Fault::usage, format("--keep: the model has no label '{}'", label),
                close ? format("did you mean {}?", *close) : "");
  }
}

// From the first word or, of long ones, character that begins at or after `begin`.
std::string_view stretch(std::string_view text, size_t begin, size_t size) {
  const auto continues = [&](size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80;
  };
  constexpr size_t kLongWord = 24;
  if (begin > 0) {
    const std::string_view near = text.substr(begin - 1, kLongWord);
    const size_t space = near.find_first_of(" \n\t");
    if (space != std::string_view::npos) begin += space;
  }
  while (continues(begin)) ++begin;
  size_t end = std::min(text.size(), begin + size);
  while (continues(end)) --end;
  return text.substr(begin, end > begin ? end - begin : 0);
}

}  // namespace

std::string sampled_text(std::string_view text, int64_t bytes) {
  if (bytes <= 0 || static_cast<int64_t>(text.size()) <= bytes) return std::string(text);
  // Not fewer than a sentence, and not so few that a foreign one decides.
  const auto whole = static_cast<size_t>(bytes);
  const size_t parts = std::clamp<size_t>(whole / kStretchBytes, 3, kMostStretches);
  const size_t part = whole / parts, step = (text.size() - part) / (parts - 1);
  std::string out;
  for (size_t i = 0; i < parts; ++i) {
    if (i > 0) out += ' ';
    out += stretch(text, i * step, part);
  }
  return out;
}

FastTextModel::Prediction predict_by_sample(const FastTextModel& model, std::string_view text,
                                            int64_t bytes, FastTextModel::Scratch& scratch) {
  const bool whole = bytes <= 0 || static_cast<int64_t>(text.size()) <= bytes;
  if (whole) return model.predict(text, scratch);
  const FastTextModel::Prediction guess = model.predict(sampled_text(text, bytes), scratch);
  return guess.probability < kSure ? model.predict(text, scratch) : guess;
}

StageJob classify_job(const std::shared_ptr<const FastTextModel>& shared,
                      const ClassifyOptions& options, StageSettings stage) {
  check_labels(*shared, options);
  for (const std::string& field : {options.name, options.name + "_score"}) {
    require(field != options.text_field && field != kIdField,
            "field: '{}' is not for labels; documents need it themselves", field);
  }
  stage.what = "classify";
  stage.streams = {documents_stream(stage)};
  stage.settings =
      format("classify {} {} {} {} {} labels={}", options.text_field, options.name, options.least,
             options.sample_bytes, stage.level, shared->labels().size());
  for (const std::string& label : options.keep) stage.settings += " keep=" + label;
  const auto work = [shared, options](const CorpusPiece& piece, PieceResult& result) {
    const FastTextModel& model = *shared;
    FastTextModel::Scratch scratch;
    each_document(piece, options.text_field, result, [&](const Document& document) {
      const FastTextModel::Prediction best =
          predict_by_sample(model, document.text, options.sample_bytes, scratch);
      const std::string& label = model.labels()[best.label];
      result.tally.count("label." + label);
      result.tally.sample(label, document.id, document.text);
      const bool wanted =
          options.keep.empty() ||
          std::find(options.keep.begin(), options.keep.end(), label) != options.keep.end();
      if (!wanted || best.probability < options.least) {
        result.tally.count("dropped");
        return;
      }
      result.tally.count("kept");
      std::string name, line;
      append_json_string(name, label);
      append_document(line, document, options.name, name);
      line.pop_back();
      append_with_value(result.streams[0], line, options.name + "_score",
                        format("{:.4f}", best.probability));
      result.streams[0] += '\n';
    });
  };
  return reported_job(std::move(stage), work);
}

StageRun classify_corpus(std::span<const CorpusFile> files, const FastTextModel& model,
                         const ClassifyOptions& options, StageSettings stage) {
  // Not owned: it outlives the run.
  const std::shared_ptr<const FastTextModel> shared(std::shared_ptr<const FastTextModel>(), &model);
  return run_job(files, classify_job(shared, options, std::move(stage)));
}

}  // namespace tephra
