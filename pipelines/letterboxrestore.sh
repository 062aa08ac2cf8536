#!/usr/bin/env bash
# cudaletterboxrestore gives back the frames that cudaletterbox made a network's input of:
# pipelines/letterboxrestore.sh [CLIP [FOLDER [NETWORK]]]
#
# NETWORK stands between the two, as in a gst-launch line; what it finds is drawn on the clip's frames where
# GStreamer can (objectdetectionoverlay, from 1.24 on). With GStreamer 1.28, for one:
#
#   pipelines/letterboxrestore.sh clip.mp4 demo-out 'onnxinference model-file=yolov8s.onnx ! yolov8tensordec'
#
# Without, nothing is looked for, and the frames come back as they were.
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
