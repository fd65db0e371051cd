#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/fuzz.sh SECONDS [TARGET...]: runs each fuzz target that long, one on each core, from the
# committed inputs of fuzz/corpus and what earlier runs found (build/fuzz/corpus). A finding makes it
# fail: the input is left under build/fuzz/findings, and belongs into fuzz/corpus and into a test once
# it is fixed.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: tools/fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" _fuzz.cpp)"); done
fi
mkdir -p build/fuzz/findings

fuzz_one() {
  local seconds=$1 target=$2
  local found=build/fuzz/corpus/$target kept=fuzz/corpus/$target log=build/fuzz/$target.log
  mkdir -p "$found"
  local inputs=("$found")
  [ -d "$kept" ] && inputs+=("$kept")
  local options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0
    -print_final_stats=1 -artifact_prefix=build/fuzz/findings/"$target"-)
  [ -f "fuzz/$target.dict" ] && options+=(-dict="fuzz/$target.dict")
  if ! build/fuzz/fuzz/"${target}_fuzz" "${options[@]}" "${inputs[@]}" > "$log" 2>&1; then
    tail -40 "$log"
    echo "fuzz: $target FAILED; the input is in build/fuzz/findings, the whole output in $log"
    return 1
  fi
  local runs
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "fuzz: $target: $runs inputs in about $seconds s, $(find "${inputs[@]}" -type f | wc -l) kept, no finding"
}
export -f fuzz_one
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -euc 'fuzz_one "$@"' fuzz "$seconds" {}
