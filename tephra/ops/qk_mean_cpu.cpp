// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/qk_mean.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/qk_mean_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// Where the heads of a row lie. Both passes go through it from its first query to its last key, so
// that memory is read in order; what a key shares with its queries is then in the first cache.
struct HeadLayout {
  int64_t nq, nk, dim, group;

  HeadLayout(int64_t cols, int64_t query_heads, int64_t kv_heads)
      : nq(query_heads),
        nk(kv_heads),
        dim(cols / (query_heads + kv_heads)),
        group(query_heads / kv_heads) {}

  int64_t query(int64_t h) const { return h * dim; }
  int64_t key_of(int64_t h) const { return key(h / group); }
  int64_t key(int64_t j) const { return (nq + j) * dim; }
};

// The sum of a group's queries in x, at column c of the head, added to `sum` in their order.
template <class T>
HWY_INLINE Vec<T> add_queries(const HeadLayout& at, int64_t j, const T* x, int64_t c, int64_t n,
                              Vec<T> sum) {
  for (int64_t h = j * at.group; h < (j + 1) * at.group; ++h) {
    sum = hn::Add(sum, load_up_to(x + at.query(h) + c, n));
  }
  return sum;
}

template <class T>
void forward_row(const HeadLayout& at, const T* z, const T* y, T* out) {
  using Acc = acc_t<T>;
  const auto half = set<T>(Acc(0.5)), share = set<T>(Acc(0.5) / static_cast<Acc>(at.group));
  for (int64_t h = 0; h < at.nq; ++h) {
    const T *z_key = z + at.key_of(h), *z_query = z + at.query(h), *y_query = y + at.query(h);
    T* q = out + at.query(h);
    for_each_vector<T>(at.dim, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto mean = hn::Add(load_up_to(z_query + c, n), load_up_to(z_key + c, n));
      store_up_to(q + c, hn::MulAdd(mean, half, load_up_to(y_query + c, n)), n);
    });
  }
  for (int64_t j = 0; j < at.nk; ++j) {
    const int64_t key = at.key(j);
    for_each_vector<T>(at.dim, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto queries = add_queries(at, j, z, c, n, set<T>(0));
      const auto own = hn::MulAdd(load_up_to(z + key + c, n), half, load_up_to(y + key + c, n));
      store_up_to(out + key + c, hn::MulAdd(queries, share, own), n);
    });
  }
}

// dz_q,h = dq_h / 2 + dk_j / (2 group), dz_k,j = (dk_j + sum over h of dq_h) / 2.
template <class T>
void backward_row(const HeadLayout& at, const T* dout, T* dz, bool add) {
  using Acc = acc_t<T>;
  const auto half = set<T>(Acc(0.5)), share = set<T>(Acc(0.5) / static_cast<Acc>(at.group));
  for (int64_t h = 0; h < at.nq; ++h) {
    const T *dkey = dout + at.key_of(h), *dquery = dout + at.query(h);
    T* dz_query = dz + at.query(h);
    for_each_vector<T>(at.dim, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto shared = hn::Mul(load_up_to(dkey + c, n), share);
      write_up_to(dz_query + c, hn::MulAdd(load_up_to(dquery + c, n), half, shared), n, add);
    });
  }
  for (int64_t j = 0; j < at.nk; ++j) {
    const int64_t key = at.key(j);
    for_each_vector<T>(at.dim, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto sum = add_queries(at, j, dout, c, n, load_up_to(dout + key + c, n));
      write_up_to(dz + key + c, hn::Mul(sum, half), n, add);
    });
  }
}

void forward(const QkMean& k) {
  const HeadLayout at(k.z.cols(), k.nq, k.nk);
  visit_float(k.z.dtype(), [&]<class T>() HWY_ATTR {
    parallel_for(k.z.rows(), row_grain(k.z.cols()), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        forward_row<T>(at, k.z.row<T>(r), k.y.row<T>(r), k.out.row<T>(r));
      }
    });
  });
}

void backward(const QkMeanGrad& k) {
  const HeadLayout at(k.dout.cols(), k.nq, k.nk);
  visit_float(k.dout.dtype(), [&]<class T>() HWY_ATTR {
    parallel_for(k.dout.rows(), row_grain(k.dout.cols()), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        backward_row<T>(at, k.dout.row<T>(r), k.dz.grad.row<T>(r), k.dz.accumulate);
      }
    });
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void QkMean::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void QkMeanGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
