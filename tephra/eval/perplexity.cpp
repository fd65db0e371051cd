// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/perplexity.h"

#include <algorithm>
#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/eval/finite_logits.h"

namespace tephra {
namespace {

// Inputs [begin, end) of the ids; the targets of inputs [scored, end) are new in this window.
struct Window {
  int64_t begin, scored, end;
};

// The targets of the inputs before `scored` do not count.
std::vector<Window> cut_windows(int64_t inputs, int64_t scored, const Perplexity& size) {
  std::vector<Window> windows;
  for (int64_t begin = 0; scored < inputs; begin += size.stride) {
    const int64_t end = std::min(inputs, begin + size.window);
    if (end <= scored) continue;
    windows.push_back({begin, scored, end});
    scored = end;
  }
  return windows;
}

struct TokenScore {
  double nats = 0;
  bool likeliest = false;
};

template <class T>
TokenScore score_row(const T* logits, int64_t width, int32_t target) {
  const T top = *std::max_element(logits, logits + width);
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    sum += std::exp(static_cast<double>(logits[i]) - static_cast<double>(top));
  }
  return {std::log(sum) + static_cast<double>(top) - static_cast<double>(logits[target]),
          logits[target] == top};
}

class Scorer {
 public:
  Scorer(Model& model, std::span<const int32_t> ids, const PerplexityOptions& options,
         Perplexity& result)
      : model_(model),
        ids_(ids),
        options_(options),
        result_(result),
        // Of logits no more than 64 MiB exist at a time.
        rows_(std::max<int64_t>(16, (int64_t{16} << 20) / model.tokens().vocab_size)) {}

  // Windows side by side in one forward pass.
  void pass(std::span<const Window> windows) {
    stop_if_interrupted();
    std::vector<int32_t> inputs;
    std::vector<int64_t> lengths;
    for (const Window& w : windows) {
      inputs.insert(inputs.end(), ids_.begin() + w.begin, ids_.begin() + w.end);
      lengths.push_back(w.end - w.begin);
    }
    const auto count = static_cast<int64_t>(inputs.size());
    const Tensor h_NH = model_.forward(from_values({count}, inputs), Segments::packed(lengths));
    int64_t row = 0;
    for (const Window& w : windows) {
      const int64_t skipped = w.scored - w.begin;
      score(h_NH.slice_rows(row + skipped, row + w.end - w.begin), w.scored + 1);
      row += w.end - w.begin;
    }
  }

 private:
  // Rows that foretell the ids from `target` on.
  void score(const Tensor& h_NH, int64_t target) {
    for (int64_t begin = 0; begin < h_NH.rows(); begin += rows_) {
      const int64_t end = std::min(h_NH.rows(), begin + rows_);
      const Tensor logits = to_device(model_.logits(h_NH.slice_rows(begin, end)), kCpu);
      std::vector<TokenScore> scores(static_cast<size_t>(end - begin));
      visit_float(logits.dtype(), [&]<class T>() {
        parallel_for(end - begin, 4, [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) {
            const int32_t id = ids_[static_cast<size_t>(target + begin + i)];
            scores[static_cast<size_t>(i)] = score_row(logits.row<T>(i), logits.cols(), id);
          }
        });
      });
      for (const TokenScore& s : scores) {
        result_.nats += s.nats;
        result_.likeliest += s.likeliest ? 1 : 0;
      }
      result_.tokens += end - begin;
      if (options_.on_scored) options_.on_scored(end - begin);
    }
  }

  Model& model_;
  std::span<const int32_t> ids_;
  const PerplexityOptions& options_;
  Perplexity& result_;
  const int64_t rows_;
};

void check_ids(const Model& model, std::span<const int32_t> ids) {
  const int64_t size = model.tokens().vocab_size;
  for (size_t i = 0; i < ids.size(); ++i) {
    require(ids[i] >= 0 && ids[i] < size,
            "token {} is {}; the model's vocabulary has ids 0 to {}; is this its tokenizer.json?",
            i, ids[i], size - 1);
  }
}

size_t valid_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_sequence(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

// Windows of one size, several to a pass.
void score_windows(Model& model, std::span<const int32_t> ids, std::span<const Window> windows,
                   const PerplexityOptions& options, Perplexity& result) {
  const NoGrad no_grad;
  Scorer scorer(model, ids, options, result);
  const auto together =
      static_cast<size_t>(std::max<int64_t>(1, options.pass_tokens / result.window));
  for (size_t i = 0; i < windows.size(); i += together) {
    scorer.pass(windows.subspan(i, std::min(together, windows.size() - i)));
  }
}

// Scores the ids from the one at `first` on.
Perplexity score_from(int64_t first, Model& model, std::span<const int32_t> ids,
                      const PerplexityOptions& options) {
  const int64_t limit = model.context_limit();
  Perplexity result;
  result.window = options.window > 0 ? options.window : std::min<int64_t>(limit, 2048);
  result.stride = options.stride > 0 ? options.stride : std::max<int64_t>(1, result.window / 2);
  require(result.window <= limit, "window: expected at most the model's limit of {} tokens, got {}",
          limit, result.window);
  require(result.stride <= result.window,
          "stride: expected at most the window of {} tokens, got {}; tokens between windows would "
          "not be scored",
          result.window, result.stride);
  require(ids.size() >= 2, "perplexity: expected at least two tokens, got {}", ids.size());
  check_ids(model, ids);

  const std::vector<Window> windows =
      cut_windows(static_cast<int64_t>(ids.size()) - 1, first - 1, result);
  result.windows = static_cast<int64_t>(windows.size());
  score_windows(model, ids, windows, options, result);
  require_finite_logits(std::isfinite(result.nats), options.model);
  return result;
}

}  // namespace

double Perplexity::per_token() const { return std::exp(nats / static_cast<double>(tokens)); }
double Perplexity::bits_per_token() const {
  return nats / std::log(2.0) / static_cast<double>(tokens);
}
double Perplexity::bits_per_byte() const {
  return nats / std::log(2.0) / static_cast<double>(bytes);
}
double Perplexity::share_likeliest() const {
  return static_cast<double>(likeliest) / static_cast<double>(tokens);
}

Perplexity token_perplexity(Model& model, std::span<const int32_t> ids,
                            const PerplexityOptions& options) {
  return score_from(1, model, ids, options);
}

Perplexity text_perplexity(Model& model, const Tokenizer& tokenizer, std::string_view text,
                           const std::string& where, const PerplexityOptions& options) {
  const size_t valid = valid_bytes(text);
  require_data(valid == text.size(), "{}: expected UTF-8 text, but byte {} is none", where, valid);
  const auto added = static_cast<int64_t>(tokenizer.encode("", AddSpecial::before).size());
  const std::vector<int32_t> ids = tokenizer.encode(text, AddSpecial::before);
  const auto size = static_cast<int64_t>(ids.size());
  require_data(size > std::max<int64_t>(1, added),
               "{}: expected text of at least {}, got {} tokens", where,
               added > 0 ? "one token" : "two tokens", size - added);
  Perplexity result = score_from(std::max<int64_t>(1, added), model, ids, options);
  result.bytes = static_cast<int64_t>(text.size());
  if (added == 0) {
    const std::string first = tokenizer.decode({ids.data(), 1});
    if (text.starts_with(first)) result.bytes -= static_cast<int64_t>(first.size());
  }
  return result;
}

}  // namespace tephra
