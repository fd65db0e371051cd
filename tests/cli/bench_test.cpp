// SPDX-License-Identifier: Apache-2.0
// Peers and rows of the op bench, on sizes that take no time. Speeds are only checked to be there.
#include <gtest/gtest.h>

#include "tephra/autograd/tape.h"
#include "tephra/cli/bench_ops.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/ops/rms_norm.h"

namespace tephra {
namespace {

TEST(Peers, TakeTheNearestMixOfReadsAndWrites) {
  EXPECT_EQ(nearest_mix(100, 100), (StreamMix{1, 1}));
  EXPECT_EQ(nearest_mix(100, 0), (StreamMix{4, 0}));
  EXPECT_EQ(nearest_mix(0, 5), (StreamMix{0, 1}));
  EXPECT_EQ(nearest_mix(201, 100), (StreamMix{2, 1}));
  EXPECT_EQ(nearest_mix(4, 3), (StreamMix{4, 3}));
  EXPECT_EQ(nearest_mix(3, 2), (StreamMix{3, 2}));
  EXPECT_EQ(nearest_mix(7, 1), (StreamMix{4, 1}));
  EXPECT_EQ(nearest_mix(9, 1), (StreamMix{4, 0}));
  EXPECT_EQ(nearest_mix(1, 7), (StreamMix{0, 1}));
}

TEST(Peers, CountTheBytesOfEveryStream) {
  for (int reads = 0; reads <= kMaxStreamReads; ++reads) {
    for (int writes = 0; writes <= kMaxStreamWrites; ++writes) {
      if (reads + writes == 0) continue;
      const StreamPeer peer({reads, writes}, int64_t{1} << 20);
      EXPECT_LE(peer.bytes(), 1 << 20);
      EXPECT_GT(peer.bytes(), 1 << 19);
      peer.run();
    }
  }
}

TEST(Peers, CountTheFlopsOfEveryProduct) {
  const GemmPeer peer({{.m = 2, .n = 3, .k = 4, .count = 5}, {.m = 7, .n = 1, .k = 2}});
  EXPECT_EQ(peer.flops(), 2 * 2 * 3 * 4 * 5 + 2 * 7 * 1 * 2);
  for (const bool transposed : {false, true}) {
    GemmPeer({{.m = 5, .n = 6, .k = 7, .transpose_a = transposed, .transpose_b = !transposed}})
        .run(3);
  }
}

// Ours must stay single-threaded tiles after the library ran with its own threads.
TEST(Peers, LeaveOurOwnProductsAsTheyWere) {
  const int64_t n = 300;
  std::vector<float> a(n * n), before(n * n), after(n * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = 1.0f / static_cast<float>(1 + i % 1013);
  const auto product = [&](std::vector<float>& c) {
    cpu::gemm(cpu::Gemm<float, float>{n, n, n, a.data(), n, false, a.data(), n, true, c.data(), n});
  };
  product(before);
  GemmPeer({{.m = 64, .n = 64, .k = 64}}).run(4);
  product(after);
  EXPECT_EQ(before, after);
}

const Ceilings kSome{.gemm_gflops = 100, .gemm_gflops_per_thread = 50, .streams = {{{1, 1}, 10}}};

OpBench small_bench() {
  return {.name = "small",
          .inputs = {{.shape = {64, 32}}, InputSpec::parameter({32})},
          .run = [](const Tensors& in) { return Tensors{rms_norm(in[0], in[1], 1e-5)}; }};
}

std::vector<BenchRow> rows_of(const OpBench& bench, bool backward) {
  return bench_ops({{.name = "op", .cases = {}, .benches = {bench}}},
                   {.seconds = 0, .backward = backward}, kSome);
}

TEST(BenchRows, CompareBytesWithStreamsOfTheSameMix) {
  OpBench bench = small_bench();
  bench.forward_read_bytes = bench.forward_write_bytes = 8192;
  bench.backward_read_bytes = 16384;
  bench.backward_write_bytes = 8192;
  const std::vector<BenchRow> rows = rows_of(bench, true);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].op, "op");
  EXPECT_EQ(rows[0].peer, "memory 1r 1w");
  EXPECT_FALSE(rows[0].backward);
  EXPECT_EQ(rows[1].peer, "memory 2r 1w");
  EXPECT_TRUE(rows[1].backward);
  for (const BenchRow& row : rows) {
    EXPECT_GE(row.passes, 3);
    EXPECT_GT(row.seconds, 0);
    EXPECT_GT(row.share, 0);
  }
}

TEST(BenchRows, CompareProductsWithTheLibraryAtTheSameShapes) {
  OpBench bench = small_bench();
  bench.forward_gemms = {{.m = 64, .n = 32, .k = 32}};
  bench.forward_flops = 2.0 * 64 * 32 * 32;
  const std::vector<BenchRow> rows = rows_of(bench, false);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].peer, "sgemm, same shapes");
  EXPECT_NEAR(rows[0].share, rows[0].peer_seconds / rows[0].seconds, 1e-9);
}

TEST(BenchRows, TakeTheBoundThatCostsMore) {
  OpBench bench = small_bench();
  bench.forward_read_bytes = bench.forward_write_bytes = 5e5;  // 0.1 ms at 10 GB/s
  bench.forward_flops = 1e6;                                   // 0.01 ms at 100 GFLOP/s
  EXPECT_EQ(rows_of(bench, false)[0].peer, "memory 1r 1w");
  bench.forward_flops = 1e8;
  EXPECT_EQ(rows_of(bench, false)[0].peer, "sgemm, peak");
}

TEST(BenchRows, HaveNoShareWhereNoWorkIsStated) {
  const BenchRow row = rows_of(small_bench(), false)[0];
  EXPECT_EQ(row.peer, "");
  EXPECT_EQ(row.share, 0);
  EXPECT_GT(row.seconds, 0);
}

TEST(BenchRows, TakeTheForwardPassOffGradientsComputedInIt) {
  OpBench bench = small_bench();
  bench.gradients_in_forward = true;
  bench.backward_flops = 1e6;
  const BenchRow row = rows_of(bench, true)[1];
  EXPECT_GT(row.seconds, 0);
  EXPECT_GT(row.share, 0);
}

TEST(BenchRows, CoverEveryOpThatHasABench) {
  const std::vector<OpSpec> all = bench_specs();
  EXPECT_EQ(all.size(), all_op_specs().size() + 1);
  EXPECT_EQ(all.back().name, "model");
  EXPECT_EQ(bench_specs({"rms_norm"}).size(), 1u);
}

}  // namespace
}  // namespace tephra
