// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_infer.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "tephra/autograd/tape.h"
#include "tephra/base/clock.h"
#include "tephra/base/files.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/cli/cold_files.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/random_model.h"
#include "tephra/core/rng.h"
#include "tephra/core/trace.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/device/kernel_times.h"
#include "tephra/device/machine.h"
#include "tephra/device/memory.h"
#include "tephra/infer/decoder.h"
#include "tephra/models/checkpoint.h"

namespace tephra {
namespace {

// Tokens of a prompt in one forward pass.
int64_t chunk_of(const InferBench& o) { return o.chunk > 0 ? o.chunk : 256; }

// A preset has no folder: its weights are drawn where there is a GPU.
Device bench_device(const InferBench& o) {
  const Device device = parse_device(o.device);
  check_bits(o.model, o.bits);
  if (!is_preset(o.model)) return device;
  require(device.kind == Device::Kind::gpu,
          "--model {}: a preset is measured on a GPU; on the CPU give a folder (`tephra checkpoint "
          "random` makes one)",
          o.model);
  return device;
}

std::vector<Path> weight_files(const std::string& path) {
  const TensorFolder folder = TensorFolder::open(path);
  std::vector<Path> files;
  for (const SafetensorsFile& file : folder.files()) files.push_back(file.path());
  return files;
}

std::unique_ptr<Model> load_mapped(const InferBench& o) {
  return load_model(o.model,
                    {.mapped = true, .place = place_for(o.weights), .copy_small_pages = true});
}

ColdStart cold_start(const InferBench& o) {
  const std::vector<Path> files = weight_files(o.model);
  ColdStart cold;
  forget_cached(files);
  cold.disk_before = read_speed(files);
  forget_cached(files);
  const int64_t before = disk_bytes_read();
  const double start = steady_seconds();
  {
    const auto model = load_mapped(o);
    cold.load_seconds = steady_seconds() - start;
    Decoder decoder(*model, 1, 1);
    model->logits(decoder.advance({1}));
    cold.first_token_seconds = steady_seconds() - start;
  }
  cold.disk_bytes = disk_bytes_read() - before;
  forget_cached(files);
  cold.disk_after = read_speed(files);
  return cold;
}

struct Loaded {
  ModelFolder folder;
  std::unique_ptr<Model> model;
};

Loaded load(const InferBench& o, InferResult& result) {
  for (const Path& file : weight_files(o.model)) {
    result.file_bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  }
  if (o.cold) result.cold = cold_start(o);
  const double start = steady_seconds();
  Loaded loaded{open_model_folder(o.model), load_mapped(o)};
  result.load_seconds = steady_seconds() - start;
  result.memory_bytes =
      memory_use()[static_cast<size_t>(Purpose::weights)].bytes + copied_file_bytes();
  return loaded;
}

std::optional<PageSizes> weight_pages(const ModelFolder& folder, const ParameterStore& store) {
  PageSizes all;
  for (const ParameterSpec& spec : folder.kind->parameters(folder.config, folder.where)) {
    const Weight weight = store.weight(spec.name);
    const Tensor& bytes = weight.is_packed() ? weight.packed().blocks() : weight.tensor();
    const auto sizes = page_sizes(
        {static_cast<const std::byte*>(bytes.raw()), static_cast<size_t>(bytes.bytes())});
    if (!sizes) return {};
    all.mapped += sizes->mapped;
    all.large += sizes->large;
  }
  return all;
}

// The likeliest token of each row.
std::vector<int32_t> likeliest(const Model& model, const Tensor& logits) {
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < logits.rows(); ++r) {
    const float* row = logits.row<float>(r);
    ids.push_back(static_cast<int32_t>(std::max_element(row, row + model.tokens().usable) - row));
  }
  return ids;
}

// The distinct experts of a layer, as its router told.
int64_t distinct_experts(const Trace& trace, int64_t layer, int64_t experts) {
  const Tensor* chosen = trace.find(format("router.{}.expert", layer));
  TEPHRA_ASSERT(chosen != nullptr, "a layer of experts tells what it chose");
  std::set<int32_t> distinct;
  for (int64_t i = 0; i < chosen->numel(); ++i) distinct.insert(chosen->data<int32_t>()[i]);
  distinct.erase(static_cast<int32_t>(experts));  // skipped
  return std::ssize(distinct);
}

// The prompt of every sequence, in chunks, by the engine's kernels for prompts; the hidden states
// of the last pass.
Tensor prefill(Decoder& decoder, const std::vector<std::vector<int32_t>>& prompts, int64_t chunk) {
  const cpu::RowClassScope many(cpu::RowClass::many);
  Tensor h;
  const auto length = static_cast<int64_t>(prompts[0].size());
  for (int64_t at = 0; at < length; at += chunk) {
    std::vector<std::vector<int32_t>> part;
    for (const auto& prompt : prompts) {
      part.emplace_back(prompt.begin() + at, prompt.begin() + std::min(length, at + chunk));
    }
    h = decoder.advance(part);
  }
  return h;
}

}  // namespace

std::vector<int32_t> random_ids(const Model& model, int64_t count, uint32_t stream) {
  std::vector<int32_t> ids;
  const auto usable = static_cast<uint64_t>(model.tokens().usable);
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(
        static_cast<int32_t>(philox({1, stream, 0}, static_cast<uint64_t>(i))[0] % usable));
  }
  return ids;
}

DecodeBytes weight_bytes(const std::vector<ParameterSpec>& specs, const ParameterStore& store,
                         const std::function<int64_t(int64_t)>& distinct) {
  DecodeBytes bytes;
  const bool untied = std::any_of(specs.begin(), specs.end(), [](const ParameterSpec& s) {
    return s.kind == ParameterKind::head;
  });
  for (const ParameterSpec& spec : specs) {
    const Weight weight = store.weight(spec.name);
    auto size = static_cast<double>(weight.bytes());
    if (spec.kind == ParameterKind::embedding && untied) continue;
    if (spec.kind == ParameterKind::experts) {
      const std::string at = spec.name.substr(0, spec.name.find(".mlp."));
      const auto layer = static_cast<int64_t>(std::stoll(at.substr(at.rfind('.') + 1)));
      size *= static_cast<double>(distinct(layer)) / static_cast<double>(spec.shape[0]);
    }
    (weight.is_packed() ? bytes.packed : bytes.other) += size;
  }
  return bytes;
}

double cache_bytes(Model& model, int64_t length, int64_t batch) {
  double bytes = 0;
  for (const LayerStateSpec& layer : model.state_spec().layers) {
    const int64_t keys = layer.window > 0 ? std::min(layer.window, length) : length;
    bytes += static_cast<double>(keys * layer.kv_width * (layer.values_in_keys ? 1 : 2) *
                                 size_of(model.parameters().dtype()));
  }
  return bytes * static_cast<double>(batch);
}

void summarise(std::vector<double>& seconds, InferResult& result) {
  std::sort(seconds.begin(), seconds.end());
  result.best_seconds = seconds.front();
  result.median_seconds = seconds[seconds.size() / 2];
}

double median_share(const InferResult& result) {
  if (result.steps.empty()) {
    return result.bytes.all() / result.median_seconds / result.median_ceiling;
  }
  std::vector<double> shares;
  for (const StepReads& step : result.steps) shares.push_back(step.step / step.plain);
  std::sort(shares.begin(), shares.end());
  return shares[shares.size() / 2];
}

namespace {

// Of one pass, of those that took `seconds`.
std::vector<KernelCost> kernel_costs(const KernelTimes& times, const std::vector<double>& seconds) {
  const auto count = static_cast<double>(seconds.size());
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  std::vector<KernelCost> costs{{"between kernels", (all - times.seconds()) / count, 0}};
  for (const auto& [name, entry] : times.entries()) {
    costs.push_back({name, entry.seconds / count, static_cast<double>(entry.launches) / count});
  }
  std::sort(costs.begin(), costs.end(),
            [](const KernelCost& a, const KernelCost& b) { return a.seconds > b.seconds; });
  return costs;
}

// The memory's read bandwidth in passes of some milliseconds, taken between what it is compared to.
class ReadSamples {
 public:
  ReadSamples() : peer_({kMaxStreamReads, 0}, beyond_cache_bytes()) { peer_.run(); }

  // What it gave during this time.
  double take(double seconds) {
    const double start = steady_seconds();
    double bytes = 0, spent = 0;
    do {
      rates_.push_back(peer_.bytes() / seconds_of([&] { peer_.run(); }));
      bytes += peer_.bytes();
      spent = steady_seconds() - start;
    } while (spent < seconds);
    return bytes / spent;
  }
  void summarise(InferResult& result) {
    std::sort(rates_.begin(), rates_.end());
    result.ceiling = rates_.back();
    result.median_ceiling = rates_[rates_.size() / 2];
  }

 private:
  StreamPeer peer_;
  std::vector<double> rates_;
};

}  // namespace

InferResult bench_decode(const InferBench& o) {
  const Device device = bench_device(o);
  if (device.kind == Device::Kind::gpu) return bench_decode_on(o, device);
  InferResult result;
  result.load_average = load_average();
  const Loaded loaded = load(o, result);
  Model& model = *loaded.model;
  const NoGrad no_grad;
  Decoder decoder(model, o.batch, o.context + o.tokens + 2);
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t i = 0; i < o.batch; ++i) {
    prompts.push_back(random_ids(model, o.context, static_cast<uint32_t>(i)));
  }
  result.first_pass_seconds = seconds_of([&] { prefill(decoder, prompts, chunk_of(o)); });
  ReadSamples memory;

  const auto specs = loaded.folder.kind->parameters(loaded.folder.config, loaded.folder.where);
  const auto routers = model.routers();
  const int64_t experts = routers.empty() ? 0 : routers[0].experts;
  std::vector<std::vector<int32_t>> next(static_cast<size_t>(o.batch), {1});
  std::vector<double> seconds;
  std::vector<double> reads;  // what the memory gave before each step, and after the last
  const double read_seconds = o.ceiling_seconds / static_cast<double>(o.tokens + 1);
  DecodeBytes sum;
  std::optional<KernelTimes> times;
  Progress progress("decoding", o.tokens, "tokens");
  const cpu::RowClassScope few(cpu::RowClass::few);  // the engine's kernels for answers
  for (int64_t i = 0; i < o.tokens + 2; ++i) {       // the first two warm up
    if (i >= 2) reads.push_back(memory.take(read_seconds));
    if (i == 2 && o.profile) times.emplace();
    const Trace trace([](std::string_view name) { return name.ends_with(".expert"); });
    Tensor logits;
    const double s = seconds_of([&] { logits = model.logits(decoder.advance(next)); });
    const std::vector<int32_t> chosen = likeliest(model, logits);
    for (size_t b = 0; b < chosen.size(); ++b) next[b] = {chosen[b]};
    if (i < 2) continue;
    seconds.push_back(s);
    const DecodeBytes bytes = weight_bytes(specs, model.parameters(), [&](int64_t layer) {
      return distinct_experts(trace, layer, experts);
    });
    sum.packed += bytes.packed;
    sum.other += bytes.other;
    progress.add();
  }
  reads.push_back(memory.take(read_seconds));
  result.pages = weight_pages(loaded.folder, model.parameters());
  memory.summarise(result);
  if (times) result.kernels = kernel_costs(*times, seconds);
  const auto steps = static_cast<double>(o.tokens);
  result.bytes = {sum.packed / steps, sum.other / steps,
                  cache_bytes(model, o.context + o.tokens / 2, o.batch)};
  for (size_t i = 0; i < seconds.size(); ++i) {
    result.steps.push_back({result.bytes.all() / seconds[i], (reads[i] + reads[i + 1]) / 2});
  }
  summarise(seconds, result);
  return result;
}

InferResult bench_prefill(const InferBench& o) {
  const Device device = bench_device(o);
  if (device.kind == Device::Kind::gpu) return bench_prefill_on(o, device);
  InferResult result;
  result.load_average = load_average();
  const Loaded loaded = load(o, result);
  Model& model = *loaded.model;
  const NoGrad no_grad;
  const std::vector<std::vector<int32_t>> prompt{random_ids(model, o.tokens, 0)};
  const ModelFigures figures =
      loaded.folder.kind->figures(loaded.folder.config, loaded.folder.where, o.tokens);
  result.ceiling = measure_gemm_gflops(o.ceiling_seconds) * 1e9;
  double head = 0;  // operations of the output projection for one token
  constexpr int kPasses = 4;
  std::vector<double> seconds;
  std::optional<KernelTimes> times;
  Progress progress("prefilling", kPasses, "passes");
  for (int i = 0; i < kPasses; ++i) {
    stop_if_interrupted();
    Decoder decoder(model, 1, o.tokens);
    if (i == 1 && o.profile) times.emplace();
    const double s = seconds_of([&] {
      const Tensor h = prefill(decoder, prompt, chunk_of(o));
      model.logits(h.slice_rows(h.rows() - 1, h.rows()));
      head = 2.0 * static_cast<double>(model.tokens().vocab_size * h.cols());
    });
    if (i == 0) result.first_pass_seconds = s;
    if (i > 0) seconds.push_back(s);
    progress.add();
  }
  summarise(seconds, result);
  result.pages = weight_pages(loaded.folder, model.parameters());
  // A prompt has the forward third of training's work, but the head for its last token alone.
  result.flops = figures.train_flops_per_token / 3 * static_cast<double>(o.tokens) -
                 head * static_cast<double>(o.tokens - 1);
  if (times) result.kernels = kernel_costs(*times, seconds);
  times.reset();
  result.ceiling = std::max(result.ceiling, measure_gemm_gflops(o.ceiling_seconds) * 1e9);
  return result;
}

}  // namespace tephra
