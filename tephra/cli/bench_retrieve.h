// SPDX-License-Identifier: Apache-2.0
// How well and how fast passages are found, beside TF-IDF, BM25 and SQLite's full-text index on the
// same corpora and questions.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/retrieve/walk.h"

namespace tephra {

constexpr std::array<size_t, 5> kRecallAt = {5, 10, 20, 50, 100};

struct RetrieveQualityRow {
  std::string set, method;
  int64_t questions = 0;
  std::array<double, kRecallAt.size()> recall{};  // per cent of the gold chunks among the first k
};

struct RetrieveQualityOptions {
  std::optional<Path> multihop;  // folder of NAME.json and NAME_corpus.json
  std::optional<Path> essays;    // filler: a text, or {"text": ...} a line; without it, made text
  int64_t stories = 200;         // of each kind
  int64_t tasks = 20;            // of each other kind
  int64_t lines = 6000;          // of filler
  WalkOptions walk;              // of mixpr
};

std::vector<RetrieveQualityRow> bench_retrieve_quality(const RetrieveQualityOptions& options);

struct RetrieveSpeedRow {
  int64_t words = 0, chunks = 0;
  double index_seconds = 0;   // on one thread
  double append_seconds = 0;  // of a thousand words more, all threads
  double bytes_a_word = 0;    // of the index, its text included
  double query_ms = 0;        // median, all threads
  double query_worst_ms = 0;
  double bm25_ms = 0;               // median
  double sqlite_index_seconds = 0;  // 0: not measured
  double sqlite_ms = 0;
};

struct RetrieveSpeedOptions {
  std::vector<int64_t> sizes = {10'000, 100'000, 1'000'000, 10'000'000};  // words
  int64_t questions = 20;
  int64_t sqlite_words = 1'000'000;  // larger corpora are not given to SQLite
};

std::vector<RetrieveSpeedRow> bench_retrieve_speed(const RetrieveSpeedOptions& options);

}  // namespace tephra
