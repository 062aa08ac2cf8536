#!/usr/bin/env bash
# cudaguidedmatte makes a clean matte of a coarse one: pipelines/guidedmatte.sh [CLIP [FOLDER]]
#
# With a CLIP, of a green screen, the coarse matte is a chroma key. Without, it is the drawing below
# of where somebody is in a portrait: 32 x 18 squares whose edge flickers, which is what a segmentation
# network gives. guidedmatte.mp4 then shows side by side what the drawing cuts out, and what it cuts out
# after the filter, which steadies it too: with the guided filter alone, and with local colours first.
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"
prepare "$@"
backdrop=checker

if [ -n "${1-}" ] || ! photo=$(fetch python3-skimage usr/lib/python3/dist-packages/skimage/data/astronaut.png); then
  if cuda_memory cudaguidedmatte; then
    gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! cudaupload ! 'video/x-raw(memory:CUDAMemory),format=RGBA' \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 despill=1 output=composite background-color=0xff4a8a5a \
      ! cudadownload ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse \
      ! mp4mux ! filesink location="$folder/guidedmatte.mp4"
  else
    gst-launch-1.0 filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=250 \
      ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=RGBA \
      ! cudaguidedmatte mask=chroma-key key-color=0x00b140 despill=1 output=composite background-color=0xff4a8a5a \
      ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse \
      ! mp4mux ! filesink location="$folder/guidedmatte.mp4"
  fi
  say "  made $folder/guidedmatte.mp4"
  compare guidedmatte cudaguidedmatte mask=chroma-key key-color=0x00b140 despill=1
  exit
fi

frames=$(mktemp)
masks=$(mktemp)
trap 'rm -f "$frames" "$masks"' EXIT
"$root/scripts/coarsemask.py" 100 >"$masks" <<'END'
................................
............#####...............
............######..............
..........#########.............
..........#########.............
..........#########.............
..........#########.............
...........#######..............
...........######...............
.........########...............
........#########...............
........##########..............
.......############.............
.......############.............
.....###############............
....#################...........
...###################..........
...###################..........
END

# The photo under the masks, as their alpha: RGBA.
gst-launch-1.0 alphacombine name=both ! videoconvert ! video/x-raw,format=RGBA ! filesink location="$frames" \
  filesrc location="$masks" ! rawvideoparse format=gray8 width=32 height=18 framerate=25/1 \
  ! videoscale method=nearest-neighbour ! video/x-raw,width=512,height=288 ! videoconvert \
  ! video/x-raw,format=GRAY8,colorimetry=1:4:0:0 ! queue ! both.alpha \
  filesrc location="$photo" ! pngdec ! videocrop bottom=224 ! videoconvert \
  ! video/x-raw,format=I420,colorimetry=1:4:0:0 ! imagefreeze num-buffers=100 \
  ! video/x-raw,width=512,height=288,framerate=25/1 ! queue ! both.sink

if cuda_memory cudaguidedmatte; then
  gst-launch-1.0 filesrc location="$frames" \
    ! rawvideoparse format=rgba width=512 height=288 framerate=25/1 ! tee name=cut \
    cut. ! queue ! side.sink_1 \
    cut. ! queue ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' ! cudaguidedmatte refine=guided temporal=0.95 \
    ! cudadownload ! queue ! side.sink_2 \
    cut. ! queue ! cudaupload ! 'video/x-raw(memory:CUDAMemory)' ! cudaguidedmatte refine=colors temporal=0.95 \
    ! cudadownload ! queue ! side.sink_3 \
    videotestsrc num-buffers=100 pattern=solid-color foreground-color=0xff4a8a5a \
    ! video/x-raw,format=RGBA,width=1536,height=288,framerate=25/1 ! side.sink_0 \
    compositor name=side sink_0::zorder=0 sink_1::zorder=1 sink_2::zorder=2 sink_2::xpos=512 \
    sink_3::zorder=3 sink_3::xpos=1024 \
    ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/guidedmatte.mp4"
else
  gst-launch-1.0 filesrc location="$frames" \
    ! rawvideoparse format=rgba width=512 height=288 framerate=25/1 ! tee name=cut \
    cut. ! queue ! side.sink_1 \
    cut. ! queue ! cudaguidedmatte refine=guided temporal=0.95 ! queue ! side.sink_2 \
    cut. ! queue ! cudaguidedmatte refine=colors temporal=0.95 ! queue ! side.sink_3 \
    videotestsrc num-buffers=100 pattern=solid-color foreground-color=0xff4a8a5a \
    ! video/x-raw,format=RGBA,width=1536,height=288,framerate=25/1 ! side.sink_0 \
    compositor name=side sink_0::zorder=0 sink_1::zorder=1 sink_2::zorder=2 sink_2::xpos=512 \
    sink_3::zorder=3 sink_3::xpos=1024 \
    ! videoconvert ! video/x-raw,format=I420 ! x264enc speed-preset=veryfast bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$folder/guidedmatte.mp4"
fi
say "  made $folder/guidedmatte.mp4"

# The last frame for the image.
width=512 height=288
tail -c $((4 * width * height)) "$frames" >"$folder/.still"
compare guidedmatte cudaguidedmatte refine=guided -- cudaguidedmatte refine=colors
