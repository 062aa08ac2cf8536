#!/usr/bin/env bash
# cudamedian takes out specks and keeps edges: pipelines/median.sh [CLIP [FOLDER]]
#
# size is the window; each pixel becomes the middle one of the values in it. Sizes of 3 and 5 remove
# noise, larger ones whatever is narrower than half the window.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
. "$root/pipelines/common.sh"
start "$@"

record median cudamedian size=9
compare median cudamedian size=9
