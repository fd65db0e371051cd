#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks a release tarball and uses it as a stranger's machine would:
#   tools/dist_test.sh TARBALL           here, without this machine's copies of the libraries it brings
#   tools/dist_test.sh TARBALL ROOT      in ROOT, a bare Debian or Ubuntu made by debootstrap (as root)
set -euo pipefail
tarball=$(realpath "$1")
root=${2:-}
scratch=$(mktemp -d "${root:-/tmp}/${root:+tmp/}tephra-dist-XXXXXX")
mounted=
clean() {
  [[ -z $mounted ]] || umount "$root/proc"
  rm -rf "$scratch"
}
trap clean EXIT
# The loader asks /proc where the program lies.
if [[ -n $root && ! -e $root/proc/self ]]; then
  mount -t proc proc "$root/proc"
  mounted=1
fi
tar -xzf "$tarball" -C "$scratch"
folder=$(echo "$scratch"/tephra-*)
inside=${folder#"$root"}

run() {  # as in an empty environment, on the other machine if there is one
  if [[ -n $root ]]; then
    chroot "$root" env -i "$inside/bin/tephra" "$@"
  else
    env -i "$inside/bin/tephra" "$@"
  fi
}

# Only glibc may come from the machine.
list=(env -i LD_TRACE_LOADED_OBJECTS=1 "$inside/bin/tephra")
[[ -z $root ]] || list=(chroot "$root" "${list[@]}")
foreign=$("${list[@]}" | awk '$2 == "=>" { print $3 }' | grep -v "^$inside/" |
  grep -vE '/(lib(c|m|mvec|dl|rt|pthread)\.so|ld-linux)' || true)
if [[ -n $foreign ]]; then
  echo "dist: the machine's own libraries are used: $foreign" >&2
  exit 1
fi

run --version
run doctor --no-measure > /dev/null
cp "$(dirname "$0")/../configs/tiny-zaya1.json" "$scratch/config.json"
run checkpoint random --quiet --config "${scratch#"$root"}/config.json" --out "${scratch#"$root"}/model"
run generate --quiet --model "${scratch#"$root"}/model" --prompt-ids 2,17,42 --max-new-tokens 8 --device cpu
run verify --model "${scratch#"$root"}/model" --self-check > /dev/null
echo "dist: it runs${root:+ in $root}"
