#!/usr/bin/env bash
# cudamedian removes specks and keeps edges: pipelines/median.sh [CLIP [FOLDER]]
#
# Each pixel becomes the median of a window of size x size pixels. Sizes of 3 and 5 remove noise;
# larger ones remove everything narrower than half the window. With a threshold, only outliers
# change: pixels that are the minimum or maximum of their window and differ from the median by more
# than the threshold. Here scripts/noise.py first makes 5 % of the pixels black or white. median.mp4
# shows the clip before and after the filter, side by side. The signal-to-noise ratios against the
# clean clip are printed, with and without a threshold.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
  ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=I420 ! filesink location="$raw/clean"
# These are the bytes of luma and of a frame. Rows are padded to 4 bytes.
luma=$(((width + 3) / 4 * 4 * height))
bytes=$((luma + (width / 2 + 3) / 4 * 4 * (height / 2) * 2))
"$root/scripts/noise.py" add 0.05 $bytes $luma <"$raw/clean" >"$raw/noisy"

if cuda_memory cudamedian; then
  gst-launch-1.0 filesrc location="$raw/noisy" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' ! cudamedian size=3 threshold=24 ! cudadownload \
    ! filesink location="$raw/filtered"
else
  gst-launch-1.0 filesrc location="$raw/noisy" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! cudamedian size=3 threshold=24 ! filesink location="$raw/filtered"
fi
gst-launch-1.0 filesrc location="$raw/noisy" \
  ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
  ! cudamedian size=3 ! filesink location="$raw/plain"
psnr() { "$root/scripts/noise.py" psnr $bytes $luma "$raw/clean" "$raw/$1"; }
say "  PSNR of luma: $(psnr noisy) dB noisy, $(psnr plain) dB after cudamedian size=3," \
  "$(psnr filtered) dB after cudamedian size=3 threshold=24"

gst-launch-1.0 compositor name=side sink_1::xpos="$((width + 4))" ! videoconvert ! video/x-raw,format=I420 \
  ! x264enc speed-preset=veryfast bitrate=10000 ! h264parse ! mp4mux ! filesink location="$folder/median.mp4" \
  filesrc location="$raw/noisy" \
  ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" ! queue ! side.sink_0 \
  filesrc location="$raw/filtered" \
  ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" ! queue ! side.sink_1
say "  made $folder/median.mp4"

# The image shows one frame of each.
frames=$(($(stat -c %s "$raw/noisy") / bytes))
for file in noisy:still filtered:filtered; do
  gst-launch-1.0 filesrc location="$raw/${file%:*}" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! identity eos-after="$((frames < 60 ? frames : 60))" ! videoconvert ! video/x-raw,format=RGBA \
    ! multifilesink location="$folder/.median.${file#*:}"
done
compare median cudamedian size=3 threshold=24
