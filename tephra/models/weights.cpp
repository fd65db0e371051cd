// SPDX-License-Identifier: Apache-2.0
#include "tephra/models/weights.h"

#include <unordered_set>

#include "tephra/base/parallel.h"

namespace tephra {
namespace {

constexpr size_t kMostListed = 5;

bool is_source_dtype(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// The shape of one of the tensors that make up the parameter.
Shape part_shape(const WeightSource& source) {
  const Shape& whole = source.parameter.shape;
  if (source.from.size() == 1) return whole;
  TEPHRA_ASSERT(whole[0] == static_cast<int64_t>(source.from.size()), "one tensor per slice");
  return Shape(whole.dims().subspan(1));
}

class Account {
 public:
  explicit Account(const TensorFolder& folder) : folder_(folder) {}

  void take(WeightSource& source) {
    if (source.packed) return take_packed(source);
    const bool may_be_fp8 =
        source.parameter.kind == ParameterKind::experts && source.from.size() == 1;
    for (const std::string& name : source.from) {
      if (!present(name)) continue;
      const TensorEntry& entry = folder_.entry(name);
      expect_shape(entry, part_shape(source));
      if (may_be_fp8 && entry.dtype == DType::fp8_e4m3) {
        take_scale(source);
      } else if (!is_source_dtype(entry.dtype)) {
        problem(format("{} in {}: expected f32, bf16 or f16, got {}", name,
                       folder_.path_of(name).string(), entry.dtype));
      }
    }
  }

  void take_copy(const std::string& copy, const std::string& original) {
    if (!folder_.contains(copy)) return;
    used_.insert(copy);
    if (!folder_.contains(original)) return;  // already reported
    if (!same_bits(folder_.tensor(copy), folder_.tensor(original))) {
      problem(format("{} in {}: expected the values of {}, to which the config ties it, got others",
                     copy, folder_.path_of(copy).string(), original));
    }
  }

  std::vector<std::string> finish(const WeightPlan& plan) {
    for (const std::string& name : folder_.names()) {
      if (used_.contains(name) || (plan.ignored && plan.ignored(name))) continue;
      problem(format("{} in {}: not a tensor of this model", name, folder_.path_of(name).string()));
    }
    return std::move(problems_);
  }

 private:
  bool present(const std::string& name) {
    used_.insert(name);
    if (folder_.contains(name)) return true;
    problem(format("{}: missing", name));
    return false;
  }

  void expect_shape(const TensorEntry& entry, const Shape& shape) {
    if (entry.shape == shape) return;
    problem(format("{} in {}: expected shape {}, got {}", entry.name,
                   folder_.path_of(entry.name).string(), shape, entry.shape));
  }

  void take_packed(const WeightSource& source) {
    if (source.from.size() != 1) {
      return problem(
          format("{}: expected one tensor in the native layout, as every quantised model "
                 "has; the config is of the legacy one",
                 source.parameter.name));
    }
    const std::string& name = source.from[0];
    if (!present(name)) return;
    const TensorEntry& entry = folder_.entry(name);
    expect_shape(entry, packed_shape(*source.packed, source.parameter.shape));
    if (entry.dtype != DType::u8) {
      problem(format("{} in {}: expected u8, as the config says that it is quantised, got {}", name,
                     folder_.path_of(name).string(), entry.dtype));
    }
  }

  void take_scale(WeightSource& source) {
    source.scale = source.from[0] + ".weight_scale";
    if (!present(source.scale)) return;
    const TensorEntry& entry = folder_.entry(source.scale);
    const Shape& shape = source.parameter.shape;
    expect_shape(entry, {shape[0], shape[1], 1});
    if (entry.dtype != DType::f32) {
      problem(format("{} in {}: expected f32, got {}", source.scale,
                     folder_.path_of(source.scale).string(), entry.dtype));
    }
  }

  void problem(std::string text) { problems_.push_back(std::move(text)); }

  const TensorFolder& folder_;
  std::unordered_set<std::string> used_;
  std::vector<std::string> problems_;
};

// Row r of `to` becomes row r of `from` times scale[r].
void copy_scaled(const Tensor& from, const Tensor& scale, const Tensor& to) {
  const float* factor = scale.data<float>();
  const int64_t cols = to.cols();
  visit_float(to.dtype(), [&]<class T>() {
    parallel_for(to.rows(), std::max<int64_t>(1, 65536 / std::max<int64_t>(1, cols)),
                 [&](int64_t r0, int64_t r1) {
                   for (int64_t r = r0; r < r1; ++r) {
                     const fp8_e4m3* in = from.row<fp8_e4m3>(r);
                     T* out = to.row<T>(r);
                     for (int64_t c = 0; c < cols; ++c) {
                       out[c] = static_cast<T>(static_cast<float>(in[c]) * factor[r]);
                     }
                   }
                 });
  });
}

}  // namespace

std::vector<std::string> weight_problems(const TensorFolder& folder, WeightPlan& plan) {
  Account account(folder);
  for (WeightSource& source : plan.sources) account.take(source);
  for (const auto& [copy, original] : plan.copies) account.take_copy(copy, original);
  return account.finish(plan);
}

void check_weights(const TensorFolder& folder, WeightPlan& plan) {
  const std::vector<std::string> problems = weight_problems(folder, plan);
  if (problems.empty()) return;
  std::string text =
      format("{} of the checkpoint's tensors {} not fit its config.json:", problems.size(),
             problems.size() == 1 ? "does" : "do");
  for (size_t i = 0; i < problems.size() && i < kMostListed; ++i) text += "\n  " + problems[i];
  if (problems.size() > kMostListed) {
    text += format("\n  ... and {} more", problems.size() - kMostListed);
  }
  throw Error(Fault::data, text);
}

DType stored_dtype(const TensorFolder& folder, const WeightSource& source) {
  if (!source.scale.empty() || source.packed) return DType::bf16;
  const DType dtype = folder.entry(source.from[0]).dtype;
  for (const std::string& name : source.from) {
    const DType other = folder.entry(name).dtype;
    require_data(other == dtype,
                 "{} is {} and {} is {}; expected one dtype for both, as they are "
                 "parts of {}",
                 source.from[0], dtype, name, other, source.parameter.name);
  }
  return dtype;
}

void copy_weight(const TensorFolder& folder, const WeightSource& source, const Tensor& to) {
  if (!source.scale.empty()) {
    const bool on_host = to.device() == kCpu;
    const Tensor value = on_host ? to : Tensor(to.shape(), to.dtype(), kCpu, Purpose::workspace);
    copy_scaled(folder.tensor(source.from[0]), folder.tensor(source.scale), value);
    if (!on_host) copy_into(to, value);
    return;
  }
  if (source.packed) {
    return unpack_weight({*source.packed, source.parameter.shape, folder.tensor(source.from[0])},
                         to);
  }
  const int64_t rows = part_shape(source).rows();
  for (size_t i = 0; i < source.from.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(i) * rows;
    copy_into(to.slice_rows(begin, begin + rows), folder.tensor(source.from[i]));
  }
}

Tensor read_weight(const TensorFolder& folder, const WeightSource& source, DType dtype) {
  const bool as_stored = source.from.size() == 1 && folder.entry(source.from[0]).dtype == dtype;
  if (as_stored) return folder.tensor(source.from[0]);
  Tensor value(source.parameter.shape, dtype, kCpu, Purpose::workspace);
  copy_weight(folder, source, value);
  return value;
}

void release(const TensorFolder& folder, const WeightSource& source) {
  for (const std::string& name : source.from) folder.release(name);
}

}  // namespace tephra
