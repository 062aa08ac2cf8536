#!/usr/bin/env bash
# Shows every filter on a clip: pipelines/demo.sh [FILE]
#
# Installs what is missing (setup.sh says how), builds, and leaves in demo-out/ for each filter a
# picture of one frame before and after, and the filtered clip as an H.264 mp4. FILE is any video
# file; without it a CC0 clip is fetched from Debian's archive. The scripts run here, one a filter,
# are there to be read and to be run on their own.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
. "$root/pipelines/common.sh"

case ${1-} in
  -*)
    say 'usage: pipelines/demo.sh [FILE]'
    [ "$1" = -h ] || [ "$1" = --help ] || exit 2
    exit
    ;;
esac
[ -z "${1-}" ] || [ -r "$1" ] || die "cannot read $1"

ensure "$needs_build $needs_run $needs_pipelines" "$wants_pipelines"
build "$root/build"
use_plugin "$root/build"

if [ -n "${1-}" ] && ! open_clip "$1"; then
  ensure 'element:avdec_h264 gstreamer1.0-libav'
  open_clip "$1" || die "cannot decode $1"
fi

if ! has_element cudaupload; then
  say 'Backend: CPU (GStreamer has no CUDA elements here, so there is no usable GPU)'
elif ! command -v nvcc >/dev/null; then
  say 'Backend: CPU (the plugin was built without nvcc)'
else
  say "Backend: CUDA, $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)"
fi
filters=0
started=$(mktemp)
for script in gaussian median guidedmatte letterbox; do
  has_element "cuda$script" || continue
  say "cuda$script"
  "$root/pipelines/$script.sh" "${1-}" "$root/demo-out"
  filters=$((filters + 1))
done
[ "$filters" -gt 0 ] || die 'the plugin has no element: gst-inspect-1.0 -b may say why'

say "Made in $root/demo-out:"
(cd "$root/demo-out" && find . -type f -newer "$started" -size +0 -printf '  %f  %k KiB\n' | sort)
rm -f "$started"
