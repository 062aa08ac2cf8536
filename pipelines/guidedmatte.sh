#!/usr/bin/env bash
# cudaguidedmatte makes a clean matte of a coarse one: pipelines/guidedmatte.sh [CLIP [FOLDER]]
#
# With a CLIP, of a green screen, the coarse matte is a chroma key. Without, it is a drawing of where
# the vehicles are in a photograph, at a sixteenth of the size, as a segmentation network gives it.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
. "$root/pipelines/common.sh"

start "$@"
format=RGBA
backdrop=checker
data=usr/share/doc/labelme-examples/examples/video_annotation/data_dataset_voc
if [ -z "${1-}" ] && photo=$(fetch labelme-examples $data/JPEGImages/00000100.jpg); then
  drawing=${photo%/*/*}/SegmentationClassPNG/00000100.png
  width=600 height=340
  frames='imagefreeze num-buffers=50'
  # The drawing's labels are dark colours; four steps of contrast make white of all of them.
  step='videobalance contrast=2'
  # shellcheck disable=SC2054,SC2206 # caps have commas, and launch lines are words
  source=(filesrc location="$drawing" ! pngdec ! videoconvert ! video/x-raw,format=Y444,colorimetry=1:4:0:0
    ! $step ! $step ! $step ! $step ! videoscale ! video/x-raw,width=62,height=35 ! videoscale
    ! video/x-raw,width=1000,height=563 ! videoconvert ! video/x-raw,format=GRAY8,colorimetry=1:4:0:0
    ! $frames ! queue ! both.alpha
    filesrc location="$photo" ! jpegdec ! videoconvert ! video/x-raw,format=I420 ! $frames ! queue ! both.sink
    alphacombine name=both ! videocrop left=400 top=90 bottom=133 ! videoconvert)
  matte=(cudaguidedmatte radius=16 subsample=1)
else
  matte=(cudaguidedmatte mask=chroma-key key-color=0x00b140 despill=1)
fi

record guidedmatte "${matte[@]}" output=composite background-color=0xff4a8a5a
compare guidedmatte "${matte[@]}"
