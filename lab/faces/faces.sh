#!/usr/bin/env bash
# Fetches portraits, a clip and a face detector's cascade (four Debian packages) into .cache/, and has faces.cpp
# look for faces before and behind filters of regions. Needs facedetect (gstreamer1.0-opencv).
#
#   lab/faces/faces.sh BUILD [--all]             --all: faces of eight sizes instead of three
#   lab/faces/faces.sh BUILD --clips CLIP...     the faces of these clips
. "$(dirname "$0")/../../tests/scripts/tap.sh"
# shellcheck source=../../scripts/pipeline.sh
. "$root/scripts/pipeline.sh"

none() {
  echo "1..0 # SKIP $1"
  exit
}
has_element facedetect || none 'GStreamer has no facedetect (gstreamer1.0-opencv)'
profile=$(fetch opencv-data usr/share/opencv4/haarcascades/haarcascade_frontalface_default.xml) ||
  none 'opencv-data could not be fetched'
if [ "${2:-}" = --clips ]; then
  exec "$build/lab/faces/faces" --clips "$profile" "${@:3}"
fi
astronaut=$(portrait) ||
  none 'python3-skimage could not be fetched'
hopper=$(fetch python-matplotlib-data usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg) ||
  none 'python-matplotlib-data could not be fetched'
clip=$(default_clip 2>/dev/null) || none 'there is no clip'
"$build/lab/faces/faces" "${@:2}" "$profile" "$clip" "$astronaut" "$hopper"
