# shellcheck shell=bash disable=SC2034
# Sourced by the tests beside it, which Meson runs with the build folder as their argument. Each case
# is one TAP line; what a failed one printed follows it. Files of a test go to $work.
set -uo pipefail

build=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=../../scripts/setup.sh
. "$root/scripts/setup.sh"
use_plugin "$build"
# A registry of its own, as tests run at the same time. To scan all plugins takes seconds.
export GST_REGISTRY_1_0=$work/registry.bin
cp "$build/tests/registry" "$GST_REGISTRY_1_0" 2>/dev/null

# Seconds for a command of a case. On a GPU with other tests beside, to load nvcodec takes each its turn.
limit=${VF_TEST_LIMIT:-120}
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
# within COMMAND...: runs it, and says so where it is not done in time
within() {
  local status
  timeout "$limit" "$@"
  status=$?
  [ $status != 124 ] || printf 'not done in %s s\n' "$limit"
  return $status
}
# check NAME COMMAND...: passes where the command succeeds in time
check() {
  local name=$1
  shift
  if within "$@" >"$work/log" 2>&1; then pass "$name"; else fail "$name" "$work/log"; fi
}
# beside COMMAND...: runs it in a folder of its own, which is $work there, beside other such commands. `finish`
# waits for them and prints their cases.
in_folder() {
  local work=$1
  shift
  cd "$work" && "$@"
}
beside() {
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
# The plugin's elements, one a line.
elements() {
  gst-inspect-1.0 "$build/gst/libgstcudafilters.so" | sed -n 's/^  \(cuda[a-z]*\): .*/\1/p'
}
# in_pipeline ELEMENT: what of a gst-launch line works with the element, between frames and frames.
in_pipeline() {
  case $1 in
    cudaletterboxrestore)
      echo "cudaletterbox keep-original=true ! video/x-raw,format=RGB,width=40,height=40 ! $1"
      ;;
    *) echo "$1" ;;
  esac
}
# The project's files, one a line, relative to its root: what git knows, else all but what was built.
sources() {
  git -C "$root" ls-files 2>/dev/null && return
  (cd "$root" && find . -name 'build*' -prune -o -path './.*' -prune -o -name demo-out -prune -o -type f -printf '%P\n')
}
# A clip of 30 frames, 320x180.
make_test_clip() {
  gst-launch-1.0 -q videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=320,height=180 \
    ! x264enc ! h264parse ! mp4mux ! filesink location="$1" >"$work/log" 2>&1 || {
    echo "Bail out! cannot make a clip: $(head -n 1 "$work/log")"
    exit 99
  }
}
