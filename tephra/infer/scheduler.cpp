// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/scheduler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tephra/autograd/tape.h"
#include "tephra/base/clock.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/infer/sampler.h"

namespace tephra {
namespace {

bool on_gpu(Model& model) { return model.parameters().device().kind == Device::Kind::gpu; }

// On a GPU a pass reads all experts, however few tokens each has
// (docs/decisions/0118-a-pass-over-prompts-has-8192-rows.md).
constexpr int64_t kCpuPrefill = 512, kGpuPrefill = 8192;

EngineOptions completed(Model& model, EngineOptions o) {
  if (o.prefill_tokens == 0) o.prefill_tokens = on_gpu(model) ? kGpuPrefill : kCpuPrefill;
  require(o.sequences >= 1 && o.prefill_tokens >= 1 && o.kv_memory >= 1,
          "engine: expected at least one sequence, one prompt token a step and one byte of KV "
          "memory, got {}, {} and {}",
          o.sequences, o.prefill_tokens, o.kv_memory);
  if (o.block_tokens == 0) o.block_tokens = model.state_spec().snapshot_interval;
  const int64_t limit = model.context_limit();
  require(o.context >= 0 && o.context <= limit,
          "context: expected at most the model's limit of {} tokens, got {}", limit, o.context);
  if (o.context == 0) o.context = limit;
  return o;
}

// As many as the memory holds, but no more than all sequences of full length could use.
int64_t block_count(Model& model, const EngineOptions& o) {
  const int64_t each = PagedState::block_bytes(model, o.block_tokens);
  const int64_t held = o.kv_memory / std::max<int64_t>(1, each);
  require(held >= 1, "KV memory: {} do not hold a block of {} tokens, which takes {}; give more",
          human_bytes(o.kv_memory), o.block_tokens, human_bytes(each));
  const int64_t per_sequence = ceil_div(o.context, o.block_tokens);
  return per_sequence > held / o.sequences ? held : per_sequence * o.sequences;
}

// The last token of a prompt is always computed, by a sequence or by one with the same prompt: its
// logits choose the first new one.
std::span<const int32_t> without_last(const std::vector<int32_t>& prompt) {
  return std::span(prompt).first(prompt.size() - 1);
}

}  // namespace

std::string to_text(EndReason reason) {
  switch (reason) {
    case EndReason::eos:
      return "eos";
    case EndReason::length:
      return "length";
    case EndReason::stopped:
      return "stop";
    case EndReason::cancelled:
      return "cancelled";
    case EndReason::failed:
      return "failed";
    case EndReason::form:
      return "form";
  }
  return {};
}

Scheduler::Scheduler(Model& model, const EngineOptions& options)
    : model_(model),
      options_(completed(model, options)),
      pool_(block_count(model, options_), options_.block_tokens),
      prompt_rows_(on_gpu(model) ? std::max(options_.prefill_tokens, options_.block_tokens) : 1),
      answer_rows_(on_gpu(model) ? kAnswerRows : 1),
      logit_rows_(on_gpu(model) ? kLogitRows : 1),
      state_(model, pool_.size(), options_.block_tokens, options_.sequences,
             std::max(prompt_rows_, answer_rows_)) {
  for (int64_t i = options_.sequences; i-- > 0;) free_slots_.push_back(i);
}

// Tokens that are fed to the model: the last one never is.
int64_t Scheduler::most_tokens() const {
  return std::min(options_.context, pool_.size() * options_.block_tokens);
}

int64_t Scheduler::room_for(int64_t prompt_tokens) const {
  return most_tokens() - prompt_tokens + 1;
}

void Scheduler::check(const EngineRequest& r) const {
  check_sampling(r.sampling);
  require(!r.prompt.empty(), "the prompt is empty; give at least one token");
  require(r.max_new_tokens >= 0, "expected 0 or more new tokens, got {}", r.max_new_tokens);
  for (size_t i = 0; i < r.prompt.size(); ++i) {
    require(r.prompt[i] >= 0 && r.prompt[i] < model_.tokens().vocab_size,
            "prompt token {}: expected an id in [0, {}), got {}", i, model_.tokens().vocab_size,
            r.prompt[i]);
  }
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  const int64_t fed = prompt + std::max<int64_t>(0, r.max_new_tokens - 1);
  require(fed <= options_.context,
          "the prompt of {} tokens and {} new ones do not fit the context of {}; shorten the "
          "prompt or ask for fewer new tokens",
          prompt, r.max_new_tokens, options_.context);
  require(fed <= most_tokens(),
          "the prompt of {} tokens and {} new ones do not fit the KV memory, which holds {}; "
          "shorten the prompt, ask for fewer new tokens, or give the server more KV memory",
          prompt, r.max_new_tokens, most_tokens());
}

uint64_t Scheduler::add(EngineRequest request) {
  check(request);
  Sequence& s = waiting_.emplace_back();
  s.id = next_id_++;
  s.request = std::move(request);
  s.usage.prompt_tokens = s.prompt_size();
  if (s.request.arrived == 0) s.request.arrived = steady_seconds();
  if (s.request.sampling.has_penalties()) s.counts.add_prompt(s.request.prompt);
  ++totals_.requests;
  totals_.prompt_tokens += s.prompt_size();
  return s.id;
}

void Scheduler::cancel(uint64_t id) {
  for (std::list<Sequence>* all : {&running_, &waiting_}) {
    const auto p =
        std::find_if(all->begin(), all->end(), [&](const Sequence& s) { return s.id == id; });
    if (p != all->end()) return finish(p, EndReason::cancelled);
  }
}

void Scheduler::end_all(EndReason reason, const std::string& error) {
  while (!running_.empty()) finish(running_.begin(), reason, error);
  while (!waiting_.empty()) finish(waiting_.begin(), reason, error);
  forget_read_prompts(/*all=*/true);
}

EngineStats Scheduler::stats() const {
  EngineStats s = totals_;
  s.waiting = static_cast<int64_t>(waiting_.size());
  s.running = static_cast<int64_t>(running_.size());
  s.blocks = pool_.size();
  s.blocks_held = pool_.held();
  s.blocks_remembered = pool_.remembered();
  s.block_tokens = options_.block_tokens;
  s.block_bytes = PagedState::block_bytes(model_, options_.block_tokens);
  return s;
}

bool Scheduler::step() {
  admit();
  if (running_.empty()) return false;
  ++totals_.steps;
  choose_after_read_prompts();
  prefill_pass();
  decode_pass();
  return true;
}

// First come, first served: a request that does not fit yet lets nobody pass. One that waits for a
// prompt lets others pass, where there is room for both.
void Scheduler::admit() {
  int64_t slots_kept = 0, blocks_kept = 0;
  for (Place p = waiting_.begin(); p != waiting_.end() && std::ssize(free_slots_) > slots_kept;) {
    const Place next = std::next(p);
    const bool nothing_to_say = p->request.max_new_tokens == 0 && !p->request.prompt_logprobs;
    if (nothing_to_say) {
      finish(p, EndReason::length);
    } else {
      // Some room for the others to grow, so that they need not be put aside soon. Who passes those
      // that wait leaves it for them, too.
      const int64_t spare = ceil_div(std::ssize(running_) + slots_kept, 4);
      const auto fits = [&](const Beginning& how) {
        const int64_t room = pool_.available() - how.blocks_found_idle - blocks_kept;
        return how.blocks_needed + spare <= room;
      };
      Beginning how = beginning_of(*p);
      if (how.waits) {
        ++slots_kept;
        blocks_kept += how.blocks_needed;
      } else {
        // Other prompts are kept for those behind it.
        if (!fits(how) && forget_other_prompts(how.read)) how = beginning_of(*p);
        if (!fits(how)) break;
        begin(p, how);
      }
    }
    p = next;
  }
  forget_read_prompts(/*all=*/false);
  // What is kept for those that wait must not be what they wait for.
  if (running_.empty() && forget_read_prompts(/*all=*/true)) admit();
}

// Whether it may begin behind what another computed.
bool Scheduler::shares(const Sequence& s) const {
  return options_.prefix_cache && !s.request.prompt_logprobs;
}

// Whether one that is being read will soon have computed more of this prompt than is known: n
// answers to one prompt, or a crowd with one system prompt.
bool Scheduler::waits_for_same_prompt(const Sequence& s, int64_t known_blocks) const {
  const int64_t usable = (s.prompt_size() - 1) / options_.block_tokens;
  return std::any_of(running_.begin(), running_.end(), [&](const Sequence& other) {
    if (!other.reads_prompt()) return false;
    const auto &a = s.request.prompt, &b = other.request.prompt;
    const int64_t longest = std::min(s.prompt_size(), other.prompt_size());
    const auto differs = std::mismatch(a.begin(), a.begin() + longest, b.begin()).first;
    if (differs == a.end() && a.size() == b.size()) return true;
    return std::min(usable, (differs - a.begin()) / options_.block_tokens) > known_blocks;
  });
}

Scheduler::Beginning Scheduler::beginning_of(const Sequence& s) {
  Beginning how{.blocks_needed = ceil_div(s.known(), options_.block_tokens)};
  if (!shares(s)) return how;
  for (ReadPrompt& read : read_prompts_) {
    if (read.prompt != s.request.prompt) continue;
    how.read = &read;
    how.blocks_needed -= s.prompt_size() / options_.block_tokens;
    return how;
  }
  const BlockPool::Found found = pool_.look_up(without_last(s.request.prompt));
  how.waits = waits_for_same_prompt(s, found.blocks);
  how.blocks_needed -= found.blocks;
  how.blocks_found_idle = found.idle;
  return how;
}

void Scheduler::begin(Place p, const Beginning& how) {
  Sequence& s = *p;
  if (how.read != nullptr) {
    const int64_t whole = s.prompt_size() / options_.block_tokens;
    s.blocks.assign(how.read->blocks.begin(), how.read->blocks.begin() + whole);
    for (const int32_t block : s.blocks) pool_.hold(block);
  } else if (shares(s)) {
    s.blocks = pool_.share(without_last(s.request.prompt));
  }
  const auto shared = static_cast<int64_t>(s.blocks.size());
  for (int64_t i = 0; i < how.blocks_needed; ++i) {
    const auto after = s.blocks.empty() ? std::nullopt : std::optional(s.blocks.back());
    const auto block = pool_.take(after);
    TEPHRA_ASSERT(block.has_value(), "blocks that were counted are there");
    s.blocks.push_back(*block);
  }
  s.slot = free_slots_.back();
  free_slots_.pop_back();
  s.fed = shared * options_.block_tokens;
  if (how.read != nullptr) {
    begin_at_end(s, *how.read);
  } else if (shared > 0) {
    state_.restore(s.blocks[static_cast<size_t>(shared) - 1], s.slot);
  } else {
    state_.clear(s.slot);
  }
  if (!s.started) {
    s.started = true;
    s.usage.waiting_seconds = steady_seconds() - s.request.arrived;
    s.usage.cached_tokens = s.fed;
    totals_.cached_tokens += s.fed;
  }
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const Sequence& other) { return other.id > s.id; });
  running_.splice(place, waiting_, p);
  // One that was put aside knows its first token.
  if (how.read != nullptr && s.said.empty()) how.read->begun.push_back({p, 0});
}

// Whole blocks are shared already; of the last one both will fill the rest, so each has its own.
void Scheduler::begin_at_end(Sequence& s, const ReadPrompt& read) {
  const int64_t rest = s.prompt_size() - s.fed;
  if (rest > 0) {
    state_.copy_tokens(read.blocks.back(), s.blocks[read.blocks.size() - 1], rest);
  }
  state_.restore(read.blocks.back(), s.slot);
  s.fed = s.prompt_size();
}

bool Scheduler::is_waited_for(const std::vector<int32_t>& prompt) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const Sequence& s) { return shares(s) && s.request.prompt == prompt; });
}

// The one that read it goes on writing into the last block, but behind the prompt.
void Scheduler::keep_read_prompt(const Sequence& s, const Tensor& h_1H) {
  if (!is_waited_for(s.request.prompt)) return;
  ReadPrompt& read = read_prompts_.emplace_back();
  read.prompt = s.request.prompt;
  read.blocks.assign(s.blocks.begin(),
                     s.blocks.begin() + ceil_div(s.prompt_size(), options_.block_tokens));
  for (const int32_t block : read.blocks) pool_.hold(block);
  state_.save(s.slot, read.blocks.back());
  read.h_1H = clone(h_1H);
}

void Scheduler::choose_after_read_prompts() {
  const cpu::RowClassScope many(cpu::RowClass::many);
  for (ReadPrompt& read : read_prompts_) choose(read.h_1H, std::exchange(read.begun, {}));
}

bool Scheduler::forget_read_prompts(bool all) {
  return forget_where([&](const ReadPrompt& read) {
    return all || (read.begun.empty() && !is_waited_for(read.prompt));
  });
}

bool Scheduler::forget_other_prompts(const ReadPrompt* own) {
  return forget_where([&](const ReadPrompt& read) { return &read != own && read.begun.empty(); });
}

bool Scheduler::forget_where(const std::function<bool(const ReadPrompt&)>& useless) {
  return 0 < read_prompts_.remove_if([&](const ReadPrompt& read) {
    if (!useless(read)) return false;
    for (auto block = read.blocks.rbegin(); block != read.blocks.rend(); ++block) {
      pool_.release(*block);
    }
    return true;
  });
}

Tensor Scheduler::run(std::span<const Place> places,
                      const std::vector<std::vector<int32_t>>& tokens, int64_t least_rows) {
  std::vector<PagedState::Part> parts;
  for (size_t i = 0; i < places.size(); ++i) {
    const Sequence& s = *places[i];
    parts.push_back({s.slot, s.blocks, s.fed, tokens[i]});
  }
  const Tensor h_NH = state_.forward(parts, least_rows);
  for (size_t i = 0; i < places.size(); ++i) {
    places[i]->fed += static_cast<int64_t>(tokens[i].size());
  }
  return h_NH;
}

// The next chunk of each prompt that still fits the step. Where chunks end depends on the prompt's
// own positions alone.
void Scheduler::prefill_pass() {
  std::vector<Place> places;
  std::vector<std::vector<int32_t>> tokens;
  int64_t total = 0;
  for (Place p = running_.begin(); p != running_.end(); ++p) {
    if (!p->reads_prompt()) continue;
    const int64_t end = std::min(p->prompt_size(), next_cut(*p, options_.prefill_tokens - total));
    if (total > 0 && total + end - p->fed > options_.prefill_tokens) break;
    const auto& prompt = p->request.prompt;
    places.push_back(p);
    tokens.emplace_back(prompt.begin() + p->fed, prompt.begin() + end);
    total += end - p->fed;
  }
  if (places.empty()) return;
  const cpu::RowClassScope many(cpu::RowClass::many);
  const Tensor h_NH = run(places, tokens, prompt_rows_);

  std::vector<Heard> heard;
  int64_t row = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    Sequence& s = *places[i];
    const auto count = static_cast<int64_t>(tokens[i].size());
    remember_blocks(s, s.fed - count);
    const bool finite = !s.request.prompt_logprobs || tell_prompt_logprobs(s, h_NH, row, count);
    row += count;
    if (!finite) {
      finish(places[i], EndReason::failed, kLogitsNotFinite);
      continue;
    }
    if (!s.reads_prompt()) keep_read_prompt(s, h_NH.slice_rows(row - 1, row));
    if (!s.reads_prompt() && s.said.empty()) heard.push_back({places[i], row - 1});
  }
  choose(h_NH, heard);
}

// Where a chunk ends, behind at most `room` tokens: at the end of its first block or, on a GPU, of
// as many as there is room for. Its rows have the same bits either way, but a CPU gains nothing.
int64_t Scheduler::next_cut(const Sequence& s, int64_t room) const {
  const int64_t each = options_.block_tokens, first = (s.fed / each + 1) * each;
  return on_gpu(model_) ? std::max(first, (s.fed + room) / each * each) : first;
}

// Blocks that a chunk from `begin` on has just filled, with the fixed state at their ends.
void Scheduler::remember_blocks(Sequence& s, int64_t begin) {
  if (!options_.prefix_cache) return;
  const int64_t each = options_.block_tokens;
  if (s.fed % each == 0) state_.save(s.slot, s.blocks[static_cast<size_t>(s.fed / each - 1)]);
  for (int64_t i = begin / each; i < s.fed / each; ++i) {
    const auto index = static_cast<size_t>(i);
    const auto before = index > 0 ? std::optional(s.blocks[index - 1]) : std::nullopt;
    pool_.remember(s.blocks[index], before,
                   std::span(s.request.prompt)
                       .subspan(index * static_cast<size_t>(each), static_cast<size_t>(each)));
  }
}

void Scheduler::decode_pass() {
  std::vector<Place> places;
  for (Place p = running_.begin(); p != running_.end();) {
    const Place next = std::next(p);
    const uint64_t after = next == running_.end() ? 0 : next->id;
    if (!p->reads_prompt() && grow(p)) places.push_back(p);
    // Those behind may have been put aside meanwhile.
    p = std::find_if(running_.begin(), running_.end(),
                     [&](const Sequence& s) { return after != 0 && s.id >= after; });
  }
  if (!places.empty()) decode(places);
}

// One more token for each of these, all in one class of kernels.
void Scheduler::decode(std::span<const Place> places) {
  if (state_.takes_steps()) return decode_steps(places);
  const cpu::RowClassScope rows(options_.throughput ? cpu::RowClass::many : cpu::RowClass::few);
  const auto most = on_gpu(model_) ? static_cast<size_t>(kAnswerRows) : places.size();
  for (; !places.empty(); places = places.subspan(std::min(most, places.size()))) {
    decode_by_ops(places.first(std::min(most, places.size())));
  }
}

void Scheduler::decode_by_ops(std::span<const Place> places) {
  std::vector<std::vector<int32_t>> tokens;
  for (const Place p : places) {
    tokens.push_back({p->said[static_cast<size_t>(p->fed - p->prompt_size())]});
  }
  const Tensor h_NH = run(places, tokens, answer_rows_);
  std::vector<Heard> heard;
  for (size_t i = 0; i < places.size(); ++i) {
    // One that was put aside first goes over what it had said.
    if (places[i]->fed == places[i]->known()) heard.push_back({places[i], int64_t(i)});
  }
  choose(h_NH, heard);
}

void Scheduler::decode_steps(std::span<const Place> places) {
  while (!places.empty()) {
    const auto count = std::min(places.size(), static_cast<size_t>(state_.step_rows()));
    const std::span<const Place> some = places.first(count);
    places = places.subspan(count);
    std::vector<PagedState::Part> parts;
    for (const Place p : some) {
      const auto at = static_cast<size_t>(p->fed - p->prompt_size());
      parts.push_back({p->slot, p->blocks, p->fed, std::span(p->said).subspan(at, 1)});
    }
    DecodeStep* step = state_.decode(parts);
    std::vector<Heard> heard;
    for (size_t i = 0; i < count; ++i) {
      ++some[i]->fed;
      if (some[i]->fed == some[i]->known()) heard.push_back({some[i], int64_t(i)});
    }
    if (!heard.empty()) choose_from(*step, heard);
  }
}

bool Scheduler::grow(Place p) {
  while (p->fed >= static_cast<int64_t>(p->blocks.size()) * options_.block_tokens) {
    if (const auto block = pool_.take(p->blocks.back())) {
      p->blocks.push_back(*block);
      continue;
    }
    if (forget_read_prompts(/*all=*/true)) continue;
    // The youngest makes room, so the oldest always gets on.
    const Place youngest = std::prev(running_.end());
    const bool itself = youngest == p;
    preempt(youngest);
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt(Place p) {
  let_go(*p);
  p->fed = 0;
  ++p->usage.preemptions;
  ++totals_.preemptions;
  const auto place = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Sequence& s) { return s.id > p->id; });
  waiting_.splice(place, running_, p);
}

void Scheduler::let_go(Sequence& s) {
  if (s.slot < 0) return;
  // The last first: when room is needed, the ends of texts go before their beginnings.
  for (auto block = s.blocks.rbegin(); block != s.blocks.rend(); ++block) pool_.release(*block);
  s.blocks.clear();
  free_slots_.push_back(s.slot);
  s.slot = -1;
}

void Scheduler::finish(Place p, EndReason reason, const std::string& error) {
  let_go(*p);
  ++totals_.ended[static_cast<int>(reason)];
  std::list<Sequence> done;
  auto& from =
      std::any_of(running_.begin(), running_.end(), [&](const Sequence& s) { return &s == &*p; })
          ? running_
          : waiting_;
  done.splice(done.begin(), from, p);
  if (p->request.on_end) p->request.on_end({reason, error, p->usage});
}

bool Scheduler::is_end(const Sequence& s, int32_t token) const {
  const std::vector<int64_t>& eos = model_.tokens().eos;
  const std::vector<int32_t>& own = s.request.end_tokens;
  return (s.request.stop_at_eos && std::find(eos.begin(), eos.end(), token) != eos.end()) ||
         std::find(own.begin(), own.end(), token) != own.end();
}

}  // namespace tephra
