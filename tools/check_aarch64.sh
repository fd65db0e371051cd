#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# That every file with vector kernels compiles for 64-bit ARM, with NEON: those of the device, the ops, the
# optimizers and the data pipeline. Compiled, not run: there is no such machine here.
#
#   tools/check_aarch64.sh [FILES...]
set -euo pipefail
cd "$(dirname "$0")/.."
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(grep -rlE 'include.*hwy/' tephra --include='*.cpp' | sort)
  files+=(tephra/device/cpu/packed.cpp tephra/core/weight.cpp)  # what calls them for packed weights
  [ ${#files[@]} -ge 20 ] || { echo "aarch64: only ${#files[@]} files found; has the include changed?" >&2; exit 1; }
fi

compile() {
  # Highway and fmt are headers of no architecture; all else comes from the cross compiler.
  # Highway's NEON has AES; without the flag here its functions cannot be inlined into ours.
  aarch64-linux-gnu-g++ -std=c++20 -march=armv8-a+crypto -O1 -Wall -Wextra -Werror -ffp-contract=off \
    -DHWY_COMPILE_ONLY_STATIC -I. -idirafter /usr/include -c "$1" -o /dev/null
}
export -f compile
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 1 bash -c 'compile "$1"' _
echo "aarch64: ${#files[@]} files compile"
