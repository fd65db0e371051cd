// SPDX-License-Identifier: Apache-2.0
// Matrix products against a naive loop, and the promises of gemm.h about bits.
#include "tephra/device/cpu/gemm.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/base/signals.h"

namespace tephra::cpu {
namespace {

// Numbers in [-1, 1) with all their bits used, so that another order of a sum gives other bits.
template <class T>
std::vector<T> numbers(int64_t count, uint32_t seed) {
  std::vector<T> values;
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    values.push_back(T(static_cast<int32_t>(state) / 2147483648.0));
  }
  return values;
}

// A product with its operands; rows are `gap` elements longer than they need to be.
template <class In, class Out, class W = In>
struct Product {
  std::vector<In> a, bias;
  std::vector<W> b;
  std::vector<Out> c;
  Gemm<In, Out, W> g;

  Product(int64_t m, int64_t n, int64_t k, bool ta, bool tb, int64_t gap = 0) {
    const int64_t lda = (ta ? m : k) + gap, ldb = (tb ? k : n) + gap, ldc = n + gap;
    a = numbers<In>((ta ? k : m) * lda + 1, 1);
    b = numbers<W>((tb ? n : k) * ldb + 1, 2);
    c = numbers<Out>(m * ldc + 1, 3);
    bias = numbers<In>(n + 1, 4);
    g = {m, n, k, a.data(), lda, ta, b.data(), ldb, tb, c.data(), ldc};
  }
};

double tolerance(double) { return 1e-13; }
double tolerance(float) { return 2e-6; }
double tolerance(bf16) { return 4e-3; }

template <class In, class Out, class W>
void expect_naive(Product<In, Out, W> p) {
  const Gemm<In, Out, W>& g = p.g;
  const std::vector<Out> before = p.c;
  gemm(g);
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.ldc; ++j) {
      const auto at = static_cast<size_t>(i * g.ldc + j);
      if (j >= g.n) {
        ASSERT_EQ(double(p.c[at]), double(before[at])) << "wrote past the end of row " << i;
        continue;
      }
      double sum = (g.accumulate ? double(before[at]) : 0) + (g.bias ? double(g.bias[j]) : 0);
      double size = std::abs(sum) + 1;
      for (int64_t q = 0; q < g.k; ++q) {
        const double t = double(g.transpose_a ? g.a[q * g.lda + i] : g.a[i * g.lda + q]) *
                         double(g.transpose_b ? g.b[j * g.ldb + q] : g.b[q * g.ldb + j]);
        sum += t;
        size += std::abs(t);
      }
      ASSERT_NEAR(double(p.c[at]), sum, tolerance(Out()) * size)
          << g.m << " x " << g.n << " x " << g.k << (g.transpose_a ? " T" : " N")
          << (g.transpose_b ? "T" : "N") << " at " << i << ", " << j;
    }
  }
}

template <class In, class Out>
void expect_naive_everywhere() {
  constexpr int64_t kSizes[][3] = {{1, 1, 1},    {1, 67, 129},  {3, 5, 7},     {15, 33, 40},
                                   {16, 16, 16}, {17, 1, 9},    {64, 130, 0},  {0, 4, 5},
                                   {4, 0, 5},    {133, 70, 31}, {529, 513, 5}, {17, 9, 2100}};
  for (const auto& [m, n, k] : kSizes) {
    for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
      Product<In, Out> p(m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0 ? 3 : 0);
      p.g.accumulate = (flags & 8) != 0;
      if ((flags & 4) != 0) p.g.bias = p.bias.data();
      expect_naive(std::move(p));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Gemm, MatchesTheNaiveLoopInF64) { expect_naive_everywhere<double, double>(); }
TEST(Gemm, MatchesTheNaiveLoopInF32) { expect_naive_everywhere<float, float>(); }
TEST(Gemm, MatchesTheNaiveLoopInBf16) { expect_naive_everywhere<bf16, bf16>(); }
TEST(Gemm, MatchesTheNaiveLoopFromBf16ToF32) { expect_naive_everywhere<bf16, float>(); }

using WithBf16Weights = Product<float, float, bf16>;

TEST(Gemm, MatchesTheNaiveLoopWithWeightsInBf16) {
  for (int64_t m = 0; m <= 70; ++m) {
    for (const auto& [n, k] : {std::pair{1, 31}, {7, 1}, {67, 45}, {34, 130}, {4, 0}}) {
      WithBf16Weights p(m, n, k, false, true, /*gap=*/m % 3);
      p.g.accumulate = m % 2 != 0;
      if (m % 4 < 2) p.g.bias = p.bias.data();
      expect_naive(std::move(p));
      if (HasFatalFailure()) return;
    }
  }
}

template <class T>
bool same(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

template <class In, class Out>
void expect_same_bits_on_any_thread_count() {
  for (const auto& [m, n, k] : {std::tuple{700, 1100, 65}, {9, 700, 300}, {300, 40, 1500}}) {
    for (const int form : {0, 1, 2, 3}) {
      Product<In, Out> p(m, n, k, (form & 1) != 0, (form & 2) != 0);
      p.g.accumulate = true;
      const std::vector<Out> before = p.c;
      std::vector<Out> one;
      for (const int threads : {1, 2, 3, 8, 16}) {
        set_num_threads(threads);
        std::copy(before.begin(), before.end(), p.c.begin());
        gemm(p.g);
        if (threads == 1) one = p.c;
        EXPECT_TRUE(same(one, p.c)) << threads << " threads, form " << form << ", m " << m;
      }
    }
  }
  set_num_threads(2);
}

TEST(Gemm, GivesTheSameBitsOnAnyNumberOfThreads) {
  expect_same_bits_on_any_thread_count<double, double>();
  expect_same_bits_on_any_thread_count<float, float>();
  expect_same_bits_on_any_thread_count<bf16, float>();
}

// Rows [first, first + m) of x W^T, computed on their own.
template <class In, class Out, class W>
std::vector<Out> rows_alone(const Product<In, Out, W>& whole, int64_t first, int64_t m,
                            RowClass rows = RowClass::by_count) {
  Gemm<In, Out, W> g = whole.g;
  std::vector<Out> c(static_cast<size_t>(m * g.n));
  g.a += first * g.lda;
  g.m = m;
  g.c = c.data();
  g.rows = rows;
  gemm(g);
  return c;
}

template <class In, class Out>
void expect_rows_alone_as_among_many(int64_t n, int64_t k, RowClass rows) {
  Product<In, Out> large(529, n, k, false, true);
  large.g.rows = rows;
  gemm(large.g);
  for (const int64_t m : {1, 3, 16, 17, 31, 257, 513, 528}) {
    const int64_t first = (529 - m) / 2;
    const std::vector<Out> alone = rows_alone(large, first, m, rows);
    EXPECT_EQ(std::memcmp(alone.data(), large.c.data() + first * n, alone.size() * sizeof(Out)), 0)
        << m << " rows of many, n " << n << ", k " << k;
  }
}

template <class In, class Out>
void expect_rows_do_not_depend_on_their_neighbours() {
  for (const int64_t n : {int64_t{70}, int64_t{700}}) {
    for (const RowClass rows : {RowClass::many, RowClass::tall}) {
      expect_rows_alone_as_among_many<In, Out>(n, 520, rows);
    }
    Product<In, Out> small(15, n, 520, false, true);
    gemm(small.g);
    for (const int64_t m : {1, 2, 4, 7}) {
      const std::vector<Out> alone = rows_alone(small, 5, m);
      EXPECT_EQ(std::memcmp(alone.data(), small.c.data() + 5 * n, alone.size() * sizeof(Out)), 0)
          << m << " rows of few, n " << n;
    }
  }
}

TEST(Gemm, ARowDoesNotDependOnItsNeighbours) {
  expect_rows_do_not_depend_on_their_neighbours<double, double>();
  expect_rows_do_not_depend_on_their_neighbours<float, float>();
  expect_rows_do_not_depend_on_their_neighbours<bf16, bf16>();
}

// Whatever oneDNN does on this machine: ctest runs it once more as one without AVX-512 would.
TEST(EngineGemm, ARowOfManyDoesNotDependOnItsNeighbours) {
  for (const int64_t k : {int64_t{20}, int64_t{130}, int64_t{511}, int64_t{512}}) {
    expect_rows_alone_as_among_many<float, float>(70, k, RowClass::many);
    expect_rows_alone_as_among_many<bf16, bf16>(70, k, RowClass::many);
  }
}

// A prompt and a step of decoding agree in all bits of such products.
TEST(EngineGemm, ManyLongRowsInFloatHaveTheBitsOfFew) {
  const Product<float, float> p(40, 70, 512, false, true);
  EXPECT_TRUE(same(rows_alone(p, 0, 40, RowClass::many), rows_alone(p, 0, 40, RowClass::few)));
}

template <class In, class Out>
void expect_any_number_of_rows_in_the_class_for_few() {
  Product<In, Out> large(67, 70, 2000, false, true);
  {
    const RowClassScope scope(RowClass::few);
    gemm(large.g);
  }
  for (const int64_t m : {1, 3, 15}) {
    const std::vector<Out> alone = rows_alone(large, 67 - m, m);
    EXPECT_EQ(std::memcmp(alone.data(), large.c.data() + (67 - m) * 70, alone.size() * sizeof(Out)),
              0)
        << m << " rows";
  }
}

TEST(Gemm, ManyRowsCanBeOfTheClassForFew) {
  expect_any_number_of_rows_in_the_class_for_few<float, float>();
  expect_any_number_of_rows_in_the_class_for_few<bf16, float>();
  EXPECT_EQ(row_class(64), RowClass::tall);
  const RowClassScope few(RowClass::few);
  EXPECT_EQ(row_class(64), RowClass::few);
  {
    const RowClassScope many(RowClass::many);
    EXPECT_EQ(row_class(1), RowClass::many);
  }
  EXPECT_EQ(row_class(64), RowClass::few);
}

// There is one class for them: the bits of a row are the same alone and among any others, on any
// number of threads, and those of few rows times the weights in float.
TEST(Gemm, WeightsInBf16GiveARowTheSameBitsInEveryClass) {
  constexpr int64_t kRows = 270, kColumns = 71, kDepth = 1043;
  WithBf16Weights large(kRows, kColumns, kDepth, false, true);
  set_num_threads(1);
  gemm(large.g);
  set_num_threads(2);
  const auto expect_same = [&](const std::vector<float>& rows, int64_t first, const char* how) {
    EXPECT_EQ(std::memcmp(rows.data(), large.c.data() + first * kColumns, rows.size() * 4), 0)
        << how << ", " << rows.size() / kColumns << " rows";
  };
  for (const RowClass rows : {RowClass::few, RowClass::by_count, RowClass::many, RowClass::tall}) {
    for (const int64_t m : {1, 2, 5, 7, 15, 16, 64, 129, 270}) {
      const int64_t first = (kRows - m) / 2;
      expect_same(rows_alone(large, first, m, rows), first, "alone");
    }
  }
  Product<float, float> wide(kRows, kColumns, kDepth, false, true);
  std::copy(large.b.begin(), large.b.end(), wide.b.begin());
  expect_same(rows_alone(wide, 3, 40, RowClass::few), 3, "widened");
}

TEST(Gemm, TheLastRowIsNotATileOfItsOwn) {
  Product<float, float> large(50 * 512 + 1, 40, 64, false, true);
  gemm(large.g);
  const std::vector<float> alone = rows_alone(large, large.g.m - 20, 20);
  EXPECT_EQ(std::memcmp(alone.data(), large.c.data() + (large.g.m - 20) * 40, 20 * 40 * 4), 0);
}

TEST(Gemm, SeveralProductsAreTheSameAsOneByOne) {
  std::vector<Product<float, float>> alone, together;
  for (const auto& [m, n, k] :
       {std::tuple{300, 520, 64}, {0, 520, 64}, {40, 520, 64}, {7, 3, 0}, {700, 9, 5}}) {
    alone.emplace_back(m, n, k, false, false);
    together.emplace_back(m, n, k, false, false);
  }
  std::vector<Gemm<float, float>> list;
  for (const auto& p : together) list.push_back(p.g);
  gemm(std::span<const Gemm<float, float>>(list));
  for (size_t i = 0; i < alone.size(); ++i) {
    gemm(alone[i].g);
    EXPECT_TRUE(same(alone[i].c, together[i].c)) << "product " << i;
  }
}

// oneDNN's products keep their stack in a block of the heap; a handler that ran there would write
// over what lies before it.
TEST(Gemm, SignalsWithinAProductDoNotRunOnItsStack) {
  install_signal_handlers();
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    EXPECT_TRUE(action.sa_flags & SA_ONSTACK);
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  const auto flags_after_a_product = [] {
    Product<float, float> p(64, 64, 64, false, false);
    gemm(p.g);
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    return stack.ss_flags;
  };
  EXPECT_EQ(flags_after_a_product() & SS_DISABLE, 0);
  int flags = SS_DISABLE;
  std::thread([&] { flags = flags_after_a_product(); }).join();
  EXPECT_EQ(flags & SS_DISABLE, 0) << "any thread that computes";
}

// Most of these signals come within a product. Without a stack of their own the heap is soon beyond
// repair, and malloc ends the program.
TEST(Gemm, TheHeapSurvivesSignals) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  const itimerval often{{0, 200}, {0, 200}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  std::vector<std::vector<float>> kept;
  for (int i = 0; i < 100; ++i) {
    Product<float, float> p(100 + i, 60, 200, false, true);
    gemm(p.g);
    kept.emplace_back(static_cast<size_t>(1000 + i));
    if (i % 3 == 0) kept.erase(kept.begin());
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

}  // namespace
}  // namespace tephra::cpu
