// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/micro_batch.h"

#include "tephra/base/signals.h"
#include "tephra/core/trace.h"
#include "tephra/optim/balance.h"

namespace tephra {

MicroBatch next_token_batch(const Tensor& ids, const TokenIds& tokens, const std::string& name) {
  TEPHRA_ASSERT(ids.ndim() == 2, "rows of tokens");
  const int64_t length = ids.dim(1);
  MicroBatch batch{Tensor({ids.numel()}, DType::i32), Segments::batch(ids.dim(0), length),
                   Tensor({ids.numel()}, DType::i32)};
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const double id = ids.at(i);
    require_data(id >= 0 && id < double(tokens.vocab_size),
                 "{}: element {}: expected an id in [0, {}), got {}", name, i, tokens.vocab_size,
                 id);
    batch.ids_N.set(i, id);
    if (i % length > 0) batch.targets_N.set(i - 1, id);
    batch.targets_N.set(i, -1);
  }
  return batch;
}

int64_t count_targets(const MicroBatch& batch) {
  const int32_t* targets = batch.targets_N.data<int32_t>();
  int64_t count = 0;
  for (int64_t i = 0; i < batch.targets_N.numel(); ++i) count += targets[i] >= 0 ? 1 : 0;
  return count;
}

Accumulated accumulate_gradients(Model& model, std::span<const MicroBatch> parts,
                                 const AccumulateOptions& options) {
  Accumulated sum;
  for (const MicroBatch& part : parts) sum.targets += count_targets(part);
  const int64_t over = options.targets > 0 ? options.targets : sum.targets;
  require(over > 0,
          "training step: expected at least one target, got none; where only answers are learnt, "
          "let a batch be large enough to hold one");
  const std::vector<BalancedRouter> routers = model.routers();
  const Device device = model.parameters().device();
  Tensors counts, losses;  // read at the end: until then nobody waits for a GPU
  for (const BalancedRouter& r : routers)
    counts.push_back(zeros({r.experts + 1}, DType::i64, device));
  model.parameters().clear_gradients();
  for (const MicroBatch& part : parts) {
    if (options.may_stop) stop_if_interrupted();
    const Trace choices([](std::string_view name) { return name.ends_with(".expert"); });
    Tape tape(options.recompute);
    const Tensor loss = model.loss(model.forward(part.ids_N, part.segments), part.targets_N,
                                   1.0 / static_cast<double>(over));
    tape.backward(loss);
    losses.push_back(loss.detach());
    const Tensor real_N = part.segments.real_N ? to_device(part.segments.real_N, device) : Tensor();
    for (size_t r = 0; r < routers.size(); ++r) {
      const Tensor* chosen = choices.find(routers[r].tap);
      TEPHRA_ASSERT(chosen != nullptr, "a model taps the choice of each of its routers");
      count_experts(*chosen, real_N, counts[r]);
    }
  }
  model.parameters().complete_gradients();
  for (const Tensor& loss : losses) sum.loss += loss.at(0);
  for (const Tensor& count : counts) {
    const Tensor read = to_device(count, kCpu);
    sum.expert_counts.emplace_back(read.data<int64_t>(), read.data<int64_t>() + read.numel());
  }
  return sum;
}

}  // namespace tephra
