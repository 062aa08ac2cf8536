#!/usr/bin/env bash
# Runs the programs that use cudaletterbox's tensors: in Python against cv2's LetterBox and with a
# network, and in C++.
. "$(dirname "$0")/tap.sh"

make_test_clip "$work/clip.mp4"

# Debian's Python packages belong to Debian's Python, which need not be the first on the PATH.
python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import cv2, gi, numpy; gi.require_version("Gst", "1.0"); from gi.repository import Gst' \
    >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done

# prints NAME PATTERN COMMAND...: passes if the command succeeds and its output matches the pattern
prints() {
  local name=$1 pattern=$2
  shift 2
  if within "$@" >"$work/log" 2>&1 && grep -q "$pattern" "$work/log"; then
    pass "$name"
  else
    fail "$name" "$work/log"
  fi
}
is_image() { check "$1" gst-launch-1.0 -q filesrc location="$2" ! pngdec ! fakesink; }

if [ -n "$python" ]; then
  prints 'letterbox.py: tensors are those of LetterBox' '^30 tensors .* difference from .*: 0 of 255' \
    "$python" "$root/pipelines/letterbox.py" "$work/clip.mp4" "$work/tensor.png"
  is_image 'letterbox.py: the tensor as an image' "$work/tensor.png"
  detect=$root/pipelines/letterbox_detect.py
  prints 'letterbox_detect.py: finds the ball where it is' '^50 boxes in 50 frames' "$python" "$detect"
  prints 'letterbox_detect.py: a clip' '^made' "$python" "$detect" "$work/clip.mp4" "$work/boxes.png"
  is_image 'letterbox_detect.py: its boxes as an image' "$work/boxes.png"
  if has_element onnxinference && "$python" -c 'import gi; gi.require_version("GstAnalytics", "1.0")' 2>/dev/null; then
    prints 'letterbox_detect.py: in onnxinference' '^50 boxes in 50 frames' "$python" "$detect" --element
  else
    skip 'letterbox_detect.py: in onnxinference' 'no onnxinference, or no GstAnalytics in Python'
  fi
else
  skip 'letterbox.py, letterbox_detect.py' 'no Python with gi, numpy and cv2'
fi

if [ -x "$build/tests/letterbox-appsink" ]; then
  prints 'letterbox_appsink' '^30 tensors' "$build/tests/letterbox-appsink" "$work/clip.mp4"
else
  skip 'letterbox_appsink' 'gstreamer-app-1.0 is not installed'
fi
if [ -x "$build/tests/letterbox-cuda" ]; then
  prints 'letterbox_cuda' '^30 tensors' "$build/tests/letterbox-cuda" "$work/clip.mp4"
else
  skip 'letterbox_cuda' 'built without CUDA'
fi
finish
