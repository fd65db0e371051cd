// SPDX-License-Identifier: Apache-2.0
// What the op suite cannot say of attention: memory, splitting and merging, extreme scores, how
// work is cut, and the messages for wrong use.
#include "tephra/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tephra/autograd/tape.h"
#include "tephra/core/rng.h"
#include "tephra/ops/attention_tiles.h"
#include "tephra/ops/merge_attention.h"
#include "tests/support/difference.h"
#include "tests/support/message_of.h"

namespace tephra::attention_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor normal(const Shape& shape, uint32_t stream, double scale = 1, DType dtype = DType::f32) {
  Tensor t(shape, dtype);
  fill_normal(t, {11, stream, 0}, 0, scale);
  return t;
}

KeyRanges ranges_of(const std::vector<int32_t>& first, const std::vector<int32_t>& last) {
  const Shape shape{static_cast<int64_t>(first.size())};
  return {from_values(shape, first), from_values(shape, last)};
}

bool all_finite(const Tensor& t) {
  for (int64_t i = 0; i < t.numel(); ++i) {
    if (!std::isfinite(t.at(i))) return false;
  }
  return true;
}

// Peak bytes of a forward and backward pass beyond what was there before.
int64_t peak_bytes(int64_t tokens) {
  constexpr int64_t kDim = 8;
  Tensor q = normal({tokens, 2 * kDim}, 1), k = normal({tokens, kDim}, 2),
         v = normal({tokens, kDim}, 3);
  for (Tensor* t : {&q, &k, &v}) make_leaf(*t, DType::f32);
  const KeyRanges causal = causal_ranges(Segments::batch(1, tokens));
  const int64_t before = memory_use().back().bytes;
  reset_memory_peaks();
  Tape tape;
  const AttentionOutput out = attention(q, k, v, causal, kDim, 0.3);
  tape.backward({out.o, out.lse}, {clone(out.o), clone(out.lse)});
  return memory_use().back().peak_bytes - before;
}

TEST(Attention, NeedsMemoryLinearInTheNumberOfTokens) {
  const int64_t small = peak_bytes(2048), large = peak_bytes(8192);
  EXPECT_LT(large, 4.5 * static_cast<double>(small));
  EXPECT_LT(large, 8192 * 8192);  // a quarter of one head's scores
}

TEST(Attention, IsTheMergeOfItsParts) {
  const Tensor q = normal({50, 32}, 1), k = normal({50, 16}, 2), v = normal({50, 16}, 3);
  KeyRanges whole = causal_ranges(Segments::batch(1, 50)), older, newer;
  older = {clone(whole.first_N), clone(whole.last_N)};
  newer = {clone(whole.first_N), clone(whole.last_N)};
  for (int32_t i = 0; i < 50; ++i) {
    older.last_N.data<int32_t>()[i] = std::min(20, i + 1);
    newer.first_N.data<int32_t>()[i] = std::min(20, i + 1);  // empty for the first 20
  }
  const AttentionOutput want = attention(q, k, v, whole, 8, 0.5);
  const AttentionOutput a = attention(q, k, v, older, 8, 0.5);
  const AttentionOutput b = attention(q, k, v, newer, 8, 0.5);
  for (const AttentionOutput& got : {merge_attention(a, b), merge_attention(b, a)}) {
    EXPECT_LT(largest_difference(got.o, want.o), 2e-6);
    EXPECT_LT(largest_difference(got.lse, want.lse), 2e-6);
  }
  // A part without keys changes no bit.
  EXPECT_TRUE(same_bits(merge_attention(a, b).o.slice_rows(0, 20), a.o.slice_rows(0, 20)));
}

TEST(Attention, GradientsThroughTheMergeOfPartsAreThoseOfTheWhole) {
  const auto gradients = [](bool split) {
    Tensors in{normal({30, 16}, 1, 1, DType::f64), normal({30, 8}, 2, 1, DType::f64),
               normal({30, 8}, 3, 1, DType::f64)};
    for (Tensor& t : in) make_leaf(t, DType::f64);
    const KeyRanges whole = causal_ranges(Segments::batch(1, 30));
    KeyRanges older{whole.first_N, clone(whole.last_N)};
    KeyRanges newer{clone(whole.first_N), whole.last_N};
    for (int32_t i = 0; i < 30; ++i) {
      older.last_N.data<int32_t>()[i] = newer.first_N.data<int32_t>()[i] = std::min(13, i + 1);
    }
    Tape tape;
    const AttentionOutput out = split
                                    ? merge_attention(attention(in[0], in[1], in[2], older, 8, 0.5),
                                                      attention(in[0], in[1], in[2], newer, 8, 0.5))
                                    : attention(in[0], in[1], in[2], whole, 8, 0.5);
    tape.backward({out.o}, {normal(out.o.shape(), 9, 1, DType::f64)});
    Tensors grads;
    for (const Tensor& t : in) grads.push_back(gradient(t));
    return grads;
  };
  const Tensors parts = gradients(true), whole = gradients(false);
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(largest_difference(parts[i], whole[i]), 1e-12) << i;
}

TEST(Attention, TakesTheGradientOfLseAlone) {
  Tensors in{normal({9, 16}, 1, 1, DType::f64), normal({9, 8}, 2, 1, DType::f64),
             normal({9, 8}, 3, 1, DType::f64)};  // two query heads share one KV head
  for (Tensor& t : in) make_leaf(t, DType::f64);
  const KeyRanges causal = causal_ranges(Segments::batch(1, 9));
  const auto lse_sum = [&] {
    const NoGrad no_grad;
    const Tensor lse = attention(in[0], in[1], in[2], causal, 8, 0.5).lse;
    double sum = 0;
    for (int64_t i = 0; i < lse.numel(); ++i) sum += lse.at(i);
    return sum;
  };
  {
    Tape tape;
    const AttentionOutput out = attention(in[0], in[1], in[2], causal, 8, 0.5);
    tape.backward({out.lse}, {full(out.lse.shape(), DType::f64, 1)});
  }
  for (size_t i = 0; i < 2; ++i) {
    const double x = in[i].at(17), h = 1e-6;
    in[i].set(17, x + h);
    const double up = lse_sum();
    in[i].set(17, x - h);
    const double down = lse_sum();
    in[i].set(17, x);
    EXPECT_NEAR(gradient(in[i]).at(17), (up - down) / (2 * h), 1e-8) << i;
  }
  EXPECT_EQ(largest_difference(gradient(in[2]), zeros({9, 8}, DType::f64)), 0);
}

TEST(Attention, StaysFiniteWithHugeScores) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const double size : {5.0, 60.0, 1e4}) {  // scores of about +-150 up to 1e9
      Tensors in{normal({40, 16}, 1, size, dtype), normal({40, 8}, 2, size, dtype),
                 normal({40, 8}, 3, 1, dtype)};
      for (Tensor& t : in) make_leaf(t, t.dtype());
      Tape tape;
      const AttentionOutput out =
          attention(in[0], in[1], in[2], causal_ranges(Segments::batch(1, 40)), 8, 1);
      EXPECT_TRUE(all_finite(out.o));
      EXPECT_TRUE(all_finite(out.lse));
      tape.backward({out.o, out.lse}, {full(out.o.shape(), dtype, 1), clone(out.lse)});
      for (const Tensor& t : in) EXPECT_TRUE(all_finite(gradient(t))) << to_text(dtype);
    }
  }
}

TEST(Attention, OfVeryNegativeScoresIsStillAnAverage) {
  // All scores are -400, far below where exp underflows: o is the mean of the values.
  Tensor q = full({3, 8}, DType::f32, 10), k = full({3, 8}, DType::f32, -5), v = normal({3, 8}, 1);
  const AttentionOutput out = attention(q, k, v, ranges_of({0, 0, 0}, {1, 2, 3}), 8, 1);
  EXPECT_NEAR(out.o.at(16), (v.at(0) + v.at(8) + v.at(16)) / 3, 1e-6);
  EXPECT_NEAR(out.lse.at(2), -400 + std::log(3), 1e-4);
}

TEST(Attention, DoesNotHideNotANumber) {
  const Tensor q = normal({4, 8}, 1), k = normal({4, 8}, 2), v = normal({4, 8}, 3);
  k.set(2 * 8, std::nan(""));
  const AttentionOutput out = attention(q, k, v, causal_ranges(Segments::batch(1, 4)), 8, 1);
  EXPECT_TRUE(std::isfinite(out.o.at(8)));
  EXPECT_TRUE(std::isnan(out.o.at(2 * 8)));
  EXPECT_TRUE(std::isnan(out.lse.at(3)));
}

TEST(Attention, ReadsOneTensorAsQueriesKeysAndValues) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensor shared = normal({150, 8}, 1, 1, dtype);
    make_leaf(shared, dtype);
    Tensors apart{clone(shared), clone(shared), clone(shared)};
    for (Tensor& t : apart) make_leaf(t, dtype);
    const KeyRanges causal = causal_ranges(Segments::batch(1, 150));
    const auto run = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      Tape tape;
      const AttentionOutput out = attention(q, k, v, causal, 8, 0.4);
      tape.backward({out.o}, {normal(out.o.shape(), 4, 1, dtype)});
    };
    run(shared, shared, shared);
    run(apart[0], apart[1], apart[2]);
    const Tensor sum = to_dtype(gradient(apart[0]), DType::f32);
    add_into(sum, gradient(apart[1]));
    add_into(sum, gradient(apart[2]));
    const double bound = dtype == DType::f32 ? 1e-5 : 0.1;
    EXPECT_LT(largest_difference(gradient(shared), sum), bound);
  }
}

TEST(MergeAttention, OfTwoEmptyPartsIsEmptyAndGivesNoGradient) {
  Tensor o = zeros({1, 8}, DType::f32), lse = full({1, 1}, DType::f32, -kInfinity);
  Tensors in{clone(o), clone(lse), clone(o), clone(lse)};
  for (Tensor& t : in) make_leaf(t, DType::f32);
  Tape tape;
  const AttentionOutput out = merge_attention({in[0], in[1]}, {in[2], in[3]});
  EXPECT_TRUE(same_bits(out.o, o));
  EXPECT_TRUE(same_bits(out.lse, lse));
  tape.backward({out.o, out.lse}, {full({1, 8}, DType::f32, 1), full({1, 1}, DType::f32, 1)});
  for (const Tensor& t : in) {
    EXPECT_EQ(largest_difference(gradient(t), zeros(t.shape(), DType::f32)), 0);
  }
}

TEST(MergeAttention, GivesAnEmptyPartNoGradient) {
  Tensors in{zeros({1, 8}, DType::f32), full({1, 1}, DType::f32, -kInfinity), normal({1, 8}, 1),
             full({1, 1}, DType::f32, 2)};
  for (Tensor& t : in) make_leaf(t, DType::f32);
  Tape tape;
  const AttentionOutput out = merge_attention({in[0], in[1]}, {in[2], in[3]});
  EXPECT_TRUE(same_bits(out.o, in[2]));
  EXPECT_EQ(out.lse.at(0), 2);
  const Tensor d_o = normal({1, 8}, 2);
  tape.backward({out.o, out.lse}, {d_o, full({1, 1}, DType::f32, 3)});
  EXPECT_EQ(largest_difference(gradient(in[0]), zeros({1, 8}, DType::f32)), 0);
  EXPECT_EQ(gradient(in[1]).at(0), 0);
  EXPECT_TRUE(same_bits(gradient(in[2]), d_o));
  EXPECT_EQ(gradient(in[3]).at(0), 3);
}

// A decoding cache lies in pages; which ones must not change a bit.
TEST(Attention, KeysInPagesGiveTheBitsOfKeysInARow) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t dim : {8, 64, 128}) {
      constexpr int64_t kPageRows = 32, kPages = 40;  // more keys than one tile holds
      const Tensor k = normal({kPages * kPageRows, 2 * dim}, 2, 1, dtype);
      const Tensor v = normal({kPages * kPageRows, 2 * dim}, 3, 1, dtype);
      Tensor paged_k = empty_like(k), paged_v = empty_like(v);
      std::vector<int32_t> pages;
      for (int64_t p = 0; p < kPages; ++p) {
        // Some of them neighbours, most not.
        const int64_t at = p < 6 ? p : 6 + (p - 6) * 7 % (kPages - 6);
        pages.push_back(static_cast<int32_t>(at));
        const auto rows = [&](const Tensor& t, int64_t page) {
          return t.slice_rows(page * kPageRows, (page + 1) * kPageRows);
        };
        copy_into(rows(paged_k, at), rows(k, p));
        copy_into(rows(paged_v, at), rows(v, p));
      }
      // A chunk of 40 tokens with a long past, then single ones, with and without a window.
      std::vector<int32_t> first, last;
      for (int32_t i = 0; i < 40; ++i) {
        first.push_back(0);
        last.push_back(1000 + i);
      }
      for (const int32_t end : {1100, 1279}) {
        first.push_back(end - 57);
        last.push_back(end);
      }
      const Tensor q = normal({static_cast<int64_t>(first.size()), 4 * dim}, 1, 1, dtype);
      KeyRanges ranges = ranges_of(first, last);
      const AttentionOutput want = attention(q, k, v, ranges, dim, 0.3);
      ranges.pages = from_values({kPages}, pages);
      ranges.page_rows = kPageRows;
      const AttentionOutput got = attention(q, paged_k, paged_v, ranges, dim, 0.3);
      EXPECT_TRUE(same_bits(got.o, want.o)) << dim;
      EXPECT_TRUE(same_bits(got.lse, want.lse)) << dim;
      for (int64_t i = 40; i < q.rows(); ++i) {
        const auto at = static_cast<size_t>(i);
        const KeyRanges row = ranges_of({first[at]}, {last[at]});
        KeyRanges one = row;
        one.pages = ranges.pages;
        one.page_rows = kPageRows;
        const Tensor query = q.slice_rows(i, i + 1);
        EXPECT_TRUE(same_bits(attention(query, paged_k, paged_v, one, dim, 0.3).o,
                              attention(query, k, v, row, dim, 0.3).o));
      }
    }
  }
}

TEST(Attention, SaysWhichPageIsWrong) {
  const Tensor k = normal({8, 8}, 1), q = normal({1, 8}, 2);
  KeyRanges ranges = ranges_of({0}, {3});
  ranges.pages = from_values<int32_t>({2}, {1, 4});
  ranges.page_rows = 2;
  EXPECT_EQ(message_of([&] { attention(q, k, k, ranges, 8, 1); }),
            "attention: page 1 is 4, which has no 2 rows among the 8 of k");
}

// Every visible pair is in exactly one tile, and tiles of a wave share neither rows nor keys.
void expect_sound(const KeyRanges& ranges, int64_t rows, int64_t keys) {
  std::set<std::pair<int64_t, int64_t>> covered;
  for (const auto& wave : kernel::tile_waves(ranges, rows, keys)) {
    std::set<int64_t> rows_of_wave, keys_of_wave;
    for (const kernel::AttentionTile& tile : wave) {
      EXPECT_LE(tile.row_end - tile.row, rows);
      EXPECT_LE(tile.key_end - tile.key, keys);
      for (int64_t i = tile.row; i < tile.row_end; ++i) {
        EXPECT_TRUE(rows_of_wave.insert(i).second) << "row " << i << " twice in a wave";
        for (int64_t j = tile.key; j < tile.key_end; ++j) {
          if (j < ranges.first_N.data<int32_t>()[i] || j >= ranges.last_N.data<int32_t>()[i]) {
            continue;
          }
          EXPECT_TRUE(covered.insert({i, j}).second) << "pair " << i << ", " << j << " twice";
        }
      }
      for (int64_t j = tile.key; j < tile.key_end; ++j) {
        EXPECT_TRUE(keys_of_wave.insert(j).second) << "key " << j << " twice in a wave";
      }
    }
  }
  size_t pairs = 0;
  for (int64_t i = 0; i < ranges.first_N.numel(); ++i) {
    pairs += static_cast<size_t>(ranges.last_N.at(i) - ranges.first_N.at(i));
  }
  EXPECT_EQ(covered.size(), pairs);
}

TEST(AttentionTiles, CoverEveryVisiblePairOnceAndNeverMeetInAWave) {
  expect_sound(causal_ranges(Segments::batch(1, 100)), 8, 16);
  expect_sound(causal_ranges(Segments::batch(1, 100), 11), 8, 16);
  expect_sound(causal_ranges(Segments::packed(std::vector<int64_t>{1, 40, 0, 33, 2, 60})), 16, 16);
  expect_sound(ranges_of({7, 0, 50, 3, 60, 9}, {7, 64, 90, 70, 60, 9}), 4, 16);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<int32_t> first, last;
    for (uint64_t i = 0; i < 60; ++i) {
      const auto bits = philox({seed, 0, 0}, i);
      first.push_back(static_cast<int32_t>(bits[0] % 100));
      last.push_back(first.back() + static_cast<int32_t>(bits[1] % (101 - first.back())));
    }
    expect_sound(ranges_of(first, last), 8, 16);
  }
}

TEST(AttentionTiles, ComputeLittleMoreThanWhatIsVisible) {
  const auto tile_pairs = [](const KeyRanges& ranges) {
    int64_t pairs = 0;
    for (const kernel::AttentionTile& t : kernel::query_blocks(ranges, 64)) {
      pairs += (t.row_end - t.row) * (t.key_end - t.key);
    }
    return pairs;
  };
  EXPECT_LT(tile_pairs(causal_ranges(Segments::batch(1, 2048))), 2048 * (1024 + 64));
  EXPECT_LT(tile_pairs(causal_ranges(Segments::batch(1, 2048), 100)), 2048 * (100 + 64));
  EXPECT_LT(tile_pairs(causal_ranges(Segments::batch(4, 512))), 2048 * (256 + 64));
  // Decoding: each query sees its own keys and no others are touched.
  EXPECT_EQ(tile_pairs(ranges_of({0, 4000, 8000}, {4000, 8000, 8100})), 8100);
}

// Serving relies on it: what a prefix cache holds is what a longer prompt would compute.
TEST(Attention, OfATokenDoesNotDependOnTheTokensAroundIt) {
  constexpr int64_t kTokens = 150, kDim = 16;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor q = normal({kTokens, 4 * kDim}, 1, 1, dtype);
    const Tensor k = normal({kTokens, 2 * kDim}, 2, 1, dtype);
    const Tensor v = normal({kTokens, 2 * kDim}, 3, 1, dtype);
    // Attention of rows [begin, end) that see the keys from `first` on.
    const auto run = [&](const KeyRanges& ranges, int64_t begin, int64_t end, int64_t first) {
      return attention(q.slice_rows(begin, end), k.slice_rows(first, end), v.slice_rows(first, end),
                       ranges, kDim, 0.25);
    };
    const Tensor whole = run(causal_ranges(Segments::batch(1, kTokens)), 0, kTokens, 0).o;
    for (int64_t n = 2; n < kTokens; n += n < 20 ? 1 : 9) {
      const Tensor prefix = run(causal_ranges(Segments::batch(1, n)), 0, n, 0).o;
      EXPECT_TRUE(same_bits(prefix, whole.slice_rows(0, n))) << n << " tokens";
      const auto lengths = std::vector<int64_t>{n, kTokens - n};
      const Tensor packed = run(causal_ranges(Segments::packed(lengths)), 0, kTokens, 0).o;
      EXPECT_TRUE(same_bits(packed.slice_rows(0, n), prefix)) << n << " tokens and others";
      const Tensor second = run(causal_ranges(Segments::batch(1, kTokens - n)), n, kTokens, n).o;
      if (kTokens - n == 1) continue;  // a token alone is a decode step
      EXPECT_TRUE(same_bits(packed.slice_rows(n, kTokens), second)) << "behind " << n << " tokens";
    }
    // A chunk of the prompt on the cache of what came before.
    std::vector<int32_t> last;
    for (int32_t i = 64; i < kTokens; ++i) last.push_back(i + 1);
    const Tensor chunk =
        run(ranges_of(std::vector<int32_t>(last.size(), 0), last), 64, kTokens, 0).o;
    EXPECT_TRUE(same_bits(chunk, whole.slice_rows(64, kTokens)));
  }
}

// A query alone on its keys has kernels of its own; beside another that sees the same keys it has
// not.
TEST(Attention, OfADecodedTokenIsThatOfTheSameTokenInAChunk) {
  constexpr int64_t kDim = 128, kKeys = 700;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensor q = normal({2, 8 * kDim}, 1, 1, dtype);
    const Tensor k = normal({kKeys, 2 * kDim}, 2, 1, dtype);
    const Tensor v = normal({kKeys, 2 * kDim}, 3, 1, dtype);
    for (const int32_t last : {1, 3, 127, 128, 129, 700}) {
      const AttentionOutput both = attention(q, k, v, ranges_of({0, 0}, {last, last}), kDim, 0.088);
      const AttentionOutput alone =
          attention(q.slice_rows(1, 2), k, v, ranges_of({0}, {last}), kDim, 0.088);
      const double bound = dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : 2e-2;
      EXPECT_LT(largest_difference(alone.o, both.o.slice_rows(1, 2)), bound) << last << " keys";
      EXPECT_LT(largest_difference(alone.lse, both.lse.slice_rows(1, 2)), 2e-5) << last << " keys";
    }
  }
}

TEST(Attention, ExplainsWrongUse) {
  const auto zero = [](int64_t rows, int64_t cols) { return zeros({rows, cols}, DType::f32); };
  const KeyRanges two = ranges_of({0, 0}, {1, 2});
  const auto call = [&](const Tensor& q, const Tensor& k, const KeyRanges& ranges, int64_t dim) {
    return message_of([&] { attention(q, k, k, ranges, dim, 1); });
  };
  EXPECT_EQ(call(zero(2, 12), zero(2, 8), two, 8),
            "attention: q has 12 columns, which is not a number of heads of 8");
  EXPECT_EQ(call(zero(2, 24), zero(2, 16), two, 8),
            "attention: 3 query heads cannot share 2 KV heads evenly; one must divide the other");
  EXPECT_EQ(call(zero(2, 8), zero(1, 8), two, 8),
            "attention: query 1 sees keys [0, 2), which is no range within the 1 rows of k");
  EXPECT_EQ(call(zero(2, 8), zero(2, 8), ranges_of({0, 2}, {1, 1}), 8),
            "attention: query 1 sees keys [2, 1), which is no range within the 2 rows of k");
  EXPECT_EQ(call(zero(3, 8), zero(2, 8), two, 8),
            "attention: ranges must be [3] to match the rows of q, got [2] and [2]");
  EXPECT_EQ(call(zeros({2, 8}, DType::bf16), zero(2, 8), two, 8),
            "attention: q, k and v must have one dtype, got bf16, f32 and f32");
  EXPECT_EQ(message_of([&] { attention(zero(2, 8), zero(2, 8), zero(3, 8), two, 8, 1); }),
            "attention: k and v must have as many rows, got [2, 8] and [3, 8]");
  EXPECT_EQ(message_of([&] { attention(zero(2, 16), zero(2, 16), zero(2, 9), two, 8, 1); }),
            "attention: v has 9 columns, which do not divide into the 2 heads of k");
  EXPECT_EQ(message_of([&] { attention(zero(2, 8), zero(2, 8), zero(2, 8), two, 8, 0); }),
            "attention: scale must be positive, got 0");
  EXPECT_EQ(message_of([&] {
              merge_attention({zero(2, 8), zero(2, 1)}, {zero(3, 8), zero(3, 1)});
            }),
            "merge_attention: both parts must have the same shapes, got o [2, 8] and [3, 8], lse "
            "[2, 1] and [3, 1]");
}

}  // namespace
}  // namespace tephra::attention_test
