// SPDX-License-Identifier: Apache-2.0
// A block for each piece, 16 bytes a thread and step. The formulas are in update_cpu.cpp; constants
// are rounded as there.
#include <cmath>
#include <cstring>

#include "tephra/core/gpu_kernel.h"
#include "tephra/optim/master.h"
#include "tephra/optim/update.h"

namespace tephra::kernel {
namespace {

// Host values on the device for as long as this lives.
template <class T>
class Uploaded {
 public:
  Uploaded(gpu::Stream& stream, std::span<const T> values)
      : storage_(Storage::allocate(stream.device(), static_cast<int64_t>(values.size_bytes()),
                                   Purpose::workspace)) {
    gpu::copy(stream.device(), gpu::Direction::to_device, storage_->data(), values.data(),
              storage_->bytes());
  }
  const T* data() const { return static_cast<const T*>(storage_->data()); }

 private:
  std::shared_ptr<Storage> storage_;
};

// Room for one number a piece, read back at the end.
class PieceSums {
 public:
  PieceSums(gpu::Stream& stream, std::span<double> sums)
      : device_(stream.device()),
        sums_(sums),
        storage_(Storage::allocate(device_, static_cast<int64_t>(sums.size_bytes()),
                                   Purpose::workspace)) {}
  double* data() const { return static_cast<double*>(storage_->data()); }
  void read() const {
    gpu::copy(device_, gpu::Direction::to_host, sums_.data(), storage_->data(), storage_->bytes());
  }

 private:
  Device device_;
  std::span<double> sums_;
  std::shared_ptr<Storage> storage_;
};

// f<W>(i) over a piece: eight elements at a time, then what is left.
template <class F>
__device__ void for_piece(const Piece& piece, F f) {
  using gpu::kWide;
  const bool aligned = (piece.begin | piece.other) % kWide == 0;
  const int64_t wide = aligned ? piece.size / kWide * kWide : 0;
  for (int64_t i = threadIdx.x * kWide; i < wide; i += blockDim.x * kWide) {
    f.template operator()<kWide>(i);
  }
  for (int64_t i = wide + threadIdx.x; i < piece.size; i += blockDim.x) {
    f.template operator()<1>(i);
  }
}

template <int W, class T>
struct alignas(W == 1 ? alignof(T) : 16) MasterUnit {
  T at[W];
};

// Values in the precision that updates are computed in.
template <class T>
struct GpuMaster {
  T* values;
  int16_t* remainders;  // of bf16 values

  template <int W>
  __device__ gpu::Floats<W> get(int64_t i) const {
    if constexpr (std::is_same_v<T, bf16>) {
      const auto high = *reinterpret_cast<const MasterUnit<W, bf16>*>(values + i);
      const auto low = *reinterpret_cast<const MasterUnit<W, int16_t>*>(remainders + i);
      return gpu::Floats<W>::of([&](int k) { return join_master({high.at[k], low.at[k]}); });
    } else {
      return gpu::load<W>(values + i);
    }
  }
  template <int W>
  __device__ void put(int64_t i, const gpu::Floats<W>& value) const {
    if constexpr (std::is_same_v<T, bf16>) {
      MasterUnit<W, bf16> high;
      MasterUnit<W, int16_t> low;
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const SplitMaster s = split_master(value[k]);
        high.at[k] = s.weight;
        low.at[k] = s.remainder;
      }
      *reinterpret_cast<MasterUnit<W, bf16>*>(values + i) = high;
      *reinterpret_cast<MasterUnit<W, int16_t>*>(remainders + i) = low;
    } else {
      gpu::store(values + i, value);
    }
  }
};

template <class T>
GpuMaster<T> gpu_master(const MasterValues& p) {
  return {p.values.data<T>(), gpu::data_of<int16_t>(p.remainder)};
}

template <int W>
__device__ double squares_of(const gpu::Floats<W>& v) {
  double sum = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) sum += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  return sum;
}

struct SquaresOfPiece {
  const float* x;
  const Piece* pieces;
  double* sums;

  __device__ void operator()(int64_t i) const {
    const Piece piece = pieces[i];
    double sum = 0;
    for_piece({piece.begin, 0, piece.size, 0, 0, 0},
              [&]<int W>(int64_t at) { sum += squares_of(gpu::load<W>(x + piece.begin + at)); });
    sum = gpu::block_sum(sum);
    if (threadIdx.x == 0) sums[i] = sum;
  }
};

template <class T>
struct AdamWOnPiece {
  GpuMaster<T> master;
  const float* gradients;
  float *first, *second;
  const Piece* pieces;
  float scale, beta1, beta1_rest, beta2, beta2_rest, root_scale, eps;
  double lr, first_correction;

  __device__ void operator()(int64_t i) const {
    const Piece piece = pieces[i];
    const auto keep = static_cast<float>(1 - lr * piece.rate * piece.decay);
    const auto step = static_cast<float>(lr * piece.step / first_correction);
    for_piece(piece, [&]<int W>(int64_t at) {
      const auto g = gpu::load<W>(gradients + piece.begin + at);
      auto m = gpu::load<W>(first + piece.begin + at);
      auto v = gpu::load<W>(second + piece.other + at);
      auto p = master.template get<W>(piece.begin + at);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float scaled = g[k] * scale;
        m[k] = fmaf(beta1, m[k], beta1_rest * scaled);
        v[k] = fmaf(beta2, v[k], beta2_rest * (scaled * scaled));
        p[k] = fmaf(-step, m[k] / fmaf(sqrtf(v[k]), root_scale, eps), p[k] * keep);
      }
      gpu::store(first + piece.begin + at, m);
      gpu::store(second + piece.other + at, v);
      master.put(piece.begin + at, p);
    });
  }
};

struct MomentumOfPiece {
  const float* gradients;
  float *first, *out;
  const Piece* pieces;
  double* sums;
  float scale, momentum;
  bool nesterov;

  __device__ void operator()(int64_t i) const {
    const Piece piece = pieces[i];
    double sum = 0;
    for_piece(piece, [&]<int W>(int64_t at) {
      auto u = gpu::load<W>(gradients + piece.begin + at);
      auto m = gpu::load<W>(first + piece.begin + at);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        const float g = u[k] * scale;
        m[k] = fmaf(momentum, m[k], g);
        u[k] = nesterov ? fmaf(momentum, m[k], g) : m[k];
      }
      gpu::store(first + piece.begin + at, m);
      gpu::store(out + piece.other + at, u);
      sum += squares_of(u);
    });
    sum = gpu::block_sum(sum);
    if (threadIdx.x == 0) sums[i] = sum;
  }
};

template <class T, class U>
struct MuonOnPiece {
  GpuMaster<T> master;
  const U* u;
  const Piece* pieces;
  double lr;

  __device__ void operator()(int64_t i) const {
    const Piece piece = pieces[i];
    const auto keep = static_cast<float>(1 - lr * piece.rate * piece.decay);
    const auto step = static_cast<float>(lr * piece.step);
    for_piece(piece, [&]<int W>(int64_t at) {
      const auto update = gpu::load<W>(u + piece.other + at);
      auto p = master.template get<W>(piece.begin + at);
#pragma unroll
      for (int k = 0; k < W; ++k) p[k] = fmaf(-step, update[k], p[k] * keep);
      master.put(piece.begin + at, p);
    });
  }
};

template <class Out>
struct ScaleOfPiece {
  const float* u;
  Out* out;
  const Piece* pieces;
  const double* sums;
  int64_t pieces_each;
  double eps;
  bool round_to_bf16;

  __device__ void operator()(int64_t i) const {
    const double* of_matrix = sums + i / pieces_each * pieces_each;
    double sum = 0;
    for (int64_t at = threadIdx.x; at < pieces_each; at += blockDim.x) sum += of_matrix[at];
    const auto factor = static_cast<float>(1 / (sqrt(gpu::block_sum(sum)) + eps));
    const Piece piece = pieces[i];
    for_piece({0, piece.other, piece.size, 0, 0, 0}, [&]<int W>(int64_t at) {
      auto v = gpu::load<W>(u + piece.other + at);
#pragma unroll
      for (int k = 0; k < W; ++k) {
        v[k] *= factor;
        if (round_to_bf16) v[k] = float(bf16(v[k]));
      }
      gpu::store(out + piece.other + at, v);
    });
  }
};

}  // namespace

void SumSquares::on_gpu(gpu::Stream& stream) const {
  const Uploaded<Piece> table(stream, pieces);
  const PieceSums out(stream, sums);
  gpu::for_each_row(stream, static_cast<int64_t>(pieces.size()),
                    SquaresOfPiece{x.data<float>(), table.data(), out.data()});
  out.read();
}

void AdamWUpdate::on_gpu(gpu::Stream& stream) const {
  const Uploaded<Piece> table(stream, pieces);
  const auto t = static_cast<double>(scalars->update);
  const auto number = [](double value) { return static_cast<float>(value); };
  gpu::visit_float(p.values.dtype(), [&]<class T>() {
    gpu::for_each_row(
        stream, static_cast<int64_t>(pieces.size()),
        AdamWOnPiece<T>{gpu_master<T>(p), gradients.data<float>(), first.data<float>(),
                        second.data<float>(), table.data(), number(scalars->gradient_scale),
                        number(options.beta1), number(1 - options.beta1), number(options.beta2),
                        number(1 - options.beta2),
                        number(1 / std::sqrt(1 - std::pow(options.beta2, t))), number(options.eps),
                        scalars->lr, 1 - std::pow(options.beta1, t)});
  });
}

void MuonMomentum::on_gpu(gpu::Stream& stream) const {
  const Uploaded<Piece> table(stream, pieces);
  gpu::for_each_row(stream, static_cast<int64_t>(pieces.size()),
                    MomentumOfPiece{gradients.data<float>(), first.data<float>(),
                                    workspace.data<float>(), table.data(), sums.data<double>(),
                                    static_cast<float>(scalars->gradient_scale),
                                    static_cast<float>(momentum), nesterov});
}

void MuonUpdate::on_gpu(gpu::Stream& stream) const {
  const Uploaded<Piece> table(stream, pieces);
  gpu::visit_float(p.values.dtype(), [&]<class T>() {
    gpu::visit_float(workspace.dtype(), [&]<class U>() {
      gpu::for_each_row(
          stream, static_cast<int64_t>(pieces.size()),
          MuonOnPiece<T, U>{gpu_master<T>(p), workspace.data<U>(), table.data(), scalars->lr});
    });
  });
}

void ScalePieces::on_gpu(gpu::Stream& stream) const {
  const Uploaded<Piece> table(stream, pieces);
  gpu::visit_float(out.dtype(), [&]<class Out>() {
    gpu::for_each_row(stream, static_cast<int64_t>(pieces.size()),
                      ScaleOfPiece<Out>{workspace.data<float>(), out.data<Out>(), table.data(),
                                        sums.data<double>(), pieces_each, eps, round_to_bf16});
  });
}

}  // namespace tephra::kernel
