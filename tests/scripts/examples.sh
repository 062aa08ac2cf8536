#!/usr/bin/env bash
# shellcheck disable=SC2317 # `beside` calls functions
# The scripts in pipelines/ make what they say, and fail where a pipeline fails.
. "$(dirname "$0")/tap.sh"

export BUILD=$build
clip=$work/clip.avi
# As the demo's default clip, of odd height, which encoders of 4:2:0 do not take.
gst-launch-1.0 -q videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=321,height=181 \
  ! jpegenc ! avimux ! filesink location="$clip" >"$work/log" 2>&1 || {
  echo "Bail out! cannot make a clip: $(head -n 1 "$work/log")"
  exit 99
}

# The H.264 frames of a file, one line each.
frames() {
  gst-launch-1.0 -v filesrc location="$1" ! qtdemux ! h264parse ! fakesink silent=false 2>&1 |
    grep 'last-message = chain'
}

# made FILE SCRIPT WHAT: whether there is the file; a pattern that nothing matches is none
made() {
  [ ! -e "$1" ] || return 0
  fail "$2 makes a $3: there is none"
  return 1
}

# Not with nvcodec's decoder: to load nvcodec keeps a GPU's driver for over a second, which other tests wait for.
# What passes through CUDA memory loads it all the same.
export GST_PLUGIN_FEATURE_RANK=nvjpegdec:NONE
script_of() {
  local script=$root/pipelines/${1#cuda}.sh out=$work/out file name
  if [ ! -x "$script" ]; then
    fail "$1 has a pipeline"
    return
  fi
  check "${script##*/}" "$script" "$clip" "$out"
  for file in "$out"/*.mp4; do
    made "$file" "${script##*/}" video || continue
    frames "$file" >"$work/log"
    name="${file##*/} has the clip's 30 frames"
    if [ "$(wc -l <"$work/log")" = 30 ]; then pass "$name"; else fail "$name" "$work/log"; fi
  done
  # Not of one element alone, and without an image to compare.
  [ "$1" = regions ] || for file in "$out"/*.png; do
    made "$file" "${script##*/}" picture || continue
    check "${file##*/} is an image" gst-launch-1.0 -q filesrc location="$file" ! pngdec ! fakesink
  done
  printf 'no video' >"$work/text.mp4"
  if "$script" "$work/text.mp4" "$out" >"$work/log" 2>&1; then
    fail "${script##*/} fails on a file that is no video" "$work/log"
  else
    pass "${script##*/} fails on a file that is no video"
  fi
}
for element in $(elements) regions; do beside script_of "$element"; done
finish
