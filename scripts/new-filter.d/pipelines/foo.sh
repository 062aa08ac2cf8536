#!/usr/bin/env bash
# cudafoo sharpens: pipelines/foo.sh [CLIP [FOLDER]]
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

if cuda_memory cudafoo; then
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! videocrop right="$odd_x" bottom="$odd_y" ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=I420' \
    ! cudafoo strength=1 ! cudadownload ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/foo.mp4"
else
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=I420 \
    ! cudafoo strength=1 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/foo.mp4"
fi
say "  made $folder/foo.mp4"

compare foo cudafoo strength=1
