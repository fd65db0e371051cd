// SPDX-License-Identifier: Apache-2.0
// Quantised weights on a GPU: written out they have the CPU's bits, and products, grouped products
// and embeddings have those of the weights that were written out. Skipped where there is none.
#include <gtest/gtest.h>

#include "tephra/core/rng.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/ops/embedding.h"
#include "tephra/ops/grouped_linear.h"
#include "tephra/ops/linear.h"
#include "tests/support/difference.h"

namespace tephra {
namespace {

constexpr Device kPackedGpu{Device::Kind::gpu, 0};
constexpr PackedFormat kFormats[] = {PackedFormat::q8, PackedFormat::q4};

class PackedGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
    poison_new_memory(true);
  }
  void TearDown() override { poison_new_memory(false); }
};

Tensor drawn(const Shape& shape, DType dtype, uint32_t stream) {
  Tensor t(shape, dtype);
  fill_normal(t, {12, stream, 0}, 0, 1);
  return t;
}

PackedWeight packed_on_cpu(const Shape& shape, PackedFormat format) {
  return pack_weight(drawn(shape, DType::f32, 1), format, /*search=*/false);
}

PackedWeight on_gpu(const PackedWeight& w) {
  return {w.format(), w.shape(), to_device(w.blocks(), kPackedGpu)};
}

Tensor written(const PackedWeight& w, DType dtype) {
  Tensor to(w.shape(), dtype, w.blocks().device());
  unpack_weight(w, to);
  return to;
}

TEST_F(PackedGpu, IsWrittenOutInTheCpusBits) {
  for (const PackedFormat format : kFormats) {
    for (const Shape& shape : {Shape{16, 32}, Shape{48, 96}, Shape{5, 7}, Shape{37, 300},
                               Shape{3, 24, 64}, Shape{2, 21, 40}}) {
      const PackedWeight w = packed_on_cpu(shape, format);
      for (const DType dtype : {DType::f32, DType::bf16}) {
        EXPECT_TRUE(same_bits(written(on_gpu(w), dtype), written(w, dtype)))
            << to_text(format) << " " << to_text(shape) << " " << to_text(dtype);
      }
    }
    const PackedWeight w = packed_on_cpu({50, 40}, format);
    const Tensor rows({18, 40}, DType::bf16, kPackedGpu);
    unpack_rows(on_gpu(w), 32, rows);
    EXPECT_TRUE(same_bits(rows, written(w, DType::bf16).slice_rows(32, 50))) << to_text(format);
  }
}

TEST_F(PackedGpu, IsDrawnInTheCpusBits) {
  for (const PackedFormat format : kFormats) {
    const PackedWeight w = packed_on_cpu({3, 40, 72}, format), there = on_gpu(w);
    draw_packed(w, {5, 6, 0}, 0.02);
    draw_packed(there, {5, 6, 0}, 0.02);
    EXPECT_TRUE(same_bits(there.blocks(), w.blocks())) << to_text(format);
  }
}

TEST_F(PackedGpu, MultipliesAsTheWeightsWrittenOutDo) {
  for (const PackedFormat format : kFormats) {
    const PackedWeight a = on_gpu(packed_on_cpu({32, 64}, format));
    const PackedWeight b = on_gpu(packed_on_cpu({21, 64}, format));
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const std::string what = to_text(format) + " " + to_text(dtype);
      const Tensor x = to_device(drawn({70, 64}, dtype, 2), kPackedGpu);
      const Tensor bias = to_device(drawn({21}, dtype, 3), kPackedGpu);
      EXPECT_TRUE(same_bits(
          linear(x, Weights{Weight(a), Weight(b)}, {Tensor(), bias}),
          linear(x, Tensors{written(a, dtype), written(b, dtype)}, Tensors{Tensor(), bias})))
          << what;
      const Tensor logits = linear_acc(x, Weight(b), bias);
      EXPECT_EQ(logits.dtype(), DType::f32);
      EXPECT_TRUE(same_bits(logits, linear_acc(x, written(b, dtype), bias))) << what;
    }
  }
}

// More rows than are written out at once: the parts differ from one product by rounding at most.
TEST_F(PackedGpu, MultipliesALargeMatrixInParts) {
  const PackedWeight w = on_gpu(packed_on_cpu({16400, 2048}, PackedFormat::q4));
  const Tensor x = to_device(drawn({3, 2048}, DType::bf16, 2), kPackedGpu);
  const Tensor bias = to_device(drawn({16400}, DType::bf16, 3), kPackedGpu);
  const Tensor got = to_device(linear_acc(x, Weight(w), bias), kCpu);
  const Tensor want = to_device(linear_acc(x, written(w, DType::bf16), bias), kCpu);
  EXPECT_LE(largest_difference(got, want), 1e-2) << "sums of 2048 products of about 1";
}

TEST_F(PackedGpu, GroupsAndEmbedsAsTheWeightsWrittenOutDo) {
  for (const PackedFormat format : kFormats) {
    const PackedWeight experts = on_gpu(packed_on_cpu({4, 32, 64}, format));
    const PackedWeight table = on_gpu(packed_on_cpu({50, 64}, format));
    const Tensor chosen = to_device(
        from_values<int32_t>({6}, std::vector<int32_t>{2, 0, 2, 4, 2, 0}), kPackedGpu);  // 4: skips
    const Tensor ids = from_values<int32_t>({4}, std::vector<int32_t>{49, 0, 17, 17});
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const std::string what = to_text(format) + " " + to_text(dtype);
      const Tensor x = to_device(drawn({6, 64}, dtype, 2), kPackedGpu);
      const DispatchPlan plan = plan_dispatch(chosen, 4);
      EXPECT_TRUE(same_bits(grouped_linear(x, Weight(experts), plan),
                            grouped_linear(x, written(experts, dtype), plan)))
          << what;
      EXPECT_TRUE(
          same_bits(embedding(ids, Weight(table), dtype), embedding(ids, written(table, dtype))))
          << what;
    }
  }
}

}  // namespace
}  // namespace tephra
