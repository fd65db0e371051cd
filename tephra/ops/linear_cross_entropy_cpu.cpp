// SPDX-License-Identifier: Apache-2.0
// In chunks of tokens, so that logits [chunk, V] stay bounded and near the cores. The rows of
// tokens that count are gathered (and widened from bf16), so ignored ones cost nothing; a chunk is
// then three matrix products and one pass over its logits that turns them into their gradient in
// place. Chunks run in order, so the weight's gradient has one order of summation.
#include "tephra/ops/linear_cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/linear_cross_entropy_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kLogitBytes = 32 << 20;   // of a chunk, unless it would have too few tokens
constexpr int64_t kWidenedBytes = 4 << 20;  // of a block of a bf16 weight
constexpr int64_t kFewestTokens = 64;
constexpr int64_t kMostTokens = 4096;

template <class T>
Tensor workspace(int64_t rows, int64_t cols) {
  return Tensor({rows, cols}, dtype_of<T>(), kCpu, Purpose::workspace);
}

template <class From, class To>
void convert_row(const From* from, To* to, int64_t width) {
  for_each_vector<From>(width, [&](int64_t c, int64_t n)
                                   HWY_ATTR { store_up_to(to + c, load_up_to(from + c, n), n); });
}

// Calls f(first, end, rows, stride) for blocks of the weight's rows in the acc dtype: the weight
// itself, or widened copies.
template <class T, class F>
void for_each_block(const Tensor& weight, F&& f) {
  using Acc = acc_t<T>;
  const int64_t rows = weight.rows(), width = weight.cols();
  if constexpr (std::is_same_v<T, Acc>) {
    f(int64_t{0}, rows, weight.data<T>(), weight.row_stride());
  } else {
    const int64_t bytes = std::max<int64_t>(1, width * static_cast<int64_t>(sizeof(Acc)));
    const int64_t block = std::clamp<int64_t>(kWidenedBytes / bytes, 1, rows);
    const Tensor wide = workspace<Acc>(block, width);
    for (int64_t first = 0; first < rows; first += block) {
      const int64_t end = std::min(first + block, rows);
      parallel_for(end - first, 64, [&](int64_t r0, int64_t r1) {
        for (int64_t r = r0; r < r1; ++r) {
          convert_row(weight.row<T>(first + r), wide.row<Acc>(r), width);
        }
      });
      f(first, end, wide.data<Acc>(), width);
    }
  }
}

// The tokens that count, in order.
std::vector<int32_t> targeted(const Tensor& targets) {
  std::vector<int32_t> rows;
  const int32_t* target = targets.data<int32_t>();
  for (int32_t r = 0; r < targets.numel(); ++r) {
    if (target[r] >= 0) rows.push_back(r);
  }
  return rows;
}

// One token: its loss, and its logits turned into scale * (softmax - onehot) if `scale` is given.
template <class Acc>
Acc finish_row(Acc* logits, int64_t width, int32_t target, const Acc* scale) {
  const Acc largest = largest_of(logits, width);
  const Acc score = logits[target];
  const Acc sum = sum_of_exps(logits, width, largest, scale ? logits : nullptr);
  if (scale) {
    const auto factor = set<Acc>(*scale / sum);
    for_each_vector<Acc>(width, [&](int64_t c, int64_t n) HWY_ATTR {
      store_up_to(logits + c, hn::Mul(load_up_to(logits + c, n), factor), n);
    });
    logits[target] -= *scale;
  }
  return largest + std::log(sum) - score;
}

template <class T>
class Loss {
  using Acc = acc_t<T>;

 public:
  explicit Loss(const LinearCrossEntropy& k)
      : k_(k), rows_(targeted(k.targets)), vocabulary_(k.weight.rows()) {
    const int64_t bytes = vocabulary_ * static_cast<int64_t>(sizeof(Acc));
    const int64_t count = static_cast<int64_t>(rows_.size());
    chunk_ = std::min(count, std::clamp(kLogitBytes / bytes, kFewestTokens, kMostTokens));
    logits_ = workspace<Acc>(chunk_, vocabulary_);
    hidden_ = workspace<Acc>(chunk_, k.h.cols());
    if (k.dh) dhidden_ = workspace<Acc>(chunk_, k.h.cols());
  }

  void run() {
    const int64_t count = static_cast<int64_t>(rows_.size());
    const bool some_ignored = count < k_.h.rows();
    if (some_ignored) fill(k_.losses, 0);
    if (some_ignored && k_.dh) fill(k_.dh, 0);
    if (count == 0) clear_weight_gradients();
    for (int64_t first = 0; first < count; first += chunk_) {
      tokens_ = rows_.data() + first;
      m_ = std::min(chunk_, count - first);
      gather();
      compute_logits();
      finish_rows();
      if (k_.dweight) weight_gradient(first > 0 || k_.accumulate_dweight);
      if (k_.dbias) bias_gradient(first > 0 || k_.accumulate_dbias);
      if (k_.dh) input_gradient();
    }
  }

 private:
  void clear_weight_gradients() const {
    if (k_.dweight && !k_.accumulate_dweight) fill(k_.dweight, 0);
    if (k_.dbias && !k_.accumulate_dbias) fill(k_.dbias, 0);
  }

  void gather() const {
    parallel_for(m_, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        convert_row(k_.h.row<T>(tokens_[i]), hidden_.row<Acc>(i), k_.h.cols());
      }
    });
  }

  void compute_logits() const {
    const int64_t width = k_.h.cols();
    for_each_block<T>(k_.weight, [&](int64_t first, int64_t end, const Acc* w, int64_t stride) {
      cpu::gemm(cpu::Gemm<Acc, Acc>{m_, end - first, width, hidden_.data<Acc>(), width, false, w,
                                    stride, true, logits_.data<Acc>() + first, vocabulary_});
    });
  }

  void finish_rows() const {
    const Acc scale = static_cast<Acc>(k_.scale);
    const bool gradients = k_.dh || k_.dweight || k_.dbias;
    const int32_t* target = k_.targets.data<int32_t>();
    parallel_for(m_, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Acc* logits = logits_.row<Acc>(i);
        if (k_.bias) add_bias(logits);
        k_.losses.data<Acc>()[tokens_[i]] =
            finish_row(logits, vocabulary_, target[tokens_[i]], gradients ? &scale : nullptr);
      }
    });
  }

  void add_bias(Acc* logits) const {
    const T* bias = k_.bias.data<T>();
    for_each_vector<T>(vocabulary_, [&](int64_t c, int64_t n) HWY_ATTR {
      store_up_to(logits + c, hn::Add(load_up_to(logits + c, n), load_up_to(bias + c, n)), n);
    });
  }

  void weight_gradient(bool accumulate) const {
    const int64_t width = k_.h.cols();
    cpu::gemm(cpu::Gemm<Acc, Acc>{vocabulary_, width, m_, logits_.data<Acc>(), vocabulary_, true,
                                  hidden_.data<Acc>(), width, false, k_.dweight.data<Acc>(),
                                  k_.dweight.row_stride(), accumulate});
  }

  void bias_gradient(bool accumulate) const {
    cpu::sum_rows<Acc>(m_, vocabulary_, k_.dbias.data<Acc>(), accumulate,
                       [&](int64_t begin, int64_t end, Acc* sums) {
                         for (int64_t i = begin; i < end; ++i) {
                           const Acc* d = logits_.row<Acc>(i);
                           for (int64_t c = 0; c < vocabulary_; ++c) sums[c] += d[c];
                         }
                       });
  }

  void input_gradient() const {
    const int64_t width = k_.h.cols();
    for_each_block<T>(k_.weight, [&](int64_t first, int64_t end, const Acc* w, int64_t stride) {
      cpu::gemm(cpu::Gemm<Acc, Acc>{m_, width, end - first, logits_.data<Acc>() + first,
                                    vocabulary_, false, w, stride, false, dhidden_.data<Acc>(),
                                    width, first > 0});
    });
    parallel_for(m_, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        convert_row(dhidden_.row<Acc>(i), k_.dh.row<T>(tokens_[i]), width);
      }
    });
  }

  const LinearCrossEntropy& k_;
  const std::vector<int32_t> rows_;
  const int64_t vocabulary_;
  int64_t chunk_;  // tokens
  Tensor logits_, hidden_, dhidden_;
  // The chunk at hand.
  const int32_t* tokens_ = nullptr;
  int64_t m_ = 0;
};

void cross_entropy(const LinearCrossEntropy& k) {
  visit_float(k.h.dtype(), [&]<class T>() { Loss<T>(k).run(); });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(cross_entropy);
}  // namespace

void LinearCrossEntropy::on_cpu() const { HWY_DYNAMIC_DISPATCH(cross_entropy)(*this); }

}  // namespace tephra::kernel
#endif
