// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/core/weight.h"
#include "tephra/device/gpu/packed.h"

namespace tephra::kernel {
namespace {

constexpr int kUnpackRows = 8, kUnpackGroups = 8;  // of a block
static_assert(kUnpackRows * kUnpackGroups * 4 == gpu::kThreads);

// Whole sectors are read and written: four threads have the 32 columns of a group, 32 threads those
// of eight rows, which lie side by side. Blocks: half a panel, some groups.
template <PackedFormat kFormat, class T>
__global__ void unpack_panels(gpu::PackedPanels<kFormat> panels, int64_t rows, int64_t cols,
                              int64_t first_half, int64_t last_row, const int32_t* offsets,
                              bool wide, T* to) {
  constexpr int kPanelRows = cpu::kPanelRows;
  const int64_t halves = (rows + kPanelRows - 1) / kPanelRows * (kPanelRows / kUnpackRows);
  const int64_t half = first_half + blockIdx.x, matrix = half / halves;
  if (offsets && offsets[matrix] == offsets[matrix + 1]) return;
  const int row_of_half = static_cast<int>(threadIdx.x) / 4 % kUnpackRows;
  const int eight = static_cast<int>(threadIdx.x) % 4;
  const int group = static_cast<int>(blockIdx.y) * kUnpackGroups +
                    static_cast<int>(threadIdx.x) / (4 * kUnpackRows);
  const int64_t row = half % halves * kUnpackRows + row_of_half;
  const int64_t column = int64_t{group} * cpu::kGroupColumns + eight * 8;
  if (row >= rows || row >= last_row || column >= cols) return;
  const int64_t stored = half * kUnpackRows + row_of_half;  // rows of panels
  const gpu::PackedEight<kFormat> codes = panels.codes(stored, group, eight);
  const bf16 scale = panels.scale(stored, group);
  const int64_t place = matrix * rows + row - first_half * kUnpackRows;
  T* out = to + place * cols + column;
  if constexpr (std::is_same_v<T, bf16>) {
    if (wide) {
      *reinterpret_cast<gpu::Bits128*>(out) = codes.weights(scale.bits * 0x10001u);
      return;
    }
  }
  const auto value = [&](int i) {
    return float(scale) * static_cast<float>(codes.code(i) - static_cast<int>(cpu::kCodeZero));
  };
  if (wide) return gpu::store(out, gpu::Floats<8>::of(value));
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (column + i < cols) out[i] = T(value(i));
  }
}

struct DrawnUnits {
  cpu::PackedLayout layout;
  RngKey key;
  bf16 scale;
  gpu::Bits128* blocks;

  __device__ void operator()(int64_t i) const {
    const DrawnUnit unit = drawn_unit(layout, key, scale, static_cast<uint64_t>(i));
    blocks[i] = {{unit.at[0], unit.at[1], unit.at[2], unit.at[3]}};
  }
};

}  // namespace

void Unpack::on_gpu(gpu::Stream& stream) const {
  TEPHRA_ASSERT(to.dense(), "room for unpacked weights is dense");
  const cpu::PackedLayout layout = weight.matrix().layout;
  const int64_t stored =
      to.ndim() == 3 ? weight.matrices() * layout.panels() * cpu::kPanelRows : to.rows();
  gpu::visit_packed(layout.format, [&]<PackedFormat kFormat>() {
    const gpu::PackedPanels<kFormat> panels{static_cast<const std::byte*>(weight.blocks().raw()),
                                            static_cast<int>(layout.groups())};
    gpu::visit_float(to.dtype(), [&]<class T>() {
      T* out = to.data<T>();
      stream.launch(unpack_panels<kFormat, T>,
                    {.blocks = gpu::blocks_for(stored, kUnpackRows),
                     .blocks_y = gpu::blocks_for(layout.groups(), kUnpackGroups),
                     .threads = gpu::kThreads},
                    panels, layout.rows, layout.cols, first / kUnpackRows,
                    to.ndim() == 3 ? layout.rows : first + to.rows(),
                    offsets ? offsets.data<int32_t>() : nullptr,
                    layout.cols % 8 == 0 && gpu::is_wide(out), out);
    });
  });
}

void DrawPacked::on_gpu(gpu::Stream& stream) const {
  gpu::for_each_index(stream, weight.blocks().bytes() / 16,
                      DrawnUnits{weight.matrix().layout, key, scale,
                                 static_cast<gpu::Bits128*>(weight.blocks().raw())});
}

}  // namespace tephra::kernel
