// SPDX-License-Identifier: Apache-2.0
// A row is a block: neighbouring threads hold a head, eight columns each. The head's length is a
// sum over them, and the partner of a column that turns is held by one of them, too.
#include "tephra/ops/cca_heads_steps.h"
#include "tephra/ops/rotary_table_gpu.h"

namespace tephra::kernel {
namespace {

using CcaWide = gpu::Floats<gpu::kWide>;
constexpr float kCcaLengthEps = 1.1920929e-7f;

template <class T>
struct CcaArgs {
  gpu::Rows<const T> z, y;
  const T* temp;
  const float* table;  // [N, rotary_dim]
  int nq, nk, lanes, rotary_dim;
  Temperature temperature;

  __device__ int dim() const { return lanes * gpu::kWide; }
};

// Where a thread is in its row.
struct CcaPlace {
  int64_t r;
  int head, at, column;  // `at` within the head

  template <class T>
  __device__ explicit CcaPlace(const CcaArgs<T>& a)
      : r(blockIdx.x),
        head(static_cast<int>(threadIdx.x) / a.lanes),
        at(static_cast<int>(threadIdx.x) % a.lanes * gpu::kWide),
        column(static_cast<int>(threadIdx.x) * gpu::kWide) {}
};

// y + the mean: queries with their key, a key with the mean of its queries.
template <class T>
__device__ CcaWide cca_mean(const CcaArgs<T>& a, const CcaPlace& p) {
  const int group = a.nq / a.nk;
  const bool query = p.head < a.nq;
  const int first = query ? a.nq + p.head / group : (p.head - a.nq) * group;
  const int others = query ? 1 : group;
  const auto own = gpu::load<gpu::kWide>(a.z[p.r] + p.column);
  auto v = gpu::load<gpu::kWide>(a.y[p.r] + p.column);
  CcaWide sum;
  for (int k = 0; k < others; ++k) {
    const auto z = gpu::load<gpu::kWide>(a.z[p.r] + (first + k) * a.dim() + p.at);
#pragma unroll
    for (int i = 0; i < gpu::kWide; ++i) sum[i] += z[i];
  }
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) {
    v[i] += (sum[i] / static_cast<float>(others) + own[i]) * 0.5f;
  }
  return v;
}

__device__ float cca_dot(const CcaWide& a, const CcaWide& b, int lanes) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) sum += a[i] * b[i];
  return gpu::lanes_sum(sum, lanes);
}

// Turns a head's columns, or turns them back. All threads of the wave take part.
template <class T>
__device__ void cca_turn(const CcaArgs<T>& a, const CcaPlace& p, bool inverse, CcaWide& v) {
  const int half = a.rotary_dim / 2;
  if (half == 0) return;
  CcaWide partner;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) partner[i] = gpu::shuffle_xor(v[i], half / gpu::kWide);
  if (p.at >= a.rotary_dim) return;
  const bool second = p.at >= half;
  const float* row = a.table + p.r * a.rotary_dim + p.at - (second ? half : 0);
  const auto cosine = gpu::load<gpu::kWide>(row), sine = gpu::load<gpu::kWide>(row + half);
  const float sign = second == inverse ? -1.0f : 1.0f;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) v[i] = v[i] * cosine[i] + partner[i] * (sine[i] * sign);
}

template <class T>
__device__ float cca_factor(const CcaArgs<T>& a, int head) {
  if (head < a.nq || a.temperature == Temperature::none) return 1;
  const float t = float(a.temp[head - a.nq]);
  return a.temperature == Temperature::exp ? expf(t) : t;
}

template <class T>
__global__ void cca_heads_row(CcaArgs<T> a, gpu::Rows<T> out) {
  const CcaPlace p(a);
  auto v = cca_mean(a, p);
  const float size = sqrtf(cca_dot(v, v, a.lanes));
  const float scale =
      sqrtf(static_cast<float>(a.dim())) / fmaxf(size, kCcaLengthEps) * cca_factor(a, p.head);
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) v[i] *= scale;
  cca_turn(a, p, false, v);
  gpu::store(out[p.r] + p.column, v);
}

// parts [N, nk]: each key's part of dtemp, or null. The formulas are in qk_norm_cpu.cpp.
template <class T>
__global__ void cca_heads_grad_row(CcaArgs<T> a, gpu::Rows<const T> dout, gpu::Rows<T> dz,
                                   bool accumulate_dz, gpu::Rows<T> dy, bool accumulate_dy,
                                   float* parts) {
  auto* const cca_dx = gpu::dynamic_shared<float>();  // of the whole row
  const CcaPlace p(a);
  auto d = gpu::load<gpu::kWide>(dout[p.r] + p.column);
  cca_turn(a, p, true, d);
  const auto v = cca_mean(a, p);
  const float size = sqrtf(cca_dot(v, v, a.lanes)), inverse = 1.0f / fmaxf(size, kCcaLengthEps);
  const float dot = cca_dot(d, v, a.lanes) * inverse;
  const float root = sqrtf(static_cast<float>(a.dim())), factor = cca_factor(a, p.head);
  if (parts && p.head >= a.nq && p.at == 0) {
    const float slope = a.temperature == Temperature::exp ? factor : 1.0f;
    parts[p.r * a.nk + p.head - a.nq] = root * dot * slope;
  }
  const float scale = root * inverse * factor, along = size > kCcaLengthEps ? dot * inverse : 0.0f;
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) d[i] = (d[i] - v[i] * along) * scale;
  gpu::store(cca_dx + p.column, d);
  if (dy) gpu::write(dy[p.r] + p.column, d, accumulate_dy);
  __syncthreads();
  if (!dz) return;
  const int group = a.nq / a.nk;
  const bool query = p.head < a.nq;
  const int first = query ? a.nq + p.head / group : (p.head - a.nq) * group;
  const float share = query ? 1.0f / static_cast<float>(group) : 1.0f;
  for (int k = 0; k < (query ? 1 : group); ++k) {
    const auto other = gpu::load<gpu::kWide>(cca_dx + (first + k) * a.dim() + p.at);
#pragma unroll
    for (int i = 0; i < gpu::kWide; ++i) d[i] += other[i] * share;
  }
#pragma unroll
  for (int i = 0; i < gpu::kWide; ++i) d[i] *= 0.5f;
  gpu::write(dz[p.r] + p.column, d, accumulate_dz);
}

struct CcaTempTerm {
  const float* parts;
  int64_t nk;

  __device__ float operator()(int64_t r, int64_t c) const { return parts[r * nk + c]; }
};

// Threads of a head, 0 where the fused kernels do not take the shape.
int cca_lanes(const CcaHeadsForm& f) {
  const int lanes = gpu::lanes_for(f.rope.head_dim);
  const int64_t half = f.rope.rotary_dim / 2;
  const bool pairs = half == 0 || gpu::lanes_for(half) > 0;  // partners are a power of two away
  const bool plain = f.rope.first == 0 && !f.rope.interleaved;
  return lanes > 0 && pairs && plain && (f.nq + f.nk) * lanes <= 1024 ? lanes : 0;
}

template <class T>
CcaArgs<T> cca_args(const Tensor& z, const Tensor& y, const Tensor& temp, const Tensor& table,
                    const CcaHeadsForm& f) {
  return {gpu::rows_of<const T>(z),
          gpu::rows_of<const T>(y),
          gpu::data_of<const T>(temp),
          table.data<float>(),
          static_cast<int>(f.nq),
          static_cast<int>(f.nk),
          cca_lanes(f),
          static_cast<int>(f.rope.rotary_dim),
          f.temperature};
}

}  // namespace

void CcaHeads::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(z.dtype(), [&]<class T>() {
    const auto o = gpu::rows_of<T>(out);
    const int lanes = cca_lanes(form);
    if (lanes == 0 || !gpu::are_wide(z.cols(), gpu::rows_of<T>(z), gpu::rows_of<T>(y), o)) {
      return cca_heads_steps(*this, [&](const auto& kernel) { kernel.on_gpu(stream); });
    }
    const Tensor table = gpu::rotary_table(stream, position_N, form.rope);
    stream.launch(cca_heads_row<T>,
                  {.blocks = z.rows(), .threads = static_cast<int>(z.cols() / gpu::kWide)},
                  cca_args<T>(z, y, temp, table, form), o);
  });
}

void CcaHeadsGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(z.dtype(), [&]<class T>() {
    const auto d = gpu::rows_of<const T>(dout);
    const auto to_z = gpu::rows_of<T>(dz.grad), to_y = gpu::rows_of<T>(dy.grad);
    if (cca_lanes(form) == 0 ||
        !gpu::are_wide(z.cols(), d, gpu::rows_of<T>(z), gpu::rows_of<T>(y), to_z, to_y)) {
      return cca_heads_grad_steps(*this, [&](const auto& kernel) { kernel.on_gpu(stream); });
    }
    const Tensor table = gpu::rotary_table(stream, position_N, form.rope);
    Tensor parts;
    if (dtemp.grad) {
      parts = Tensor({z.rows(), form.nk}, DType::f32, z.device(), Purpose::workspace);
    }
    stream.launch(cca_heads_grad_row<T>,
                  {.blocks = z.rows(),
                   .threads = static_cast<int>(z.cols() / gpu::kWide),
                   .shared_bytes = z.cols() * 4},
                  cca_args<T>(z, y, temp, table, form), d, to_z, dz.accumulate, to_y, dy.accumulate,
                  gpu::data_of<float>(parts));
    if (dtemp.grad) {
      gpu::sum_rows(stream, z.rows(), form.nk,
                    CcaTempTerm{gpu::data_of<const float>(parts), form.nk},
                    dtemp.grad.data<float>(), dtemp.accumulate);
    }
  });
}

}  // namespace tephra::kernel
