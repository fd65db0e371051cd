#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages of tools/packages.txt that are missing; does nothing when none is.
#   tools/setup.sh [build|check|all]     what they are needed for; all by default
set -euo pipefail
group=${1:-all}
list=$(dirname "$0")/packages.txt

case $group in
  build | check | all) ;;
  *) echo "setup: expected build, check or all, got '$group'" >&2; exit 2 ;;
esac

wanted=()
while read -r package need _; do
  case $package in '' | '#'*) continue ;; esac
  if [[ $group == all || $group == "$need" ]]; then wanted+=("$package"); fi
done < "$list"

if [[ -n ${TEPHRA_SKIP_SETUP:-} ]]; then
  echo "setup: TEPHRA_SKIP_SETUP is set, nothing is installed"
  exit 0
fi

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "setup: this is not a Debian system, so nothing can be installed here." >&2
  echo "  Install what these Debian packages hold, then set TEPHRA_SKIP_SETUP=1 and run make again:" >&2
  echo "  ${wanted[*]}" >&2
  exit 2
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
  [[ $state == installed ]] || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi

root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo > /dev/null; then
    echo "setup: packages are missing and neither root nor sudo is at hand; as root run:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
  root=(sudo)
fi

install() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" < /dev/null
}

echo "setup: installing ${missing[*]} (a minute or two)"
# The package lists may be absent or stale: refresh them only when the first try says so.
if ! install > /dev/null 2>&1; then
  echo "setup: refreshing the package lists"
  "${root[@]}" apt-get update -qq < /dev/null
  install
fi
