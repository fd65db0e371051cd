// SPDX-License-Identifier: Apache-2.0
// The parts of gemm.cpp that are our own loops, compiled for every instruction set.
#pragma once

#include "tephra/device/cpu/gemm.h"

namespace tephra::cpu {

// Few rows times W^T: each weight is read once, each element is one dot product in K order.
template <class In, class Out, class W>
void dot_rows(const Gemm<In, Out, W>& g);

void gemm_f64(const Gemm<double, double>& g);

// rows x cols elements between a strided and a dense matrix.
void widen(const bf16* from, int64_t ld, int64_t rows, int64_t cols, float* to);

// c += bias in every row.
void add_bias(const Gemm<float, float>& g);

// c = round(sum + bias + (accumulate ? c : 0)) from dense sums.
template <class In, class Out>
void write_sums(const float* sums, const Gemm<In, Out>& g);

}  // namespace tephra::cpu
