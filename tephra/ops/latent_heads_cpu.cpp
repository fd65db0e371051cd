// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/ops/latent_heads.h"
#include "tephra/ops/row_copy.h"

namespace tephra::kernel {
namespace {

constexpr int64_t kRows = 64;  // per piece of work

// The sum over the heads, in their order and in the acc dtype, rounded once.
template <class T>
void write_shared(const LatentHeadsGrad& g, int64_t r, std::vector<acc_t<T>>& sums) {
  using Acc = acc_t<T>;
  const int64_t key_dim = g.own_dim + g.shared_dim;
  T* out = g.dshared.grad.row<T>(r);
  for (int64_t c = 0; c < g.shared_dim; ++c) {
    sums[static_cast<size_t>(c)] = g.dshared.accumulate ? static_cast<Acc>(out[c]) : Acc(0);
  }
  for (int64_t h = 0; g.dk && h < g.heads; ++h) {
    const T* dk = g.dk.row<T>(r) + h * key_dim + g.own_dim;
    for (int64_t c = 0; c < g.shared_dim; ++c) {
      sums[static_cast<size_t>(c)] += static_cast<Acc>(dk[c]);
    }
  }
  for (int64_t c = 0; c < g.shared_dim; ++c) out[c] = static_cast<T>(sums[static_cast<size_t>(c)]);
}

template <class T>
void write_own(const LatentHeadsGrad& g, int64_t r) {
  const int64_t key_dim = g.own_dim + g.shared_dim;
  for (int64_t h = 0; h < g.heads; ++h) {
    T* dx = g.dx.grad.row<T>(r) + h * (g.own_dim + g.value_dim);
    const T* dk = g.dk ? g.dk.row<T>(r) + h * key_dim : nullptr;
    const T* dv = g.dv ? g.dv.row<T>(r) + h * g.value_dim : nullptr;
    write_row(dx, dk, g.own_dim, g.dx.accumulate);
    write_row(dx + g.own_dim, dv, g.value_dim, g.dx.accumulate);
  }
}

}  // namespace

void LatentHeads::on_cpu() const {
  const int64_t value_dim = x.cols() / heads - own_dim, key_dim = own_dim + shared.cols();
  visit_float(x.dtype(), [&]<class T>() {
    parallel_for(x.rows(), kRows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.row<T>(r);
        for (int64_t h = 0; h < heads; ++h, from += own_dim + value_dim) {
          T* key = k.row<T>(r) + h * key_dim;
          std::copy_n(from, own_dim, key);
          std::copy_n(shared.row<T>(r), shared.cols(), key + own_dim);
          std::copy_n(from + own_dim, value_dim, v.row<T>(r) + h * value_dim);
        }
      }
    });
  });
}

void LatentHeadsGrad::on_cpu() const {
  const Tensor& given = dk ? dk : dv;
  visit_float(given.dtype(), [&]<class T>() {
    parallel_for(given.rows(), kRows, [&](int64_t begin, int64_t end) {
      std::vector<acc_t<T>> sums(static_cast<size_t>(shared_dim));
      for (int64_t r = begin; r < end; ++r) {
        if (dx.grad) write_own<T>(*this, r);
        if (dshared.grad) write_shared<T>(*this, r, sums);
      }
    });
  });
}

}  // namespace tephra::kernel
