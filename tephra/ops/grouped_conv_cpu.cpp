// SPDX-License-Identifier: Apache-2.0
// Matrix products on tiles of tokens. Each token's K input rows are gathered with their taps
// interleaved, X[t, i * K + k] = u_{t-K+1+k}[i], which is the order of the weight as it is stored.
// So nothing is packed, boundaries and states cost nothing extra, and per group
//   y = X W^T + bias,   dW = dy^T X,   dX = dy W,   du_t[i] = sum_k dX[t+K-1-k, i * K + k].
#include "tephra/ops/grouped_conv.h"

#include <algorithm>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/scratch.h"
#include "tephra/ops/segment_rows.h"
#include "tephra/ops/visit_taps.h"

namespace tephra::kernel {
namespace {

constexpr int64_t kAhead = 8;   // rows
constexpr int64_t kTile = 512;  // tokens: X and W of a ZAYA1 head fit in L2 together

struct Sizes {
  int64_t width;  // of a group: d
  int64_t taps;   // K
  int64_t groups;

  explicit Sizes(const Tensor& weight)
      : width(weight.dim(1)), taps(weight.dim(2)), groups(weight.dim(0) / weight.dim(1)) {}
  int64_t gathered() const { return width * taps; }
};

// x[i * K + k] = rows[k][i]; two taps, the usual case, in a form that becomes vector shuffles.
template <int K, class T>
void interleave(const std::vector<const T*>& rows, int64_t width, T* __restrict x) {
  if constexpr (K == 2) {
    const T* __restrict old_row = rows[0];
    const T* __restrict new_row = rows[1];
    for (int64_t i = 0; i < width; ++i) {
      x[2 * i] = old_row[i];
      x[2 * i + 1] = new_row[i];
    }
  } else {
    const int64_t taps = static_cast<int64_t>(rows.size());
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t k = 0; k < taps; ++k) x[i * taps + k] = rows[k][i];
    }
  }
}

// A group's rows lie far apart, each on pages of its own, where the hardware does not look ahead.
template <class T>
void prefetch(const T* row, int64_t width) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i);
}

// X of rows [begin, end) and one group.
template <class T>
void gather(const SegmentRows<T>& line, const Segments& segments, const Sizes& s, int64_t group,
            int64_t begin, int64_t end, T* __restrict x) {
  const int32_t* start = segments.start_N.data<int32_t>();
  const int32_t* sequence = segments.sequence_N.data<int32_t>();
  std::vector<const T*> rows(static_cast<size_t>(s.taps));
  visit_taps<T>(s.taps, [&]<int K>() {
    const int64_t taps = K > 0 ? K : s.taps;
    for (int64_t r = begin; r < end; ++r, x += s.gathered()) {
      if (r + kAhead < end)
        prefetch(line.at(sequence[r + kAhead], r + kAhead - start[r + kAhead]) + group * s.width,
                 s.width);
      for (int64_t k = 0; k < taps; ++k) {
        rows[k] = line.at(sequence[r], r - start[r] - taps + 1 + k) + group * s.width;
      }
      interleave<K>(rows, s.width, x);
    }
  });
}

// Pieces of one group and one tile of tokens.
template <class F>
void for_each_tile(int64_t rows, int64_t groups, F&& f) {
  parallel_for(ceil_div(rows, kTile) * groups, 1, [&](int64_t piece, int64_t) {
    const int64_t begin = piece / groups * kTile;
    f(piece % groups, begin, std::min(begin + kTile, rows));
  });
}

template <class T, class W>
void forward(const GroupedConv& k) {
  const Sizes s(k.weight);
  const SegmentRows<T> line(k.segments, k.u, k.left, k.u.cols());
  const cpu::RowClass rows = cpu::row_class(k.u.rows());
  for_each_tile(k.u.rows(), s.groups, [&](int64_t group, int64_t begin, int64_t end) {
    thread_local cpu::Scratch<T> buffer;
    T* x = buffer.get(kTile * s.gathered());
    gather(line, k.segments, s, group, begin, end, x);
    const int64_t first = group * s.width;
    cpu::gemm_serial(cpu::Gemm<T, T, W>{end - begin, s.width, s.gathered(), x, s.gathered(), false,
                                        k.weight.data<W>() + first * s.gathered(), s.gathered(),
                                        true, k.y.row<T>(begin) + first, k.y.row_stride(), false,
                                        k.bias.data<T>() + first, rows});
  });
}

template <class T>
void add_or_set(T& to, acc_t<T> value, bool accumulate) {
  to = T(accumulate ? acc_t<T>(to) + value : value);
}

// out[i] = sum over taps k in [first, end) of dX[i * K + k], k rows before `newest`.
template <class T>
void collect(const acc_t<T>* newest, const Sizes& s, int64_t first, int64_t end, bool accumulate,
             T* __restrict out) {
  const bool all = first == 0 && end == s.taps;
  visit_taps<T>(all ? s.taps : 0, [&]<int K>() {
    const int64_t taps = K > 0 ? K : s.taps;
    const int64_t row = s.width * taps;
    for (int64_t i = 0; i < s.width; ++i) {
      acc_t<T> sum = 0;
      for (int64_t k = K > 0 ? 0 : first; k < (K > 0 ? K : end); ++k) {
        sum += newest[i * taps + k - k * row];
      }
      add_or_set(out[i], sum, accumulate);
    }
  });
}

// The tile's dX is computed with the K - 1 rows after it, whose inputs reach back into it.
template <class T>
void input_gradient(const GroupedConvGrad& k) {
  using Acc = acc_t<T>;
  const Sizes s(k.weight);
  const int32_t* stop = k.segments.end_N.data<int32_t>();
  for_each_tile(k.u.rows(), s.groups, [&](int64_t group, int64_t begin, int64_t end) {
    const int64_t rows = std::min(end + s.taps - 1, k.u.rows()) - begin;
    const int64_t first = group * s.width;
    thread_local cpu::Scratch<Acc> buffer;
    Acc* dx = buffer.get((kTile + s.taps - 1) * s.gathered());
    cpu::gemm_serial(cpu::Gemm<T, Acc>{
        rows, s.gathered(), s.width, k.dy.row<T>(begin) + first, k.dy.row_stride(), false,
        k.weight.data<T>() + first * s.gathered(), s.gathered(), false, dx, s.gathered()});
    for (int64_t r = begin; r < end; ++r) {
      const int64_t after = stop[r] - r;  // rows of the segment from this one on
      collect(dx + (r - begin + s.taps - 1) * s.gathered(), s, std::max<int64_t>(0, s.taps - after),
              s.taps, k.accumulate_du, k.du.row<T>(r) + first);
    }
  });
}

// The first K - 1 rows of each segment, zero where it is shorter, are what saw the left state.
template <class T>
void state_gradient(const GroupedConvGrad& k) {
  using Acc = acc_t<T>;
  const Sizes s(k.weight);
  const int64_t kept = s.taps - 1;
  if (kept == 0) return;
  const SegmentRows<T> line(k.segments, k.dy, Tensor(), k.u.cols());
  const int64_t batch = std::max<int64_t>(1, kTile / kept);  // segments
  const int64_t batches = ceil_div(k.segments.count, batch);
  parallel_for(batches * s.groups, 1, [&](int64_t piece, int64_t) {
    const int64_t first = piece % s.groups * s.width;
    const int64_t b0 = piece / s.groups * batch, b1 = std::min(b0 + batch, k.segments.count);
    const int64_t rows = (b1 - b0) * kept;
    thread_local cpu::Scratch<T> heads;
    thread_local cpu::Scratch<Acc> buffer;
    T* dy = heads.get(rows * s.width);
    Acc* dx = buffer.get(rows * s.gathered());
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(line.at(b0 + i / kept, i % kept) + first, s.width, dy + i * s.width);
    }
    cpu::gemm_serial(cpu::Gemm<T, Acc>{rows, s.gathered(), s.width, dy, s.width, false,
                                       k.weight.data<T>() + first * s.gathered(), s.gathered(),
                                       false, dx, s.gathered()});
    for (int64_t i = 0; i < rows; ++i) {
      // State row j lies K - 1 - j before the first token: output row j - k saw it through tap k.
      collect(dx + i * s.gathered(), s, 0, i % kept + 1, k.accumulate_dleft,
              k.dleft.row<T>(b0 * kept + i) + first);
    }
  });
}

// Tiles in order within a block of tokens, blocks in order after that; blocks are cut by shape.
template <class T>
void weight_gradient(const GroupedConvGrad& k) {
  using Acc = acc_t<T>;
  const Sizes s(k.weight);
  const SegmentRows<T> line(k.segments, k.u, k.left, k.u.cols());
  const int64_t rows = k.u.rows(), size = s.width * s.gathered();
  const int64_t block = std::max<int64_t>(4 * kTile, ceil_div(ceil_div(rows, 8), kTile) * kTile);
  const int64_t blocks = std::max<int64_t>(1, ceil_div(rows, block));
  Tensor partial({blocks - 1, s.groups, size}, k.dweight.dtype(), kCpu, Purpose::workspace);
  Acc* dweight = k.dweight.data<Acc>();
  parallel_for(blocks * s.groups, 1, [&](int64_t piece, int64_t) {
    const int64_t group = piece % s.groups, b = piece / s.groups;
    const int64_t end = std::min((b + 1) * block, rows);
    thread_local cpu::Scratch<T> buffer;
    T* x = buffer.get(kTile * s.gathered());
    Acc* out =
        b == 0 ? dweight + group * size : partial.data<Acc>() + ((b - 1) * s.groups + group) * size;
    bool add = b == 0 && k.accumulate_dweight;
    if (rows == 0 && !add) std::fill_n(out, size, Acc(0));
    for (int64_t r = b * block; r < end; r += kTile, add = true) {
      const int64_t tile = std::min(kTile, end - r);
      gather(line, k.segments, s, group, r, r + tile, x);
      cpu::gemm_serial(cpu::Gemm<T, Acc>{s.width, s.gathered(), tile,
                                         k.dy.row<T>(r) + group * s.width, k.dy.row_stride(), true,
                                         x, s.gathered(), false, out, s.gathered(), add});
    }
  });
  parallel_for(s.groups, 1, [&](int64_t group, int64_t) {
    for (int64_t b = 0; b + 1 < blocks; ++b) {
      const Acc* from = partial.data<Acc>() + (b * s.groups + group) * size;
      for (int64_t i = 0; i < size; ++i) dweight[group * size + i] += from[i];
    }
  });
}

template <class T>
void bias_gradient(const GroupedConvGrad& k) {
  using Acc = acc_t<T>;
  const int64_t width = k.dy.cols();
  cpu::sum_rows<Acc>(k.dy.rows(), width, k.dbias.data<Acc>(), k.accumulate_dbias,
                     [&](int64_t begin, int64_t end, Acc* sums) {
                       for (int64_t r = begin; r < end; ++r) {
                         const T* dy = k.dy.row<T>(r);
                         for (int64_t c = 0; c < width; ++c) sums[c] += Acc(dy[c]);
                       }
                     });
}

}  // namespace

void GroupedConv::on_cpu() const {
  if (u.cols() == 0) return;
  if (weight.dtype() != u.dtype()) return forward<float, bf16>(*this);
  visit_float(u.dtype(), [&]<class T>() { forward<T, T>(*this); });
}

void GroupedConvGrad::on_cpu() const {
  if (u.cols() == 0) return;
  visit_float(u.dtype(), [&]<class T>() {
    if (du) input_gradient<T>(*this);
    if (dleft) state_gradient<T>(*this);
    if (dweight) weight_gradient<T>(*this);
    if (dbias) bias_gradient<T>(*this);
  });
}

}  // namespace tephra::kernel
