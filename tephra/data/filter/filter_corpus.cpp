// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/filter_corpus.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/filter/words.h"
#include "tephra/data/json_line.h"

namespace tephra {
namespace {

enum Stream : size_t { documents, values, dropped };

// One preset at work, with its values of the current document.
struct Running {
  const FilterPreset* preset;
  std::unique_ptr<FilterWorker> worker;
  std::vector<double> values;
};

class PieceFilter {
 public:
  PieceFilter(const std::vector<FilterPreset>& presets, const FilterOptions& options)
      : options_(options) {
    for (const FilterPreset& preset : presets) {
      running_.push_back(
          {&preset, preset.make_worker(), std::vector<double>(preset.values.size())});
    }
  }

  void work(const CorpusPiece& piece, PieceResult& result) {
    for (const Line& line : piece.lines) {
      const std::string_view object = piece.window.text(line);
      try {
        const std::string_view text = parser_.padded_string_field(object, options_.text_field);
        take(piece.id(line), trim(object), text, piece, result);
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;
        result.bad(piece, line, error.what());
      }
    }
    for (const auto& [rule, count] : drops_) result.tally.count("dropped_by." + rule, count);
  }

 private:
  void take(const std::string& place, std::string_view object, std::string_view text,
            const CorpusPiece& piece, PieceResult& result) {
    const std::string id(parser_.find_string(kIdField).value_or(place));
    const std::string_view kept = measure(text);
    Tally& tally = result.tally;
    tally.count(counted::kDocuments);
    tally.count(counted::kTextBytes, static_cast<int64_t>(text.size()));
    tally.count("source." + piece.file.source + ".documents");
    if (options_.keep_values) append_values(id, result.streams[Stream::values]);
    if (!dropping_.empty()) {
      drop(id, object, text, piece, result);
      return;
    }
    tally.count("kept");
    tally.count("kept_bytes", static_cast<int64_t>(kept.size()));
    tally.count("source." + piece.file.source + ".kept");
    append_kept(id, object, kept, kept.data() != text.data() || kept.size() != text.size(),
                result.streams[Stream::documents]);
  }

  // Runs the presets one after another, each on the text that the one before leaves; fills
  // dropping_ with all rules that are broken.
  std::string_view measure(std::string_view text) {
    dropping_.clear();
    parts_.set(text);
    for (Running& running : running_) {
      const std::string_view left = running.worker->measure(parts_, running.values);
      if (left.data() != text.data() || left.size() != text.size()) parts_.set(left);
      text = left;
      for (const FilterRule& rule : running.preset->rules) {
        if (rule.drops(running.values)) dropping_.push_back(&rule);
      }
    }
    return text;
  }

  void drop(const std::string& id, std::string_view object, std::string_view text,
            const CorpusPiece& piece, PieceResult& result) {
    result.tally.count("dropped");
    result.tally.count("dropped_bytes", static_cast<int64_t>(text.size()));
    result.tally.count("source." + piece.file.source + ".dropped");
    if (dropping_.size() == 1) {
      result.tally.count("dropped_only_by." + dropping_[0]->name);
    }
    std::string rules;
    for (const FilterRule* rule : dropping_) {
      ++drops_[rule->name];
      result.tally.sample(rule->name, id, text);
      rules += rules.empty() ? "[" : ",";
      append_json_string(rules, rule->name);
    }
    if (!options_.keep_dropped) return;
    std::string& out = result.streams[Stream::dropped - (options_.keep_values ? 0 : 1)];
    append_with_field(out, object, "tephra_dropped_by", rules + "]");
    out += '\n';
  }

  void append_kept(const std::string& id, std::string_view object, std::string_view text,
                   bool changed, std::string& out) {
    const bool has_id = parser_.find_string(kIdField).has_value();
    std::string_view line = object;
    if (changed) {
      edited_.clear();
      append_with_string(edited_, object, options_.text_field, text);
      line = edited_;
    }
    if (has_id) {
      out += line;
    } else {
      json_.clear();
      append_json_string(json_, id);
      append_with_field(out, line, kIdField, json_);
    }
    out += '\n';
  }

  void append_values(const std::string& id, std::string& out) {
    out += "{\"id\":";
    append_json_string(out, id);
    out += ",\"dropped_by\":[";
    for (size_t i = 0; i < dropping_.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, dropping_[i]->name);
    }
    out += ']';
    for (const Running& running : running_) {
      for (size_t i = 0; i < running.values.size(); ++i) {
        out += format(",\"{}.{}\":{:.6g}", running.preset->name, running.preset->values[i],
                      running.values[i]);
      }
    }
    out += "}\n";
  }

  const FilterOptions& options_;
  std::vector<Running> running_;
  TextParts parts_;
  std::vector<const FilterRule*> dropping_;
  std::map<std::string, int64_t> drops_;
  JsonLine parser_;
  std::string edited_, json_;
};

bool uses_zyda1(const std::vector<FilterPreset>& presets) {
  return std::any_of(presets.begin(), presets.end(),
                     [](const FilterPreset& preset) { return preset.name == "zyda1"; });
}

std::string settings_text(const std::vector<FilterPreset>& presets, const FilterOptions& options,
                          const StageSettings& stage) {
  std::string text =
      format("filter mode={} field={} values={} dropped={} samples={} level={}\n",
             options.choice.mode == FilterMode::compat ? "compat" : "fixed", options.text_field,
             options.keep_values, options.keep_dropped, stage.samples, stage.level);
  text += format("lists={} skip={} max={}\n", options.choice.word_lists.string(),
                 stage.on_error == OnError::skip, stage.max_line_bytes);
  for (const FilterPreset& preset : presets) {
    for (const FilterRule& rule : preset.rules) text += format("{}={}\n", rule.name, rule.limit);
  }
  return text;
}

Json report_json(const std::vector<FilterPreset>& presets, const FilterOptions& options,
                 const StageRun& run) {
  Json report, rules = Json::Array{};
  for (const FilterPreset& preset : presets) {
    for (const FilterRule& rule : preset.rules) {
      Json row;
      row["rule"] = rule.name;
      row["drops"] = rule.side == FilterRule::Side::above ? "above" : "below";
      row["limit"] = rule.limit;
      row["per_character"] = rule.per_length;
      row["documents"] = run.tally["dropped_by." + rule.name];
      row["only_by_it"] = run.tally["dropped_only_by." + rule.name];
      rules.push_back(std::move(row));
    }
  }
  report["stage"] = "filter";
  report["mode"] = options.choice.mode == FilterMode::compat ? "compat" : "fixed";
  report["rules"] = std::move(rules);
  const Json tally = run.tally.to_json();
  for (const auto& [key, value] : tally.object()) report[key] = value;
  return report;
}

}  // namespace

StageJob filter_job(const FilterOptions& given, StageSettings stage) {
  struct Shared {
    FilterOptions options;
    std::vector<FilterPreset> presets;
  };
  const std::shared_ptr<const Shared> shared(new Shared{given, make_filters(given.choice)});
  if (given.choice.word_lists.empty() && uses_zyda1(shared->presets)) {
    warn_once("zyda1 lists",
              "zyda1: without --word-lists DIR the rules on word lists drop nothing");
  }
  stage.what = "filter";
  stage.streams = {documents_stream(stage)};
  if (given.keep_values) stage.streams.push_back({"values"});
  if (given.keep_dropped) stage.streams.push_back({"dropped"});
  stage.settings = settings_text(shared->presets, given, stage);
  const Path out = stage.out;
  return {.settings = std::move(stage),
          .work =
              [shared](const CorpusPiece& piece, PieceResult& result) {
                PieceFilter(shared->presets, shared->options).work(piece, result);
              },
          .finish =
              [shared, out](const StageRun& run) {
                const Json report = report_json(shared->presets, shared->options, run);
                write_file(out / kReportFile, report.dump(2) + "\n");
                finish_stage(out);
              }};
}

StageRun filter_corpus(std::span<const CorpusFile> files, const FilterOptions& options,
                       StageSettings stage) {
  return run_job(files, filter_job(options, std::move(stage)));
}

}  // namespace tephra
