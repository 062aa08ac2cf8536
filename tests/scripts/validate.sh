#!/usr/bin/env bash
# gst-validate's scenario of tests/validate on each element: it watches every pad for segments, caps, states
# and positions that cannot be, while the pipeline is sought in, paused and has a property changed.
#
# Debian has no package of gst-validate; VALIDATE names the program where it is not on the PATH.
. "$(dirname "$0")/tap.sh"

validate=${VALIDATE:-$(command -v gst-validate-1.0)}
[ -n "$validate" ] || {
  echo '1..0 # SKIP gst-validate-1.0 is not installed'
  exit 0
}

# scenario ELEMENT PROPERTY FIRST SECOND [CAPS BEHIND]
scenario() {
  sed -e "s/@property@/$2/; s/@first@/$3/; s/@second@/$4/" \
    "$root/tests/validate/play.scenario.in" >"$work/$1.scenario"
  # A format that every element takes, and a clock that frames are shown by.
  check "$1" "$validate" --set-scenario="$work/$1.scenario" videotestsrc \
    ! video/x-raw,format=RGBA,width=64,height=48,framerate=25/1 ! "$1" name=filter \
    ${5:+! "$5"} ! fakesink sync=true
}
for element in $(elements); do
  case $element in
    cudagaussian) scenario "$element" sigma '(double)4.0' '(double)0.0' ;;
    cudaguidedmatte) scenario "$element" radius '(int)8' '(int)40' ;;
    cudaletterbox)
      scenario "$element" interpolation '(string)area' '(string)nearest' \
        video/x-raw,width=40,height=40
      ;;
    cudamedian) scenario "$element" size '(int)5' '(int)1' ;;
    *) fail "$element has a scenario" ;;
  esac
done
finish
