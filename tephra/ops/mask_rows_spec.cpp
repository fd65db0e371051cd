// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/mask_rows.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) { return {mask_rows(in[0], in[1])}; }

Tensors naive(const Tensors& in) {
  Tensor y = empty_like(in[0]);
  for (int64_t i = 0; i < y.numel(); ++i) {
    y.set(i, in[1].at(i / y.cols()) != 0 ? in[0].at(i) : 0);
  }
  return {y};
}

InputSpec mask(int64_t rows, int64_t every) {
  Tensor m({rows}, DType::i32);
  for (int64_t i = 0; i < rows; ++i) m.set(i, i % every == 0 ? 0 : 1);
  return InputSpec::index(m);
}

OpCase mask_case(const std::string& name, int64_t rows, int64_t width, int64_t every) {
  return {.name = name,
          .inputs = {{.shape = {rows, width}}, mask(rows, every)},
          .run = run,
          .naive = naive};
}

}  // namespace

OpSpec mask_rows_spec() {
  constexpr int64_t kN = 65536, kC = 512;
  constexpr double kBytes = double(kN) * kC * 4;
  return {.name = "mask_rows",
          .cases = {mask_case("some rows", 70, 9, 3), mask_case("no row left", 4, 5, 1),
                    mask_case("no rows", 0, 4, 2)},
          .benches = {{.name = "65536 x 512",
                       .inputs = {{.shape = {kN, kC}}, mask(kN, 100)},
                       .run = run,
                       .forward_read_bytes = kBytes,
                       .forward_write_bytes = kBytes,
                       .backward_read_bytes = kBytes,
                       .backward_write_bytes = kBytes}}};
}

}  // namespace tephra
