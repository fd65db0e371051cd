#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The GPU tests and benches of the engine, on a machine that has a GPU but not our packages.
#
#   bench/gpu/session.sh pack BUILD KIT    here: stripped binaries of a build folder and the libraries
#                                          that they need, as KIT.tar.xz
#   bench/gpu/session.sh run KIT           there: unpacks KIT.tar.xz and runs everything, each part
#                                          within a limit of its own
#   bench/gpu/session.sh hunt KIT          there: looks for answers that depend on chance or on what else
#                                          runs, each test many times and in every mode of the stream
#
# BUILD needs the targets tephra, infer_test and ops_test. Parts fail on their own: the rest still runs,
# and the exit status says whether any did.
set -u

pack() {
  build=$1
  kit=$2
  rm -rf "$kit"
  mkdir -p "$kit/bin" "$kit/lib"
  for binary in "$build/tephra" "$build/tests/infer_test" "$build/tests/ops_test"; do
    strip -o "$kit/bin/$(basename "$binary")" "$binary" || exit 1
    # What every Linux has stays: the C library and what belongs to it.
    ldd "$binary" | awk '$3 ~ /^\// { print $3 }' |
      grep -v -E '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' |
      while read -r library; do cp -L "$library" "$kit/lib/"; done
  done
  cp "$0" "$kit/session.sh"
  tar -C "$(dirname "$kit")" -cJf "$kit.tar.xz" "$(basename "$kit")" || exit 1
  ls -l "$kit.tar.xz"
}

failed=0
part() {
  limit=$1
  shift
  echo "== $*"
  timeout "$limit" "$@" 2>&1 || {
    echo "-- failed: status $?"
    failed=1
  }
}

run() {
  kit=$1
  [ -d "$kit" ] || tar -C "$(dirname "$kit")" -xJf "$kit.tar.xz" || exit 1
  export LD_LIBRARY_PATH="$kit/lib:${LD_LIBRARY_PATH:-}" NO_COLOR=1
  tephra=$kit/bin/tephra
  model=${MODEL:-zaya1-8b}
  part 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
  part 60 "$tephra" doctor
  part 120 "$kit/bin/infer_test" --gtest_brief=1 --gtest_filter='*Gpu*'
  part 60 "$kit/bin/ops_test" --gtest_brief=1 --gtest_filter='*Gpu*ttention*:PackedGpu*'
  for batch in 1 16 64 128; do
    part 60 "$tephra" bench decode --model "$model" --device gpu --batch $batch --tokens 128 \
      --context 512 --profile
  done
  # What starting kernels early is worth, and how a long context costs.
  part 60 env TEPHRA_GPU_EARLY=0 "$tephra" bench decode --model "$model" --device gpu --tokens 128
  part 60 "$tephra" bench decode --model "$model" --device gpu --tokens 64 --context 16384
  part 60 "$tephra" bench prefill --model "$model" --device gpu --tokens 16384 --profile
  # Quantised weights: a half and a quarter of the bytes.
  for bits in 8 4; do
    for batch in 1 16 64; do
      part 60 "$tephra" bench decode --model "$model" --bits $bits --device gpu --batch $batch \
        --tokens 128 --context 512 --profile
    done
    part 60 "$tephra" bench prefill --model "$model" --bits $bits --device gpu --tokens 16384 --profile
  done
  for bits in 0 8 4; do
    part 90 "$tephra" verify --model "$model" --bits $bits --self-check --dtype bf16 --device gpu \
      --tokens 64
  done
  exit $failed
}

# What only a race explains shows in some of the runs, and not where kernels wait for each other: with
# TEPHRA_GPU_EARLY=0 none starts before the one ahead has ended, with TEPHRA_GPU_SYNC=1 there are no graphs,
# either. What shows in every run depends on what else is in the batch.
hunt() {
  kit=$1
  [ -d "$kit" ] || tar -C "$(dirname "$kit")" -xJf "$kit.tar.xz" || exit 1
  export LD_LIBRARY_PATH="$kit/lib:${LD_LIBRARY_PATH:-}" NO_COLOR=1
  bits='*GpuAttention.OfAQuery*'
  steps='DecodeStepGpu.TheScheduler*:DecodeStepGpu.Prompts*:DecodeStepGpu.Neighbours*'
  part 60 "$kit/bin/ops_test" --gtest_brief=1 --gtest_repeat=20 --gtest_filter="$bits"
  for mode in TEPHRA_GPU_EARLY=1 TEPHRA_GPU_EARLY=0 TEPHRA_GPU_SYNC=1; do
    part 120 env $mode "$kit/bin/infer_test" --gtest_brief=1 --gtest_repeat=200 --gtest_filter="$steps"
  done
  sanitizer=${SANITIZER:-compute-sanitizer}
  if command -v "$sanitizer" >/dev/null; then
    for tool in racecheck memcheck synccheck; do
      part 300 "$sanitizer" --tool $tool --error-exitcode 1 "$kit/bin/infer_test" --gtest_brief=1 \
        --gtest_filter='DecodeStepGpu.TheScheduler*'
    done
  else
    echo "-- no compute-sanitizer here: races within a block were not looked for"
  fi
  exit $failed
}

case "${1:-}" in
  pack) pack "${2:?the build folder}" "${3:?the folder of the kit}" ;;
  run) run "${2:?the folder of the kit}" ;;
  hunt) hunt "${2:?the folder of the kit}" ;;
  *)
    sed -n '3,14s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
