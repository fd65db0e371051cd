// SPDX-License-Identifier: Apache-2.0
// Continuous batching, one step at a time. Prompts are read in chunks that end at multiples of the
// block size, answers grow by a token per step; the two kinds of pass are kept apart. What a
// request is answered depends on the request alone, to the bit: not on its neighbours, on what the
// cache held, or on whether it was put aside when memory ran out
// (docs/decisions/0021-engine-answers-do-not-depend-on-load.md).
#pragma once

#include <functional>
#include <list>

#include "tephra/infer/block_pool.h"
#include "tephra/infer/engine_request.h"
#include "tephra/infer/paged_state.h"

namespace tephra {

class Scheduler {
 public:
  static constexpr int64_t kLogitRows = 64;   // rows of logits that exist at a time
  static constexpr int64_t kAnswerRows = 64;  // of a pass over answers on a GPU

  // The model must outlive it.
  Scheduler(Model& model, const EngineOptions& options);

  // Fault::usage when it could not be served even alone; nothing is called then. The number names
  // the request; they count from 1.
  uint64_t add(EngineRequest request);
  // Fault::usage likewise; for asking before there is a request.
  void check(const EngineRequest& request) const;
  // The most new tokens that a prompt of this length leaves room for; 0 or less: none.
  int64_t room_for(int64_t prompt_tokens) const;

  void cancel(uint64_t id);  // nothing when it has ended
  void end_all(EndReason reason, const std::string& error = {});
  // One pass over prompts and one over answers; false when there was nothing to do.
  bool step();

  EngineStats stats() const;

 private:
  struct Sequence {
    uint64_t id = 0;
    EngineRequest request;
    std::vector<int32_t> said;
    std::vector<int32_t> blocks;
    int64_t slot = -1;        // -1: waiting
    int64_t fed = 0;          // tokens of prompt and answer that the model has seen
    int64_t prompt_told = 0;  // logprobs of the prompt that the request was told
    TokenCounts counts;
    EngineUsage usage;
    bool started = false;

    int64_t prompt_size() const { return static_cast<int64_t>(request.prompt.size()); }
    int64_t known() const { return prompt_size() + static_cast<int64_t>(said.size()); }
    bool reads_prompt() const { return fed < prompt_size(); }
  };
  using Place = std::list<Sequence>::iterator;
  // A row of a pass after which a sequence may choose a token.
  struct Heard {
    Place sequence;
    int64_t row;
  };
  // A prompt that was read, while others wait with the same: they begin at its end.
  struct ReadPrompt {
    std::vector<int32_t> prompt;
    std::vector<int32_t> blocks;  // held; with the last is the fixed state after the last token
    Tensor h_1H;                  // of the last token
    std::vector<Heard> begun = {};
  };
  // How a request would begin.
  struct Beginning {
    bool waits = false;  // for a prompt that is being read
    ReadPrompt* read = nullptr;
    int64_t blocks_needed = 0, blocks_found_idle = 0;
  };

  void admit();
  Beginning beginning_of(const Sequence& s);
  void begin(Place p, const Beginning& how);
  void begin_at_end(Sequence& s, const ReadPrompt& read);
  bool shares(const Sequence& s) const;
  bool waits_for_same_prompt(const Sequence& s, int64_t known_blocks) const;
  bool is_waited_for(const std::vector<int32_t>& prompt) const;
  void keep_read_prompt(const Sequence& s, const Tensor& h_1H);
  void choose_after_read_prompts();
  // Whether there were any to forget.
  bool forget_read_prompts(bool all);  // else those that nobody waits for
  bool forget_other_prompts(const ReadPrompt* own);
  bool forget_where(const std::function<bool(const ReadPrompt&)>& useless);
  void prefill_pass();
  void decode_pass();
  bool grow(Place p);  // a block for its next token; false: it was put aside itself
  void preempt(Place p);
  int64_t next_cut(const Sequence& s, int64_t room) const;
  void remember_blocks(Sequence& s, int64_t begin);
  void decode(std::span<const Place> places);
  void decode_steps(std::span<const Place> places);  // by the model's own kernels
  void decode_by_ops(std::span<const Place> places);
  // At least `least_rows` rows are computed.
  Tensor run(std::span<const Place> places, const std::vector<std::vector<int32_t>>& tokens,
             int64_t least_rows);

  // False when logits are not numbers.
  bool tell_prompt_logprobs(Sequence& s, const Tensor& h_NH, int64_t row, int64_t count);
  void choose(const Tensor& h_NH, const std::vector<Heard>& heard);
  // The tokens of some sequences, from their logits, a row each, on the host.
  void choose_from(const Tensor& logits, std::span<const Heard> heard);
  void choose_from(DecodeStep& step, std::span<const Heard> heard);
  void choose_from_rows(const Tensor& logits, std::span<const Heard> heard);  // of the device
  EngineToken pick(Sequence& s, std::span<float> logits, std::span<const uint64_t> allowed) const;
  void take_token(Place p, const EngineToken& token);
  void finish(Place p, EndReason reason, const std::string& error = {});
  void let_go(Sequence& s);  // of its blocks and slot
  bool is_end(const Sequence& s, int32_t token) const;
  int64_t most_tokens() const;

  Model& model_;
  EngineOptions options_;
  BlockPool pool_;
  // Rows that a pass over prompts, one over answers, and their logits have at least: on a GPU the
  // library's choice of kernels goes by their number, so it never changes. On a CPU it is told.
  int64_t prompt_rows_, answer_rows_, logit_rows_;
  PagedState state_;
  Tensor rows_room_;  // on the host, for rows of logits
  std::vector<int64_t> free_slots_;
  std::list<Sequence> running_;  // by arrival
  std::list<Sequence> waiting_;  // by arrival
  std::list<ReadPrompt> read_prompts_;
  uint64_t next_id_ = 1;
  EngineStats totals_;
};

}  // namespace tephra
