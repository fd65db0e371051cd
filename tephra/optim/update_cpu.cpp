// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/update.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/optim/update_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

// Values in the precision that updates are computed in.
template <class T>
struct Master {
  T* values;

  explicit Master(const MasterValues& p) : values(p.values.data<T>()) {}
  HWY_INLINE Vec<T> get(int64_t i, int64_t n) const { return load_up_to(values + i, n); }
  HWY_INLINE void put(int64_t i, Vec<T> v, int64_t n) const { store_up_to(values + i, v, n); }
};

// optim/master.h, a vector at a time.
template <>
struct Master<bf16> {
  uint16_t* weights;
  int16_t* remainders;

  explicit Master(const MasterValues& p)
      : weights(reinterpret_cast<uint16_t*>(p.values.data<bf16>())),
        remainders(p.remainder.data<int16_t>()) {}

  using D = Tag<float>;
  using D32 = hn::Rebind<int32_t, D>;
  using U32 = hn::Rebind<uint32_t, D>;
  using D16 = hn::Rebind<int16_t, D>;
  using U16 = hn::Rebind<uint16_t, D>;
  static constexpr int64_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);

  HWY_INLINE Vec<float> get_all(const uint16_t* w, const int16_t* r) const {
    const auto high = hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::LoadU(U16(), w)));
    const auto low = hn::BitCast(U32(), hn::PromoteTo(D32(), hn::LoadU(D16(), r)));
    return hn::BitCast(D(), hn::Add(high, low));
  }
  HWY_INLINE void put_all(uint16_t* w, int16_t* r, Vec<float> v) const {
    auto u = hn::BitCast(U32(), v);
    const auto sign = hn::And(u, hn::Set(U32(), 0x80000000u));
    const auto quiet = hn::Or(sign, hn::Set(U32(), 0x7fc00000u));
    u = hn::IfThenElse(hn::RebindMask(U32(), hn::IsNaN(v)), quiet, u);
    const auto weight = hn::ShiftRight<16>(hn::Add(u, hn::Set(U32(), 0x8000u)));
    const auto rest = hn::Sub(u, hn::ShiftLeft<16>(weight));
    hn::StoreU(hn::DemoteTo(U16(), hn::BitCast(D32(), weight)), U16(), w);
    hn::StoreU(hn::DemoteTo(D16(), hn::BitCast(D32(), rest)), D16(), r);
  }

  HWY_INLINE Vec<float> get(int64_t i, int64_t n) const {
    if (n == lanes<float>()) return get_all(weights + i, remainders + i);
    HWY_ALIGN uint16_t w[kMaxLanes] = {};
    HWY_ALIGN int16_t r[kMaxLanes] = {};
    std::memcpy(w, weights + i, static_cast<size_t>(n) * 2);
    std::memcpy(r, remainders + i, static_cast<size_t>(n) * 2);
    return get_all(w, r);
  }
  HWY_INLINE void put(int64_t i, Vec<float> v, int64_t n) const {
    if (n == lanes<float>()) return put_all(weights + i, remainders + i, v);
    HWY_ALIGN uint16_t w[kMaxLanes];
    HWY_ALIGN int16_t r[kMaxLanes];
    put_all(w, r, v);
    std::memcpy(weights + i, w, static_cast<size_t>(n) * 2);
    std::memcpy(remainders + i, r, static_cast<size_t>(n) * 2);
  }
};

// In double whatever T is: squares of f32 cannot overflow there, so the sum of finite gradients is
// finite.
HWY_INLINE double squares(const double* x, int64_t size) {
  auto sum = set<double>(0);
  for_each_vector<double>(size, [&](int64_t i, int64_t n) HWY_ATTR {
    const auto v = load_up_to(x + i, n);
    sum = hn::MulAdd(v, v, sum);
  });
  return sum_of_lanes<double>(sum);
}
HWY_INLINE double squares(const float* x, int64_t size) {
  const Tag<double> d;
  const hn::Rebind<float, Tag<double>> half;
  const int64_t width = lanes<double>();
  auto sum0 = set<double>(0), sum1 = sum0;
  int64_t i = 0;
  for (; i + 2 * width <= size; i += 2 * width) {
    const auto v0 = hn::PromoteTo(d, hn::LoadU(half, x + i));
    const auto v1 = hn::PromoteTo(d, hn::LoadU(half, x + i + width));
    sum0 = hn::MulAdd(v0, v0, sum0);
    sum1 = hn::MulAdd(v1, v1, sum1);
  }
  double sum = sum_of_lanes<double>(hn::Add(sum0, sum1));
  for (; i < size; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

template <class F>
void for_each_piece(std::span<const Piece> pieces, F&& f) {
  parallel_for(static_cast<int64_t>(pieces.size()), 1,
               [&](int64_t i, int64_t) HWY_ATTR { f(static_cast<size_t>(i)); });
}

void sum_squares(const SumSquares& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    if constexpr (!std::is_same_v<T, bf16>) {
      for_each_piece(k.pieces, [&](size_t i) HWY_ATTR {
        k.sums[i] = squares(k.x.data<T>() + k.pieces[i].begin, k.pieces[i].size);
      });
    }
  });
}

template <class T>
HWY_INLINE void adamw_piece(const AdamWUpdate& k, const Piece& piece) {
  using Acc = acc_t<T>;
  const StepScalars& s = *k.scalars;
  const AdamWOptions& o = k.options;
  const auto t = static_cast<double>(s.update);
  const auto number = [](double value) HWY_ATTR { return set<T>(static_cast<Acc>(value)); };
  const auto scale = number(s.gradient_scale);
  const auto keep = number(1 - s.lr * piece.rate * piece.decay);
  const auto b1 = number(o.beta1), b1_rest = number(1 - o.beta1);
  const auto b2 = number(o.beta2), b2_rest = number(1 - o.beta2);
  const auto step = number(s.lr * piece.step / (1 - std::pow(o.beta1, t)));
  const auto root_scale = number(1 / std::sqrt(1 - std::pow(o.beta2, t)));
  const auto eps = number(o.eps);
  const Acc* gradients = k.gradients.data<Acc>() + piece.begin;
  Acc* first = k.first.data<Acc>() + piece.begin;
  Acc* second = k.second.data<Acc>() + piece.other;
  const Master<T> master(k.p);
  for_each_vector<T>(piece.size, [&](int64_t i, int64_t n) HWY_ATTR {
    const auto g = hn::Mul(load_up_to(gradients + i, n), scale);
    const auto m = hn::MulAdd(b1, load_up_to(first + i, n), hn::Mul(b1_rest, g));
    const auto v = hn::MulAdd(b2, load_up_to(second + i, n), hn::Mul(b2_rest, hn::Mul(g, g)));
    store_up_to(first + i, m, n);
    store_up_to(second + i, v, n);
    const auto root = hn::MulAdd(hn::Sqrt(v), root_scale, eps);
    const auto p = hn::Mul(master.get(piece.begin + i, n), keep);
    master.put(piece.begin + i, hn::NegMulAdd(step, hn::Div(m, root), p), n);
  });
}

void adamw(const AdamWUpdate& k) {
  visit_float(k.p.values.dtype(), [&]<class T>() HWY_ATTR {
    for_each_piece(k.pieces, [&](size_t i) HWY_ATTR { adamw_piece<T>(k, k.pieces[i]); });
  });
}

template <class Acc>
HWY_INLINE double momentum_piece(const MuonMomentum& k, const Piece& piece) {
  const auto scale = set<Acc>(static_cast<Acc>(k.scalars->gradient_scale));
  const auto mu = set<Acc>(static_cast<Acc>(k.momentum));
  const Acc* gradients = k.gradients.data<Acc>() + piece.begin;
  Acc* first = k.first.data<Acc>() + piece.begin;
  Acc* out = k.workspace.data<Acc>() + piece.other;
  for_each_vector<Acc>(piece.size, [&](int64_t i, int64_t n) HWY_ATTR {
    const auto g = hn::Mul(load_up_to(gradients + i, n), scale);
    const auto m = hn::MulAdd(mu, load_up_to(first + i, n), g);
    store_up_to(first + i, m, n);
    store_up_to(out + i, k.nesterov ? hn::MulAdd(mu, m, g) : m, n);
  });
  return squares(out, piece.size);  // still in the cache
}

void momentum(const MuonMomentum& k) {
  visit_float(k.gradients.dtype(), [&]<class Acc>() HWY_ATTR {
    if constexpr (!std::is_same_v<Acc, bf16>) {
      for_each_piece(k.pieces, [&](size_t i) HWY_ATTR {
        k.sums.data<double>()[i] = momentum_piece<Acc>(k, k.pieces[i]);
      });
    }
  });
}

template <class T>
HWY_INLINE void muon_piece(const MuonUpdate& k, const Piece& piece) {
  using Acc = acc_t<T>;
  const double lr = k.scalars->lr;
  const auto keep = set<T>(static_cast<Acc>(1 - lr * piece.rate * piece.decay));
  const auto step = set<T>(static_cast<Acc>(lr * piece.step));
  const Acc* u = k.workspace.data<Acc>() + piece.other;
  const Master<T> master(k.p);
  for_each_vector<T>(piece.size, [&](int64_t i, int64_t n) HWY_ATTR {
    const auto p = hn::Mul(master.get(piece.begin + i, n), keep);
    master.put(piece.begin + i, hn::NegMulAdd(step, load_up_to(u + i, n), p), n);
  });
}

void muon(const MuonUpdate& k) {
  visit_float(k.p.values.dtype(), [&]<class T>() HWY_ATTR {
    for_each_piece(k.pieces, [&](size_t i) HWY_ATTR { muon_piece<T>(k, k.pieces[i]); });
  });
}

// One over the norm of the matrix of piece i.
double factor_of(const ScalePieces& k, size_t i) {
  const auto each = static_cast<size_t>(k.pieces_each);
  const double* sums = k.sums.data<double>() + i / each * each;
  double sum = 0;
  for (size_t at = 0; at < each; ++at) sum += sums[at];
  return 1 / (std::sqrt(sum) + k.eps);
}

void scale_pieces(const ScalePieces& k) {
  visit_float(k.workspace.dtype(), [&]<class Acc>() HWY_ATTR {
    if constexpr (!std::is_same_v<Acc, bf16>) {
      for_each_piece(k.pieces, [&](size_t i) HWY_ATTR {
        const auto factor = set<Acc>(static_cast<Acc>(factor_of(k, i)));
        Acc* u = k.workspace.data<Acc>() + k.pieces[i].other;
        for_each_vector<Acc>(k.pieces[i].size, [&](int64_t c, int64_t n) HWY_ATTR {
          store_up_to(u + c, hn::Mul(load_up_to(u + c, n), factor), n);
        });
        for (int64_t c = 0; k.round_to_bf16 && c < k.pieces[i].size; ++c) {
          u[c] = static_cast<Acc>(static_cast<float>(bf16(u[c])));
        }
      });
    }
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(sum_squares);
HWY_EXPORT(adamw);
HWY_EXPORT(momentum);
HWY_EXPORT(muon);
HWY_EXPORT(scale_pieces);
}  // namespace

void SumSquares::on_cpu() const { HWY_DYNAMIC_DISPATCH(sum_squares)(*this); }
void AdamWUpdate::on_cpu() const { HWY_DYNAMIC_DISPATCH(adamw)(*this); }
void MuonMomentum::on_cpu() const { HWY_DYNAMIC_DISPATCH(momentum)(*this); }
void MuonUpdate::on_cpu() const { HWY_DYNAMIC_DISPATCH(muon)(*this); }
void ScalePieces::on_cpu() const { HWY_DYNAMIC_DISPATCH(scale_pieces)(*this); }

}  // namespace tephra::kernel
#endif
