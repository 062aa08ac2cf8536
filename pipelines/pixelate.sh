#!/usr/bin/env bash
# cudapixelate replaces blocks of pixels by their means: pipelines/pixelate.sh [CLIP [FOLDER]]
#
# block-size is in pixels of the frame. By default the smaller side has 8 blocks. To hide a face or
# a number plate, use blocks that are larger than it.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

if cuda_memory cudapixelate; then
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! videocrop right="$odd_x" bottom="$odd_y" ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=I420' \
    ! cudapixelate block-size=16 ! cudadownload ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/pixelate.mp4"
else
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=I420 \
    ! cudapixelate block-size=16 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/pixelate.mp4"
fi
say "  made $folder/pixelate.mp4"

compare pixelate cudapixelate block-size=16
