#!/usr/bin/env bash
# cudamedian takes out specks and keeps edges: pipelines/median.sh [CLIP [FOLDER]]
#
# A twentieth of the pixels is made black or white (noise.py), and filtered: median.mp4 shows both side by
# side. size is the window; each pixel becomes the middle one of the values in it. Sizes of 3 and 5
# remove noise, larger ones whatever is narrower than half the window. The ratio of signal to noise
# against the clean clip is printed.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
. "$root/pipelines/common.sh"
start "$@"

filter=(cudamedian size=3)
raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT

launch "${source[@]}" ! videoconvert ! video/x-raw,format=I420 ! filesink location="$raw/clean"
# Bytes of luma and of a frame; rows are rounded up to 4 bytes.
luma=$(((width + 3) / 4 * 4 * height))
frame=$((luma + ((width + 1) / 2 + 3) / 4 * 4 * ((height + 1) / 2) * 2))
"$root/pipelines/noise.py" add 0.05 $frame $luma <"$raw/clean" >"$raw/noisy"

# The noisy clip in place of the clean one. The rows of raw video in a file lie as GStreamer lays them.
shape=(rawvideoparse format=i420 "width=$width" "height=$height" "framerate=$rate")
choose_memory cudamedian
launch filesrc location="$raw/noisy" ! "${shape[@]}" ! "${upload[@]}" "${filter[@]}" "${download[@]}" \
  ! video/x-raw,format=I420 ! filesink location="$raw/filtered"
psnr() { "$root/pipelines/noise.py" psnr $frame $luma "$raw/clean" "$raw/$1"; }
say "  PSNR of luma: $(psnr noisy) dB noisy, $(psnr filtered) dB after ${filter[*]}"

source=(filesrc location="$raw/noisy" ! "${shape[@]}")
launch "${source[@]}" ! tee name=noisy \
  noisy. ! queue ! side.sink_0 \
  noisy. ! queue ! "${upload[@]}" "${filter[@]}" "${download[@]}" ! queue ! side.sink_1 \
  compositor name=side sink_1::xpos=$((width + 4)) ! videoconvert ! video/x-raw,format=I420 \
  ! x264enc bitrate=10000 ! h264parse ! mp4mux ! filesink location="$folder/median.mp4"
say "  made $folder/median.mp4"
compare median "${filter[@]}"
