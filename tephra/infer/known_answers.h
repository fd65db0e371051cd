// SPDX-License-Identifier: Apache-2.0
// What others published of a released model's answers, so that whoever has its weights can check
// this program with one command.
#pragma once

#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/infer/verify.h"

namespace tephra {

struct KnownAnswers {
  std::string name;
  std::string source;  // who computed them, in what arithmetic
  std::vector<int32_t> ids;
  std::vector<int32_t> likeliest;                // token after each of `ids`
  std::vector<int32_t> continuation;             // greedy, after all of `ids`
  std::vector<std::vector<double>> last_logits;  // the last columns of the last rows of `ids`
  // Two logits this close may change places in the published arithmetic.
  double margin = 0.5;
};

// By name ("zaya1-8b"), or from a JSON file (docs/formats/known-answers.md).
KnownAnswers known_answers(const std::string& name_or_file);

// The published tokens against the model's choices, along the published text, so that one flip does
// not change what follows; the published logits; and, in the notes, how far a greedy run of its own
// goes along with the published one.
VerifyReport verify_known(Model& model, const KnownAnswers& known);

}  // namespace tephra
