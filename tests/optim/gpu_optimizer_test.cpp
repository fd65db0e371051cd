// SPDX-License-Identifier: Apache-2.0
// A few optimizer steps on a GPU against the same on the CPU. Skipped where there is none.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tephra/device/gpu/runtime.h"
#include "tephra/optim/balance.h"
#include "tephra/optim/master.h"
#include "tephra/optim/optimizer.h"
#include "tests/support/only_portable.h"

namespace tephra {
namespace {

std::vector<ParameterSpec> gpu_specs() {
  return {{"tall", {40, 24}, ParameterKind::matrix, 0, 0.5},
          {"wide", {24, 70}, ParameterKind::matrix, 0, 0.5},
          {"experts", {3, 32, 16}, ParameterKind::experts, 0, 0.5},
          {"table", {50, 8}, ParameterKind::embedding, 0, 0.5},
          {"scale", {17}, ParameterKind::vector, 1, 0.1}};
}

// A parameter as the optimizer sees it: in f32, with what rounding to bf16 left of it.
Tensor master_of(const Tensor& value, const Tensor& remainder) {
  if (value.dtype() != DType::bf16) return value;
  const Tensor master(value.shape(), DType::f32);
  for (int64_t i = 0; i < value.numel(); ++i) {
    master.data<float>()[i] = join_master({value.data<bf16>()[i], remainder.data<int16_t>()[i]});
  }
  return master;
}

Tensors masters_of(const ParameterStore& store, const Optimizer& optimizer) {
  std::map<std::string, Tensor> remainders;
  for (const StateTensor& s : optimizer.state()) {
    if (s.name.starts_with("master_remainder.")) {
      remainders[s.parameter] = to_device(s.tensor, kCpu);
    }
  }
  Tensors masters;
  for (size_t i = 0; i < store.specs().size(); ++i) {
    const Tensor value = to_device(clone(store.at(i)), kCpu);
    masters.push_back(master_of(value, remainders[store.specs()[i].name]));
  }
  return masters;
}

// The masters after some steps with fixed gradients.
Tensors train_on(Device device, DType dtype, bool bf16_products, uint32_t steps = 4) {
  ParameterStore store(gpu_specs(), dtype, device, true);
  for (size_t i = 0; i < store.specs().size(); ++i) {
    const Tensor drawn(store.specs()[i].shape, dtype);
    initialise(store.specs()[i], 1, drawn);
    copy_into(store.at(i), drawn);
  }
  OptimizerOptions options;
  options.muon.newton_schulz.bf16 = bf16_products;
  Optimizer optimizer(store, assign_rules(store.specs()), options);
  for (uint32_t step = 0; step < steps; ++step) {
    store.clear_gradients();
    for (size_t i = 0; i < store.specs().size(); ++i) {
      const Tensor g(store.specs()[i].shape, DType::f32);
      fill_normal(g, {3, static_cast<uint32_t>(i), step}, 0, 0.3);
      GradSink({store.at(i).variable()}).give(0, to_device(g, device));
    }
    EXPECT_TRUE(optimizer.step(1e-2).applied);
  }
  return masters_of(store, optimizer);
}

// The distance of the updates, as a share of their size.
void expect_close_updates(const Tensors& got, const Tensors& want, const Tensors& start,
                          double bound) {
  for (size_t k = 0; k < got.size(); ++k) {
    double distance = 0, size = 0;
    for (int64_t i = 0; i < got[k].numel(); ++i) {
      distance += std::pow(got[k].at(i) - want[k].at(i), 2);
      size += std::pow(want[k].at(i) - start[k].at(i), 2);
    }
    EXPECT_GT(size, 0) << gpu_specs()[k].name;
    EXPECT_LT(std::sqrt(distance / size), bound) << gpu_specs()[k].name;
  }
}

void expect_the_cpus_updates(Device device, DType dtype, bool bf16_products, double bound) {
  expect_close_updates(train_on(device, dtype, bf16_products), train_on(kCpu, dtype, bf16_products),
                       train_on(kCpu, dtype, bf16_products, 0), bound);
}

class GpuOptimizer : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  }
  Tensor newton_schulz_there(const Tensor& x, const NewtonSchulzOptions& options) const {
    return to_device(newton_schulz(clone(to_device(x, gpu_)), options), kCpu);
  }
  Device gpu_{Device::Kind::gpu, 0};
};

// x A and x A^2 alone, with A = x^T x or x x^T.
constexpr NewtonSchulzOptions kProduct{.a = 0, .b = 1, .c = 0, .steps = 1, .bf16 = true};
constexpr NewtonSchulzOptions kSquare{.a = 0, .b = 0, .c = 1, .steps = 1, .bf16 = true};

// Gradients, momentum and masters are f32 whatever the weights are: with the remainders bf16 costs
// no accuracy, and without them it would be off by 4 to 16 % of an update.
TEST_F(GpuOptimizer, UpdatesAsTheCpuDoes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_text(dtype));
    expect_the_cpus_updates(gpu_, dtype, false, 1e-4);
  }
}

TEST_F(GpuOptimizer, RoundsNewtonSchulzToBf16AsTheCpuDoes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(to_text(dtype));
    expect_the_cpus_updates(gpu_, dtype, true, 2e-2);
  }
}

// Large enough for tiles or stripes and their mirror; some end within a tile, some that the copy
// engine does not take.
TEST_F(GpuOptimizer, MultipliesLargeSymmetricMatricesAsTheCpuDoes) {
  for (const Shape& shape : {Shape{2, 1152, 1024}, Shape{1, 1024, 1088}, Shape{3, 648, 520},
                             Shape{2, 296, 1000}, Shape{2, 300, 290}}) {
    const Tensor x(shape, DType::f32);
    fill_normal(x, {5, 0, 0}, 0, 1 / std::sqrt(static_cast<double>(shape[1] * shape[2])));
    for (const NewtonSchulzOptions& options :
         {NewtonSchulzOptions{}, NewtonSchulzOptions{.bf16 = true},
          NewtonSchulzOptions{.c = 0, .steps = 1, .bf16 = true}}) {
      const Tensor want = newton_schulz(clone(x), options);
      const Tensor got = newton_schulz_there(x, options);
      EXPECT_TRUE(same_bits(got, newton_schulz_there(x, options))) << shape[1];
      double distance = 0, size = 0;
      for (int64_t i = 0; i < want.numel(); ++i) {
        distance += std::pow(got.at(i) - want.at(i), 2);
        size += std::pow(want.at(i), 2);
      }
      EXPECT_LT(std::sqrt(distance / size), options.bf16 ? 2e-2 : 1e-4)
          << shape[1] << " " << options.steps << " " << options.bf16;
    }
  }
}

// Half of the identity below a random matrix: below is half of the symmetric product itself.
TEST_F(GpuOptimizer, MakesMatricesThatAreSymmetricToTheBit) {
  for (const int64_t side : {1024, 520, 300}) {
    const int64_t above = 128;
    const Tensor x({2, above + side, side}, DType::f32);
    fill_normal(x, {6, 0, 0}, 0, 1 / std::sqrt(static_cast<double>(side)));
    for (int64_t m = 0; m < 2; ++m) {
      for (int64_t i = 0; i < side * side; ++i) {
        x.set((m * (above + side) + above) * side + i, i / side == i % side ? 0.5 : 0);
      }
    }
    for (const NewtonSchulzOptions& options : {kProduct, kSquare}) {
      const Tensor got = newton_schulz_there(x, options);
      int64_t different = 0;
      for (int64_t m = 0; m < 2; ++m) {
        const int64_t begin = (m * (above + side) + above) * side;
        for (int64_t i = 0; i < side; ++i) {
          for (int64_t j = 0; j < i; ++j) {
            different += got.at(begin + i * side + j) != got.at(begin + j * side + i);
          }
        }
      }
      EXPECT_EQ(different, 0) << side;
    }
  }
}

// More than two tiles for each multiprocessor: beside the portable products, row by row.
TEST_F(GpuOptimizer, MultipliesManyTilesAsThePortableKernelsDo) {
  const Tensor x({8, 2048, 2048}, DType::f32);
  fill_normal(x, {7, 0, 0}, 0, 1.0 / 64);
  for (const NewtonSchulzOptions& options : {kProduct, kSquare}) {
    const Tensor got = newton_schulz_there(x, options);
    EXPECT_TRUE(same_bits(got, newton_schulz_there(x, options)));
    const OnlyPortable portable;
    const Tensor want = newton_schulz_there(x, options);
    for (int64_t r = 0; r < 8 * 2048; ++r) {
      double distance = 0, size = 0;
      for (int64_t i = r * 2048; i < (r + 1) * 2048; ++i) {
        distance += std::pow(got.at(i) - want.at(i), 2);
        size += std::pow(want.at(i), 2);
      }
      ASSERT_LT(std::sqrt(distance / size), 2e-2) << "row " << r;
    }
  }
}

TEST_F(GpuOptimizer, GivesTheSameBitsEveryTime) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors a = train_on(gpu_, dtype, true), b = train_on(gpu_, dtype, true);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << gpu_specs()[i].name;
  }
}

TEST_F(GpuOptimizer, CountsChoicesAsTheCpuDoes) {
  constexpr int64_t kTokens = 5000, kClasses = 17;
  Tensor chosen({kTokens}, DType::i32), real({kTokens}, DType::i32);
  for (int64_t t = 0; t < kTokens; ++t) {
    chosen.set(t, static_cast<double>(t * t % kClasses));
    real.set(t, t % 5 == 0 ? 0 : 1);
  }
  for (const Tensor& marks : {Tensor(), real}) {
    const Tensor want = zeros({kClasses}, DType::i64), got = zeros({kClasses}, DType::i64, gpu_);
    for (int i = 0; i < 2; ++i) {  // adds to what is there
      count_experts(chosen, marks, want);
      count_experts(to_device(chosen, gpu_), to_device(marks, gpu_), got);
    }
    EXPECT_TRUE(same_bits(to_device(got, kCpu), want));
  }
}

}  // namespace
}  // namespace tephra
