// SPDX-License-Identifier: Apache-2.0
// Results of evaluations as tables for people and as JSON.
#pragma once

#include "tephra/base/json.h"
#include "tephra/eval/environments.h"
#include "tephra/eval/perplexity.h"
#include "tephra/eval/questions.h"

namespace tephra {

// One row per kind and level, and one for all of them where there are several.
std::string environment_table(std::span<const EnvironmentScore> scores);
std::string question_table(const std::vector<std::pair<std::string, Score>>& files);
std::string perplexity_table(const std::vector<std::pair<std::string, Perplexity>>& files);

Json to_json(const Score& score);
Json to_json(const Perplexity& perplexity);
// {"rows": [...], "overall": {...}}
Json to_json(std::span<const EnvironmentScore> scores);

// Adds how answers are drawn and where they end: temperature, top_k, top_p, min_p, seed, stop.
void put_sampling(Json& json, const Sampling& sampling, std::span<const std::string> stop);

// The first attempts that went wrong, at most `most`.
std::string wrong_attempts(std::span<const Problem> problems, int64_t most);
Json wrong_attempts_json(std::span<const Problem> problems, int64_t most);

// One line per attempt; each object begins with the fields of `head`.
std::string attempts_jsonl(std::span<const Problem> problems,
                           const std::function<Json(size_t problem)>& head);

}  // namespace tephra
