#!/usr/bin/env bash
# Runs a pipeline with each element under valgrind: no invalid or uninitialised access, and no leak.
. "$(dirname "$0")/tap.sh"

command -v valgrind >/dev/null || {
  echo '1..0 # SKIP valgrind is not installed'
  exit 0
}
# Fills the registry here, so that valgrind does not see GStreamer make it.
gst-inspect-1.0 >/dev/null 2>&1

# Memory that a library still points to is its cache; valgrind counts it as reachable or possible.
memcheck() {
  within valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite --suppressions="$root/tests/valgrind.supp" gst-launch-1.0 -q "$@" >"$work/log" 2>&1
}
# The frames have no padding, so that writing them out shows bytes that a filter left uninitialised.
pipeline() {
  local filter
  read -ra filter <<<"$(in_pipeline "$1")"
  line=(videotestsrc num-buffers=3 ! 'video/x-raw,format=A420,width=96,height=54' ! videoconvert ! "${filter[@]}"
    ! filesink location=/dev/null)
}

mapfile -t names < <(elements)
[ "${#names[@]}" -gt 0 ] || fail 'the plugin has elements'
all=()
for element in "${names[@]}"; do
  pipeline "$element"
  all+=("${line[@]}")
done
# One process runs the pipelines of all elements, because valgrind spends most of its time on the start. If that
# fails, a process for each element tells whose fault it is.
if memcheck "${all[@]}"; then
  for element in "${names[@]}"; do pass "$element"; done
else
  fail 'all elements together' "$work/log"
  for element in "${names[@]}"; do
    pipeline "$element"
    if memcheck "${line[@]}"; then pass "$element"; else fail "$element" "$work/log"; fi
  done
fi
finish
