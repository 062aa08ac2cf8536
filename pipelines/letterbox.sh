#!/usr/bin/env bash
# cudaletterbox fits a picture into a frame of another shape: pipelines/letterbox.sh [CLIP [FOLDER]]
#
# The output size comes from the caps behind it, as with videoscale. "(ANY)" leaves the memory open.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
. "$root/pipelines/common.sh"
start "$@"

square='video/x-raw(ANY),width=640,height=640'
record letterbox cudaletterbox ! "$square"
compare letterbox cudaletterbox ! "$square"
