#!/usr/bin/env bash
# shellcheck disable=SC2317 # `parallel` calls functions
# Checks that the scripts in pipelines/ make the files that they promise, and that they fail if a
# pipeline fails.
. "$(dirname "$0")/tap.sh"

export BUILD=$build
clip=$work/clip.avi
# The clip has odd sizes, as the demo's default clip, which 4:2:0 encoders do not take.
gst-launch-1.0 -q videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=321,height=181 \
  ! jpegenc ! avimux ! filesink location="$clip" >"$work/log" 2>&1 || {
  echo "Bail out! cannot make a clip: $(head -n 1 "$work/log")"
  exit 99
}

# Prints one line per H.264 frame of a file.
frames() {
  gst-launch-1.0 -v filesrc location="$1" ! qtdemux ! h264parse ! fakesink silent=false 2>&1 |
    grep 'last-message = chain'
}

# made FILE SCRIPT WHAT: succeeds if the file exists, and otherwise fails a case. A pattern that
# matches nothing is no file.
made() {
  [ ! -e "$1" ] || return 0
  fail "$2 makes a $3: there is none"
  return 1
}

# nvcodec's decoder is not used, because loading nvcodec keeps a GPU's driver for over a second
# while other tests wait. Pipelines with CUDA memory load it all the same.
export GST_PLUGIN_FEATURE_RANK=nvjpegdec:NONE
script_of() {
  local script=$root/pipelines/${1#cuda}.sh out=$work/out file name
  if [ ! -x "$script" ]; then
    fail "$1 has a pipeline: there is no pipelines/${script##*/}"
    return
  fi
  check "${script##*/}" "$script" "$clip" "$out"
  for file in "$out"/*.mp4; do
    made "$file" "${script##*/}" video || continue
    frames "$file" >"$work/log"
    name="${file##*/} has the clip's 30 frames"
    if [ "$(wc -l <"$work/log")" = 30 ]; then pass "$name"; else fail "$name" "$work/log"; fi
  done
  # The script regions.sh is about several elements and makes no image.
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
# The pipeline of cudaletterboxbatch has the unbatcher in it.
for element in $(elements | grep -v unbatch) regions; do parallel script_of "$element"; done
finish
