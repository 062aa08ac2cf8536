#!/usr/bin/env bash
# Runs a realistic chain for a long time: lab/soak.sh [--minutes N] [--backend auto|cuda|cpu] [...]
#
# Decode, denoise, matte, blurred regions, letterbox, on the clip of the demo (or CLIP=FILE), with settings that
# change every second and a restart every five minutes. Reports frames, errors, memory drift and latency
# percentiles; the exit status says whether it held. lab/soak.cpp has all options. Frames go through
# CUDA memory where cudaupload is there and the backend is not cpu. BUILD names the build folder.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/pipeline.sh"

build=${BUILD:-$root/build}
[ -x "$build/tests/soak" ] || die 'build first: meson setup build && ninja -C build'
use_plugin "$build"
clip=${CLIP:-$(default_clip)}
options=("$@")
if [[ " $* " != *' cpu '* ]] && has_element cudaupload; then options+=(--cuda-memory); fi
exec "$build/tests/soak" "$clip" "${options[@]}"
