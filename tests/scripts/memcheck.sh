#!/usr/bin/env bash
# Runs a pipeline with each element under valgrind: no invalid or uninitialised access, and no leak.
. "$(dirname "$0")/tap.sh"

command -v valgrind >/dev/null || {
  echo '1..0 # SKIP valgrind is not installed'
  exit 0
}
# Fills the registry here, so that valgrind does not see GStreamer make it.
gst-inspect-1.0 >/dev/null 2>&1

for element in $(elements); do
  read -ra filter <<<"$(in_pipeline "$element")"
  # The frames have no padding, so that writing them out shows bytes that a filter left
  # uninitialised. Memory that a library still points to is its cache; valgrind counts it as
  # reachable or possible.
  check "$element" valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite --suppressions="$root/tests/valgrind.supp" \
    gst-launch-1.0 -q videotestsrc num-buffers=3 ! video/x-raw,format=A420,width=96,height=54 \
    ! videoconvert ! "${filter[@]}" ! filesink location=/dev/null
done
[ "$count" -gt 0 ] || fail 'the plugin has elements'
finish
