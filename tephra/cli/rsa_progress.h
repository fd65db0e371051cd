// SPDX-License-Identifier: Apache-2.0
// How far `tephra rsa` is: a live line on a terminal, with a bar and the time left where there are
// many questions; elsewhere a line for each round of a single question, or every ten seconds of
// many. Silent when the log is quiet.
#pragma once

#include "tephra/base/progress.h"
#include "tephra/infer/rsa.h"

namespace tephra {

class RsaProgress {
 public:
  // `answered` of the questions were, and `rounds` of all of them are whole, before it began.
  RsaProgress(int64_t questions, int64_t answered, int64_t rounds, const RsaOptions& options);
  ~RsaProgress();
  RsaProgress(const RsaProgress&) = delete;
  RsaProgress& operator=(const RsaProgress&) = delete;

  void ended(const Rsa::Ended& trace, int64_t new_tokens);
  void answered() { ++answered_; }  // a question, with its last trace
  void show(int64_t new_tokens);    // now and then, also when nothing has ended

 private:
  std::string text_of_round(int64_t new_tokens, double now) const;
  ProgressState state(int64_t new_tokens, double now) const;
  void round_is_over(int64_t new_tokens, double now);

  const int64_t questions_, known_rounds_, traces_, rounds_;
  const bool live_;
  const double start_;
  double next_ = 0;
  int64_t done_ = 0;  // traces
  int64_t answered_;
  std::vector<int64_t> in_round_;  // of them, by round
  // Of the round that is on its way, with a single question.
  int64_t round_, tokens_before_ = 0;
  double round_start_;
};

}  // namespace tephra
