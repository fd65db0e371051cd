#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to a model that answers: trains a small ZAYA1 on built-in tasks, measures it on tasks
# that it has never seen, writes a report, and lets it answer three of them.
#   tools/quickstart.sh TEPHRA_BINARY OUT_FOLDER [more flags for tephra train]
set -euo pipefail
tephra=$1
out=$2
shift 2
root=$(dirname "$0")/..
run=$out/run
model=$out/model

step() { printf '\n== %s\n' "$*"; }

step "1/4 training in $run: about three minutes on two cores; stopped, it goes on where it was"
"$tephra" train "$root/configs/quickstart.toml" --out "$run" "$@"

step "2/4 the model as a Hugging Face folder in $model, and what it gets right on held-out tasks"
rm -rf "$model"
"$tephra" checkpoint export --from "$run" --to "$model" --quiet
"$tephra" eval --model "$model" --samples 100 \
  --environments addition:1-2,comparison:1-2,reversing:1-2,counting:1-2,brackets:1-2

step "3/4 the report, a page that needs nothing else"
"$tephra" report "$run" --out "$out/report.html"

step "4/4 three answers"
for prompt in 'What is 47 + 86?' 'Reverse the word lamp' 'How often does b occur in abcbba?'; do
  printf '\n%s\n' "$prompt"
  "$tephra" generate --model "$model" --prompt "$prompt"$'\n' --max-new-tokens 200 --quiet
done

printf '\nquickstart: done. Open %s; %s --help shows what else there is.\n' "$out/report.html" "$tephra"
printf 'Ask it more: %s chat --model %s --temperature 0, or serve instead of chat for the browser.\n' "$tephra" "$model"
