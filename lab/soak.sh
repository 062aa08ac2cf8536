#!/usr/bin/env bash
# Runs a realistic chain for a long time: lab/soak.sh [--minutes N] [--backend auto|cuda|cpu] [...]
#
# The chain decodes, denoises, mattes, blurs regions and letterboxes the demo's clip (or CLIP=FILE).
# Settings change every second, and the pipeline restarts every five minutes. Reports frames,
# errors, memory drift and latency percentiles; the exit status says whether the run held.
# lab/soak.cpp describes all options. Frames go through CUDA memory if cudaupload is available and
# the backend is not cpu. BUILD names the build folder.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/pipeline.sh"

build=${BUILD:-$root/build}
[ -x "$build/tests/soak" ] || die 'build first: meson setup build && ninja -C build'
use_plugin "$build"
clip=${CLIP:-$(default_clip)}
options=("$@")
if [[ " $* " != *' cpu '* ]] && has_element cudaupload; then options+=(--cuda-memory); fi
exec "$build/tests/soak" "$clip" "${options[@]}"
