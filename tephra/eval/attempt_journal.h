// SPDX-License-Identifier: Apache-2.0
// The attempts of `tephra eval` in a journal, so that a run that was killed makes none twice.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "tephra/eval/answer_journal.h"
#include "tephra/eval/problem.h"

namespace tephra {

class AttemptJournal {
 public:
  // As AnswerJournal. Fault::data when a line is no attempt.
  AttemptJournal(const Path& path, const Json& settings, bool overwrite,
                 const std::function<void()>& check_results = {});

  // From now on `options` take what is known of this group of problems and write down the rest,
  // before they tell anybody else. The journal must outlive them.
  void attach(SolveOptions& options, const std::string& group);
  // Of a group, from runs before.
  int64_t known(const std::string& group) const;
  const AnswerJournal& lines() const { return journal_; }
  int64_t unwritten() { return journal_.unwritten(); }
  void remove() { journal_.remove(); }

 private:
  using Key = std::tuple<std::string, int64_t, int64_t>;  // group, problem, number of the attempt

  AnswerJournal journal_;
  std::map<Key, Attempt> known_;
};

}  // namespace tephra
