// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/copy_rows.h"

#include "tephra/device/launch.h"

namespace tephra {

void copy_rows(const Tensor& to, const Tensor& row_N, const Tensor& from) {
  require(to.cols() == from.cols() && to.dtype() == from.dtype(),
          "copy_rows: cannot copy rows of {} {} into {} {}", from.dtype(), from.shape(), to.dtype(),
          to.shape());
  require(row_N.dtype() == DType::i32 && row_N.numel() == from.rows(),
          "copy_rows: {} rows need as many i32 row numbers, got {} {}", from.rows(), row_N.dtype(),
          row_N.shape());
  const Tensor rows = to_device(row_N, to.device());
  launch(to.device(), "copy_rows", kernel::CopyRows{to, rows, from});
}

void take_rows(const Tensor& to, const Tensor& from, const Tensor& row_N) {
  require(to.cols() == from.cols() && to.dtype() == from.dtype(),
          "take_rows: cannot take rows of {} {} into {} {}", from.dtype(), from.shape(), to.dtype(),
          to.shape());
  require(row_N.dtype() == DType::i32 && row_N.numel() == to.rows(),
          "take_rows: {} rows need as many i32 row numbers, got {} {}", to.rows(), row_N.dtype(),
          row_N.shape());
  const Tensor rows = to_device(row_N, to.device());
  launch(to.device(), "take_rows", kernel::TakeRows{to, from, rows});
}

}  // namespace tephra
