#!/usr/bin/env bash
# cudaletterbox fits an image into a frame of another shape: pipelines/letterbox.sh [CLIP [FOLDER]]
#
# Downstream caps set the output size, as with videoscale.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

if cuda_memory cudaletterbox; then
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=I420' \
    ! cudaletterbox ! 'video/x-raw(memory:CUDAMemory),width=640,height=640' ! cudadownload \
    ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux ! filesink location="$folder/letterbox.mp4"
else
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! video/x-raw,format=I420 ! cudaletterbox ! video/x-raw,width=640,height=640 \
    ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux ! filesink location="$folder/letterbox.mp4"
fi
say "  made $folder/letterbox.mp4"

# "(ANY)" allows any memory.
compare letterbox cudaletterbox ! 'video/x-raw(ANY),width=640,height=640'
