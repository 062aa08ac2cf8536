#!/usr/bin/env bash
# cudaguidedmatte makes a clean matte of a coarse one: pipelines/guidedmatte.sh [CLIP [FOLDER]]
#
# With a CLIP, of a green screen, the coarse matte is a chroma key. Without, it is the drawing below of
# where somebody is in a portrait: 32 x 18 squares whose edge flickers, which is what a segmentation
# network gives. guidedmatte.mp4 then shows side by side what the drawing cuts out, and what it cuts out
# after the filter, which steadies it too.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
. "$root/pipelines/common.sh"

start "$@"
format=RGBA
backdrop=checker

if [ -n "${1-}" ] || ! photo=$(fetch python3-skimage usr/lib/python3/dist-packages/skimage/data/astronaut.png); then
  matte=(cudaguidedmatte mask=chroma-key key-color=0x00b140 despill=1)
  record guidedmatte "${matte[@]}" output=composite background-color=0xff4a8a5a
  compare guidedmatte "${matte[@]}"
  exit
fi

masks=$(mktemp)
trap 'rm -f "$masks"' EXIT
"$root/pipelines/coarsemask.py" 100 >"$masks" <<'END'
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

matte=(cudaguidedmatte temporal=0.95)
width=512 height=288 rate=25/1
frame=video/x-raw,width=$width,height=$height,framerate=$rate
# shellcheck disable=SC2054 # caps have commas
source=(filesrc location="$masks" ! rawvideoparse format=gray8 width=32 height=18 framerate=$rate
  ! videoscale method=nearest-neighbour ! "$frame" ! videoconvert
  ! video/x-raw,format=GRAY8,colorimetry=1:4:0:0 ! queue ! both.alpha
  filesrc location="$photo" ! pngdec ! videocrop bottom=224 ! videoconvert
  ! video/x-raw,format=I420,colorimetry=1:4:0:0 ! imagefreeze num-buffers=100 ! "$frame" ! queue ! both.sink
  alphacombine name=both ! videoconvert)

choose_memory cudaguidedmatte
launch "${source[@]}" ! video/x-raw,format=RGBA ! tee name=cut \
  cut. ! queue ! side.sink_1 \
  cut. ! queue ! "${upload[@]}" "${matte[@]}" "${download[@]}" ! queue ! side.sink_2 \
  videotestsrc num-buffers=100 pattern=solid-color foreground-color=0xff4a8a5a \
  ! "video/x-raw,format=RGBA,width=$((2 * width)),height=$height,framerate=$rate" ! side.sink_0 \
  compositor name=side sink_0::zorder=0 sink_1::zorder=1 sink_2::zorder=2 sink_2::xpos=$width \
  ! videoconvert ! video/x-raw,format=I420 \
  ! x264enc bitrate=6000 ! h264parse ! mp4mux ! filesink location="$folder/guidedmatte.mp4"
say "  made $folder/guidedmatte.mp4"
compare guidedmatte "${matte[@]}"
