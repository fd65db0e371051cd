// SPDX-License-Identifier: Apache-2.0
// The speed of a tokenizer from small documents to one long line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tephra/text/tokenizer.h"

namespace tephra {

struct TokenizerBenchRow {
  std::string what;   // "documents of 1 kB"
  int64_t bytes = 0;  // of text, in one pass
  int64_t documents = 0;
  int64_t tokens = 0;
  int threads = 1;
  double mb_per_s = 0;      // 10^6 bytes of text a second of wall clock, best pass
  double cpu_mb_per_s = 0;  // a second of this thread's CPU time; 0 where several threads worked
};

struct TokenizerBenchOptions {
  double seconds = 1;     // of passes for each row, at least one pass
  int64_t line_mb = 100;  // the long line; 0 leaves it out
};

// Every pass begins with an empty cache.
std::vector<TokenizerBenchRow> bench_tokenizer(const Tokenizer& tokenizer, std::string_view text,
                                               const TokenizerBenchOptions& options);

// The text without newlines, again and again, up to a size.
std::string one_line(std::string_view text, size_t bytes);

}  // namespace tephra
