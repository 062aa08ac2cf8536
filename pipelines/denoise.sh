#!/usr/bin/env bash
# cudadenoise removes the noise of cameras: pipelines/denoise.sh [CLIP [FOLDER]]
#
# It averages over time what stands still, smooths what moves, and estimates the noise by itself. For a
# camera: v4l2src ! videoconvert ! cudadenoise ! videoconvert ! autovideosink. Here snow is first mixed into the clip; denoise.mp4
# shows the clip before and after the filter, side by side, and the signal-to-noise ratios are printed.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
  ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=I420 ! filesink location="$raw/clip"
# Bytes of luma and of a frame; rows are rounded up to 4 bytes.
luma=$(((width + 3) / 4 * 4 * height))
bytes=$((luma + (width / 2 + 3) / 4 * 4 * (height / 2) * 2))
frames=$(($(stat -c %s "$raw/clip") / bytes))
# Snow at a tenth of its strength, and, to compare with, a gray as bright.
for pattern in snow gray; do
  gst-launch-1.0 compositor name=mix sink_1::alpha=0.1 ! video/x-raw,format=I420 ! filesink location="$raw/$pattern" \
    filesrc location="$raw/clip" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" ! queue ! mix.sink_0 \
    videotestsrc num-buffers="$frames" pattern="${pattern/gray/solid-color}" foreground-color=0xff808080 \
    ! video/x-raw,format=I420,width="$width",height="$height",framerate="$rate" ! queue ! mix.sink_1
done

if cuda_memory cudadenoise; then
  gst-launch-1.0 filesrc location="$raw/snow" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' ! cudadenoise ! cudadownload \
    ! filesink location="$raw/filtered"
else
  gst-launch-1.0 filesrc location="$raw/snow" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! cudadenoise ! filesink location="$raw/filtered"
fi
psnr() { "$root/scripts/noise.py" psnr $bytes $luma "$raw/gray" "$raw/$1"; }
say "  PSNR of luma: $(psnr snow) dB noisy, $(psnr filtered) dB after cudadenoise"

gst-launch-1.0 compositor name=side sink_1::xpos="$((width + 4))" ! videoconvert ! video/x-raw,format=I420 \
  ! x264enc speed-preset=veryfast bitrate=10000 ! h264parse ! mp4mux ! filesink location="$folder/denoise.mp4" \
  filesrc location="$raw/snow" \
  ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" ! queue ! side.sink_0 \
  filesrc location="$raw/filtered" \
  ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" ! queue ! side.sink_1
say "  made $folder/denoise.mp4"

# A frame of each for the image.
for file in snow:.still filtered:.filtered; do
  gst-launch-1.0 filesrc location="$raw/${file%:*}" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! identity eos-after="$((frames < 60 ? frames : 60))" ! videoconvert ! video/x-raw,format=RGBA \
    ! multifilesink location="$folder/${file#*:}"
done
compare denoise cudadenoise
