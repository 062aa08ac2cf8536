#!/usr/bin/env bash
# shellcheck disable=SC2317 # `parallel` calls functions
# Runs every gst-launch and gst-inspect line of README.md, of docs/ and of the elements'
# documentation as it is written, and checks that none leaks.
#
# A window is replaced by a fakesink, a clip by one made here, and a camera by a test source, which
# is stopped. A line is skipped if it needs an NVIDIA element, analyticscombiner or facedetect and
# GStreamer lacks it, or if it needs a network (tests/scripts/letterbox.sh makes and runs one).
. "$(dirname "$0")/tap.sh"

cd "$work" || exit
make_test_clip clip.mp4

# Lines that end in a backslash continue. In a comment they start with a star and end at "]|".
for file in "$root"/README.md "$root"/docs/*.md "$root"/docs/spec/*.md "$root"/lab/*.md "$root"/gst/*.cpp; do
  sed -e 's/^ \* \?//' -e 's/^]|.*//' "$file" |
    sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' |
    sed -n 's/  */ /g; s/^ *\(gst-\(launch\|inspect\)-1.0 .*\)/\1/p'
done | sort -u >lines
for tool in gst-launch-1.0 gst-inspect-1.0; do
  grep -q "^$tool" lines || fail "the documents have $tool lines"
done

# Prints what a line needs and this machine lacks, or nothing.
missing_for() {
  local word missing=
  for word in $1; do
    case $word in
      nv*dec | nv*enc | cudaupload | cudadownload | cudaconvert | cudascale | analyticscombiner)
        has_element "$word" || missing=$word
        ;;
      facedetect)
        { has_element facedetect && [ -e /usr/share/opencv4/haarcascades/haarcascade_frontalface_default.xml ]; } ||
          missing='facedetect, or cascade for it'
        ;;
    esac
  done
  case $1 in
    *onnxinference*) missing='network, which tests/scripts/letterbox.sh has' ;;
    *tfliteinference*) missing='network for tfliteinference' ;;
  esac
  printf '%s' "$missing"
}

clip=$work/clip.mp4
line_works() {
  local name=$1 line=$1 missing leaks
  line=${line//autovideosink/fakesink}
  line=${line//v4l2src/videotestsrc}
  line=${line//videotestsrc/videotestsrc num-buffers=30}
  line=$(sed -E "s#(filesrc location=)[A-Za-z]+\\.(mp4|mkv)#\\1$clip#g" <<<"$line")
  missing=$(missing_for "$line")
  if [ -n "$missing" ]; then
    skip "$name" "no $missing"
    return
  fi
  # gst-inspect keeps the objects that it lists, and alphacombine itself leaks.
  leaks='object-alive, type-name=(string)[^%]'
  case $line in gst-inspect* | *alphacombine*) leaks='^$' ;; esac
  if ! GST_TRACERS=leaks GST_DEBUG=GST_TRACER:7 GST_DEBUG_FILE=trace GST_DEBUG_NO_COLOR=1 \
    within bash -c "$line" >log 2>&1; then
    fail "$name" log
  elif grep "$leaks" trace >alive; then
    fail "$name leaves objects alive" alive
  elif grep -v 'WARNING.*: Leaks detected' log | grep -qE 'CRITICAL|WARNING'; then
    fail "$name has warnings" log
  else
    pass "$name"
  fi
}
while read -r line; do parallel line_works "$line"; done <lines

# Checks that an element leaks nothing even if it fails, whether or not the documents show it.
leaves_nothing() {
  local element=$1 behind=$2 name status
  name="$element ${behind:+that cannot be negotiated }leaves nothing behind"
  GST_TRACERS=leaks GST_DEBUG=GST_TRACER:7 GST_DEBUG_FILE=trace GST_DEBUG_NO_COLOR=1 within \
    bash -c "gst-launch-1.0 -q videotestsrc num-buffers=5 ! videoconvert ! $(in_pipeline "$element") $behind ! fakesink" \
    >log 2>&1
  status=$?
  if grep 'object-alive, type-name=(string)[^%]' trace >alive; then
    fail "$name" alive
  elif [ -z "$behind" ] && [ "$status" != 0 ]; then
    fail "$name" log
  else
    pass "$name"
  fi
}
for element in $(elements); do
  if grep -qF "**\`$element\`**" "$root/README.md"; then
    pass "README.md describes $element"
  else
    fail "README.md describes $element: it has no **\`$element\`**"
  fi
  parallel leaves_nothing "$element" ''
  parallel leaves_nothing "$element" '! video/x-raw,width=0,height=0'
done
finish
