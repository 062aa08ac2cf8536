#!/usr/bin/env bash
# cudaletterboxrestore gives back the frames that cudaletterbox turned into a network's input:
# pipelines/letterboxrestore.sh [CLIP [FOLDER [NETWORK]]]
#
# NETWORK is the part of a gst-launch line between the two. Its results are drawn on the clip's
# frames if GStreamer can do that (objectdetectionoverlay, from 1.24 on). An example with GStreamer
# 1.28:
#
#   pipelines/letterboxrestore.sh clip.mp4 demo-out 'onnxinference model-file=yolov8s.onnx ! yolov8tensordec'
#
# Without NETWORK, nothing is detected, and the frames come back unchanged.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

read -ra network <<<"${3:-identity}"
overlay=()
has_element objectdetectionoverlay && overlay=(! videoconvert ! objectdetectionoverlay ! videoconvert)

gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
  ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=I420 ! cudaletterbox keep-original=true \
  ! video/x-raw,format=RGB,width=640,height=640,pixel-aspect-ratio=1/1 ! "${network[@]}" \
  ! cudaletterboxrestore "${overlay[@]}" \
  ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux ! filesink location="$folder/letterboxrestore.mp4"
say "  made $folder/letterboxrestore.mp4"

compare letterboxrestore cudaletterbox keep-original=true ! 'video/x-raw(ANY),format=RGB,width=640,height=640' \
  ! cudaletterboxrestore
