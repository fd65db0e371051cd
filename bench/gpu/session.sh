#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The GPU tests and benches of the engine, on a machine that has a GPU but not our packages.
#
#   bench/gpu/session.sh pack BUILD KIT    here: stripped binaries of a build folder and the libraries
#                                          that they need, as KIT.tar.xz
#   bench/gpu/session.sh run KIT           there: unpacks KIT.tar.xz and runs everything, each part
#                                          within a limit of its own
#   bench/gpu/session.sh check KIT [PART...]
#                                          there: what has to hold for an integrated build, in one call of
#                                          nine minutes; or only parts of these names, or of names that
#                                          begin so (ops, decode, racecheck-pass)
#   bench/gpu/session.sh hunt KIT          there: looks for answers that depend on chance or on what else
#                                          runs, each test many times and in every mode of the stream
#   bench/gpu/session.sh attention KIT     there: layers and kernels of attention beside cuDNN's, at lengths from
#                                          512 tokens on and with all sizes of heads; needs PyTorch
#
# BUILD needs the targets tephra, infer_test, ops_test and optim_test, for kernels of attention also
# attention_bench. Parts fail on their own: the rest still runs, and the exit status says whether any did.
set -u

pack() {
  build=$1
  kit=$2
  root=$(dirname "$0")/../..
  rm -rf "$kit"
  mkdir -p "$kit/bin" "$kit/lib"
  for binary in "$build/tephra" "$build/tests/infer_test" "$build/tests/ops_test" "$build/tests/optim_test" \
    "$build/attention_bench"; do
    [ "$binary" != "$build/attention_bench" ] || [ -x "$binary" ] || continue
    strip -o "$kit/bin/$(basename "$binary")" "$binary" || exit 1
    # What every Linux has stays: the C library and what belongs to it.
    ldd "$binary" | awk '$3 ~ /^\// { print $3 }' |
      grep -v -E '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' |
      while read -r library; do cp -L "$library" "$kit/lib/"; done
  done
  for file in configs/tiny.toml tests/eval/config.json tests/golden/tokenizer-byte-level/tokenizer.json \
    tests/train/gpu_runs_test.py bench/gpu/attention_peer.py bench/gpu/attention_layers_peer.py; do
    mkdir -p "$kit/$(dirname "$file")"
    cp "$root/$file" "$kit/$file" || exit 1
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

open_kit() {
  kit=$1
  [ -d "$kit" ] || tar -C "$(dirname "$kit")" -xJf "$kit.tar.xz" || exit 1
  export LD_LIBRARY_PATH="$kit/lib:${LD_LIBRARY_PATH:-}" NO_COLOR=1
}

run() {
  open_kit "$1"
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
  open_kit "$1"
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

attention() {
  open_kit "$1"
  part 300 python3 "$kit/bench/gpu/attention_layers_peer.py" "$kit/bin/tephra"
  set --
  for head in 64 128 256; do
    set -- "$@" 16x1024d$head 4x4096d$head 2x8192d$head 1x16384d$head 1x32768d$head
  done
  part 240 python3 "$kit/bench/gpu/attention_peer.py" "$kit/bin/attention_bench" "$@"
  exit $failed
}

# --- check ---
#
# A part has a name, a limit, a log and a line of the summary. Logs come back as $OUT/check.tar.gz, the
# summary as $OUT/summary.txt. Nothing runs past LIMIT seconds: parts get what is left, then none.

wanted() {
  [ -z "$parts" ] && return 0
  for asked in $parts; do
    case "$1" in "$asked" | "$asked"-*) return 0 ;; esac
  done
  return 1
}

# What a log says in one line: what failed; else tests that passed, tokens/s, a state's hash, a divergence;
# else its last words.
figure() {
  found=$(grep -h -o -E -e '^FAIL  .*' -e '\[  FAILED  \] [A-Z].*' "$1" | head -n 2)
  [ -n "$found" ] || found=$(grep -h -o -E -e '\[  PASSED  \] [0-9]+ tests?' -e '[0-9.]+ tokens/s' \
    -e '^share +[0-9.]+ %' -e 'loss [0-9.]+: [0-9a-f]+' -e 'mean KL, experts replayed.*' -e '^ok  .*' \
    -e '(ERROR|RACECHECK) SUMMARY: .*' "$1" | tail -n 3)
  [ -n "$found" ] || found=$(grep -v '^$' "$1" | tail -n 1)
  echo "$found" | tr -s ' \n' ' ' | cut -c 1-160
}

# Tests that were skipped, or not found, have shown nothing.
verdict() {
  case "$1" in
    124 | 137) echo LATE ;;
    0) if grep -q -E '^\[  (SKIPPED |FAILED  |PASSED  \] 0)' "$2"; then echo FAIL; else echo PASS; fi ;;
    *) echo FAIL ;;
  esac
}

# NAME LIMIT COMMAND...
check_part() {
  name=$1
  limit=$2
  shift 2
  wanted "$name" || return 0
  from=$(date +%s)
  left=$((deadline - from))
  [ "$limit" -le "$left" ] || limit=$left
  log=$logs/$name.log
  if [ "$left" -gt 0 ]; then
    timeout -k 5 "$limit" "$@" >"$log" 2>&1
    status=$?
  else
    echo "no time was left for it" >"$log"
    status=124
  fi
  printf '%s %4d s  %-24s %s\n' "$(verdict $status "$log")" $(($(date +%s) - from)) "$name" \
    "$(figure "$log")" >"$logs/$name.line"
}

check_tests() {
  for shard in 0 1 2 3; do
    check_part ops-$shard 150 env GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=$shard "$kit/bin/ops_test" \
      --gtest_brief=1 --gtest_filter='*Gpu*' &
  done
  check_part infer 150 "$kit/bin/infer_test" --gtest_brief=1 --gtest_filter='*Gpu*' &
  check_part optim 150 "$kit/bin/optim_test" --gtest_brief=1 --gtest_filter='GpuOptimizer*' &
  check_part runs 150 python3 "$kit/tests/train/gpu_runs_test.py" "$tephra" "$kit" \
    --only killed,moved,kernel,missing,server &
  wait
}

decode() {
  check_part "$1" 45 "$tephra" bench decode --model "$model" --device gpu --tokens 96 --context "$3" \
    --batch "$2" --bits "${4:-0}"
}

# Alone: the run that does not fit takes all memory, the others are measured.
check_speed() {
  train="bench train --model $model --device gpu --context 4096 --micro-tokens 16384 --recompute dispatch"
  train="$train --recompute activation --hash"
  # shellcheck disable=SC2086  # words
  check_part step 90 "$tephra" $train --batch-tokens 524288 --steps 2
  for again in 1 2; do
    # shellcheck disable=SC2086
    check_part same-$again 260 "$tephra" $train --batch-tokens "${SAME_TOKENS:-32768}" --steps 20
  done
  for batch in 1 2 4 16 64 128; do
    decode decode-$batch $batch 512
  done
  decode decode-128-short 128 16
  decode bits-8 1 512 8
  decode bits-4 1 512 4
  check_part verify 60 "$tephra" verify --model "$model" --self-check --dtype bf16 --device gpu --tokens 8
  check_part large 60 python3 "$kit/tests/train/gpu_runs_test.py" "$tephra" "$kit" --only large
}

# The kernels that are new since a sanitizer last saw all of them, by the smallest tests that launch them.
check_memory() {
  sanitizer=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
  for tool in memcheck racecheck; do
    look="$sanitizer --tool $tool --error-exitcode 1"
    # shellcheck disable=SC2086  # words
    {
      check_part $tool-symmetric 170 $look "$kit/bin/optim_test" --gtest_brief=1 \
        --gtest_filter='GpuOptimizer.MakesMatricesThatAreSymmetricToTheBit' &
      check_part $tool-pass 170 $look "$kit/bin/infer_test" --gtest_brief=1 \
        --gtest_filter='DecodeFormsGpu.ARowAloneHasTheBitsOfOneInCompany' &
      check_part $tool-tiles 170 $look "$kit/bin/infer_test" --gtest_brief=1 \
        --gtest_filter='DecodeFormsGpu.GiveTheSameBitsInBf16' &
      check_part $tool-cca 170 $look "$kit/bin/ops_test" --gtest_brief=1 \
        --gtest_filter='Ops/GpuSuite.HasTheValuesAndGradientsOfTheCpu/cca_qk_*' &
    }
  done
  wait
}

# The same steps end in the same state, or the second of them has failed.
compare_states() {
  [ -f "$logs/same-2.line" ] || return 0
  first=$(grep -h -o -E 'loss [0-9.]+: [0-9a-f]+' "$logs/same-1.log")
  second=$(grep -h -o -E 'loss [0-9.]+: [0-9a-f]+' "$logs/same-2.log")
  if [ -z "$first" ] || [ "$first" != "$second" ]; then
    sed -i 's/^..../FAIL/; s/$/ (not the state of same-1)/' "$logs/same-2.line"
  fi
}

check() {
  deadline=$(($(date +%s) + ${LIMIT:-540}))
  open_kit "$1"
  shift
  parts=$*
  tephra=$kit/bin/tephra
  model=${MODEL:-zaya1-8b}
  out=${OUT:-.}
  logs=$(mktemp -d)
  check_part device 60 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  check_tests
  check_speed
  check_memory
  compare_states
  summary=$out/summary.txt
  for name in device ops infer optim runs step same decode bits verify large memcheck racecheck; do
    find "$logs" -name "$name*.line" | sort -V | xargs -r cat
  done >"$summary"
  tar -C "$logs" -czf "$out/check.tar.gz" .
  rm -r "$logs"
  cat "$summary"
  [ -s "$summary" ] && ! grep -v -q '^PASS' "$summary"
}

case "${1:-}" in
  pack) pack "${2:?the build folder}" "${3:?the folder of the kit}" ;;
  run) run "${2:?the folder of the kit}" ;;
  check)
    : "${2:?the folder of the kit}"
    shift
    check "$@"
    ;;
  attention) attention "${2:?the folder of the kit}" ;;
  hunt) hunt "${2:?the folder of the kit}" ;;
  *)
    sed -n '3,20s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
