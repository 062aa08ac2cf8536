#!/usr/bin/env bash
# A pipeline with each element under valgrind: no invalid or uninitialised access, no leak.
. "$(dirname "$0")/tap.sh"

command -v valgrind >/dev/null || {
  echo '1..0 # SKIP valgrind is not installed'
  exit 0
}
# Fills the registry, so that it is read and not made below.
gst-inspect-1.0 >/dev/null 2>&1

for element in $(elements); do
  read -ra filter <<<"$(in_pipeline "$element")"
  # The frames have no padding, so that writing them out shows what a filter left uninitialised.
  # Leaks that a library keeps a pointer into are its caches, and counted as reachable or possible.
  check "$element" valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite --suppressions="$root/tests/valgrind.supp" \
    gst-launch-1.0 -q videotestsrc num-buffers=3 ! video/x-raw,format=A420,width=96,height=54 \
    ! videoconvert ! "${filter[@]}" ! filesink location=/dev/null
done
[ "$count" -gt 0 ] || fail 'the plugin has elements'
finish
