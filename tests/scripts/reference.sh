#!/usr/bin/env bash
# Checks that docs/reference.md says what gst-inspect-1.0 prints about the elements.
. "$(dirname "$0")/tap.sh"

name='docs/reference.md is up to date'
"$root/scripts/reference.py" --check "$build/gst/libgstcudafilters.so" >"$work/log" 2>&1
case $? in
  0) pass "$name" ;;
  77) skip "$name" "$(cat "$work/log")" ;;
  *) fail "$name" "$work/log" ;;
esac
finish
