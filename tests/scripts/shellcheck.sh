#!/usr/bin/env bash
# Checks that every shell script passes shellcheck.
. "$(dirname "$0")/tap.sh"

command -v shellcheck >/dev/null || {
  echo '1..0 # SKIP shellcheck is not installed'
  exit 0
}

cd "$root" || exit
mapfile -t files < <(sources | tr '\n' '\0' | xargs -0 awk \
  'FNR == 1 && (/^#!.*sh$/ || /^# shellcheck shell=/) { print FILENAME } { nextfile }')
[ "${#files[@]}" -gt 0 ] || fail 'scripts were found'
# Newer versions report functions that are passed on by name as unused.
for file in "${files[@]}"; do check "$file" shellcheck -e SC2329 "$file"; done
finish
