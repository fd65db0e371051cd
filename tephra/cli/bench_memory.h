// SPDX-License-Identifier: Apache-2.0
// How well a memory answers questions about time, on a folder of conversations with questions
// (ConversationData, TestData), and how fast it does on a large one that is made up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tephra/base/files.h"

namespace tephra {

struct MemoryScore {
  std::string set;   // time_qs, ambiguous_time_qs, content_time_qs
  std::string type;  // of the question: dates, rel_day, ...
  int64_t items = 0;
  int64_t questions = 0;
  double recall = 0;  // of response numbers, in percent, mean over questions
  double f2 = 0;
};

struct MemoryMiss {
  std::string set, type, conversation, question;
  double recall = 0, f2 = 0;
  std::vector<std::string> explanation;
};

struct MemoryQuality {
  std::vector<MemoryScore> scores;
  std::vector<MemoryMiss> misses;  // questions with a recall below 100
};

// `plain`: content search alone, without the grammar: what the filters are worth.
MemoryQuality score_memory(const Path& data, int64_t k, bool plain);

struct MemorySpeed {
  int64_t turns = 0;
  int64_t file_bytes = 0;
  double add_seconds = 0;  // all turns, in one batch per session
  double open_seconds = 0;
  double index_seconds = 0;
  struct Row {
    std::string question;
    int64_t kept = 0;
    int64_t rows = 0;
    double median_ms = 0;
    double worst_ms = 0;
  };
  std::vector<Row> rows;
};

MemorySpeed time_memory(const Path& file, int64_t turns, int64_t repeats);

}  // namespace tephra
