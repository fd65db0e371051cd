// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_tokenizer.h"

#include <ctime>

#include <algorithm>

#include "tephra/base/clock.h"
#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"

namespace tephra {
namespace {

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::vector<std::string_view> cut(std::string_view text, size_t bytes) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    size_t end = std::min(bytes, text.size());
    while (end < text.size() && continues(text[end])) ++end;
    documents.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return documents;
}

// Best pass of at least one within the time.
void time_passes(TokenizerBenchRow& row, double seconds, FunctionRef<int64_t()> pass) {
  double wall = 0, cpu = 0;
  const double start = steady_seconds();
  do {
    stop_if_interrupted();
    const double cpu_before = thread_cpu_seconds();
    const double before = steady_seconds();
    row.tokens = pass();
    const double took = steady_seconds() - before;
    const double worked = thread_cpu_seconds() - cpu_before;
    wall = wall == 0 ? took : std::min(wall, took);
    cpu = cpu == 0 ? worked : std::min(cpu, worked);
  } while (steady_seconds() - start < seconds);
  const double mb = 1e-6 * static_cast<double>(row.bytes);
  row.mb_per_s = mb / wall;
  row.cpu_mb_per_s = row.threads == 1 ? mb / cpu : 0;
}

TokenizerBenchRow bench_encode(const Tokenizer& tokenizer, std::string what,
                               const std::vector<std::string_view>& documents, double seconds) {
  TokenizerBenchRow row{.what = std::move(what),
                        .documents = static_cast<int64_t>(documents.size())};
  for (const std::string_view d : documents) row.bytes += static_cast<int64_t>(d.size());
  std::vector<int32_t> ids;
  time_passes(row, seconds, [&] {
    Encoder encoder(tokenizer);
    int64_t tokens = 0;
    for (const std::string_view document : documents) {
      ids.clear();
      encoder.encode(document, ids);
      tokens += static_cast<int64_t>(ids.size());
    }
    return tokens;
  });
  return row;
}

TokenizerBenchRow bench_batch(const Tokenizer& tokenizer, std::string_view text, double seconds) {
  const std::vector<std::string_view> documents = cut(text, 10'000);
  TokenizerBenchRow row{.what = "documents of 10 kB, all threads",
                        .bytes = static_cast<int64_t>(text.size()),
                        .documents = static_cast<int64_t>(documents.size()),
                        .threads = num_threads()};
  time_passes(row, seconds, [&] {
    int64_t tokens = 0;
    for (const auto& ids : encode_batch(tokenizer, documents)) {
      tokens += static_cast<int64_t>(ids.size());
    }
    return tokens;
  });
  return row;
}

TokenizerBenchRow bench_decode(const Tokenizer& tokenizer, std::string_view text, double seconds) {
  const std::vector<int32_t> ids = tokenizer.encode(text.substr(0, cut(text, 1'000'000)[0].size()));
  TokenizerBenchRow row{.what = "decoding", .documents = 1};
  row.bytes = static_cast<int64_t>(tokenizer.decode(ids).size());
  time_passes(row, seconds, [&] {
    tokenizer.decode(ids);
    return static_cast<int64_t>(ids.size());
  });
  return row;
}

}  // namespace

std::string one_line(std::string_view text, size_t bytes) {
  std::string line;
  line.reserve(bytes + text.size());
  while (line.size() < bytes) {
    for (const char c : text) line += c == '\n' || c == '\r' ? ' ' : c;
  }
  while (bytes > 0 && continues(line[bytes])) --bytes;
  line.resize(bytes);
  return line;
}

std::vector<TokenizerBenchRow> bench_tokenizer(const Tokenizer& tokenizer, std::string_view text,
                                               const TokenizerBenchOptions& o) {
  std::vector<TokenizerBenchRow> rows;
  const auto encode = [&](std::string what, const std::vector<std::string_view>& documents) {
    rows.push_back(bench_encode(tokenizer, std::move(what), documents, o.seconds));
  };
  encode("documents of 1 kB", cut(text, 1'000));
  encode("documents of 10 kB", cut(text, 10'000));
  encode("documents of 100 kB", cut(text, 100'000));
  encode("the text as one document", {text});
  if (o.line_mb > 0) {
    const std::string line = one_line(text, static_cast<size_t>(o.line_mb) * 1'000'000);
    encode("one line of " + std::to_string(o.line_mb) + " MB", {line});
  }
  rows.push_back(bench_batch(tokenizer, text, o.seconds));
  rows.push_back(bench_decode(tokenizer, text, o.seconds));
  return rows;
}

}  // namespace tephra
