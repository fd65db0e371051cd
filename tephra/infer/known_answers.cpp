// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/known_answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tephra/autograd/tape.h"
#include "tephra/base/json.h"
#include "tephra/infer/generate.h"

namespace tephra {
namespace {

// From the tests of the model's own release: "Hello! How can I assist you today?" in its tokens.
KnownAnswers zaya1_8b() {
  return {.name = "zaya1-8b",
          .source = "Hugging Face transformers, bfloat16, NVIDIA A10",
          .ids = {2, 9259, 236888, 2088, 740, 564, 6361, 611, 3124, 236881, 106},
          .likeliest = {105, 9731, 107, 740, 564, 1601, 611, 3124, 236881, 107, 107},
          .continuation = {107, 262146, 108, 9259, 236888, 1030, 5724, 1133, 611, 236789, 500, 7467,
                           528, 4735, 1003, 5213},
          .last_logits = {
              {0.0223, 0.0228, 0.0234}, {-1.4297, -1.4297, -1.4297}, {-3.0469, -3.0469, -3.0469}}};
}

std::vector<int32_t> read_ids(const Fields& fields, const char* key) {
  std::vector<int32_t> ids;
  if (!fields.has(key)) return ids;
  for (const Json& id : fields.array(key)) {
    require_data(
        id.is_int() && id.integer() >= 0 && id.integer() <= std::numeric_limits<int32_t>::max(),
        "{}: {}: expected token ids, got {}", fields.where(), key, id.dump());
    ids.push_back(static_cast<int32_t>(id.integer()));
  }
  return ids;
}

std::vector<std::vector<double>> read_logits(const Fields& fields) {
  std::vector<std::vector<double>> rows;
  if (!fields.has("last_logits")) return rows;
  for (const Json& row : fields.array("last_logits")) {
    require_data(row.is_array(), "{}: last_logits: expected arrays of numbers, got {}",
                 fields.where(), row.kind());
    rows.emplace_back();
    for (const Json& value : row.array()) {
      require_data(value.is_number(), "{}: last_logits: expected numbers, got {}", fields.where(),
                   value.kind());
      rows.back().push_back(value.number());
    }
  }
  return rows;
}

KnownAnswers read_known(const Path& path) {
  const Json json = Json::parse(read_file(path), path.string());
  const Fields fields(json, path.string());
  KnownAnswers known{.name = fields.string_or("name", path.stem().string()),
                     .source = fields.string_or("source", path.string()),
                     .ids = read_ids(fields, "input_ids"),
                     .likeliest = read_ids(fields, "argmax"),
                     .continuation = read_ids(fields, "greedy"),
                     .last_logits = read_logits(fields)};
  known.margin = fields.number_or("margin", known.margin);
  require_data(!known.ids.empty() && !(known.likeliest.empty() && known.continuation.empty()),
               "{}: expected input_ids, and argmax or greedy", path.string());
  require_data(known.likeliest.empty() || known.likeliest.size() == known.ids.size(),
               "{}: argmax: expected one for each of the {} input_ids, got {}", path.string(),
               known.ids.size(), known.likeliest.size());
  require_data(known.last_logits.size() <= known.ids.size(),
               "{}: last_logits: expected at most {} rows, one for each of input_ids, got {}",
               path.string(), known.ids.size(), known.last_logits.size());
  require_data(std::isfinite(known.margin) && known.margin >= 0,
               "{}: margin: expected 0 or more, got {}", path.string(), known.margin);
  return known;
}

void check_vocabulary(const Model& model, const KnownAnswers& known) {
  const int64_t size = model.tokens().vocab_size;
  for (const auto* ids : {&known.ids, &known.likeliest, &known.continuation}) {
    for (const int32_t id : *ids) {
      require_data(id < size, "{} has a token {}, the model's vocabulary ids 0 to {}: is this {}?",
                   known.name, id, size - 1, known.name);
    }
  }
  for (const auto& row : known.last_logits) {
    require_data(static_cast<int64_t>(row.size()) <= size,
                 "{}: last_logits: expected at most {} columns, the vocabulary, got {}", known.name,
                 size, row.size());
  }
}

// How the model's choices compare with published ones, by position.
class Choices {
 public:
  Choices(std::string name, double margin) : name_(std::move(name)), margin_(margin) {}

  void add(int64_t position, const float* logits, int64_t usable, int32_t published) {
    const float* best = std::max_element(logits, logits + usable);
    const auto ours = static_cast<int32_t>(best - logits);
    ++count_;
    if (ours == published) return;
    ++flips_;
    double gap = static_cast<double>(*best) - static_cast<double>(logits[published]);
    if (std::isnan(gap)) gap = std::numeric_limits<double>::infinity();
    if (gap < worst_gap_) return;
    worst_gap_ = gap;
    worst_ = format("position {}: published {}, ours {}", position, published, ours);
  }

  void report(VerifyReport& to) const {
    if (count_ == 0) return;
    const double allowed = std::floor(static_cast<double>(count_) / 4);
    to.checks.push_back({.name = name_ + ": distance",
                         .metric = Metric::absolute,
                         .bound = margin_,
                         .max_abs = worst_gap_,
                         .worst = worst_,
                         .pass = worst_gap_ <= margin_});
    to.checks.push_back({.name = name_ + ": flips",
                         .metric = Metric::absolute,
                         .bound = allowed,
                         .max_abs = static_cast<double>(flips_),
                         .worst = format("{} of {} the same", count_ - flips_, count_),
                         .pass = static_cast<double>(flips_) <= allowed});
  }

 private:
  std::string name_;
  double margin_;
  int64_t count_ = 0, flips_ = 0;
  double worst_gap_ = 0;  // of the model's best logit above the published token's
  std::string worst_;
};

Check compare_logits(const Tensor& logits, const KnownAnswers& known) {
  Check check{.name = "last logits", .metric = Metric::absolute, .bound = known.margin};
  const auto rows = static_cast<int64_t>(known.last_logits.size());
  const auto first = static_cast<int64_t>(known.ids.size()) - rows;
  double most = -1;
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<double>& want = known.last_logits[static_cast<size_t>(r)];
    const int64_t column = logits.cols() - static_cast<int64_t>(want.size());
    for (size_t c = 0; c < want.size(); ++c) {
      const int64_t at = column + static_cast<int64_t>(c);
      const double got = static_cast<double>(logits.row<float>(first + r)[at]);
      double off = std::abs(got - want[c]);
      if (std::isnan(off)) off = std::numeric_limits<double>::infinity();
      if (off <= most) continue;
      most = check.max_abs = off;
      check.worst =
          format("position {}, id {}: published {}, ours {:.4f}", first + r, at, want[c], got);
    }
  }
  check.pass = check.max_abs <= check.bound;
  return check;
}

std::string greedy_note(Model& model, const KnownAnswers& known) {
  GenerateOptions options;
  options.max_new_tokens = static_cast<int64_t>(known.continuation.size());
  options.stop_at_eos = false;
  const std::vector<int32_t> said = generate(model, known.ids, options).tokens;
  const auto differs = std::mismatch(said.begin(), said.end(), known.continuation.begin());
  const auto same = differs.first - said.begin();
  if (differs.first == said.end()) {
    return format("a greedy run says all {} published tokens", said.size());
  }
  return format("a greedy run says {} of the {} published tokens, then {} instead of {}", same,
                said.size(), *differs.first, *differs.second);
}

}  // namespace

KnownAnswers known_answers(const std::string& name_or_file) {
  if (name_or_file == "zaya1-8b") return zaya1_8b();
  if (name_or_file.ends_with(".json")) return read_known(name_or_file);
  throw Error(Fault::usage,
              format("known answers: expected zaya1-8b or a .json file, got '{}'", name_or_file));
}

VerifyReport verify_known(Model& model, const KnownAnswers& known) {
  check_vocabulary(model, known);
  std::vector<int32_t> text = known.ids;
  if (!known.continuation.empty()) {
    text.insert(text.end(), known.continuation.begin(), known.continuation.end() - 1);
  }
  const auto length = static_cast<int64_t>(text.size());
  require_data(length <= model.context_limit(),
               "{} has a text of {} tokens, the model a context of {}: is this {}?", known.name,
               length, model.context_limit(), known.name);
  const NoGrad no_grad;
  const Tensor h_NH = model.forward(from_values({length}, text), Segments::batch(1, length));
  const Tensor logits = to_device(to_dtype(model.logits(h_NH), DType::f32), kCpu);

  const int64_t usable = model.tokens().usable;
  Choices likeliest("likeliest tokens", known.margin), continued("continuation", known.margin);
  for (size_t i = 0; i < known.likeliest.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    likeliest.add(row, logits.row<float>(row), usable, known.likeliest[i]);
  }
  for (size_t i = 0; i < known.continuation.size(); ++i) {
    const auto row = static_cast<int64_t>(known.ids.size() + i) - 1;
    continued.add(row, logits.row<float>(row), usable, known.continuation[i]);
  }
  VerifyReport report;
  likeliest.report(report);
  continued.report(report);
  if (!known.last_logits.empty()) report.checks.push_back(compare_logits(logits, known));
  report.notes.push_back(format(
      "The published answers are {}. Arithmetic that rounds otherwise moves every logit a little, "
      "and a routed model now and then a lot more: a published token passes where its logit is "
      "within {} of the best one here (a flip), as long as no more than a quarter are flips.",
      known.source, known.margin));
  if (!known.continuation.empty()) report.notes.push_back(greedy_note(model, known));
  return report;
}

}  // namespace tephra
