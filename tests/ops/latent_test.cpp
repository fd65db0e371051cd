// SPDX-License-Identifier: Apache-2.0
// Attention on latents that are never expanded is attention on their expansion; and the messages
// of the ops for it.
#include <gtest/gtest.h>

#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/core/segments.h"
#include "tephra/ops/attention.h"
#include "tephra/ops/latent_decode.h"
#include "tephra/ops/latent_heads.h"
#include "tephra/ops/linear.h"
#include "tests/support/message_of.h"

namespace tephra::latent_test {
namespace {

constexpr int64_t kHeads = 3, kOwn = 5, kShared = 4, kValue = 7, kLatent = 19;

Tensor normal(const Shape& shape, uint32_t stream, DType dtype) {
  Tensor t(shape, dtype);
  fill_normal(t, {5, stream, 0}, 0, 0.5);
  return t;
}

struct Inputs {
  Tensor q, latent, shared, expand;

  Inputs(int64_t tokens, DType dtype)
      : q(normal({tokens, kHeads * (kOwn + kShared)}, 1, dtype)),
        latent(normal({tokens, kLatent + kShared}, 2, dtype)),
        shared(latent.column_view(kLatent, kLatent + kShared)),
        expand(normal({kHeads * (kOwn + kValue), kLatent}, 3, dtype)) {}

  Tensor expanded() const {
    const Tensor kv = linear(latent.column_view(0, kLatent), expand);
    const LatentHeads heads = latent_heads(kv, shared, kHeads, kOwn);
    return attention(q, heads.k, heads.v, ranges(), kOwn + kShared, 0.3).o;
  }
  Tensor absorbed() const {
    const Tensor seen = absorb_queries(q, expand, kHeads, kOwn);
    const Tensor o =
        attention(seen, latent, latent.column_view(0, kLatent), ranges(), kLatent + kShared, 0.3).o;
    return expand_values(o, expand, kHeads, kOwn);
  }
  KeyRanges ranges() const { return causal_ranges(Segments::batch(1, q.rows())); }
};

TEST(LatentDecode, IsAttentionOnTheExpandedLatents) {
  for (const int64_t tokens : {0, 1, 3, 15, 16, 40}) {
    for (const auto& [dtype, bound] :
         {std::pair(DType::f64, 1e-13), {DType::f32, 3e-6}, {DType::bf16, 6e-2}}) {
      const Inputs in(tokens, dtype);
      const Tensor want = in.expanded(), got = in.absorbed();
      ASSERT_EQ(got.shape(), want.shape());
      for (int64_t i = 0; i < got.numel(); ++i) {
        ASSERT_NEAR(got.at(i), want.at(i), bound) << tokens << " tokens in " << to_text(dtype);
      }
    }
  }
}

TEST(LatentDecode, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const int64_t tokens : {7, 200}) {
    const Inputs in(tokens, DType::f32);
    set_num_threads(1);
    const Tensor one = in.absorbed();
    for (const int threads : {2, 3, 8, 16}) {
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(in.absorbed(), one)) << tokens << " tokens, " << threads << " threads";
    }
    set_num_threads(2);
  }
}

TEST(LatentDecode, OfATokenDoesNotDependOnTheTokensAroundIt) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Inputs in(15, dtype);
    const Tensor all = absorb_queries(in.q, in.expand, kHeads, kOwn);
    for (int64_t r = 0; r < 15; ++r) {
      const Tensor alone = absorb_queries(in.q.slice_rows(r, r + 1), in.expand, kHeads, kOwn);
      EXPECT_TRUE(same_bits(alone, all.slice_rows(r, r + 1))) << r;
    }
  }
}

// The same for 16 rows and more, at the widths of a real model.
TEST(LatentDecode, OfAnyBatchFrom16RowsOnGivesARowTheSameBits) {
  constexpr int64_t kManyHeads = 4, kWide = 128, kRest = 64, kWideLatent = 512;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor q = normal({150, kManyHeads * (kWide + kRest)}, 1, dtype);
    const Tensor o = normal({150, kManyHeads * kWideLatent}, 2, dtype);
    const Tensor expand = normal({kManyHeads * 2 * kWide, kWideLatent}, 3, dtype);
    const Tensor queries = absorb_queries(q, expand, kManyHeads, kWide);
    const Tensor values = expand_values(o, expand, kManyHeads, kWide);
    for (const int64_t rows : {16, 17, 31, 64, 129}) {
      const int64_t first = 150 - rows;
      EXPECT_TRUE(same_bits(absorb_queries(q.slice_rows(first, 150), expand, kManyHeads, kWide),
                            queries.slice_rows(first, 150)))
          << rows << " rows";
      EXPECT_TRUE(same_bits(expand_values(o.slice_rows(first, 150), expand, kManyHeads, kWide),
                            values.slice_rows(first, 150)))
          << rows << " rows";
    }
  }
}

TEST(Latent, SaysWhatDoesNotFit) {
  const Inputs in(2, DType::f32);
  const Tensor x({2, 36}, DType::f32);
  EXPECT_EQ(message_of([&] { absorb_queries(in.q, in.expand, 5, 4); }),
            "absorb_queries: expand must be [5 * (4 + value_dim), latent], got [36, 19]");
  EXPECT_EQ(message_of([&] { absorb_queries(in.q, in.expand, 2, 14); }),
            "absorb_queries: q must be [tokens, 2 * (14 + rest)], got [2, 27]");
  EXPECT_EQ(message_of([&] { expand_values(x, in.expand, 3, 5); }),
            "expand_values: o must be [tokens, 3 * 19], got [2, 36]");
  EXPECT_EQ(message_of([&] { expand_values(to_dtype(x, DType::bf16), in.expand, 3, 5); }),
            "expand_values: expand is f32, its input is bf16");
  EXPECT_EQ(message_of([&] { latent_heads(x, in.shared, 3, 12); }),
            "latent_heads: x must be [tokens, 3 * (12 + value_dim)], got [2, 36]");
  EXPECT_EQ(message_of([&] {
              latent_heads(x, Tensor({3, 4}, DType::f32), 3, 5);
            }),
            "latent_heads: shared must be [2, width] to match the rows of x [2, 36], got [3, 4]");
}

}  // namespace
}  // namespace tephra::latent_test
