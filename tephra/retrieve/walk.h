// SPDX-License-Identifier: Apache-2.0
// Personalised PageRank from a question over sharpened similarities: edges are cosines to a power,
// so that a walk follows what two chunks truly share (docs/retrieval.md). The graph is never held:
// edges are found, from the postings, for the chunks that the walk visits most.
#pragma once

#include <vector>

#include "tephra/retrieve/scores.h"

namespace tephra {

struct WalkOptions {
  double restart = 0.3;           // probability of going back to the question
  double sharpness = 3;           // power of the cosines; 1 is plain similarity
  double question_sharpness = 3;  // the same of the question's own edges
  int iterations = 18;            // at most
  int64_t seeds = 256;            // chunks that the question leads to
  int64_t visits = 64;            // chunks whose edges are found; all of them: the exact walk
  int64_t neighbours = 128;       // edges kept of each, the strongest
  int64_t postings = 1 << 15;     // read for each chunk, rarest terms first (one term at least)
  double names = 0.2;             // of the steps: 0 by cosine, 1 over names as nodes of their own
  double fusion = 0;  // of the question's own edges: 0 by cosine, 1 by rank fusion with BM25
};

// The chunks that the walk reached, by chunk; the scores sum to at most 1.
std::vector<ScoredChunk> walk_from(const Index& index, const QueryVector& query,
                                   const WalkOptions& options);

}  // namespace tephra
