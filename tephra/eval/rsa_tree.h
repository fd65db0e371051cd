// SPDX-License-Identifier: Apache-2.0
// A finished Markovian RSA as a JSON document and as one HTML page that needs nothing else.
// docs/rsa.md describes the document.
#pragma once

#include "tephra/base/json.h"
#include "tephra/eval/rsa_questions.h"

namespace tephra {

struct RsaReport {
  std::string model;
  RsaOptions options;
  std::span<const RsaQuestion> questions;
  std::span<const RsaOutcome> outcomes;  // of as many questions, from the first on
  double seconds = 0;
  int64_t asked = static_cast<int64_t>(outcomes.size());  // more, when it was ended early
  Json form = {};  // further options: how questions were put and answers read
};

// Every trace: its parents, text, tail, answer and tokens. The same run gives the same bytes: what
// the clock and the cache said is left out.
Json rsa_tree_json(const RsaReport& report);
// With that, but without the traces, for a result that is read at once.
Json rsa_summary_json(const RsaReport& report);
// `tree` as rsa_tree_json made it. Of many questions, and of long ones, the page shows the first
// that fit, and says so: at most a hundred, and so many bytes.
std::string rsa_tree_page(const Json& tree, size_t most_bytes = size_t{64} << 20);

// A round as a run that was killed needs it to go on: {"traces"}, with all but the new tokens.
// Fault::data when it is no whole round of these options.
Json rsa_round_json(std::span<const RsaTrace> traces, const RsaOptions& options);
std::vector<RsaTrace> read_rsa_round(const Json& json, const RsaOptions& options, int64_t round,
                                     const std::string& where);

Json rsa_options_json(const RsaOptions& options, const Json& form);
Json to_json(const RsaTokens& tokens);
Json to_json(const RsaScore& score);
// One row each for a single trace, voting over the first round, and each later round.
std::string rsa_score_table(const RsaScore& score);
std::string rsa_vote_table(const RsaQuestion& question, const RsaOutcome& outcome);

}  // namespace tephra
