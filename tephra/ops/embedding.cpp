// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/embedding.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor embedding(const Tensor& ids_N, const Tensor& table, int64_t pad_id) {
  require(ids_N.ndim() == 1 && ids_N.dtype() == DType::i32,
          "embedding: ids must be [tokens] of i32, got {} of {}", ids_N.shape(), ids_N.dtype());
  require(table.ndim() == 2, "embedding: table must be [vocabulary, width], got {}", table.shape());

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

}  // namespace tephra
