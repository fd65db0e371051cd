// SPDX-License-Identifier: Apache-2.0
// The scheduler's second half: from hidden states to tokens.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tephra/autograd/tape.h"
#include "tephra/base/clock.h"
#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/infer/scheduler.h"

namespace tephra {
namespace {

std::span<float> row_of(const Tensor& logits, int64_t row) {
  return {logits.row<float>(row), static_cast<size_t>(logits.cols())};
}

// Logits of some rows of h; at least `least_rows` of them are computed.
Tensor logits_of(const Model& model, const Tensor& h_NH, std::span<const int64_t> rows,
                 int64_t least_rows) {
  const NoGrad no_grad;
  const auto count = static_cast<int64_t>(rows.size());
  const Tensor some =
      zeros({std::max(count, least_rows), h_NH.cols()}, h_NH.dtype(), h_NH.device());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows[static_cast<size_t>(i)];
    copy_into(some.slice_rows(i, i + 1), h_NH.slice_rows(row, row + 1));
  }
  return to_device(to_dtype(model.logits(some), DType::f32).slice_rows(0, count), kCpu);
}

// Whether a token is asked for and nothing else: the logits as they are, and no word of them.
bool takes_plain_logits(const EngineRequest& r) {
  return !r.sampling.has_penalties() && r.sampling.bias.empty() && !r.filter &&
         r.top_logprobs < 0 && r.max_new_tokens > 0;
}

// The largest float that is not above it.
float not_above(double value) {
  const auto rounded = static_cast<float>(value);
  return double(rounded) <= value
             ? rounded
             : std::nextafter(rounded, -std::numeric_limits<float>::infinity());
}

}  // namespace

// One that was put aside reads its prompt again, and goes on telling where it had come to.
bool Scheduler::tell_prompt_logprobs(Sequence& s, const Tensor& h_NH, int64_t row, int64_t count) {
  const int64_t first = s.fed - count;  // position of the first row
  const int64_t end = std::min(count, s.prompt_size() - 1 - first);
  for (int64_t begin = std::max<int64_t>(0, s.prompt_told - first); begin < end;
       begin += kLogitRows) {
    std::vector<int64_t> rows;
    for (int64_t i = begin; i < std::min(end, begin + kLogitRows); ++i) rows.push_back(row + i);
    const Tensor logits = logits_of(model_, h_NH, rows, logit_rows_);
    std::vector<EngineToken> tokens(rows.size());
    parallel_for(static_cast<int64_t>(rows.size()), 1, [&](int64_t i, int64_t) {
      const int32_t id = s.request.prompt[static_cast<size_t>(first + begin + i + 1)];
      const int64_t top = std::max<int64_t>(0, s.request.top_logprobs);
      const int64_t known = std::max<int64_t>(model_.tokens().usable, id + 1);
      tokens[static_cast<size_t>(i)] = {id, logprobs(row_of(logits, i), known, id, top)};
    });
    for (const EngineToken& token : tokens) {
      if (std::isnan(token.logprobs.chosen)) return false;
      if (s.request.on_prompt_token) s.request.on_prompt_token(token);
    }
    s.prompt_told += std::ssize(tokens);
  }
  return true;
}

void Scheduler::choose(const Tensor& h_NH, const std::vector<Heard>& heard) {
  for (size_t i = 0; i < heard.size(); i += kLogitRows) {
    const auto some = std::span(heard).subspan(i, std::min<size_t>(kLogitRows, heard.size() - i));
    std::vector<int64_t> rows;
    for (const Heard& h : some) rows.push_back(h.row);
    choose_from(logits_of(model_, h_NH, rows, logit_rows_), some);
  }
}

void Scheduler::choose_from(const Tensor& logits, std::span<const Heard> heard) {
  std::vector<std::vector<uint64_t>> allowed(heard.size());
  std::vector<std::string> errors(heard.size());
  std::vector<EndReason> reasons(heard.size(), EndReason::failed);
  for (size_t i = 0; i < heard.size(); ++i) {
    TokenFilter* filter = heard[i].sequence->request.filter.get();
    if (filter == nullptr) continue;
    try {
      const std::span<const uint64_t> bits = filter->allowed();
      allowed[i].assign(bits.begin(), bits.end());
    } catch (const Error& e) {
      errors[i] = e.what();
      if (e.fault() == Fault::data) reasons[i] = EndReason::form;
    }
  }
  std::vector<EngineToken> chosen(heard.size());
  parallel_for(static_cast<int64_t>(heard.size()), 1, [&](int64_t row, int64_t) {
    const auto i = static_cast<size_t>(row);
    if (!errors[i].empty()) return;
    try {
      chosen[i] = pick(*heard[i].sequence, row_of(logits, row), allowed[i]);
    } catch (const Error& e) {
      errors[i] = e.what();
    }
  });
  for (size_t i = 0; i < heard.size(); ++i) {
    if (errors[i].empty()) {
      take_token(heard[i].sequence, chosen[i]);
    } else {
      finish(heard[i].sequence, reasons[i], errors[i]);
    }
  }
}

// Who takes the likeliest token needs eight bytes from the device; who draws, the tokens that could
// be drawn; for the rest, and where these are too many, a row of logits comes.
void Scheduler::choose_from(DecodeStep& step, std::span<const Heard> heard) {
  const std::vector<DecodeStep::Likeliest> likeliest = step.likeliest();
  // Nothing is at least infinity: rows that do not draw. At a great heat all are, from -infinity
  // on.
  constexpr float kNothing = std::numeric_limits<float>::infinity();
  std::vector<float> least(likeliest.size(), kNothing);
  bool draws = false;
  for (const Heard& h : heard) {
    const auto row = static_cast<size_t>(h.row);
    const EngineRequest& r = h.sequence->request;
    if (!takes_plain_logits(r) || r.sampling.temperature == 0) continue;
    least[row] = not_above(least_drawn(r.sampling, double(likeliest[row].logit)));
    draws = true;
  }
  std::vector<std::optional<std::vector<DecodeStep::Likeliest>>> candidates(likeliest.size());
  if (draws) candidates = step.at_least(least);

  // A draw sorts its candidates, at temperature 1 hundreds or thousands of them: rows side by side.
  std::vector<int32_t> drawn(heard.size());
  parallel_for(static_cast<int64_t>(heard.size()), 1, [&](int64_t each, int64_t) {
    const Heard& h = heard[static_cast<size_t>(each)];
    const auto row = static_cast<size_t>(h.row);
    if (least[row] == kNothing || !std::isfinite(likeliest[row].logit)) return;
    if (!candidates[row]) return;
    const Sequence& s = *h.sequence;
    std::vector<SampleCandidate> some;
    for (const auto& [token, logit] : *candidates[row]) some.push_back({token, logit});
    drawn[static_cast<size_t>(each)] =
        sample_among(some, s.request.sampling, s.request.stream, static_cast<uint64_t>(s.known()));
  });

  std::vector<Heard> others;
  for (size_t i = 0; i < heard.size(); ++i) {
    const Heard& h = heard[i];
    const auto row = static_cast<size_t>(h.row);
    const EngineRequest& r = h.sequence->request;
    const bool plain = takes_plain_logits(r), greedy = r.sampling.temperature == 0;
    if (!plain || (!greedy && std::isfinite(likeliest[row].logit) && !candidates[row])) {
      others.push_back(h);
    } else if (!std::isfinite(likeliest[row].logit)) {
      finish(h.sequence, EndReason::failed, kLogitsNotFinite);
    } else if (greedy) {
      take_token(h.sequence, {.id = likeliest[row].token, .logprobs = {}});
    } else {
      take_token(h.sequence, {.id = drawn[i], .logprobs = {}});
    }
  }
  choose_from_rows(step.logits(), others);
}

// The room stays: as many fresh pages each step would cost more than the copies into them. Rows
// that adjoin come together.
void Scheduler::choose_from_rows(const Tensor& all, std::span<const Heard> heard) {
  if (heard.empty()) return;
  if (!rows_room_.defined()) rows_room_ = Tensor({kLogitRows, all.cols()}, DType::f32);
  for (size_t i = 0; i < heard.size(); i += kLogitRows) {
    const auto some = heard.subspan(i, std::min<size_t>(kLogitRows, heard.size() - i));
    for (size_t begin = 0, end = 0; begin < some.size(); begin = end) {
      const int64_t first = some[begin].row;
      while (end < some.size() && some[end].row - first == int64_t(end - begin)) ++end;
      copy_into(rows_room_.slice_rows(int64_t(begin), int64_t(end)),
                all.slice_rows(first, first + int64_t(end - begin)));
    }
    choose_from(rows_room_.slice_rows(0, std::ssize(some)), some);
  }
}

EngineToken Scheduler::pick(Sequence& s, std::span<float> logits,
                            std::span<const uint64_t> allowed) const {
  const EngineRequest& r = s.request;
  if (r.max_new_tokens == 0) return {};
  const int64_t usable = model_.tokens().usable;
  std::vector<float> own;  // as the model said it, for the logprobs
  const bool changes = r.sampling.has_penalties() || !r.sampling.bias.empty() || !allowed.empty();
  if (changes && r.top_logprobs >= 0) own.assign(logits.begin(), logits.end());
  adjust_logits(logits, r.sampling, s.counts);
  if (!allowed.empty()) mask_logits(logits, allowed);
  const auto position = static_cast<uint64_t>(s.known());
  EngineToken token{.id = sample(logits, usable, r.sampling, r.stream, position), .logprobs = {}};
  if (r.top_logprobs >= 0) {
    token.logprobs = logprobs(own.empty() ? std::span<const float>(logits) : own, usable, token.id,
                              r.top_logprobs);
  }
  return token;
}

void Scheduler::take_token(Place p, const EngineToken& token) {
  Sequence& s = *p;
  if (s.request.max_new_tokens == 0) return finish(p, EndReason::length);
  if (s.said.empty()) s.usage.first_token_seconds = steady_seconds() - s.request.arrived;
  ++s.usage.new_tokens;
  ++totals_.new_tokens;
  if (is_end(s, token.id)) return finish(p, EndReason::eos);
  s.said.push_back(token.id);
  if (s.request.sampling.has_penalties()) s.counts.add_said(token.id);
  if (s.request.filter) s.request.filter->accept(token.id);
  if (s.request.on_token && !s.request.on_token(token)) return finish(p, EndReason::stopped);
  if (static_cast<int64_t>(s.said.size()) >= s.request.max_new_tokens) {
    finish(p, EndReason::length);
  }
}

}  // namespace tephra
