#!/usr/bin/env bash
# Every gst-launch line of README.md works as it stands there, and leaks nothing.
#
# A window is replaced by a fakesink, clip.mp4 by a clip made here, and a test source is stopped. A line
# that needs an NVIDIA element that GStreamer does not have on this machine is skipped.
. "$(dirname "$0")/tap.sh"

cd "$work" || exit
make_test_clip clip.mp4

# Lines that end in a backslash go on.
sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$root/README.md" |
  sed -n 's/  */ /g; s/^ *\(gst-launch-1.0 .*\)/\1/p' >lines
[ -s lines ] || fail 'README.md has launch lines'

while read -r line; do
  line=${line//autovideosink/fakesink}
  line=${line//videotestsrc/videotestsrc num-buffers=30}
  missing=
  for word in $line; do
    case $word in
      nv*dec | nv*enc | cudaupload | cudadownload | cudaconvert | cudascale)
        has_element "$word" || missing=$word
        ;;
    esac
  done
  if [ -n "$missing" ]; then
    skip "$line" "no $missing on this machine"
    continue
  fi
  if ! GST_TRACERS=leaks GST_DEBUG=GST_TRACER:7 GST_DEBUG_FILE=trace GST_DEBUG_NO_COLOR=1 \
    timeout 120 bash -c "$line" >log 2>&1; then
    fail "$line" log
  elif grep 'object-alive, type-name=(string)[^%]' trace >alive; then
    fail "$line leaves objects alive" alive
  elif grep -qE 'CRITICAL|WARNING' log; then
    fail "$line has warnings" log
  else
    pass "$line"
  fi
done <lines
finish
