// SPDX-License-Identifier: Apache-2.0
// Parameters in flat buffers: one for the values, one for the gradients, same element offsets in
// both, every parameter starting on a row of its own aligned block. Optimizers, reductions and
// shards work on the buffers; models see named tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tephra/autograd/tape.h"
#include "tephra/core/rng.h"
#include "tephra/core/weight.h"

namespace tephra {

enum class ParameterKind {
  matrix,       // a projection
  experts,      // [E, rows, cols]: E matrices
  embedding,    // rows by token id
  head,         // an untied output projection
  convolution,  // taps
  vector,       // norms, scales, biases, temperatures
  buffer,       // not trained by gradient; kept in acc precision
};

std::string to_text(ParameterKind kind);

// What inference may do with a parameter's memory.
enum class Narrowing {
  none,       // layers need it as a tensor of the model's dtype
  stored,     // layers read it as a Weight: it may stay as it is stored, in bf16
  quantised,  // or be quantised
};

struct ParameterSpec {
  std::string name;  // as published
  Shape shape;
  ParameterKind kind = ParameterKind::matrix;
  // How it starts: mean + std * normal, the last element apart where one is given.
  double init_mean = 0;
  double init_std = 0;
  std::optional<double> init_last = std::nullopt;
  Narrowing narrowing = Narrowing::none;
};

// Draws one parameter by its spec; a value depends on seed, name and index alone.
void initialise(const ParameterSpec& spec, uint64_t seed, const Tensor& value);

class ParameterStore {
 public:
  // Allocates all of `specs` but those that `elsewhere` names: they stay where they are, as packed
  // weights or in another dtype, and are no parameters of this store. With gradients each one is a
  // leaf.
  ParameterStore(std::vector<ParameterSpec> specs, DType dtype, Device device, bool with_gradients,
                 NamedWeights elsewhere = {});

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  DType dtype() const { return dtype_; }
  Device device() const { return flat_values_.device(); }
  // Throws when there is no such name.
  const Tensor& operator[](std::string_view name) const;
  const Tensor& at(size_t i) const { return values_[i]; }
  // A parameter, or one of those that lie elsewhere.
  Weight weight(std::string_view name) const;
  bool contains(std::string_view name) const { return index_.contains(std::string(name)); }

  // Draws every parameter.
  void initialise(uint64_t seed);

  // The flat buffers over all trained parameters; padding between them is zero.
  const Tensor& flat_values() const { return flat_values_; }
  const Tensor& flat_gradients() const { return flat_gradients_; }
  int64_t offset(size_t i) const { return offsets_[i]; }  // in elements; -1 for buffers

  // The next gradient written overwrites.
  void clear_gradients();
  // Zeroes gradients that nothing has written, so that the flat buffer can be read whole.
  void complete_gradients();

  // Cuts the flat buffer into buckets of at least `bytes` of gradient, from its end, the order in
  // which backward finishes them.
  void make_buckets(int64_t bytes);
  int64_t num_buckets() const { return static_cast<int64_t>(bucket_sizes_.size()); }
  // Walks back from `loss`; on_bucket(b) is called once for each bucket when all of its gradients
  // are complete: first those that the walk completes, then any that it never touched.
  void backward(Tape& tape, const Tensor& loss, const std::function<void(int64_t)>& on_bucket);

 private:
  std::vector<ParameterSpec> specs_;
  DType dtype_;
  NamedWeights elsewhere_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<int64_t> offsets_;
  Tensors values_;
  Tensor flat_values_;
  Tensor flat_gradients_;
  std::vector<int64_t> bucket_sizes_;  // parameters in each
};

}  // namespace tephra
