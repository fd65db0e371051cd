// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/agreement.h"

#include <algorithm>
#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/eval/finite_logits.h"

namespace tephra {
namespace {

struct Position {
  double kl = 0;
  bool same_choice = false;
  double model_nats = 0, reference_nats = 0;
};

double log_sum_exp(const float* logits, int64_t width, float top) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += std::exp(static_cast<double>(logits[i] - top));
  return std::log(sum) + static_cast<double>(top);
}

Position compare_rows(const float* model, const float* reference, int64_t width, int32_t target) {
  const float* model_top = std::max_element(model, model + width);
  const float* reference_top = std::max_element(reference, reference + width);
  const double m = log_sum_exp(model, width, *model_top);
  const double r = log_sum_exp(reference, width, *reference_top);
  double kl = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double log_p = static_cast<double>(reference[i]) - r;
    const double log_q = static_cast<double>(model[i]) - m;
    kl += std::exp(log_p) * (log_p - log_q);
  }
  return {kl < 0 ? 0 : kl, model_top - model == reference_top - reference,
          m - static_cast<double>(model[target]), r - static_cast<double>(reference[target])};
}

bool all_finite(const float* logits, int64_t width) {
  return std::all_of(logits, logits + width, [](float x) { return std::isfinite(x); });
}

Tensor on_cpu(const Tensor& logits) { return to_device(to_dtype(logits, DType::f32), kCpu); }

constexpr int64_t kPassTokens = 2048;  // of several texts in one forward pass

// Texts side by side in one forward pass of each model, then a few rows of logits at a time.
void compare_pass(Model& model, Model& reference, std::span<const ComparedText> texts,
                  const CompareOptions& options, std::vector<Position>& positions) {
  std::vector<int32_t> inputs, targets;  // -1: not foretold
  std::vector<int64_t> lengths;
  for (const ComparedText& text : texts) {
    const auto count = static_cast<int64_t>(text.ids.size()) - 1;
    inputs.insert(inputs.end(), text.ids.begin(), text.ids.end() - 1);
    for (int64_t i = 1; i <= count; ++i) {
      targets.push_back(i < text.first ? -1 : text.ids[static_cast<size_t>(i)]);
    }
    lengths.push_back(count);
  }
  const auto count = static_cast<int64_t>(inputs.size());
  const Tensor ids = from_values({count}, inputs);
  const Segments segments = Segments::packed(lengths);
  const Tensor h = model.forward(ids, segments), g = reference.forward(ids, segments);
  const int64_t width = std::min(model.tokens().usable, reference.tokens().usable);
  const int64_t rows = std::max<int64_t>(16, (int64_t{8} << 20) / model.tokens().vocab_size);
  for (int64_t begin = 0; begin < count; begin += rows) {
    stop_if_interrupted();
    const int64_t end = std::min(count, begin + rows);
    const Tensor a = on_cpu(model.logits(h.slice_rows(begin, end)));
    const Tensor b = on_cpu(reference.logits(g.slice_rows(begin, end)));
    std::vector<Position> found(static_cast<size_t>(end - begin));
    parallel_for(end - begin, 4, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        const int32_t target = targets[static_cast<size_t>(begin + i)];
        if (target < 0) continue;
        found[static_cast<size_t>(i)] =
            compare_rows(a.row<float>(i), b.row<float>(i), width, target);
      }
    });
    for (int64_t i = begin; i < end; ++i) {
      if (targets[static_cast<size_t>(i)] < 0) continue;
      const Position& p = found[static_cast<size_t>(i - begin)];
      if (!std::isfinite(p.kl)) {
        require_finite_logits(all_finite(a.row<float>(i - begin), width), options.model);
        require_finite_logits(false, options.reference);
      }
      positions.push_back(p);
    }
  }
}

Agreement summary(const std::vector<Position>& positions) {
  Agreement result;
  std::vector<double> kl;
  for (const Position& p : positions) {
    result.same_choice += p.same_choice ? 1 : 0;
    result.mean_kl += p.kl;
    result.model_nats += p.model_nats;
    result.reference_nats += p.reference_nats;
    kl.push_back(p.kl);
  }
  result.tokens = static_cast<int64_t>(positions.size());
  const auto count = static_cast<double>(positions.size());
  result.mean_kl /= count;
  result.model_nats /= count;
  result.reference_nats /= count;
  std::sort(kl.begin(), kl.end());
  const auto at = [&](double share) {
    return kl[static_cast<size_t>(share * static_cast<double>(kl.size() - 1))];
  };
  result.median_kl = at(0.5);
  result.p99_kl = at(0.99);
  result.max_kl = kl.back();
  return result;
}

}  // namespace

double Agreement::share_same_choice() const {
  return static_cast<double>(same_choice) / static_cast<double>(tokens);
}

std::vector<ComparedText> cut_text(const std::vector<int32_t>& ids, int64_t window) {
  require(window >= 1, "window: expected 1 token or more, got {}", window);
  std::vector<ComparedText> texts;
  const auto size = static_cast<int64_t>(ids.size());
  for (int64_t begin = 0; begin + 1 < size; begin += window) {
    const int64_t end = std::min(size, begin + window + 1);
    texts.push_back({{ids.begin() + begin, ids.begin() + end}});
  }
  return texts;
}

Agreement compare_models(Model& model, Model& reference, std::span<const ComparedText> texts,
                         const CompareOptions& options) {
  require(model.tokens().vocab_size == reference.tokens().vocab_size,
          "expected two models of one vocabulary, got {} and {} tokens", model.tokens().vocab_size,
          reference.tokens().vocab_size);
  const int64_t limit = std::min(model.context_limit(), reference.context_limit());
  const int64_t usable = std::min(model.tokens().usable, reference.tokens().usable);
  for (const ComparedText& text : texts) {
    const auto size = static_cast<int64_t>(text.ids.size());
    require(size >= 2 && size - 1 <= limit,
            "expected texts of 2 to {} tokens to compare on, got {}", limit + 1, size);
    for (const int32_t id : text.ids) {
      require(id >= 0 && id < usable,
              "token {} is not one of the models'; is this their tokenizer.json?", id);
    }
  }
  const NoGrad no_grad;
  std::vector<Position> positions;
  for (size_t i = 0; i < texts.size();) {
    size_t end = i;
    for (int64_t tokens = 0; end < texts.size() && (end == i || tokens < kPassTokens); ++end) {
      tokens += static_cast<int64_t>(texts[end].ids.size());
    }
    const size_t before = positions.size();
    compare_pass(model, reference, texts.subspan(i, end - i), options, positions);
    if (options.on_compared) {
      options.on_compared(static_cast<int64_t>(positions.size() - before));
    }
    i = end;
  }
  require(!positions.empty(), "expected at least one token to compare on, got none");
  return summary(positions);
}

}  // namespace tephra
