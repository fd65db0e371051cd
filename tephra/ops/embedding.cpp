// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/embedding.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

// On the CPU the kernel does this; on a GPU it would have to stop the world.
void check_ids(const Tensor& ids, int64_t vocabulary) {
  const int32_t* id = ids.data<int32_t>();
  for (int64_t i = 0; i < ids.numel(); ++i) {
    require(id[i] >= 0 && id[i] < vocabulary,
            "embedding: id {} at row {} is outside the vocabulary of {} tokens", id[i], i,
            vocabulary);
  }
}

}  // namespace

Tensor embedding(const Tensor& given_ids, const Tensor& table, int64_t pad_id) {
  require(given_ids.ndim() == 1 && given_ids.dtype() == DType::i32,
          "embedding: ids must be [tokens] of i32, got {} of {}", given_ids.shape(),
          given_ids.dtype());
  require(table.ndim() == 2, "embedding: table must be [vocabulary, width], got {}", table.shape());

  const bool on_gpu = table.device().kind == Device::Kind::gpu;
  if (on_gpu && given_ids.device() == kCpu) check_ids(given_ids, table.rows());
  const Tensor ids_N = to_device(given_ids, table.device());
  Tensor y({ids_N.numel(), table.cols()}, table.dtype(), table.device());
  launch(table.device(), "embedding", kernel::Embedding{ids_N, table, y});

  record(
      {.name = "embedding",
       .op_class = OpClass::embedding,
       .inputs = {ids_N, table},
       .saved = {ids_N}},
      {&y},
      [pad_id](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        if (!sink.wants(1)) return;
        const GradTarget dtable = sink.target(1);
        launch(dy[0].device(), "embedding",
               kernel::EmbeddingGrad{dy[0], saved[0], pad_id, dtable.grad, dtable.accumulate});
      },
      [pad_id](const Tensors& in) -> Tensors { return {embedding(in[0], in[1], pad_id)}; });
  return y;
}

Tensor embedding(const Tensor& ids_N, const Weight& table, DType dtype, int64_t pad_id) {
  if (!table.is_packed() && table.tensor().dtype() == dtype) {
    return embedding(ids_N, table.tensor(), pad_id);
  }
  const Device device =
      table.is_packed() ? table.packed().blocks().device() : table.tensor().device();
  const bool on_gpu = device.kind == Device::Kind::gpu;
  require(dtype == DType::f32 || (on_gpu && table.is_packed()),
          "embedding: a quantised or widened table gives f32 rows, not {}", dtype);
  require(ids_N.ndim() == 1 && ids_N.dtype() == DType::i32,
          "embedding: ids must be [tokens] of i32, got {} of {}", ids_N.shape(), ids_N.dtype());
  if (on_gpu && ids_N.device() == kCpu) check_ids(ids_N, table.shape()[0]);
  const Tensor ids = to_device(ids_N, device);
  Tensor y({ids.numel(), table.shape().cols()}, dtype, device);
  launch(device, "embedding", kernel::WideEmbedding{ids, table, y});
  return y;
}

}  // namespace tephra
