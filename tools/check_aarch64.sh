#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# That the kernels of packed weights and of matrix products with few rows compile for 64-bit ARM, with NEON.
# Compiled, not run: there is no such machine here.
#
#   tools/check_aarch64.sh [FILES...]
set -euo pipefail
cd "$(dirname "$0")/.."
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  files=(tephra/device/cpu/packed_kernels_cpu.cpp tephra/device/cpu/pack_cpu.cpp
    tephra/device/cpu/packed.cpp tephra/device/cpu/gemm_kernels_cpu.cpp tephra/core/weight.cpp)
fi
for file in "${files[@]}"; do
  # Highway and fmt are headers of no architecture; all else comes from the cross compiler.
  # Highway's NEON has AES; without the flag here its functions cannot be inlined into ours.
  aarch64-linux-gnu-g++ -std=c++20 -march=armv8-a+crypto -O1 -Wall -Wextra -Werror -ffp-contract=off \
    -DHWY_COMPILE_ONLY_STATIC -I. -idirafter /usr/include -c "$file" -o /dev/null
  echo "aarch64: $file"
done
