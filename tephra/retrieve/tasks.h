// SPDX-License-Identifier: Apache-2.0
// Retrieval tasks with known answers, made from a seed: needles in filler, chains of hashes and of
// variables, stories whose answer takes two or three facts, and words to be counted. They follow
// the ideas of RULER, HashHop and BABILong; all texts are made here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tephra {

struct RetrievalTask {
  std::vector<std::string> lines;  // the corpus: one chunk each
  std::string question;
  std::vector<uint32_t> gold;        // the lines that answer it
  std::vector<std::string> counted;  // or the words that do, for questions about counts
};

struct TaskOptions {
  const std::vector<std::string>* filler = nullptr;  // sentences that have nothing to do with it
  int64_t lines = 6000;                              // of filler
  uint64_t seed = 1;
};

enum class StoryWords { babi, other };

// A person took a thing and went somewhere: where is it? Gold: two facts of `events` or so.
RetrievalTask two_fact_story(const TaskOptions& options, int events,
                             StoryWords words = StoryWords::babi);
// Where was it before that? Gold: three facts.
RetrievalTask three_fact_story(const TaskOptions& options, int events,
                               StoryWords words = StoryWords::babi);
// Which lines lead from this hash, in `hops` assignments? No filler: `lines` of other chains.
RetrievalTask hash_hop(const TaskOptions& options, int hops);
// `keys` numbers to be found among `distractors` of the same form, each said `values` times.
struct NeedleShape {
  int keys = 1, values = 1, distractors = 0;
};
RetrievalTask needle(const TaskOptions& options, const NeedleShape& shape);
// Which variables hold this value? Gold: a chain of assignments, among other chains.
RetrievalTask variable_tracking(const TaskOptions& options, int hops, int chains);
// The ten words that stand there most often, in lists of words.
RetrievalTask common_words(const TaskOptions& options);

// A question over a made-up world of firms, people, towns and rivers, a passage about each; no
// filler: all `lines` are of these shapes. Gold: the passages of 2 or 3 hops (tasks_world.cpp).
RetrievalTask invented_world(const TaskOptions& options, int hops);

}  // namespace tephra
