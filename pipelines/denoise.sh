#!/usr/bin/env bash
# cudadenoise removes the noise of cameras: pipelines/denoise.sh [CLIP [FOLDER]]
#
# It averages still parts over time, smooths moving parts, and estimates the noise itself. For a
# camera, use v4l2src ! videoconvert ! cudadenoise ! videoconvert ! autovideosink. Here a simulated
# sensor in poor light first records the clip (photons, read noise, Bayer mosaic, demosaic, gamma:
# pipelines/sensor.h). denoise.mp4 shows the recording before and after the filter, side by
# side. The signal-to-noise ratios against the same sensor without noise are printed.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

build=${BUILD:-$root/build} raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
ninja -C "$build" pipelines/sensor >"$raw/log" || die "could not build the sensor: $(tail -n 3 "$raw/log")"
# Raw video pads rows to 4 bytes. Widths that are a multiple of 8 need no padding.
cut=$((odd_x + width % 8)) width=$((width - width % 8))
[ "$width" -gt 0 ] || die "$clip is less than 8 pixels wide"
gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=76 \
  ! videocrop right="$cut" bottom="$odd_y" ! video/x-raw,format=RGB ! filesink location="$raw/clip"
"$build/pipelines/sensor" "$raw/clip" "$width" "$height" "$raw/seen"
luma=$((width * height))
bytes=$((luma * 3 / 2))
frames=$(($(stat -c %s "$raw/seen.noisy.yuv") / bytes))

if cuda_memory cudadenoise; then
  gst-launch-1.0 filesrc location="$raw/seen.noisy.yuv" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' ! cudadenoise ! cudadownload \
    ! filesink location="$raw/filtered"
else
  gst-launch-1.0 filesrc location="$raw/seen.noisy.yuv" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! cudadenoise ! filesink location="$raw/filtered"
fi
psnr() { "$root/scripts/noise.py" psnr $bytes $luma "$raw/seen.clean.yuv" "$raw/$1"; }
say "  PSNR of luma: $(psnr seen.noisy.yuv) dB noisy, $(psnr filtered) dB after cudadenoise"

gst-launch-1.0 compositor name=side sink_1::xpos="$((width + 4))" ! videoconvert ! video/x-raw,format=I420 \
  ! x264enc speed-preset=veryfast bitrate=10000 ! h264parse ! mp4mux ! filesink location="$folder/denoise.mp4" \
  filesrc location="$raw/seen.noisy.yuv" \
  ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" ! queue ! side.sink_0 \
  filesrc location="$raw/filtered" \
  ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" ! queue ! side.sink_1
say "  made $folder/denoise.mp4"

# The image shows one frame of each.
for file in seen.noisy.yuv:still filtered:filtered; do
  gst-launch-1.0 filesrc location="$raw/${file%:*}" \
    ! rawvideoparse format=i420 width="$width" height="$height" framerate="$rate" \
    ! identity eos-after="$((frames < 60 ? frames : 60))" ! videoconvert ! video/x-raw,format=RGBA \
    ! multifilesink location="$folder/.denoise.${file#*:}"
done
compare denoise cudadenoise
