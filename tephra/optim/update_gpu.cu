// SPDX-License-Identifier: Apache-2.0
// A block for each piece. The formulas are in update_cpu.cpp; constants are rounded as there.
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

// Values in the precision that updates are computed in.
template <class T>
struct GpuMaster {
  T* values;
  int16_t* remainders;  // of bf16 values

  __device__ float get(int64_t i) const {
    if constexpr (std::is_same_v<T, bf16>) {
      return join_master({values[i], remainders[i]});
    } else {
      return values[i];
    }
  }
  __device__ void put(int64_t i, float value) const {
    if constexpr (std::is_same_v<T, bf16>) {
      const SplitMaster s = split_master(value);
      values[i] = s.weight;
      remainders[i] = s.remainder;
    } else {
      values[i] = value;
    }
  }
};

template <class T>
GpuMaster<T> gpu_master(const MasterValues& p) {
  return {p.values.data<T>(), gpu::data_of<int16_t>(p.remainder)};
}

__device__ double square_of(float x) { return static_cast<double>(x) * static_cast<double>(x); }

struct SquaresOfPiece {
  const float* x;
  const Piece* pieces;
  double* sums;

  __device__ void operator()(int64_t i) const {
    const Piece piece = pieces[i];
    double sum = 0;
    for (int64_t at = threadIdx.x; at < piece.size; at += blockDim.x) {
      sum += square_of(x[piece.begin + at]);
    }
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
    for (int64_t at = threadIdx.x; at < piece.size; at += blockDim.x) {
      const float g = gradients[piece.begin + at] * scale;
      const float m = fmaf(beta1, first[piece.begin + at], beta1_rest * g);
      const float v = fmaf(beta2, second[piece.other + at], beta2_rest * (g * g));
      first[piece.begin + at] = m;
      second[piece.other + at] = v;
      const float root = fmaf(sqrtf(v), root_scale, eps);
      const float p = master.get(piece.begin + at) * keep;
      master.put(piece.begin + at, fmaf(-step, m / root, p));
    }
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
    for (int64_t at = threadIdx.x; at < piece.size; at += blockDim.x) {
      const float g = gradients[piece.begin + at] * scale;
      const float m = fmaf(momentum, first[piece.begin + at], g);
      first[piece.begin + at] = m;
      const float u = nesterov ? fmaf(momentum, m, g) : m;
      out[piece.other + at] = u;
      sum += square_of(u);
    }
    sum = gpu::block_sum(sum);
    if (threadIdx.x == 0) sums[i] = sum;
  }
};

template <class T>
struct MuonOnPiece {
  GpuMaster<T> master;
  const float* u;
  const Piece* pieces;
  double lr;

  __device__ void operator()(int64_t i) const {
    const Piece piece = pieces[i];
    const auto keep = static_cast<float>(1 - lr * piece.rate * piece.decay);
    const auto step = static_cast<float>(lr * piece.step);
    for (int64_t at = threadIdx.x; at < piece.size; at += blockDim.x) {
      const float p = master.get(piece.begin + at) * keep;
      master.put(piece.begin + at, fmaf(-step, u[piece.other + at], p));
    }
  }
};

struct ScaleOfPiece {
  float* u;
  const Piece* pieces;
  const double* factors;
  bool round_to_bf16;

  __device__ void operator()(int64_t i) const {
    const Piece piece = pieces[i];
    const auto factor = static_cast<float>(factors[i]);
    for (int64_t at = threadIdx.x; at < piece.size; at += blockDim.x) {
      const float value = u[piece.other + at] * factor;
      u[piece.other + at] = round_to_bf16 ? float(bf16(value)) : value;
    }
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
  if (!scalars->apply) return;
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
  const PieceSums out(stream, sums);
  gpu::for_each_row(
      stream, static_cast<int64_t>(pieces.size()),
      MomentumOfPiece{gradients.data<float>(), first.data<float>(), workspace.data<float>(),
                      table.data(), out.data(), static_cast<float>(scalars->gradient_scale),
                      static_cast<float>(momentum), nesterov});
  out.read();
}

void MuonUpdate::on_gpu(gpu::Stream& stream) const {
  const Uploaded<Piece> table(stream, pieces);
  gpu::visit_float(p.values.dtype(), [&]<class T>() {
    gpu::for_each_row(
        stream, static_cast<int64_t>(pieces.size()),
        MuonOnPiece<T>{gpu_master<T>(p), workspace.data<float>(), table.data(), scalars->lr});
  });
}

void ScalePieces::on_gpu(gpu::Stream& stream) const {
  const Uploaded<Piece> table(stream, pieces);
  const Uploaded<double> all(stream, factors);
  gpu::for_each_row(stream, static_cast<int64_t>(pieces.size()),
                    ScaleOfPiece{workspace.data<float>(), table.data(), all.data(), round_to_bf16});
}

}  // namespace tephra::kernel
