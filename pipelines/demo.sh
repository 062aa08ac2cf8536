#!/usr/bin/env bash
# Shows every filter on a clip: pipelines/demo.sh [FILE]
#
# Installs missing packages (see scripts/setup.sh) and builds the plugin. Then leaves in demo-out/,
# for each filter, an image of one frame before and after, and the filtered clip as an H.264 mp4.
# FILE is any video file; without it, a CC0 clip is fetched from Debian's archive. The scripts that
# run here, one per filter, can also be read and run on their own.
#
# The CUDA backend is built if there is nvcc and a GPU. An existing build/ keeps its settings.
# shellcheck disable=SC2154 # scripts/setup.sh has the lists
set -euo pipefail
. "$(dirname "$0")/../scripts/pipeline.sh"

case ${1-} in
  -*)
    say 'usage: pipelines/demo.sh [FILE]'
    [ "$1" = -h ] || [ "$1" = --help ] || exit 2
    exit
    ;;
esac
[ -z "${1-}" ] || [ -r "$1" ] || die "cannot read $1"

# Processor time in seconds of a first build, measured on busy cores of an AMD EPYC and an Intel Xeon.
cpu_seconds=180
cuda_seconds=280
options=()
seconds=$cpu_seconds
if [ -e "$root/build/build.ninja" ]; then
  say 'build/ is there already: compiling what changed.'
elif ! command -v nvcc >/dev/null; then
  say 'No nvcc here: building the CPU backend.'
elif ! has_gpu; then
  say 'No GPU here: building the CPU backend, although there is nvcc (tests/run.sh builds both).'
  options=(-Dcuda=disabled)
else
  say 'Building the CPU and the CUDA backend.'
  seconds=$((cpu_seconds + cuda_seconds))
fi
cores=$(nproc)
minutes=$(((seconds / cores + 59) / 60))
say "A first build may take up to $minutes min on these $cores cores; the filters then take seconds each."

say 'Step 1 of 3: installing what the build needs'
ensure "$needs_build"
say "Step 2 of 3: building the plugin, and installing what its filters' pipelines need"
# Half of the packages are for the pipelines, as are the clip and the photo. They are fetched
# meanwhile, because apt mostly waits for the network and the disk.
log=$(mktemp)
# A background job's own input is empty, and sudo could not ask for a password.
exec 3<&0
(
  ensure "$needs_run $needs_pipelines" "$wants_pipelines $wants_pages"
  [ -n "${1-}" ] || (default_clip && portrait) >/dev/null || :
) <&3 >"$log" 2>&1 &
installing=$!
# The last target is the simulated sensor of cudadenoise's script.
build "$root/build" "${options[@]}" -- gst/libgstcudafilters.so pipelines/sensor
wait "$installing" || {
  cat "$log" >&2
  exit 3
}
cat "$log"
rm -f "$log"
use_plugin "$root/build"

if [ -n "${1-}" ] && ! open_clip "$1"; then
  ensure 'element:avdec_h264 gstreamer1.0-libav'
  open_clip "$1" || die "cannot decode $1"
fi

say 'Step 3 of 3: running the filters'
if ! has_element cudaupload; then
  say 'Backend: CPU (GStreamer has no CUDA elements here, so there is no usable GPU)'
elif ! cuda_memory cudagaussian; then
  say 'Backend: CPU (the plugin was built without CUDA)'
else
  say "Backend: CUDA, $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)"
fi
elements=()
for script in "$root"/pipelines/*.sh; do
  element=cuda$(basename "$script" .sh)
  ! has_element "$element" || elements+=("$element")
done
[ ${#elements[@]} -gt 0 ] || die 'the plugin has no element: gst-inspect-1.0 -b may say why'
started=$(mktemp)
# Two scripts run at a time, because much of each uses only one core. Each prints its output in one
# piece at its end.
# shellcheck disable=SC2016 # the inner shell expands these
printf '%s\n' "${elements[@]}" | xargs -P 2 -n 1 bash -c '
  printed=$("$1/pipelines/${3#cuda}.sh" "$2" "$1/demo-out" 2>&1) && status=0 || status=1
  printf "%s\n%s\n" "$3" "$printed"
  exit $status' bash "$root" "${1-}" || die 'a script failed: it says above why'

say "Made in $root/demo-out, in $SECONDS s:"
(cd "$root/demo-out" && find . -type f -newer "$started" -size +0 -printf '  %f  %k KiB\n' | sort)
rm -f "$started"

# The first python3 need not be the one that Debian's packages are for.
python=
python3 -c 'import gi' 2>/dev/null || python='/usr/bin/python3 '
say 'Each of these commands prints the address of a page for the browser:'
say "  ${python}pipelines/tune.py 'videotestsrc is-live=true ! cudadenoise'    # to try settings"
say "  ${python}pipelines/webrtc/webrtc.py                                     # to see live video through filters"
