// SPDX-License-Identifier: Apache-2.0
// Markovian RSA (ZAYA1-8B's report, section VI): N traces of at most beta tokens; then, round by
// round, N prompts of the problem and the last tau tokens of C traces drawn from the round before.
// No rounds are parallel sampling, tau = beta is full recursive self-aggregation, and C = 1 is
// Delethink: each trace goes on after its own tail (docs/rsa.md).
//
// The tree is a function of the model, the problem, the options and the seed, to the bit, whatever
// else the engine is doing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/infer/engine.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct RsaOptions {
  int64_t traces = 16;       // N, of each round
  int64_t candidates = 4;    // C, tails in a prompt of rounds 1 to T
  int64_t rounds = 2;        // T, after the first traces
  int64_t trace_tokens = 0;  // beta; 0: to be fitted
  int64_t tail_tokens = 0;   // tau; 0: likewise
  Sampling sampling{.temperature = 1};
  std::vector<std::string> stop;            // a trace ends before any of these texts
  std::vector<int32_t> end_tokens;          // beside the model's own
  std::vector<std::string> shown_specials;  // special tokens that are part of the text
  int64_t problems = 0;  // worked on side by side; 0: enough to keep the engine busy

  bool continues() const { return candidates == 1; }
};

// With beta and tau filled in where they are 0: 16,384 and 4,096 as the paper recommends, or what
// fits a context of `room` tokens beside a prompt of `prompt` tokens without its tails; tau is at
// most half of beta then.
RsaOptions fitted(RsaOptions options, int64_t room, int64_t prompt);

// Why a prompt of so many tokens and its tails leave no room for any trace; nothing when they do.
// To be asked before fitted, which then could only make up a trace of one token.
std::optional<Error> no_room_for_a_trace(const RsaOptions& options, int64_t room, int64_t prompt);

// "16 traces of at most 1024 tokens, then 2 rounds with 4 tails of 512 tokens".
std::string to_text(const RsaOptions& options);

// Fault::usage naming the setting that makes no sense.
void check_rsa(const RsaOptions& options);

struct RsaTrace {
  std::vector<int64_t> parents;  // traces of the round before, in the order of the prompt
  std::vector<int32_t> tokens;   // new ones
  // Of the new tokens; when C = 1, of the carried ones before them, too.
  std::string text;
  std::vector<int32_t> tail_ids;  // what the next round may see; when C = 1, after lost think tags
  std::string tail;
  EndReason end = EndReason::length;
  bool rested = false;  // C = 1 and its parent had ended: there was nothing to go on with
  EngineUsage usage;
};

struct RsaTree {
  std::vector<std::vector<RsaTrace>> rounds;  // T + 1 of them when it is whole
};

struct RsaProblem {
  std::vector<int32_t> prompt;  // what the first traces continue
  // The prompt with the tails of some traces in it. Not asked for when C = 1.
  std::function<std::vector<int32_t>(std::span<const std::string> tails)> aggregate;
  // Whole rounds that an earlier run has made, to go on with. Of the last one the tails are needed,
  // when C = 1 their ids.
  RsaTree begun = {};
};

struct RsaTokens {
  int64_t prompt = 0, cached = 0, generated = 0;

  RsaTokens& operator+=(const RsaTokens& more);
};
// Of all traces of a round, or of all rounds.
RsaTokens tokens_of(std::span<const RsaTrace> round);
RsaTokens tokens_of(const RsaTree& tree);

// The C different traces whose tails a trace is given, in the order of its prompt.
std::vector<int64_t> draw_parents(const RsaOptions& options, uint32_t problem, int64_t round,
                                  int64_t trace);
// What tells the draws of one problem from those of another: its prompt, not its place in a file.
uint32_t draws_of(std::span<const int32_t> prompt);

// Tokens of the longest prompt of a problem, without the tails in it.
int64_t prompt_tokens_without_tails(const RsaProblem& problem, const RsaOptions& options);

// Several problems on their way through the engine. One thread asks it for news. The engine and
// what the problems' functions refer to must outlive it, the tokenizer also the engine.
class Rsa {
 public:
  // Fault::usage when a problem could never be served; then nothing is begun.
  Rsa(Engine& engine, const Tokenizer& tokenizer, std::vector<RsaProblem> problems,
      const RsaOptions& options, int64_t sequences = 64);
  ~Rsa();  // cancels what has not ended
  Rsa(const Rsa&) = delete;
  Rsa& operator=(const Rsa&) = delete;

  struct Ended {
    size_t problem = 0;
    int64_t round = 0, trace = 0;
  };
  // The next trace that has ended; nothing after so many seconds without. Begins the rounds and
  // the problems that follow. Fault::internal when the engine fails a trace, Fault::interrupted
  // when it is stopped: the others are cancelled then.
  std::optional<Ended> next(double seconds);
  bool finished() const { return finished_ == problems_.size(); }
  bool finished(size_t problem) const { return problems_[problem].finished; }
  void run();  // to the end

  const RsaTree& tree(size_t problem) const { return problems_[problem].tree; }
  // Without the round that is under way: what there is to keep of a problem that is left.
  std::span<const std::vector<RsaTrace>> whole_rounds(size_t problem) const;
  RsaTree take(size_t problem);  // of a finished problem, which then has none
  int64_t new_tokens() const;    // of all so far, unfinished traces included

 private:
  struct Channel;
  struct Writing;
  struct Work {
    RsaProblem given;
    uint32_t draws = 0;
    bool thinking = false;  // the prompt ends inside of a think block
    RsaTree tree;
    int64_t open = 0;  // traces of the round that have not ended
    bool finished = false;
  };

  void check(const RsaProblem& problem, size_t number) const;
  void begin_problems();
  void begin_round(size_t problem);
  RsaTrace planned(const Work& work, int64_t trace) const;
  EngineRequest request_for(size_t problem, int64_t trace, const std::vector<int32_t>& prompt);
  std::vector<int32_t> prompt_of(const Work& work, const RsaTrace& trace) const;
  void fill_tail(Work& work, int64_t trace) const;  // of the newest round
  std::vector<int32_t> lost_tags(const Work& work, std::span<const int32_t> ids) const;
  void cancel();

  Engine& engine_;
  const Tokenizer& tokenizer_;
  RsaOptions options_;
  int64_t side_by_side_;
  std::vector<Work> problems_;
  size_t begun_ = 0, finished_ = 0;
  std::vector<uint64_t> ids_;  // of requests that may still run
  std::shared_ptr<Channel> channel_;
};

}  // namespace tephra
