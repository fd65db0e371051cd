// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/rsa.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <utility>

#include "tephra/base/hash.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/core/rng.h"
#include "tephra/text/aggregation.h"
#include "tephra/text/chat_session.h"
#include "tephra/text/text_stream.h"

namespace tephra {
namespace {

std::vector<int32_t> last_of(std::vector<int32_t> ids, int64_t count) {
  const auto size = static_cast<int64_t>(ids.size());
  if (size > count) ids.erase(ids.begin(), ids.begin() + (size - count));
  return ids;
}

std::vector<int32_t> joined_ids(std::vector<int32_t> first, std::span<const int32_t> second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

RsaOptions fitted(RsaOptions o, int64_t room, int64_t prompt) {
  constexpr int64_t kTrace = 16384, kTail = 4096;
  const int64_t left = room - prompt, tails = o.rounds > 0 ? o.candidates : 0;
  if (o.trace_tokens == 0) {
    const int64_t halves = 2 * left / (2 + tails);  // where a tail is half of a trace
    const int64_t tail = o.tail_tokens > 0 ? o.tail_tokens : std::min(kTail, halves / 2);
    o.trace_tokens = std::clamp<int64_t>(left - tails * tail, 1, kTrace);
  }
  if (o.tail_tokens == 0) {
    o.tail_tokens = std::clamp<int64_t>(o.trace_tokens / 2, 1, kTail);
    if (tails > 0 && left - o.trace_tokens < tails * o.tail_tokens) {
      o.tail_tokens = std::max<int64_t>(1, (left - o.trace_tokens) / tails);
    }
  }
  return o;
}

std::optional<Error> no_room_for_a_trace(const RsaOptions& o, int64_t room, int64_t prompt) {
  const int64_t tails = o.rounds > 0 ? o.candidates : 0;
  const int64_t tail = std::max<int64_t>(1, o.tail_tokens);
  if (prompt + tails * tail < room) return std::nullopt;
  const bool too_long = prompt + tails >= room;
  return Error(Fault::usage,
               format("RSA: a problem of {} tokens and {} tails of {} leave no room for a trace in "
                      "the context of {}",
                      prompt, tails, tail, room - 1),
               too_long ? "shorten the problem" : "make tails (tau) shorter, or take fewer");
}

std::string to_text(const RsaOptions& o) {
  std::string text = format("{} {} of at most {} tokens", o.traces,
                            o.traces == 1 ? "trace" : "traces", o.trace_tokens);
  if (o.rounds == 0) return text;
  text += format(", then {} {}", o.rounds, o.rounds == 1 ? "round" : "rounds");
  if (o.continues()) return text + format(", each after its own tail of {} tokens", o.tail_tokens);
  return text + format(" with {} tails of {} tokens", o.candidates, o.tail_tokens);
}

void check_rsa(const RsaOptions& o) {
  check_sampling(o.sampling);
  require(o.traces >= 1, "RSA: expected 1 or more traces, got {}", o.traces);
  require(o.rounds >= 0, "RSA: expected 0 or more rounds, got {}", o.rounds);
  require(o.candidates >= 1 && (o.rounds == 0 || o.candidates <= o.traces),
          "RSA: expected 1 to {} candidates, as many as there are traces, got {}", o.traces,
          o.candidates);
  require(o.trace_tokens >= 1, "RSA: expected traces of 1 or more tokens, got {}", o.trace_tokens);
  require(o.tail_tokens >= 1 && o.tail_tokens <= o.trace_tokens,
          "RSA: expected tails of 1 to {} tokens, as many as a trace has, got {}", o.trace_tokens,
          o.tail_tokens);
  require(o.sampling.temperature > 0 || o.traces == 1,
          "RSA: {} traces would all be the same at temperature 0; give a temperature", o.traces);
}

RsaTokens& RsaTokens::operator+=(const RsaTokens& more) {
  prompt += more.prompt;
  cached += more.cached;
  generated += more.generated;
  return *this;
}

RsaTokens tokens_of(std::span<const RsaTrace> round) {
  RsaTokens sum;
  for (const RsaTrace& t : round) {
    sum.prompt += t.usage.prompt_tokens;
    sum.cached += t.usage.cached_tokens;
    sum.generated += t.usage.new_tokens;
  }
  return sum;
}

RsaTokens tokens_of(const RsaTree& tree) {
  RsaTokens sum;
  for (const auto& round : tree.rounds) sum += tokens_of(std::span(round));
  return sum;
}

uint32_t draws_of(std::span<const int32_t> prompt) {
  return static_cast<uint32_t>(xxh3(std::as_bytes(prompt)));
}

std::vector<int64_t> draw_parents(const RsaOptions& o, uint32_t problem, int64_t round,
                                  int64_t trace) {
  if (o.continues()) return {trace};
  const RngKey key{o.sampling.seed, stream_of("rsa") + problem, static_cast<uint32_t>(round)};
  std::vector<int64_t> all(static_cast<size_t>(o.traces));
  std::iota(all.begin(), all.end(), 0);
  // The beginning of a shuffle.
  for (int64_t i = 0; i < o.candidates; ++i) {
    const uint64_t index = (static_cast<uint64_t>(trace) << 32) | static_cast<uint64_t>(i);
    const auto offset =
        static_cast<int64_t>(uniform(key, index) * static_cast<double>(o.traces - i));
    std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(i + offset)]);
  }
  all.resize(static_cast<size_t>(o.candidates));
  return all;
}

// A trace as it grows; touched by the engine's thread alone until it has ended.
struct Rsa::Writing {
  Writing(const Tokenizer& t, const RsaOptions& o)
      : tokenizer(t), shown(o.shown_specials), stream(t, o.stop, {.keep_special = true}) {}

  void add(int32_t id) {
    const bool hidden = tokenizer.is_special(id) &&
                        std::find(shown.begin(), shown.end(), tokenizer.token(id)) == shown.end();
    if (!hidden) text += stream.add(id);
  }

  const Tokenizer& tokenizer;
  const std::vector<std::string> shown;
  TextStream stream;
  std::vector<int32_t> tokens;
  std::string text;
};

struct Rsa::Channel {
  struct Event {
    size_t problem;
    int64_t trace;
    EngineEnd end;
    std::shared_ptr<Writing> writing;  // null: it rested
  };

  void push(Event event) {
    const std::lock_guard lock(mutex);
    events.push_back(std::move(event));
    ready.notify_one();
  }

  std::mutex mutex;
  std::condition_variable ready;
  std::deque<Event> events;
  std::atomic<int64_t> new_tokens = 0;
};

Rsa::Rsa(Engine& engine, const Tokenizer& tokenizer, std::vector<RsaProblem> problems,
         const RsaOptions& options, int64_t sequences)
    : engine_(engine),
      tokenizer_(tokenizer),
      options_(options),
      side_by_side_(options.problems > 0
                        ? options.problems
                        : ceil_div(2 * sequences, std::max<int64_t>(1, options.traces))),
      channel_(std::make_shared<Channel>()) {
  check_rsa(options);
  for (size_t i = 0; i < problems.size(); ++i) check(problems[i], i);
  for (RsaProblem& p : problems) {
    const uint32_t draws = draws_of(p.prompt);
    const bool thinking = ChatSession::opens_thinking(tokenizer_.decode(p.prompt));
    RsaTree tree = std::exchange(p.begun, {});
    problems_.push_back(
        {.given = std::move(p), .draws = draws, .thinking = thinking, .tree = std::move(tree)});
  }
  begin_problems();
}

Rsa::~Rsa() { cancel(); }

void Rsa::cancel() {
  for (const uint64_t id : ids_) engine_.cancel(id);
  ids_.clear();
}

int64_t Rsa::new_tokens() const { return channel_->new_tokens; }

int64_t prompt_tokens_without_tails(const RsaProblem& problem, const RsaOptions& o) {
  const auto first = static_cast<int64_t>(problem.prompt.size());
  if (o.rounds == 0 || o.continues()) return first;
  // Tails of a letter each, less these: where nothing is between two line ends, they may be one
  // token.
  const std::vector<std::string> letters(static_cast<size_t>(o.candidates), "x");
  return std::max(first, static_cast<int64_t>(problem.aggregate(letters).size()) - o.candidates);
}

// The longest prompt that a round may have, and a trace after it.
void Rsa::check(const RsaProblem& problem, size_t number) const {
  require(!problem.prompt.empty(), "RSA: problem {} has no prompt", number);
  TEPHRA_ASSERT(std::ssize(problem.begun.rounds) <= options_.rounds,
                "a problem that is solved is not solved again");
  const int64_t tails = options_.rounds > 0 ? options_.candidates * options_.tail_tokens : 0;
  const int64_t longest = prompt_tokens_without_tails(problem, options_) + tails;
  const int64_t room = engine_.room_for(longest);
  if (room >= options_.trace_tokens) return;
  throw Error(Fault::usage,
              format("RSA: a prompt of up to {} tokens (the problem and {} tails of {}) and a "
                     "trace of {} do not fit the context of {}",
                     longest, options_.rounds > 0 ? options_.candidates : 0, options_.tail_tokens,
                     options_.trace_tokens, room + longest - 1),
              "make traces (beta) or tails (tau) shorter, or take fewer candidates");
}

void Rsa::begin_problems() {
  while (begun_ < problems_.size() && static_cast<int64_t>(begun_ - finished_) < side_by_side_) {
    begin_round(begun_++);
  }
}

RsaTrace Rsa::planned(const Work& work, int64_t trace) const {
  RsaTrace t;
  const auto round = static_cast<int64_t>(work.tree.rounds.size());
  if (round == 0) return t;
  t.parents = draw_parents(options_, work.draws, round, trace);
  if (!options_.continues()) return t;
  const RsaTrace& parent = work.tree.rounds.back()[static_cast<size_t>(trace)];
  if (parent.end == EndReason::length) return t;
  const std::vector<int64_t> own = t.parents;
  t = parent;
  t.parents = own;
  t.tokens.clear();
  t.usage = {};
  t.rested = true;
  return t;
}

std::vector<int32_t> Rsa::prompt_of(const Work& work, const RsaTrace& trace) const {
  if (trace.parents.empty()) return work.given.prompt;
  const std::vector<RsaTrace>& before = work.tree.rounds.back();
  if (options_.continues()) {
    return joined_ids(work.given.prompt, before[static_cast<size_t>(trace.parents[0])].tail_ids);
  }
  std::vector<std::string> tails;
  for (const int64_t p : trace.parents) tails.push_back(before[static_cast<size_t>(p)].tail);
  return work.given.aggregate(tails);
}

EngineRequest Rsa::request_for(size_t problem, int64_t trace, const std::vector<int32_t>& prompt) {
  const Work& work = problems_[problem];
  const auto round = static_cast<int64_t>(work.tree.rounds.size());
  auto writing = std::make_shared<Writing>(tokenizer_, options_);
  if (options_.continues() && round > 0) {
    const auto carried = std::span(prompt).subspan(work.given.prompt.size());
    for (const int32_t id : carried) writing->add(id);
  }
  EngineRequest r;
  r.prompt = prompt;
  // Where a tail meets the words around it, there may be a token more than was counted.
  r.max_new_tokens =
      std::min(options_.trace_tokens, engine_.room_for(static_cast<int64_t>(prompt.size())));
  require(r.max_new_tokens >= 1,
          "RSA: a prompt of {} tokens leaves no room for a trace; make tails (tau) shorter",
          prompt.size());
  r.sampling = options_.sampling;
  r.stream = work.draws + static_cast<uint32_t>(round * options_.traces + trace);
  r.end_tokens = options_.end_tokens;
  r.on_token = [c = channel_, writing](const EngineToken& token) {
    ++c->new_tokens;
    writing->tokens.push_back(token.id);
    writing->add(token.id);
    return !writing->stream.stopped_by();
  };
  r.on_end = [c = channel_, writing, problem, trace](const EngineEnd& end) {
    writing->text += writing->stream.finish();
    c->push({problem, trace, end, writing});
  };
  return r;
}

// All prompts of the round are known before any is sent, so the round is begun whole or not.
void Rsa::begin_round(size_t problem) {
  Work& work = problems_[problem];
  std::vector<RsaTrace> round;
  std::vector<EngineRequest> requests;
  for (int64_t i = 0; i < options_.traces; ++i) {
    round.push_back(planned(work, i));
    if (!round.back().rested) {
      requests.push_back(request_for(problem, i, prompt_of(work, round.back())));
    }
  }
  work.open = options_.traces;
  for (int64_t i = 0; i < options_.traces; ++i) {
    if (round[static_cast<size_t>(i)].rested) channel_->push({problem, i, {}, nullptr});
  }
  work.tree.rounds.push_back(std::move(round));
  if (requests.empty()) return;
  for (const uint64_t id : engine_.submit(std::move(requests))) ids_.push_back(id);
}

// The think tags of a chain that lie before its tail, so that what follows is still told from
// reasoning, by the model as by readers. They take their place from the tail; none where it has
// not enough.
std::vector<int32_t> Rsa::lost_tags(const Work& work, std::span<const int32_t> ids) const {
  const int64_t tokens = options_.tail_tokens;
  const std::string whole = tokenizer_.decode(ids);
  const bool opened = trim(whole).starts_with("<think>");
  if (static_cast<int64_t>(ids.size()) <= tokens || (!opened && !work.thinking)) return {};
  const std::string opening = opened ? "<think>\n" : "";
  std::vector<int32_t> tags = tokenizer_.encode(opening);
  const auto kept =
      static_cast<size_t>(tokens) - std::min(tags.size(), static_cast<size_t>(tokens));
  if (whole.find("</think>") < tokenizer_.decode(ids.first(ids.size() - kept)).size()) {
    tags = tokenizer_.encode(opening + "</think>\n\n");
  }
  if (static_cast<int64_t>(tags.size()) >= tokens) tags.clear();
  return tags;
}

void Rsa::fill_tail(Work& work, int64_t trace) const {
  const auto i = static_cast<size_t>(trace);
  RsaTrace& t = work.tree.rounds.back()[i];
  std::vector<int32_t> ids = t.tokens;
  if (options_.continues() && work.tree.rounds.size() > 1) {
    ids = joined_ids(work.tree.rounds[work.tree.rounds.size() - 2][i].tail_ids, t.tokens);
  }
  // What a stop string cut off is not part of the trace.
  if (t.end == EndReason::stopped) ids = tokenizer_.encode(t.text);
  std::vector<int32_t> tags;
  if (options_.continues()) tags = lost_tags(work, ids);
  const int64_t kept = options_.tail_tokens - static_cast<int64_t>(tags.size());
  t.tail = tail_text(tokenizer_, ids, kept);
  t.tail_ids = joined_ids(std::move(tags), last_of(std::move(ids), kept));
}

std::optional<Rsa::Ended> Rsa::next(double seconds) {
  std::unique_lock lock(channel_->mutex);
  if (!channel_->ready.wait_for(lock, std::chrono::duration<double>(seconds),
                                [&] { return !channel_->events.empty(); })) {
    return std::nullopt;
  }
  const Channel::Event event = std::move(channel_->events.front());
  channel_->events.pop_front();
  lock.unlock();

  if (has_error(event.end.reason) || event.end.reason == EndReason::cancelled) {
    cancel();
    if (const auto failure = engine_.failure()) throw *failure;
    const bool failed = has_error(event.end.reason);
    throw Error(failed ? Fault::data : Fault::interrupted,
                failed ? "RSA: a trace failed: " + event.end.error : "RSA: stopped");
  }
  Work& work = problems_[event.problem];
  const auto round = static_cast<int64_t>(work.tree.rounds.size()) - 1;
  RsaTrace& trace = work.tree.rounds.back()[static_cast<size_t>(event.trace)];
  if (event.writing) {
    trace.end = event.end.reason;
    trace.usage = event.end.usage;
    trace.tokens = std::move(event.writing->tokens);
    trace.text = std::move(event.writing->text);
    fill_tail(work, event.trace);
  }
  const Ended ended{event.problem, round, event.trace};
  if (--work.open > 0) return ended;
  if (round < options_.rounds) {
    begin_round(event.problem);
  } else {
    work.finished = true;
    ++finished_;
    begin_problems();
    if (finished()) ids_.clear();
  }
  return ended;
}

std::span<const std::vector<RsaTrace>> Rsa::whole_rounds(size_t problem) const {
  const Work& work = problems_[problem];
  return std::span(work.tree.rounds).first(work.tree.rounds.size() - (work.open > 0 ? 1 : 0));
}

RsaTree Rsa::take(size_t problem) {
  TEPHRA_ASSERT(problems_[problem].finished, "its next round needs what is taken");
  return std::exchange(problems_[problem].tree, {});
}

void Rsa::run() {
  while (!finished()) (void)next(1);
}

}  // namespace tephra
