#!/usr/bin/env bash
# Runs gst-validate's scenario of tests/validate on each element. gst-validate watches every pad for
# impossible segments, caps, states and positions while the pipeline seeks, pauses and changes a
# property.
#
# Debian has no package of gst-validate. VALIDATE names the program if it is not on the PATH.
. "$(dirname "$0")/tap.sh"

validate=${VALIDATE:-$(command -v gst-validate-1.0)}
[ -n "$validate" ] || {
  echo '1..0 # SKIP gst-validate-1.0 is not installed'
  exit 0
}

# tests/validate/ELEMENT holds the property that changes, two values, and downstream caps if they
# must be given. The property belongs to the element named "filter", the first one that in_pipeline
# prints.
for element in $(elements); do
  row=$root/tests/validate/$element
  if ! read -r property first second behind 2>/dev/null <"$row"; then
    fail "$element has a scenario"
    continue
  fi
  read -ra filter <<<"$(in_pipeline "$element")"
  sed -e "s/@property@/$property/; s/@first@/$first/; s/@second@/$second/" \
    "$root/tests/validate/play.scenario.in" >"$work/$element.scenario"
  # Every element takes this format. The sink synchronises to a clock.
  check "$element" "$validate" --set-scenario="$work/$element.scenario" videotestsrc \
    ! video/x-raw,format=RGBA,width=64,height=48,framerate=25/1 ! "${filter[0]}" name=filter "${filter[@]:1}" \
    ${behind:+! "$behind"} ! fakesink sync=true
done
[ "$count" -gt 0 ] || fail 'the plugin has elements'
finish
