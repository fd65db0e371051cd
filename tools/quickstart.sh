#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to generated tokens: writes a small random ZAYA1 model, checks that decoding with a
# cache equals the full forward pass, and generates.
#   tools/quickstart.sh TEPHRA_BINARY OUT_FOLDER
set -euo pipefail
tephra=$1
out=$2
root=$(dirname "$0")/..

step() { printf '\n== %s\n' "$*"; }

step "1/3 a small random ZAYA1 model in $out/model (a second)"
rm -rf "$out/model"
mkdir -p "$out"
"$tephra" checkpoint random --config "$root/configs/tiny-zaya1.json" --out "$out/model"
"$tephra" checkpoint inspect "$out/model"

step "2/3 decoding with a cache equals the full forward pass (some seconds)"
"$tephra" verify --model "$out/model" --self-check

step "3/3 generating: the weights are random, so are the tokens"
"$tephra" generate --model "$out/model" --prompt-ids 2,17,42 --max-new-tokens 16 --temperature 1 --seed 1

printf '\nquickstart: done. %s --help shows what else there is.\n' "$tephra"
