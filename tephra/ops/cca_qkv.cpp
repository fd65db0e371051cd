// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/cca_qkv.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"
#include "tephra/ops/as_on_a_gpu.h"
#include "tephra/ops/segment_rows.h"

namespace tephra {
namespace {

constexpr size_t kQkInputs = 6;  // z, both convolutions, temp; then the segments

void check(const Tensor& z, const CcaConvs& c, const Tensor& temp, const Segments& segments,
           const CcaHeadsForm& f) {
  require_tokens("cca_qkv", "z", z, segments);
  const int64_t dim = f.rope.head_dim, width = f.channels(), values = z.cols() - width;
  require(f.nq > 0 && f.nk > 0 && f.nq % f.nk == 0,
          "cca_qkv: {} query heads do not share {} key heads evenly", f.nq, f.nk);
  require(values >= 0 && values % 2 == 0,
          "cca_qkv: z must be [tokens, ({} + {}) * {} and an even number for values], got {}", f.nq,
          f.nk, dim, z.shape());
  require(c.weight0.ndim() == 3 && c.weight0.dim(0) == width && c.weight0.dim(1) == 1 &&
              c.weight0.dim(2) >= 1,
          "cca_qkv: weight0 must be [{}, 1, taps], got {}", width, c.weight0.shape());
  require(c.weight1.ndim() == 3 && c.weight1.dim(0) == width && c.weight1.dim(1) == dim &&
              c.weight1.dim(2) >= 1,
          "cca_qkv: weight1 must be [{}, {}, taps], got {}", width, dim, c.weight1.shape());
  require(c.bias0.shape() == Shape{width} && c.bias1.shape() == Shape{width},
          "cca_qkv: biases must be [{}], got {} and {}", width, c.bias0.shape(), c.bias1.shape());
  const bool with_temp = f.temperature != Temperature::none;
  require(temp.defined() == with_temp && (!with_temp || temp.shape() == Shape{f.nk}),
          "cca_qkv: expected {} temp", with_temp ? "a" : "no");
  for (const Tensor* t : {&c.weight0, &c.bias0, &c.weight1, &c.bias1, &temp}) {
    require(!t->defined() || t->dtype() == z.dtype(), "cca_qkv: a parameter is {}, z is {}",
            t->dtype(), z.dtype());
  }
}

CcaConvs convs_of(const Tensors& in) { return {in[1], in[2], in[3], in[4]}; }

}  // namespace

Tensor cca_qkv(const Tensor& z, const CcaConvs& convs, const Tensor& temp, const Segments& given,
               const CcaHeadsForm& form) {
  check(z, convs, temp, given, form);
  const Segments segments = to_device(given, z.device());
  Tensor out = empty_like(z);
  launch(z.device(), "cca_qkv", kernel::CcaQkv{z, convs, temp, segments, form, out});

  const Tensors inputs =
      with_segments({z, convs.weight0, convs.bias0, convs.weight1, convs.bias1, temp}, segments);
  record(
      {.name = "cca_qkv", .op_class = OpClass::qk, .inputs = inputs, .saved = inputs}, {&out},
      [form](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        GradTarget target[kQkInputs];
        for (size_t i = 0; i < kQkInputs; ++i) target[i] = sink.target_if_wanted(i);
        launch(saved[0].device(), "cca_qkv",
               kernel::CcaQkvGrad{dy[0], saved[0], convs_of(saved), saved[5],
                                  segments_after(saved, kQkInputs), form, target[0], target[1],
                                  target[2], target[3], target[4], target[5]});
      },
      [form](const Tensors& in) -> Tensors {
        return {cca_qkv(in[0], convs_of(in), in[5], segments_after(in, kQkInputs), form)};
      });
  return out;
}

bool has_fused_cca_qkv(const Tensor& z, const CcaConvs& convs, const CcaHeadsForm& form) {
  const int64_t dim = form.rope.head_dim, rotary = form.rope.rotary_dim;
  const bool turns = rotary == 0 || rotary == 32 || rotary == 64 || rotary == 128;
  return as_on_a_gpu(z) && z.dtype() == DType::bf16 && (dim == 64 || dim == 128) && turns &&
         form.rope.first == 0 && !form.rope.interleaved && convs.weight0.dim(2) == 2 &&
         convs.weight1.dim(2) == 2;
}

}  // namespace tephra
