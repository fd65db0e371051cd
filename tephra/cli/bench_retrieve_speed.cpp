// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tephra/base/clock.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_retrieve.h"
#include "tephra/cli/sample_text.h"
#include "tephra/cli/sqlite_peer.h"
#include "tephra/core/rng.h"
#include "tephra/retrieve/index_builder.h"
#include "tephra/retrieve/retrieve.h"
#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

constexpr double kBytesAWord = 7.93;  // of made text
constexpr size_t kAppendBytes = 7930;
constexpr size_t kQuestionWords = 6;

// Questions of words that stand together somewhere.
std::vector<std::string> questions_of(const Index& index, int64_t count) {
  const RngKey key{.seed = 1, .stream = stream_of("questions")};
  std::vector<std::string> questions;
  for (uint64_t i = 0; questions.size() < static_cast<size_t>(count); ++i) {
    const auto chunk = static_cast<uint32_t>(uniform(key, i) * static_cast<double>(index.chunks()));
    std::string question = "What about";
    size_t words = 0;
    WordReader reader(index.text(chunk));
    for (Word word; words < kQuestionWords && reader.next(word);) {
      if (is_stop_word(word.hash)) continue;
      question.append(" ").append(word.text);
      ++words;
    }
    if (words > 2 || i > 1000) questions.push_back(question);
  }
  return questions;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class F>
std::vector<double> times_ms(const std::vector<std::string>& questions, F&& ask) {
  ask(questions[0]);  // touches the pages
  std::vector<double> times;
  for (const std::string& q : questions) times.push_back(1e3 * seconds_of([&] { ask(q); }));
  return times;
}

void measure_sqlite(const Index& index, const std::vector<std::string>& questions,
                    RetrieveSpeedRow& row) {
  const auto peer = SqlitePeer::open();
  if (!peer) return;
  std::vector<std::string_view> chunks;
  for (uint32_t c = 0; c < index.chunks(); ++c) chunks.push_back(index.text(c));
  row.sqlite_index_seconds = seconds_of([&] { peer->add(chunks); });
  row.sqlite_ms = median(times_ms(questions, [&](const auto& q) { peer->query(q, 100); }));
}

RetrieveSpeedRow measure(int64_t words, const RetrieveSpeedOptions& o) {
  RetrieveSpeedRow row;
  const std::string text = sample_text(
      static_cast<size_t>(kBytesAWord * static_cast<double>(words)), static_cast<uint64_t>(words));
  const int threads = num_threads();
  std::optional<Index> index;
  set_num_threads(1);
  row.index_seconds = seconds_of([&] {
    IndexBuilder builder(ChunkOptions{.kind = ChunkKind::sentences});
    builder.add("made", text);
    index = builder.finish();
  });
  set_num_threads(threads);
  const std::string more = sample_text(kAppendBytes, 7);
  row.append_seconds = seconds_of([&] {
    IndexBuilder builder(*index);
    builder.add("more", more);
    (void)builder.finish();
  });
  row.words = index->words();
  row.chunks = index->chunks();
  row.bytes_a_word = static_cast<double>(index->bytes()) / static_cast<double>(row.words);

  const std::vector<std::string> questions = questions_of(*index, o.questions);
  const std::vector<double> times =
      times_ms(questions, [&](const auto& q) { retrieve(*index, q, {}); });
  row.query_ms = median(times);
  row.query_worst_ms = *std::max_element(times.begin(), times.end());
  row.bm25_ms = median(times_ms(
      questions, [&](const auto& q) { retrieve(*index, q, {.method = RankMethod::bm25}); }));
  if (words <= o.sqlite_words) measure_sqlite(*index, questions, row);
  return row;
}

}  // namespace

std::vector<RetrieveSpeedRow> bench_retrieve_speed(const RetrieveSpeedOptions& options) {
  std::vector<RetrieveSpeedRow> rows;
  for (const int64_t words : options.sizes) {
    stop_if_interrupted();
    log_info("speed: a corpus of {} words", human_count(words));
    rows.push_back(measure(words, options));
  }
  return rows;
}

}  // namespace tephra
