// SPDX-License-Identifier: Apache-2.0
// The speed of a model that generates, beside what the machine could do at best: the bytes that a
// decoded token must read, against the memory's read bandwidth; the operations that a prompt takes,
// against the float matrix product's peak; a cold start, against the disk.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/base/large_pages.h"
#include "tephra/device/ceilings.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/models/model.h"

namespace tephra {

struct InferBench {
  std::string model;  // folder; on a GPU also a preset, with random weights
  int64_t bits = 0;   // of a preset's weights, 8 or 4; 0: bf16
  std::string device = "auto";
  std::string weights = "auto";  // --weights, on the CPU
  int64_t context = 128;         // tokens in the cache before the timed ones
  int64_t tokens = 32;           // timed: decoded ones, or those of the prompt
  int64_t batch = 1;
  double ceiling_seconds = 2;  // for the machine's ceiling: between the steps, or before and after
  bool cold = false;           // forget the files first, and time the start beside the disk
  bool profile = false;        // time every kernel; of decoding on a GPU, one by one
  int64_t chunk = 0;           // tokens of a prompt in one pass; 0: 256, on a GPU 16,384
};

// What decoding one token of each sequence reads.
struct DecodeBytes {
  double packed = 0;  // quantised weights
  double other = 0;   // all other weights
  double cache = 0;   // keys and values

  double all() const { return packed + other + cache; }
};

// A start with nothing of the files in memory.
struct ColdStart {
  double load_seconds = 0, first_token_seconds = 0;  // the second: loading, and one token
  int64_t disk_bytes = 0;                            // that it read
  // Bytes per second of plain reads of the same files. A virtual disk's host may keep what was read
  // first, so the start is fairly compared with the reads behind it.
  double disk_before = 0, disk_after = 0;
};

// What the kernels of one name took, of a step or a prompt.
struct KernelCost {
  std::string name;
  double seconds = 0;
  double launches = 0;
};

// Bytes per second of a step, and of plain reads right before and after it.
struct StepReads {
  double step = 0;
  double plain = 0;
};

struct InferResult {
  std::string device;        // of a GPU its name; empty: the CPU
  double alone_seconds = 0;  // of a step, when steps follow each other without the host; 0: never
  std::optional<ColdStart> cold;
  double load_seconds = 0;
  int64_t weight_bytes = 0, peak_bytes = 0;  // of a GPU's memory: the weights, and all at most
  int64_t file_bytes = 0;
  int64_t memory_bytes = 0;        // of weights that do not stay in the files, on the CPU
  std::optional<PageSizes> pages;  // of the weights on the CPU, after the steps
  double first_pass_seconds = 0;   // the first one, with whatever had to be read from disk
  double best_seconds = 0, median_seconds = 0;  // of one step, or of the whole prompt
  DecodeBytes bytes;                            // of a step
  double flops = 0;                             // of the prompt
  // Bytes or operations per second. A machine's memory is not the same from one second to the next,
  // least of all a virtual one's: it is read between the steps.
  double ceiling = 0;               // the best
  double median_ceiling = 0;        // of the memory
  std::vector<StepReads> steps;     // on the CPU, in the order of time
  std::vector<KernelCost> kernels;  // of a step, the longest first; only if asked for
  double load_average = 0;
};

// Of the steps, each beside the reads around it; where they were not taken, of the medians.
double median_share(const InferResult& result);

// Both run where options.device says.
InferResult bench_decode(const InferBench& options);
InferResult bench_prefill(const InferBench& options);

// In bf16 on this GPU (bench_infer_gpu.cpp).
InferResult bench_decode_on(const InferBench& options, Device device);
InferResult bench_prefill_on(const InferBench& options, Device device);

// Random tokens; `stream` names the sequence.
std::vector<int32_t> random_ids(const Model& model, int64_t count, uint32_t stream);
// The fastest and the median of these.
void summarise(std::vector<double>& seconds, InferResult& result);
// Keys and values that `batch` tokens read behind `length` others.
double cache_bytes(Model& model, int64_t length, int64_t batch);
// Weights that one step reads: of experts those that were chosen, of an embedding that is no output
// projection next to nothing. distinct(layer): experts that were chosen in that layer.
DecodeBytes weight_bytes(const std::vector<ParameterSpec>& specs, const ParameterStore& store,
                         const std::function<int64_t(int64_t)>& distinct);

}  // namespace tephra
