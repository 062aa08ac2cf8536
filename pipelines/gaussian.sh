#!/usr/bin/env bash
# cudagaussian blurs: pipelines/gaussian.sh [CLIP [FOLDER]]
#
# sigma is the standard deviation in pixels. Unless kernel-size is set, the kernel's size follows
# from sigma by OpenCV's rule. planes=chroma softens colour noise and keeps the image sharp.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

if cuda_memory cudagaussian; then
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! videocrop right="$odd_x" bottom="$odd_y" ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=I420' \
    ! cudagaussian sigma=4 ! cudadownload ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/gaussian.mp4"
else
  gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
    ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=I420 \
    ! cudagaussian sigma=4 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/gaussian.mp4"
fi
say "  made $folder/gaussian.mp4"

compare gaussian cudagaussian sigma=4
