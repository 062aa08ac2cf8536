# shellcheck shell=bash disable=SC2034
# The tests of this folder source this file. Meson runs them with the build folder as their
# argument. Each case prints one TAP line, and a failed case prints its output after it. A test
# keeps its files in $work.
set -uo pipefail

build=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=../../scripts/setup.sh
. "$root/scripts/setup.sh"
use_plugin "$build"
# Each test has its own registry, because tests run at the same time. A scan of all plugins takes
# seconds.
export GST_REGISTRY_1_0=$work/registry.bin
cp "$build/tests/registry" "$GST_REGISTRY_1_0" 2>/dev/null

# Seconds for a command of a case, which a busy machine does not exceed. Processes load nvcodec one at
# a time on a GPU, so a command may have to wait for other tests.
limit=${VF_TEST_LIMIT:-600}
count=0
failed=0
started=0

pass() { printf 'ok %d - %s\n' $((++count)) "$1"; }
skip() { printf 'ok %d - %s # SKIP %s\n' $((++count)) "$1" "$2"; }
fail() {
  printf 'not ok %d - %s\n' $((++count)) "$1"
  [ $# -lt 2 ] || sed 's/^/# /' "$2" | tail -n 40
  failed=1
}
# within COMMAND...: runs it, and says so if it exceeds the limit
within() {
  local status
  timeout "$limit" "$@"
  status=$?
  [ $status != 124 ] || printf 'not done in %s s\n' "$limit"
  return $status
}
# check NAME COMMAND...: passes if the command succeeds in time
check() {
  local name=$1
  shift
  if within "$@" >"$work/log" 2>&1; then pass "$name"; else fail "$name" "$work/log"; fi
}
# parallel COMMAND...: runs it in its own folder, which is its $work, while other such commands run.
# `finish` waits for them and prints their cases.
in_folder() {
  local work=$1
  shift
  cd "$work" && "$@"
}
parallel() {
  local most mine
  most=$(nproc)
  while [ "$(jobs -rp | wc -l)" -ge "$((most < 8 ? most : 8))" ]; do wait -n; done
  mine=$work/$((++started))
  mkdir "$mine"
  in_folder "$mine" "$@" >"$mine.tap" &
}
finish() {
  local number line
  wait
  for ((number = 1; number <= started; number++)); do
    while IFS= read -r line; do
      [[ ! $line =~ ^((not )?ok )[0-9]+(.*) ]] || line=${BASH_REMATCH[1]}$((++count))${BASH_REMATCH[3]}
      [[ $line != 'not ok'* ]] || failed=1
      printf '%s\n' "$line"
    done <"$work/$number.tap"
  done
  printf '1..%d\n' "$count"
  exit "$failed"
}
# Prints the plugin's elements, one a line.
elements() {
  gst-inspect-1.0 "$build/gst/libgstcudafilters.so" | sed -n 's/^  \(cuda[a-z]*\): .*/\1/p'
}
# in_pipeline ELEMENT: prints the part of a gst-launch line in which the element takes and gives
# frames
in_pipeline() {
  case $1 in
    cudaletterboxrestore)
      echo "cudaletterbox keep-original=true ! video/x-raw,format=RGB,width=40,height=40 ! $1"
      ;;
    cudaletterboxbatch | cudaletterboxunbatch)
      echo "cudaletterboxbatch ! other/tensors,format=static,num_tensors=1,types=uint8,dimensions=40:40:3:1" \
        "! cudaletterboxunbatch"
      ;;
    *) echo "$1" ;;
  esac
}
# Prints the project's files, one a line, relative to its root: those that git knows, or else all
# files that were not built.
sources() {
  git -C "$root" ls-files 2>/dev/null && return
  (cd "$root" && find . -name 'build*' -prune -o -path './.*' -prune -o -name demo-out -prune -o -type f -printf '%P\n')
}
# Makes a clip of 30 frames of 320x180 pixels.
make_test_clip() {
  gst-launch-1.0 -q videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=320,height=180 \
    ! x264enc ! h264parse ! mp4mux ! filesink location="$1" >"$work/log" 2>&1 || {
    echo "Bail out! cannot make a clip: $(head -n 1 "$work/log")"
    exit 99
  }
}
