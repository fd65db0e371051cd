// SPDX-License-Identifier: Apache-2.0
// The tape: ops record themselves while one is alive, backward walks it in reverse.
//
//   Tape tape;
//   Tensor loss = model.loss(...);
//   tape.backward(loss);
//
// Without a tape, or inside a NoGrad scope, nothing is recorded and nothing is kept.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tephra/autograd/variable.h"
#include "tephra/base/function_ref.h"

namespace tephra {

// Recomputation is chosen by class: outputs of a chosen class are not kept for the backward pass
// but computed again from their inputs, by the same kernels and so with the same bits.
enum class OpClass {
  embedding,
  linear,
  norm,
  activation,
  convolution,
  qk,
  attention,
  router,
  dispatch,
  experts,
  loss,
};

std::optional<OpClass> parse_op_class(std::string_view name);
std::string op_class_names();  // "embedding, linear, ..."

class Recompute {
 public:
  Recompute() = default;
  Recompute(std::initializer_list<OpClass> classes) {
    for (OpClass c : classes) bits_ |= 1u << static_cast<unsigned>(c);
  }
  static Recompute everything() {
    Recompute all;
    all.bits_ = ~0u;
    return all;
  }
  void add(OpClass c) { bits_ |= 1u << static_cast<unsigned>(c); }
  bool includes(OpClass c) const { return (bits_ >> static_cast<unsigned>(c) & 1u) != 0; }

 private:
  uint32_t bits_ = 0;
};

// What an op says about one call of itself.
struct OpRecord {
  const char* name;
  OpClass op_class;
  // All tensors the forward pass read, in a fixed order, also those without a gradient (indices,
  // segments); undefined where an optional one is absent.
  Tensors inputs;
  // What the backward pass needs beside the gradients of the outputs.
  Tensors saved;
  // Outputs that are kept even when this class is recomputed (bit i for output i).
  uint32_t always_kept = 0;
};

// dy[i] is undefined when no gradient reached output i; at least one is defined.
using Backward = std::function<void(const Tensors& saved, const Tensors& dy, GradSink& dx)>;
// Runs the forward pass again on the same inputs; returns all outputs.
using Replay = std::function<Tensors(const Tensors& inputs)>;

class Tape {
 public:
  explicit Tape(Recompute recompute = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Walks back from the scalar `loss` with gradient 1. Each leaf is reported once, when its
  // gradient is complete, in an order that depends only on the recorded ops. The tape is then
  // spent.
  void backward(const Tensor& loss, const std::function<void(Variable&)>& on_ready = {});

  // The same from several outputs with given gradients.
  void backward(const Tensors& outputs, const Tensors& dy,
                const std::function<void(Variable&)>& on_ready = {});

  // Bytes that are kept for the backward pass, by the op that asked first.
  std::map<std::string, int64_t> saved_bytes() const;

  // The tape that records on this thread, if any.
  static Tape* current();

 private:
  friend void record_node(const OpRecord& op, std::initializer_list<Tensor*> outputs,
                          Backward backward, Replay replay);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  Tape* outer_;
};

class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Tape* outer_;
};

// Whether a call on these inputs would be recorded: lets an op skip what only backward needs.
bool recording(std::initializer_list<const Tensor*> inputs);

// For ops that know gradients already in the forward pass (the fused loss): a sink for its leaf
// inputs, nothing when the call is not recorded. Gradients of other inputs are given in backward.
std::optional<GradSink> forward_sink(const Tensors& inputs);

void record_node(const OpRecord& op, std::initializer_list<Tensor*> outputs, Backward backward,
                 Replay replay);

// Puts one op call on the current tape. Closures hold an axis or an eps, never a tensor: what
// backward keeps alive is listed in `saved`, where the memory report finds it.
template <class BackwardFn>
void record(const OpRecord& op, std::initializer_list<Tensor*> outputs, BackwardFn backward) {
  static_assert(std::is_trivially_copyable_v<BackwardFn>, "capture values, save tensors");
  if (Tape::current()) record_node(op, outputs, backward, nullptr);
}

template <class BackwardFn, class ReplayFn>
void record(const OpRecord& op, std::initializer_list<Tensor*> outputs, BackwardFn backward,
            ReplayFn replay) {
  static_assert(std::is_trivially_copyable_v<BackwardFn>, "capture values, save tensors");
  static_assert(std::is_trivially_copyable_v<ReplayFn>, "capture values, read `inputs`");
  if (Tape::current()) record_node(op, outputs, backward, replay);
}

}  // namespace tephra
