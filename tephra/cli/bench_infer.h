// SPDX-License-Identifier: Apache-2.0
// The speed of a model that generates, beside what the machine could do at best: the bytes that a
// decoded token must read, against the memory's read bandwidth; the operations that a prompt takes,
// against the float matrix product's peak.
#pragma once

#include <string>

#include "tephra/base/json.h"
#include "tephra/device/ceilings.h"
#include "tephra/models/model.h"

namespace tephra {

struct InferBench {
  std::string model;      // folder
  int64_t context = 128;  // tokens in the cache before the timed ones
  int64_t tokens = 32;    // timed: decoded ones, or those of the prompt
  int64_t batch = 1;
  double ceiling_seconds = 2;  // for the machine's ceilings, before and again after
};

// What decoding one token of each sequence reads.
struct DecodeBytes {
  double packed = 0;  // quantised weights
  double other = 0;   // all other weights
  double cache = 0;   // keys and values

  double all() const { return packed + other + cache; }
};

struct InferResult {
  double load_seconds = 0;
  int64_t file_bytes = 0;
  double first_pass_seconds = 0;  // the first one, with whatever had to be read from disk
  double best_seconds = 0, median_seconds = 0;  // of one step, or of the whole prompt
  DecodeBytes bytes;                            // of a step
  double flops = 0;                             // of the prompt
  double ceiling = 0;                           // bytes or operations per second
  double load_average = 0;
};

InferResult bench_decode(const InferBench& options);
InferResult bench_prefill(const InferBench& options);

}  // namespace tephra
