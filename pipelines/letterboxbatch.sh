#!/usr/bin/env bash
# cudaletterboxbatch makes one tensor of two streams, and cudaletterboxunbatch gives both back:
# pipelines/letterboxbatch.sh [CLIP [FOLDER [NETWORK]]]
#
# The clip and its mirror image are the streams. The encoder holds back frames when the pipeline starts, so the
# other stream must not wait for it. NETWORK is the part of a gst-launch line that gets
# the tensors of 2 x 3 x 640 x 640 numbers. Without it, nothing is detected, and the frames come
# back unchanged.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"

read -ra network <<<"${3:-identity}"
tensors=other/tensors,format=static,num_tensors=1,types=float32

# The clip stands first in the line, because pads of decodebin and of cudaletterboxunbatch appear
# while the pipeline starts. It starts such elements from the end of the line to its beginning.
# Frames that a decoder sends to elements that have not started are lost.
gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
  ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=I420 ! tee name=clip ! queue ! batch.sink_0 \
  clip. ! queue ! videoflip method=horizontal-flip ! batch.sink_1 \
  cudaletterboxbatch name=batch max-wait=10000 ! "$tensors,dimensions=640:640:3:2" ! "${network[@]}" \
  ! cudaletterboxunbatch name=streams \
  streams.src_0 ! queue ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
  ! filesink location="$folder/letterboxbatch.mp4" \
  streams.src_1 ! queue ! fakesink async=false
say "  made $folder/letterboxbatch.mp4"

compare letterboxbatch cudaletterboxbatch ! "$tensors,dimensions=640:640:3:1" ! cudaletterboxunbatch
