// SPDX-License-Identifier: Apache-2.0
// Tells idle threads what comes next.
#pragma once

#include <initializer_list>
#include <span>

#include "tephra/core/weight.h"

namespace tephra {

// Small tensors that the caller reads alone (undefined ones are left out), and weights, each in
// this order, for products of so many rows: with many of them a product computes for longer than it
// reads, and nothing is asked for.
void read_ahead(int64_t rows, std::initializer_list<const Tensor*> own,
                std::initializer_list<std::span<const Weight>> weights);

inline std::span<const Weight> only(const Weight& weight) { return {&weight, 1}; }

}  // namespace tephra
