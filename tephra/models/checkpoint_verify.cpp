// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/models/checkpoint.h"

namespace tephra {
namespace {

constexpr int64_t kGrain = 1 << 16;

struct Unusual {
  std::atomic<int64_t> nan{0};
  std::atomic<int64_t> infinite{0};
};

template <class T>
void count_unusual(const Tensor& x, Unusual& found) {
  const T* values = x.data<T>();
  parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    int64_t nan = 0, infinite = 0;
    for (int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<acc_t<T>>(values[i]);
      nan += std::isnan(value);
      infinite += std::isinf(value);
    }
    found.nan += nan;
    found.infinite += infinite;
  });
}

void count_unusual(const Tensor& x, Unusual& found) {
  switch (x.dtype()) {
    case DType::f64:
      return count_unusual<double>(x, found);
    case DType::f32:
      return count_unusual<float>(x, found);
    case DType::bf16:
      return count_unusual<bf16>(x, found);
    case DType::f16:
      return count_unusual<f16>(x, found);
    case DType::fp8_e4m3:
      return count_unusual<fp8_e4m3>(x, found);
    default:
      return;
  }
}

// The scales of a packed weight; its codes are all values.
void count_unusual(const PackedWeight& weight, Unusual& found) {
  const cpu::PackedLayout layout = weight.matrix().layout;
  const int64_t panels = weight.blocks().bytes() / layout.panel_bytes();
  parallel_for(panels, 1, [&](int64_t p, int64_t) {
    const auto* scales = reinterpret_cast<const bf16*>(weight.matrix().panel(p));
    for (int64_t i = 0; i < layout.scale_bytes() / 2; ++i) {
      found.nan += std::isnan(static_cast<float>(scales[i])) ? 1 : 0;
      found.infinite += std::isinf(static_cast<float>(scales[i])) ? 1 : 0;
    }
  });
}

// `packed`: the tensors that are packed weights.
void verify_values(const TensorFolder& tensors, const NamedWeights& packed, FolderReport& report) {
  for (const std::string& name : tensors.names())
    report.values += tensors.entry(name).shape.numel();
  Progress progress("verifying", report.values, "values");
  for (const std::string& name : tensors.names()) {
    stop_if_interrupted();
    Unusual found;
    const Tensor tensor = tensors.tensor(name);
    const auto at = packed.find(name);
    if (at != packed.end()) {
      count_unusual(at->second.packed(), found);
    } else {
      count_unusual(tensor, found);
    }
    progress.add(tensor.numel());
    tensors.release(name);
    if (found.nan == 0 && found.infinite == 0) continue;
    report.problems.push_back(format("{} in {}: {} NaN and {} infinite of {} values", name,
                                     tensors.path_of(name).string(), found.nan.load(),
                                     found.infinite.load(), tensor.numel()));
  }
}

// Runs a part; what it finds wrong with the content becomes a problem.
template <class F>
bool holds(FolderReport& report, F&& part) {
  try {
    part();
    return true;
  } catch (const Error& e) {
    if (e.fault() != Fault::data) throw;
    report.problems.push_back(e.what());
    return false;
  }
}

}  // namespace

FolderReport verify_checkpoint(const Path& path) {
  require_folder(path, "a model folder");
  FolderReport report;
  std::optional<ModelFolder> model;
  holds(report, [&] { model = open_model_folder(path); });
  for (const char* name : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}) {
    if (!std::filesystem::exists(path / name)) continue;
    holds(report, [&] { Json::parse(read_file(path / name), (path / name).string()); });
  }
  std::optional<TensorFolder> tensors;
  if (!holds(report, [&] { tensors = TensorFolder::open(path); })) return report;
  report.tensors = static_cast<int64_t>(tensors->names().size());
  NamedWeights packed;
  if (model) {
    holds(report, [&] {
      WeightPlan plan = model->kind->weights(*tensors, model->config, model->where);
      const std::vector<std::string> problems = weight_problems(*tensors, plan);
      if (problems.empty()) packed = weights_in_place(*tensors, plan, {});
      report.problems.insert(report.problems.end(), problems.begin(), problems.end());
    });
  }
  verify_values(*tensors, packed, report);
  return report;
}

}  // namespace tephra
