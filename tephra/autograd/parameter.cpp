// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/parameter.h"

#include <algorithm>

#include "tephra/base/signals.h"

namespace tephra {
namespace {

constexpr int64_t kAlignElements = 64;  // 64 bytes or more in every dtype

int64_t align(int64_t n) { return (n + kAlignElements - 1) / kAlignElements * kAlignElements; }

// Elements [begin, end) of a tensor of one dimension.
Tensor part_of(const Tensor& flat, int64_t begin, int64_t end) {
  return flat.view({flat.numel(), 1}).slice_rows(begin, end).view({end - begin});
}

// To be given the memory of a large model takes a while: the program may stop between its parts.
Tensor flat_zeros(int64_t size, DType dtype, Device device, Purpose purpose) {
  constexpr int64_t kPart = int64_t{1} << 26;
  const Tensor flat({size}, dtype, device, purpose);
  for (int64_t begin = 0; begin < size; begin += kPart) {
    stop_if_interrupted();
    fill(part_of(flat, begin, std::min(begin + kPart, size)), 0);
  }
  return flat;
}

}  // namespace

std::string to_text(ParameterKind kind) {
  constexpr const char* kNames[] = {"matrix",      "experts", "embedding", "head",
                                    "convolution", "vector",  "buffer"};
  return kNames[static_cast<size_t>(kind)];
}

ParameterStore::ParameterStore(std::vector<ParameterSpec> specs, DType dtype, Device device,
                               bool with_gradients, NamedWeights elsewhere)
    : specs_(std::move(specs)), dtype_(dtype), elsewhere_(std::move(elsewhere)) {
  TEPHRA_ASSERT(elsewhere_.empty() || !with_gradients, "only parameters of the store are trained");
  std::erase_if(specs_, [&](const ParameterSpec& spec) { return elsewhere_.contains(spec.name); });
  int64_t total = 0;
  for (size_t i = 0; i < specs_.size(); ++i) {
    TEPHRA_ASSERT(index_.emplace(specs_[i].name, i).second, "parameter names are unique");
    const bool buffer = specs_[i].kind == ParameterKind::buffer;
    offsets_.push_back(buffer ? -1 : total);
    if (!buffer) total += align(specs_[i].shape.numel());
  }
  flat_values_ = flat_zeros(total, dtype, device, Purpose::weights);
  if (with_gradients) {
    flat_gradients_ = flat_zeros(total, acc_dtype(dtype), device, Purpose::gradients);
  }

  const auto view_of = [&](const Tensor& flat, size_t i) {
    return part_of(flat, offsets_[i], offsets_[i] + specs_[i].shape.numel()).view(specs_[i].shape);
  };
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].kind == ParameterKind::buffer) {
      values_.push_back(zeros(specs_[i].shape, acc_dtype(dtype), device, Purpose::weights));
      continue;
    }
    values_.push_back(view_of(flat_values_, i));
    if (with_gradients) make_leaf(values_.back(), view_of(flat_gradients_, i));
  }
}

const Tensor& ParameterStore::operator[](std::string_view name) const {
  const auto it = index_.find(std::string(name));
  require(it != index_.end(), "no parameter named '{}'", name);
  return values_[it->second];
}

Weight ParameterStore::weight(std::string_view name) const {
  const auto it = elsewhere_.find(std::string(name));
  return it != elsewhere_.end() ? it->second : Weight((*this)[name]);
}

void initialise(const ParameterSpec& spec, uint64_t seed, const Tensor& value) {
  if (spec.init_std == 0) {
    fill(value, spec.init_mean);
  } else {
    fill_normal(value, {seed, stream_of(spec.name), 0}, spec.init_mean, spec.init_std);
  }
  if (spec.init_last) value.set(value.numel() - 1, *spec.init_last);
}

void ParameterStore::initialise(uint64_t seed) {
  for (size_t i = 0; i < specs_.size(); ++i) {
    stop_if_interrupted();  // of a large model all of them take minutes
    tephra::initialise(specs_[i], seed, values_[i]);
  }
}

void ParameterStore::clear_gradients() {
  for (const Tensor& value : values_) {
    if (value.variable()) clear_gradient(value);
  }
}

void ParameterStore::complete_gradients() {
  for (const Tensor& value : values_) {
    if (value.variable()) gradient(value);
  }
}

void ParameterStore::make_buckets(int64_t bytes) {
  bucket_sizes_.clear();
  int64_t filled = bytes;  // so that the first parameter opens a bucket
  for (size_t i = specs_.size(); i-- > 0;) {
    if (!values_[i].variable()) continue;
    if (filled >= bytes) {
      bucket_sizes_.push_back(0);
      filled = 0;
    }
    filled += values_[i].numel() * size_of(flat_gradients_.dtype());
    values_[i].variable()->bucket = static_cast<int>(bucket_sizes_.size()) - 1;
    ++bucket_sizes_.back();
  }
}

void ParameterStore::backward(Tape& tape, const Tensor& loss,
                              const std::function<void(int64_t)>& on_bucket) {
  std::vector<int64_t> missing = bucket_sizes_;
  tape.backward(loss, [&](Variable& leaf) {
    if (leaf.bucket >= 0 && --missing[static_cast<size_t>(leaf.bucket)] == 0) {
      on_bucket(leaf.bucket);
    }
  });
  complete_gradients();
  for (size_t b = 0; b < missing.size(); ++b) {
    if (missing[b] > 0) on_bucket(static_cast<int64_t>(b));
  }
}

}  // namespace tephra
