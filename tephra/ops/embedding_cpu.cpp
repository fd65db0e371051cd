// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/embedding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/embedding_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/packed.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kColumns = 256;  // of a piece of work, so that one frequent id is shared out too

// The table's row gets the sum of its tokens' dy, columns [begin, end).
template <class T>
void add_tokens(const EmbeddingGrad& k, const int32_t* token, const int32_t* last, int64_t id,
                int64_t begin, int64_t end) {
  acc_t<T>* out = k.dtable.row<acc_t<T>>(id);
  for_each_vector<T>(end - begin, [&](int64_t c, int64_t n) HWY_ATTR {
    Vec<T> sum = set<T>(0);
    for (const int32_t* t = token; t != last; ++t) {
      sum = hn::Add(sum, load_up_to(k.dy.row<T>(*t) + begin + c, n));
    }
    write_up_to(out + begin + c, sum, n, k.accumulate);
  });
}

// `order` holds the tokens sorted by id. Each piece of it adds the ids that begin there, whole, in
// token order: one order of every sum, whoever runs the piece.
void add_rows(const EmbeddingGrad& k, const std::vector<int32_t>& order) {
  const int32_t* ids = k.ids.data<int32_t>();
  const auto tokens = static_cast<int64_t>(order.size());
  const int64_t width = k.dy.cols(), blocks = ceil_div(width, kColumns);
  constexpr int64_t kTokens = 64;
  parallel_for(ceil_div(tokens, kTokens) * blocks, 1, [&](int64_t piece, int64_t) HWY_ATTR {
    const int64_t column = piece % blocks * kColumns;
    const int64_t first = piece / blocks * kTokens;
    const auto id_at = [&](int64_t i) { return ids[order[static_cast<size_t>(i)]]; };
    int64_t i = first;
    const int64_t end = std::min(tokens, first + kTokens);
    while (i > 0 && i < end && id_at(i) == id_at(i - 1)) ++i;
    while (i < end) {
      int64_t j = i + 1;
      while (j < tokens && id_at(j) == id_at(i)) ++j;
      if (id_at(i) != k.pad_id) {
        visit_float(k.dy.dtype(), [&]<class T>() HWY_ATTR {
          add_tokens<T>(k, order.data() + i, order.data() + j, id_at(i), column,
                        std::min(width, column + kColumns));
        });
      }
      i = j;
    }
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {

HWY_EXPORT(add_rows);

void check_ids(const Tensor& ids, int64_t vocabulary) {
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const int32_t id = ids.data<int32_t>()[i];
    require(id >= 0 && id < vocabulary,
            "embedding: id {} at row {} is outside the vocabulary of {} tokens", id, i, vocabulary);
  }
}

constexpr int64_t kRows = 64;  // per piece of work

// Rows that no token overwrites.
void zero_unused_rows(const EmbeddingGrad& k) {
  std::vector<char> used(static_cast<size_t>(k.dtable.rows()), 0);
  for (int64_t i = 0; i < k.ids.numel(); ++i) {
    const int32_t id = k.ids.data<int32_t>()[i];
    used[static_cast<size_t>(id)] = id != k.pad_id;
  }
  parallel_for(k.dtable.rows(), kRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (used[static_cast<size_t>(r)] == 0) fill(k.dtable.slice_rows(r, r + 1), 0);
    }
  });
}

// Tokens sorted by id, in token order within one: a radix sort from the lowest digit.
std::vector<int32_t> tokens_by_id(const Tensor& ids, int64_t vocabulary) {
  constexpr int kBits = 11;
  constexpr size_t kDigits = size_t{1} << kBits;
  const int32_t* id = ids.data<int32_t>();
  std::vector<int32_t> order(static_cast<size_t>(ids.numel())), sorted(order.size());
  std::iota(order.begin(), order.end(), 0);
  for (int shift = 0; (vocabulary - 1) >> shift > 0; shift += kBits) {
    const auto digit = [&](int32_t token) {
      return static_cast<size_t>(id[token] >> shift) % kDigits;
    };
    std::array<size_t, kDigits + 1> next{};
    for (const int32_t token : order) ++next[digit(token) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const int32_t token : order) sorted[next[digit(token)]++] = token;
    order.swap(sorted);
  }
  return order;
}

}  // namespace

void Embedding::on_cpu() const {
  check_ids(ids, table.rows());
  if (y.numel() == 0) return;
  const int64_t bytes = table.cols() * size_of(table.dtype());
  const int64_t stride = table.row_stride() * size_of(table.dtype());
  const char* from = static_cast<const char*>(table.raw());
  char* to = static_cast<char*>(y.raw());
  const int32_t* id = ids.data<int32_t>();
  parallel_for(y.rows(), kRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      std::memcpy(to + r * bytes, from + id[r] * stride, static_cast<size_t>(bytes));
    }
  });
}

void WideEmbedding::on_cpu() const {
  check_ids(ids, table.shape()[0]);
  const int32_t* id = ids.data<int32_t>();
  parallel_for(y.rows(), 1, [&](int64_t r, int64_t) {
    if (table.is_packed()) return cpu::unpack_row(table.packed().matrix(), id[r], y.row<float>(r));
    const bf16* from = table.tensor().row<bf16>(id[r]);
    std::copy_n(from, y.cols(), y.row<float>(r));
  });
}

void EmbeddingGrad::on_cpu() const {
  if (!accumulate) zero_unused_rows(*this);
  if (dy.numel() > 0) HWY_DYNAMIC_DISPATCH(add_rows)(*this, tokens_by_id(ids, dtable.rows()));
}

}  // namespace tephra::kernel
#endif
