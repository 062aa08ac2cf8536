#!/usr/bin/env bash
# Switches every filter off and on for a long time: lab/toggle.sh [MINUTES [ELEMENT...]]
#
# Plays MINUTES (10) of video at 30 frames per second to each element that has `enabled`, in each
# memory and format of tests/elements/enabled.cpp. The element is switched at every third frame,
# which is 10 times per second, while another property changes as often. Each frame is compared with
# the one that came in or with that of a new element, and the heap, the CAPS events and the order of
# the frames are checked. The video has small frames and runs as fast as it can. Frames on a GPU are
# left out where there is none. The exit status says whether all cases held.
#
# BUILD names the build folder. EMULATED=1 takes the emulated device instead of a GPU.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"

build=${BUILD:-$root/build}
program=$build/tests/elements/elements
use_plugin "$build"
if [ -n "${EMULATED:-}" ]; then
  program=$build/tests/elements/emulated-elements
  export LD_LIBRARY_PATH=$build/tests/emulation GST_PLUGIN_PATH_1_0=$build/tests/elements
  export VF_EMULATION_DEVICE=devices=2
fi
[ -x "$program" ] || die 'build first: meson setup build && ninja -C build'
GST_REGISTRY_1_0=$(mktemp)
export GST_REGISTRY_1_0 MALLOC_PERTURB_=0
trap 'rm -f "$GST_REGISTRY_1_0" "$GST_REGISTRY_1_0.log"' EXIT
minutes=${1:-10}
elements=("${@:2}")
[ ${#elements[@]} != 0 ] || elements=(cudadenoise cudagaussian cudaguidedmatte cudamedian cudapixelate)
failed=0
for element in "${elements[@]}"; do
  begin=$SECONDS
  "$program" --element "$element" --case /enabled/ --changes "$((minutes * 1800))" --seed "${SEED:-1}" \
    >"$GST_REGISTRY_1_0.log" 2>&1 || failed=1
  grep -A 3 '^not ok' "$GST_REGISTRY_1_0.log"
  printf '%s: %d cases of %s minutes held, %d did not, %d had no device; %d s\n' "$element" \
    "$(grep '^ok' "$GST_REGISTRY_1_0.log" | grep -vc SKIP)" "$minutes" \
    "$(grep -c '^not ok' "$GST_REGISTRY_1_0.log")" "$(grep -c SKIP "$GST_REGISTRY_1_0.log")" "$((SECONDS - begin))"
done
exit "$failed"
