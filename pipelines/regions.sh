#!/usr/bin/env bash
# Blurs faces and nothing else: pipelines/regions.sh [CLIP [FOLDER]]
#
# facedetect (gstreamer1.0-opencv, with cascades of opencv-data) attaches a
# GstVideoRegionOfInterestMeta to each face. cudagaussian and cudapixelate filter these regions.
# With sigma-relative, the blur grows with the face, so that large faces are also hidden. With
# on-missing=hold, the previous faces stay blurred if none are found.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

# Without a detector, the pipeline runs as well but filters nothing.
detect=(identity)
if has_element facedetect && profile=$(fetch opencv-data usr/share/opencv4/haarcascades/haarcascade_frontalface_default.xml); then
  detect=(facedetect display=false profile="$profile")
else
  warn 'no facedetect here, or no cascade for it: no face is found'
fi

gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
  ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=RGB ! "${detect[@]}" \
  ! cudagaussian regions=roi region-shape=ellipse region-feather=8 region-expand=0.3 sigma-relative=0.2 on-missing=hold \
  ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
  ! filesink location="$folder/regions.mp4"
say "  made $folder/regions.mp4"
