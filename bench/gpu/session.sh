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
#                                          begin so (ops, decode, racecheck-pass); into $OUT. Only when
#                                          asked for: memcheck-ops and memcheck-whole, memcheck over all
#                                          tests of a room; memcheck-, racecheck- and synccheck-experts;
#                                          memcheck- and racecheck-portable; portable, what GPUs without fast
#                                          paths run; trainer; grouped, experts' products beside cuBLASLt's;
#                                          profile and peers, which need PyTorch and JAX; more of serve and drawn,
#                                          flat, whole.
#                                          SANITIZE_LIMIT: seconds that a sanitizer has, 170
#   bench/gpu/session.sh hunt KIT          there: looks for answers that depend on chance or on what else
#                                          runs, each test many times and in every mode of the stream
#   bench/gpu/session.sh attention KIT     there: layers and kernels of attention beside cuDNN's, at lengths from
#                                          512 tokens on and with all sizes of heads; needs PyTorch
#
# BUILD needs the targets tephra, device_test, core_test, infer_test, ops_test and optim_test, for kernels of
# attention also attention_bench, for the experts' products grouped_gemm_bench, for portable ones
# portable_gemm_bench. Parts fail on their own: the rest
# still runs, and the exit status says whether any did. Ctrl-C, TERM and HUP end them all.
set -u

die() {
  echo "session.sh: $*" >&2
  exit 2
}

pack() {
  build=$1
  kit=${2%/}
  root=$(dirname "$0")/../..
  [ -x "$build/tephra" ] || die "there is no $build/tephra: build the targets first that session.sh names"
  rm -rf "$kit" "$kit.tar.xz"
  mkdir -p "$kit/bin" "$kit/lib"
  for binary in "$build/tephra" "$build/tests/device_test" "$build/tests/core_test" "$build/tests/infer_test" \
    "$build/tests/ops_test" "$build/tests/optim_test" "$build/attention_bench" "$build/grouped_gemm_bench" \
    "$build/portable_gemm_bench"; do
    case "$binary" in *_bench) [ -x "$binary" ] || continue ;; esac
    strip -o "$kit/bin/$(basename "$binary")" "$binary" || exit 1
    # What every Linux has stays, the C library and what belongs to it, and what belongs to CUDA.
    ldd "$binary" | awk '$3 ~ /^\// { print $3 }' |
      grep -v -E '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcublasLt|ld-linux[^/]*)\.so' |
      while read -r library; do cp -L "$library" "$kit/lib/"; done
  done
  for file in configs/tiny.toml configs/zaya1-8b-one-gpu.toml tests/eval/config.json tests/golden/tokenizer-byte-level/tokenizer.json \
    tests/train/gpu_runs_test.py tests/infer/gpu_golden_test.py bench/gpu/attention_peer.py \
    bench/gpu/attention_layers_peer.py bench/gpu/step_table.py bench/gpu/trainer_speed.py \
    tests/infer/gpu_trained_test.py tests/support/gpu.py; do
    mkdir -p "$kit/$(dirname "$file")"
    cp "$root/$file" "$kit/$file" || exit 1
  done
  cp -r "$root"/tests/golden/zaya-tiny* "$root"/tests/golden/train-* "$root/tests/golden/attention" \
    "$kit/tests/golden/" || exit 1
  cp "$0" "$kit/session.sh"
  git -C "$root" describe --always --dirty >"$kit/commit" || echo unknown >"$kit/commit"
  tar -C "$(dirname "$kit")" -cJf "$kit.tar.xz.new" "$(basename "$kit")" || exit 1
  mv "$kit.tar.xz.new" "$kit.tar.xz"
  echo "commit $(cat "$kit/commit")"
  ls -l "$kit.tar.xz"
}

# An archive replaces whatever folder lies beside it: that may be an older kit, or half of one.
open_kit() {
  kit=${1%/}
  if [ -f "$kit.tar.xz" ]; then
    rm -rf "$kit" "$kit.new"
    mkdir "$kit.new" || exit 2
    tar -C "$kit.new" --strip-components=1 -xJf "$kit.tar.xz" || die "$kit.tar.xz cannot be unpacked"
    mv "$kit.new" "$kit" || exit 2
  fi
  [ -f "$kit/commit" ] || die "$kit is no kit that pack has made, and there is no $kit.tar.xz"
  export LD_LIBRARY_PATH="$kit/lib:${LD_LIBRARY_PATH:-}" NO_COLOR=1
  trap hand_on INT TERM HUP
}

# --- processes ---
#
# Each part is a process group, led by `timeout`, which hands a TERM on to all of it and kills what is left
# after five seconds. Each shell knows what it waits for, and hands a signal on to that.

stopped=
children=

hand_on() {
  stopped=yes
  # shellcheck disable=SC2086  # words
  [ -z "$children" ] || kill $children 2>/dev/null
}

# Waits for the child PID, though signals come, and sets its status.
ended() {
  wait "$1"
  status=$?
  while [ $status -gt 128 ] && kill -0 "$1" 2>/dev/null; do
    wait "$1"
    status=$?
  done
}

# SECONDS COMMAND...
limited() {
  SESSION_COMMAND=$(mktemp -u session.XXXXXXXXXX) # known to all that the command starts
  export SESSION_COMMAND
  timeout -k 5 "$@" &
  children=$!
  [ -z "$stopped" ] || hand_on
  ended $children
  kill -KILL -- -$children 2>/dev/null # whoever outlived the command,
  kill_marked                          # in another group, too, as a sanitizer's program may be
  children=
  return $status
}

# All that began with this command's mark in their environment; who looks for them has none. Looks again until
# none is left, and once more than that: one that is just becoming another program shows no environment.
kill_marked() {
  mark=$SESSION_COMMAND
  unset SESSION_COMMAND
  for look in 1 2 3 4 5 6 7 8 9 10; do
    marked=$(grep -l -z -x -F "SESSION_COMMAND=$mark" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3)
    [ -n "$marked" ] || [ "$look" -eq 1 ] || return 0
    # shellcheck disable=SC2086  # words
    [ -z "$marked" ] || kill -KILL $marked 2>/dev/null
    sleep 0.1
  done
}

# Suites that need a GPU have it in their name; so may tests that need none.
gpu_suites='*Gpu*.*'

failed=0
part() {
  [ -z "$stopped" ] || exit 1
  limit=$1
  shift
  echo "== $*"
  limited "$limit" "$@" 2>&1 || {
    echo "-- failed: status $status"
    failed=1
  }
}

run() {
  open_kit "$1"
  tephra=$kit/bin/tephra
  model=${MODEL:-zaya1-8b}
  part 20 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
  part 60 "$tephra" doctor
  part 120 "$kit/bin/infer_test" --gtest_brief=1 --gtest_filter="$gpu_suites"
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
  steps='DecodeStepGpu.TheScheduler*:DecodeStepGpu.Prompts*:DecodeStepGpu.Neighbours*:DecodeFormsGpu.ARowAloneHasTheBits*'
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
  part 150 python3 "$kit/bench/gpu/attention_layers_peer.py" "$kit/bin/tephra"
  set --
  for shape in 1x16384 4x4096 1x32768 16x1024 2x8192 32x512; do
    set -- "$@" ${shape}d128 ${shape}d64 ${shape}d256
  done
  part 150 python3 "$kit/bench/gpu/attention_peer.py" "$kit/bin/attention_bench" "$@"
  exit $failed
}

# --- check ---
#
# A part has a name, a limit, a log and a line of the summary. Nothing runs past LIMIT seconds: parts get what
# is left, then none. $OUT/summary.txt and $OUT/check.tar.gz (the logs) are written again after each part, so
# that a call that is cut has brought out what ended before.

# In the order in which they run, the most important first.
tests='ops-0 ops-1 ops-2 ops-3 infer optim core-memory core-checksum golden runs runs-bf16 runs-heads'
alone='large runs-layers verify engine trained step decode-1 decode-2 decode-4 decode-16 decode-64 decode-128 decode-128-short bits-8 bits-4'
alone="$alone prefill prefill-8192 serve-prompt serve-1 serve-64 drawn-64 same"
portable_tests='portable-ops-0 portable-ops-1 portable-ops-2 portable-ops-3 portable-infer portable-optim'
portable_tests="$portable_tests portable-golden"
long='prefill-2048 serve-16 drawn-1 drawn-16 flat-1 flat-16 flat-64 whole-64 trainer profile grouped grouped-16384'
long="$long grouped-9216 portable-products portable-step peers-deterministic peers-windows"
memory='memcheck-symmetric memcheck-pass memcheck-tiles memcheck-cca'
memory="$memory racecheck-symmetric racecheck-pass racecheck-tiles racecheck-cca"
memory="$memory synccheck-pass synccheck-tiles synccheck-cca initcheck-step initcheck-cca"
whole_memory='memcheck-experts racecheck-experts synccheck-experts memcheck-portable racecheck-portable'
whole_memory="$whole_memory memcheck-ops-0 memcheck-ops-1 memcheck-ops-2 memcheck-ops-3"
whole_memory="$whole_memory memcheck-ops-4 memcheck-ops-5 memcheck-ops-6 memcheck-ops-7"
whole_memory="$whole_memory memcheck-whole-optim memcheck-whole-infer-0 memcheck-whole-infer-1 memcheck-whole-infer-2"
whole_memory="$whole_memory memcheck-whole-infer-3"
names="device $tests $alone $memory" # of a call that asks for none
asked_only="$portable_tests $long $whole_memory"

# NAME: how long it may take, and what it is.
check_part() {
  case "$1" in
    device) within 60 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader ;;
    ops-*) within 150 env GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX="${1#ops-}" "$kit/bin/ops_test" \
      --gtest_brief=1 --gtest_filter="$gpu_suites" ;;
    infer) within 150 "$kit/bin/infer_test" --gtest_brief=1 --gtest_filter="$gpu_suites" ;;
    optim) within 150 "$kit/bin/optim_test" --gtest_brief=1 --gtest_filter="$gpu_suites" ;;
    core-memory) within 60 "$kit/bin/device_test" --gtest_brief=1 --gtest_filter="$gpu_suites:DeviceNames.*" ;;
    core-checksum) within 60 "$kit/bin/core_test" --gtest_brief=1 --gtest_filter="$gpu_suites" ;;
    golden) within 150 python3 "$kit/tests/infer/gpu_golden_test.py" "$tephra" "$kit" ;;
    runs) processes 150 killed,moved,kernel,lost,missing,server ;;
    runs-bf16) processes 150 killed,moved --dtype bf16 ;;
    runs-heads) processes 150 killed,moved --dtype bf16 --shape heads ;;
    runs-layers) processes 150 killed --dtype bf16 --shape layers ;;
    large) processes 60 large ;;
    verify) within 60 "$tephra" verify --model "$model" --self-check --dtype bf16 --device gpu --tokens 8 ;;
    engine) within 60 "$tephra" verify --model "$model" --engine --dtype bf16 --device gpu --tokens 512 ;;
    trained) within 90 python3 "$kit/tests/infer/gpu_trained_test.py" "$tephra" "$kit" ;;
    trainer) within 90 python3 "$kit/bench/gpu/trainer_speed.py" "$tephra" --device gpu ;;
    profile) within 90 python3 "$kit/bench/gpu/step_table.py" "$tephra" ;;
    # No fast path and no library: what a GPU gets that has neither.
    portable-products) beside_library 90 portable_gemm_bench ;;
    portable-step) train 120 131072 2 env TEPHRA_GPU_PORTABLE=1 "$tephra" ;;
    portable-*)
      export TEPHRA_GPU_PORTABLE=1 # of a shell of its own
      check_part "${1#portable-}"
      ;;
    grouped) beside_library 150 grouped_gemm_bench ;;
    grouped-*) beside_library 60 grouped_gemm_bench "${1#grouped-}" ours ;;
    peers-deterministic) peers 60 --deterministic 1x16384 4x4096 32x512 1x16384d64 4x4096d64 32x512d64 1x16384d256 \
      4x4096d256 32x512d256 ;;
    peers-windows) peers 120 --flex 1x16384w1024 1x16384w4096 4x4096w1024 ;;
    step) train 90 524288 2 "$tephra" ;;
    same)
      limit=${SAME_TOKENS:+520} # large steps are a call of their own
      train "${limit:-150}" "${SAME_TOKENS:-32768}" 20 sh "$kit/session.sh" twice "$tephra"
      ;;
    decode-128-short) decode 128 16 ;;
    prefill) within 45 "$tephra" bench prefill --model "$model" --device gpu --tokens 16384 ;;
    # As large as the engine's passes are, and were.
    prefill-*) within 45 "$tephra" bench prefill --model "$model" --device gpu --tokens 16384 --chunk "${1#prefill-}" \
      --profile ;;
    serve-prompt) serve 1 16384 4 --temperature 0 ;;
    serve-*) serve "${1#serve-}" 512 256 --temperature 0 ;;
    # What can be drawn lies within 27.6 temperatures of the likeliest. Random weights give 262,272 logits with a
    # deviation of 0.905 (0.02 sqrt(2048)) and the likeliest 4.3 to 5 of these above the mean, so their temperature
    # stands for how sure a model is: at 0.06 170 to 1,900 tokens can be drawn, at 0.07 480 to 4,500, at 0.1 6,000 to
    # 30,000, which no trained model offers, and at 1 all: then whole rows of logits come to the host.
    drawn-*) serve "${1#drawn-}" 512 256 --temperature 0.065 ;;
    flat-*) serve "${1#flat-}" 512 256 --temperature 0.1 ;;
    whole-*) serve "${1#whole-}" 512 64 --temperature 1 ;;
    decode-*) decode "${1#decode-}" 512 ;;
    bits-*) decode 1 512 --bits "${1#bits-}" ;;
    memcheck-ops-*)
      export GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX="${1#memcheck-ops-}" # of a shell of its own
      sanitize memcheck ops_test "$gpu_suites"
      ;;
    memcheck-whole-optim) sanitize memcheck optim_test "$gpu_suites" ;;
    memcheck-whole-infer-*)
      export GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX="${1#memcheck-whole-infer-}"
      sanitize memcheck infer_test "$gpu_suites"
      ;;
    *-symmetric) sanitize "${1%-*}" optim_test 'GpuOptimizer.MakesMatricesThatAreSymmetricToTheBit' ;;
    # Of all kernels: what those that are left out write would count as never written.
    initcheck-step) sanitize initcheck infer_test 'DecodeStepGpu.IsNearTheForwardPassWhenItTakesTheSameExperts' ;;
    *-pass) sanitize "${1%-*}" infer_test 'DecodeFormsGpu.ARowAloneHasThemWhateverExpertItIsTold' decode_pass ;;
    *-tiles) sanitize "${1%-*}" infer_test 'DecodeFormsGpu.GiveTheSameBitsInTiles' decode_tiles ;;
    synccheck-experts) sanitize synccheck ops_test 'GpuGroupedLinear.*:GpuManyTiles.Of*Expert*' weight_gradient ;;
    *-experts) sanitize "${1%-*}" ops_test 'GpuGroupedLinear.*' weight_gradient ;; # many tiles take too long
    *-portable)
      export TEPHRA_GPU_PORTABLE=1 # of a shell of its own
      values='Ops/GpuSuite.HasTheValuesAndGradientsOfTheCpu'
      sanitize "${1%-*}" ops_test "$values/linear_*:$values/grouped_linear_*:$values/attention_*"
      ;;
    # The second is of blocks that take several pieces of work.
    *-cca) sanitize "${1%-*}" ops_test \
      'Ops/GpuSuite.HasTheValuesAndGradientsOfTheCpu/cca_qkv_*:GpuManyTiles.OfConvolvedQueriesAndKeys' ;;
  esac
}

# SECONDS CHECKS [FLAGS...]
processes() {
  limit=$1
  checks=$2
  shift 2
  within "$limit" python3 "$kit/tests/train/gpu_runs_test.py" "$tephra" "$kit" --only "$checks" "$@"
}

# SECONDS BENCH ARGUMENTS...: products beside cuBLASLt's, which this machine has.
beside_library() {
  limit=$1
  bench=$2
  shift 2
  within "$limit" env LD_LIBRARY_PATH="$LD_LIBRARY_PATH:/usr/local/cuda/lib64" "$kit/bin/$bench" "$@"
}

# SECONDS TOKENS STEPS TEPHRA...
train() {
  limit=$1
  tokens=$2
  steps=$3
  shift 3
  within "$limit" "$@" bench train --model "$model" --device gpu --context 4096 --micro-tokens 16384 \
    --recompute dispatch --hash --batch-tokens "$tokens" --steps "$steps"
}

decode() {
  batch=$1
  context=$2
  shift 2
  within 45 "$tephra" bench decode --model "$model" --device gpu --tokens 96 --context "$context" \
    --batch "$batch" "$@"
}

# STREAMS PROMPT NEW FLAGS...: the engine behind its server, prompts that have nothing in common.
serve() {
  streams=$1
  prompt=$2
  new=$3
  shift 3
  within 60 "$tephra" bench serve --model "$model" --device gpu --streams "$streams" --seconds 3 --kv-memory 8GiB \
    --shared 0 --prompt-tokens "$prompt" --new-tokens "$new" "$@"
}

# SECONDS [FLAGS...] SHAPES...
peers() {
  limit=$1
  shift
  within "$limit" python3 "$kit/bench/gpu/attention_peer.py" "$kit/bin/attention_bench" "$@"
}

# TOOL BINARY TESTS [KERNELS]: the kernels that are new since a sanitizer last saw all of them, by the smallest
# tests that launch them; memcheck only in those whose names have KERNELS in them, where others take too long.
sanitize() {
  sanitizer=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)}
  sanitize_limit=${SANITIZE_LIMIT:-170}
  if [ "$1" = racecheck ]; then
    within "$sanitize_limit" sh "$kit/session.sh" races "$sanitizer" --tool racecheck "$kit/bin/$2" --gtest_brief=1 \
      --gtest_filter="$3"
    return
  fi
  # shellcheck disable=SC2086  # words
  within "$sanitize_limit" "$sanitizer" --tool "$1" --error-exitcode 1 ${4:+--kernel-name "kns=$4"} "$kit/bin/$2" \
    --gtest_brief=1 --gtest_filter="$3"
}

# COMMAND...: racecheck reports hazards in cuBLAS' own kernels (nvjet), whoever calls them, and fails itself when
# told to leave kernels out. So what counts is that the tests pass and that it reports none in another kernel.
races() {
  log=$(mktemp) || exit 1
  "$@" 2>&1 | tee "$log"
  found=$(grep 'Race reported' "$log" | grep -c -v nvjet)
  [ "$found" = 0 ] || echo "FAIL  hazards in kernels of ours: $found"
  [ "$found" = 0 ] && grep -q '^\[  PASSED  \]' "$log"
}

# COMMAND...: the same steps end in the same state.
twice() {
  first=$("$@") || exit 1
  echo "$first"
  second=$("$@") || exit 1
  echo "$second"
  first=$(state_in "$first")
  [ -n "$first" ] && [ "$first" = "$(state_in "$second")" ] && exit
  echo "FAIL  two runs end in different states, or in none"
  exit 1
}

state_in() {
  echo "$1" | grep -o -E 'loss [0-9.]+: [0-9a-f]+'
}

# What a log says in one line: what failed; else tests that passed, tokens/s, a state's hash, a divergence;
# else its last words.
figure() {
  found=$(grep -h -o -E -e '^FAIL  .*' -e '\[  FAILED  \] [A-Z].*' "$1" | head -n 2)
  [ -n "$found" ] || found=$(grep -h -o -E -e '\[  PASSED  \] [0-9]+ tests?' -e '[0-9.,]+ tokens/s' \
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

# SECONDS COMMAND...: the part `name`. One that is stopped gets no line of its own, nor one that never began.
within() {
  from=$(date +%s)
  left=$((deadline - from))
  limit=$1
  shift
  [ "$limit" -le "$left" ] || limit=$left
  [ -z "$stopped" ] && [ "$limit" -gt 0 ] || return 0
  log=$logs/$name.log
  limited "$limit" "$@" >"$log" 2>&1
  [ -z "$stopped" ] && [ -d "$work" ] || return 0 # or whoever wanted to know has gone
  took=$(($(date +%s) - from))
  [ $status -ne 137 ] || [ $took -ge "$limit" ] || status=1 # killed, but not by us
  printf '%s %4d s  %-24s %s\n' "$(verdict $status "$log")" $took "$name" "$(figure "$log")" >"$work/$name.line"
  bring_out
}

# One writer at a time, and only whole files.
bring_out() {
  (
    flock 9
    summary >"$out/summary.new" || exit 1
    mv "$out/summary.new" "$out/summary.txt" || exit 1
    tar -C "$logs" -czf "$out/check.new" . 2>/dev/null
    [ $? -le 1 ] && mv "$out/check.new" "$out/check.tar.gz" # 1: a log grew meanwhile
  ) 9>"$work/lock"
}

summary() {
  echo "commit $(cat "$kit/commit"), $gpu"
  for each in $chosen; do
    if [ -f "$work/$each.line" ]; then
      cat "$work/$each.line"
    else
      printf 'LATE    - s  %-24s %s\n' "$each" "$([ -f "$logs/$each.log" ] && echo did not end || echo did not begin)"
    fi
  done
}

matches() {
  case "$1" in "$2" | "$2"-*) ;; *) return 1 ;; esac
}

# ASKED...: sets the parts that are to run.
choose() {
  chosen=$names
  [ $# -gt 0 ] || return 0
  chosen=
  for name in $names $asked_only; do
    for asked; do
      matches "$name" "$asked" && chosen="$chosen $name" && break
    done
  done
  for asked; do
    for name in $chosen; do
      matches "$name" "$asked" && continue 2
    done
    die "there is no part '$asked'; parts are: $names $asked_only"
  done
}

# PART...: those of them that are to run, one after another, or side by side.
in_turn() {
  for name; do
    case " $chosen " in *" $name "*) check_part "$name" ;; esac
  done
}

side_by_side() {
  started=
  for name; do
    (
      children=
      trap hand_on INT TERM HUP
      in_turn "$name"
    ) &
    started="$started $!"
    children=$started
    [ -z "$stopped" ] || hand_on
  done
  for child in $started; do
    ended "$child"
  done
  children=
}

check() {
  limit=${LIMIT:-540}
  case "$limit" in 0* | *[!0-9]*) die "LIMIT must be a number of seconds, is '$limit'" ;; esac
  deadline=$(($(date +%s) + limit))
  kit=${1%/}
  shift
  choose "$@"
  open_kit "$kit"
  tephra=$kit/bin/tephra
  model=${MODEL:-zaya1-8b}
  out=${OUT:-.}
  work=$(mktemp -d) || exit 1
  logs=$work/logs
  mkdir -p "$logs" "$work/scratch"
  gpu='GPU unknown'
  mkdir -p "$out"
  if ! bring_out; then
    rm -r "$work"
    die "nothing can be written to $out (OUT)"
  fi
  export TMPDIR="$work/scratch"
  if limited 60 nvidia-smi --query-gpu=name --format=csv,noheader >"$work/gpu" 2>/dev/null; then
    gpu=$(head -n 1 "$work/gpu")
  fi
  # shellcheck disable=SC2086  # words
  {
    in_turn device
    side_by_side $tests $portable_tests
    in_turn $alone $long
    side_by_side $memory $whole_memory
  }
  conclude
}

# What has no time left is not lost: the same command with these names runs it.
conclude() {
  summary
  rm -rf "$work/scratch"
  bring_out || die "$out cannot be written any more: the logs are in $logs"
  rm -r "$work"
  late=$(awk '$1 == "LATE" { printf " %s", $4 }' "$out/summary.txt")
  [ -z "$late" ] || echo "late: session.sh check $kit$late"
  ! sed 1d "$out/summary.txt" | grep -v -q '^PASS'
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
  twice | races)
    "$@"
    ;;
  *)
    sed -n '3,/^set -u/s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
