// SPDX-License-Identifier: Apache-2.0
// The Muon half of an optimizer step: equal matrices in batches, whole batches side by side where
// there are many small ones, the tiles of one batch where matrices are large. Which way is taken
// changes no bit: each matrix is cut by its own shape.
#include <algorithm>
#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/device/launch.h"
#include "tephra/optim/optimizer.h"

namespace tephra {
namespace {

constexpr double kNormEps = 1e-7;
// Batches that share the threads: few enough bytes to stay near the core.
constexpr int64_t kSmallBytes = int64_t{1} << 20;
// What one batch may take that has all threads to itself, unless a single matrix takes more.
constexpr int64_t kLargeBytes = int64_t{64} << 20;

int64_t bytes_of(int64_t rows, int64_t cols, DType dtype) {
  return (rows * cols + newton_schulz_workspace(rows, cols)) * size_of(dtype);
}

}  // namespace

std::vector<Optimizer::Batch> Optimizer::batches(int64_t max_bytes) const {
  std::vector<Batch> cut;
  for (const Batch& group : muon_) {
    const int64_t one = bytes_of(group.rows, group.cols, first_.dtype());
    const auto size = static_cast<size_t>(std::max<int64_t>(1, max_bytes / one));
    for (size_t at = 0; at < group.matrices.size(); at += size) {
      const auto begin = group.matrices.begin() + static_cast<int64_t>(at);
      const auto end = begin + static_cast<int64_t>(std::min(size, group.matrices.size() - at));
      cut.push_back({group.rows, group.cols, {begin, end}});
    }
  }
  return cut;
}

void Optimizer::update_muon(const StepScalars& scalars) {
  if (first_.device().kind == Device::Kind::gpu) {
    for (const Batch& b : batches(kMuonGpuBytes)) update_batch(b, scalars);
    return;
  }
  std::vector<Batch> small;
  for (Batch& b : batches(kSmallBytes)) {
    if (bytes_of(b.rows, b.cols, first_.dtype()) <= kLargeBytes / 2) small.push_back(std::move(b));
  }
  const bool side_by_side = static_cast<int>(small.size()) >= 2 * num_threads();
  for (const Batch& b : batches(kLargeBytes)) {
    const bool large = bytes_of(b.rows, b.cols, first_.dtype()) > kLargeBytes / 2;
    if (large || !side_by_side) update_batch(b, scalars);
  }
  if (!side_by_side) return;
  parallel_for(static_cast<int64_t>(small.size()), 1,
               [&](int64_t i, int64_t) { update_batch(small[static_cast<size_t>(i)], scalars); });
}

void Optimizer::update_batch(const Batch& batch, const StepScalars& scalars) {
  const MuonOptions& o = options_.muon;
  const Tensor& gradients = store_.flat_gradients();
  const Device device = gradients.device();
  const auto count = static_cast<int64_t>(batch.matrices.size());
  const Shape shape{count, batch.rows, batch.cols};
  Tensor u(shape, gradients.dtype(), device, Purpose::workspace);

  std::vector<Piece> pieces;
  for (int64_t i = 0; i < count; ++i) {
    Piece whole = batch.matrices[static_cast<size_t>(i)];
    whole.other = i * whole.size;
    cut_pieces(whole, pieces);
  }
  const auto all = static_cast<int64_t>(pieces.size());
  const Tensor sums({all}, DType::f64, device, Purpose::workspace);
  launch(
      device, "muon momentum",
      kernel::MuonMomentum{gradients, first_, u, pieces, sums, o.momentum, o.nesterov, &scalars});
  // A GPU multiplies bf16 as such; the CPU rounds its f32 values.
  const bool narrow = device.kind == Device::Kind::gpu && o.newton_schulz.bf16;
  const Tensor scaled = narrow ? Tensor(shape, DType::bf16, device, Purpose::workspace) : u;
  launch(device, "muon scale",
         kernel::ScalePieces{u, scaled, pieces, sums, all / count, kNormEps, o.newton_schulz.bf16});
  if (narrow) u = {};
  const Tensor update = newton_schulz(scaled, o.newton_schulz);
  const MasterValues p = values();
  launch(device, "muon update", kernel::MuonUpdate{p, update, pieces, &scalars});
}

}  // namespace tephra
