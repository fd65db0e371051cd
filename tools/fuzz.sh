#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/fuzz.sh SECONDS [TARGET...]: runs each fuzz target that long, from the committed inputs of
# fuzz/corpus and what earlier runs found (build/fuzz/corpus). A finding stops it: the input is left
# under build/fuzz/findings, and belongs into fuzz/corpus and into a test once it is fixed.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: tools/fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for source in fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" _fuzz.cpp)"); done
fi
mkdir -p build/fuzz/findings
for target in "${targets[@]}"; do
  found=build/fuzz/corpus/$target
  kept=fuzz/corpus/$target
  mkdir -p "$found"
  inputs=("$found")
  [ -d "$kept" ] && inputs+=("$kept")
  options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -verbosity=0
    -print_final_stats=1 -artifact_prefix=build/fuzz/findings/"$target"-)
  [ -f "fuzz/$target.dict" ] && options+=(-dict="fuzz/$target.dict")
  log=build/fuzz/$target.log
  if ! build/fuzz/fuzz/"${target}_fuzz" "${options[@]}" "${inputs[@]}" > "$log" 2>&1; then
    tail -40 "$log"
    echo "fuzz: $target FAILED; the input is in build/fuzz/findings, the whole output in $log"
    exit 1
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  echo "fuzz: $target: $runs inputs in about $seconds s, $(find "${inputs[@]}" -type f | wc -l) kept, no finding"
done
