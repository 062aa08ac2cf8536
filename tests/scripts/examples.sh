#!/usr/bin/env bash
# The scripts in pipelines/ make what they say, and fail where a pipeline fails.
. "$(dirname "$0")/tap.sh"

export BUILD=$build
make_test_clip "$work/clip.mp4"

# The H.264 frames of a file, one line each.
frames() {
  gst-launch-1.0 -v filesrc location="$1" ! qtdemux ! h264parse ! fakesink silent=false 2>&1 |
    grep 'last-message = chain'
}

for element in $(elements); do
  script=$root/pipelines/${element#cuda}.sh
  out=$work/$element
  if [ ! -x "$script" ]; then
    fail "$element has a pipeline"
    continue
  fi
  check "${script##*/}" "$script" "$work/clip.mp4" "$out"
  for file in "$out"/*.mp4; do
    frames "$file" >"$work/log"
    name="${file##*/} has the clip's 30 frames"
    if [ "$(wc -l <"$work/log")" = 30 ]; then pass "$name"; else fail "$name" "$work/log"; fi
  done
  for file in "$out"/*.png; do
    check "${file##*/} is an image" gst-launch-1.0 -q filesrc location="$file" ! pngdec ! fakesink
  done
  printf 'no video' >"$work/text.mp4"
  if "$script" "$work/text.mp4" "$out" >"$work/log" 2>&1; then
    fail "${script##*/} fails on a file that is no video" "$work/log"
  else
    pass "${script##*/} fails on a file that is no video"
  fi
done
# Not of one element alone.
check regions.sh "$root/pipelines/regions.sh" "$work/clip.mp4" "$work/regions"
frames "$work/regions/regions.mp4" >"$work/log"
if [ "$(wc -l <"$work/log")" = 30 ]; then pass "regions.mp4 has the clip's 30 frames"; else fail "regions.mp4 has the clip's 30 frames" "$work/log"; fi
finish
