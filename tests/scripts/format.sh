#!/usr/bin/env bash
# Checks that every C++ and CUDA source has the layout of .clang-format. Versions of clang-format
# differ in their results, so one version is fixed here.
. "$(dirname "$0")/tap.sh"

major=14
for tool in "clang-format-$major" clang-format ''; do
  [ -n "$tool" ] || {
    echo "1..0 # SKIP there is no clang-format of version $major"
    exit 0
  }
  "$tool" --version 2>/dev/null | grep -q "version $major\." && break
done

cd "$root" || exit
mapfile -t files < <(sources | grep -E '\.(cpp|h|cu|cuh)$')
[ "${#files[@]}" -gt 0 ] || fail 'sources were found'
check "${#files[@]} files are as clang-format $major makes them" "$tool" --dry-run --Werror "${files[@]}"
finish
