#!/usr/bin/env bash
# cudagaussian blurs: pipelines/gaussian.sh [CLIP [FOLDER]]
#
# sigma is the width of the bell curve in pixels; the kernel grows with it by OpenCV's rule unless
# kernel-size says otherwise. planes=chroma softens colour noise and keeps the picture sharp.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
. "$root/pipelines/common.sh"
start "$@"

record gaussian cudagaussian sigma=4
compare gaussian cudagaussian sigma=4
