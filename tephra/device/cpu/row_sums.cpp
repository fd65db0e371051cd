// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/cpu/row_sums.h"

#include <algorithm>
#include <memory>

#include "tephra/base/parallel.h"
#include "tephra/device/memory.h"

namespace tephra::cpu {

template <class Acc>
void sum_rows(int64_t rows, int64_t width, Acc* out, bool accumulate,
              FunctionRef<void(int64_t, int64_t, Acc*)> add) {
  constexpr int64_t kMaxBlocks = 64;
  const int64_t block = std::max<int64_t>(32, ceil_div(rows, kMaxBlocks));
  const int64_t blocks = ceil_div(rows, block);
  const int64_t bytes = blocks * width * static_cast<int64_t>(sizeof(Acc));
  const auto storage = Storage::allocate(kCpu, bytes, Purpose::workspace);
  Acc* partial = static_cast<Acc*>(storage->data());

  parallel_for(rows, block, [&](int64_t begin, int64_t end) {
    Acc* sums = partial + begin / block * width;
    std::fill_n(sums, width, Acc(0));
    add(begin, end, sums);
  });
  parallel_for(width, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Acc sum = 0;
      for (int64_t b = 0; b < blocks; ++b) sum += partial[b * width + c];
      out[c] = accumulate ? out[c] + sum : sum;
    }
  });
}

template void sum_rows(int64_t, int64_t, float*, bool, FunctionRef<void(int64_t, int64_t, float*)>);
template void sum_rows(int64_t, int64_t, double*, bool,
                       FunctionRef<void(int64_t, int64_t, double*)>);

}  // namespace tephra::cpu
