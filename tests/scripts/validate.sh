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

# tests/validate/ELEMENT has the property that changes, two values, and the caps behind if they must be given.
# The property is that of the element with the name "filter": the first one of what in_pipeline says.
for element in $(elements); do
  row=$root/tests/validate/$element
  if ! read -r property first second behind 2>/dev/null <"$row"; then
    fail "$element has a scenario"
    continue
  fi
  read -ra filter <<<"$(in_pipeline "$element")"
  sed -e "s/@property@/$property/; s/@first@/$first/; s/@second@/$second/" \
    "$root/tests/validate/play.scenario.in" >"$work/$element.scenario"
  # A format that every element takes, and a clock that frames are shown by.
  check "$element" "$validate" --set-scenario="$work/$element.scenario" videotestsrc \
    ! video/x-raw,format=RGBA,width=64,height=48,framerate=25/1 ! "${filter[0]}" name=filter "${filter[@]:1}" \
    ${behind:+! "$behind"} ! fakesink sync=true
done
[ "$count" -gt 0 ] || fail 'the plugin has elements'
finish
