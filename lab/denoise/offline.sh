#!/usr/bin/env bash
# Measures offline denoisers of PyPI beside ours, on the clips that denoise.sh has made in .cache/denoise:
#
#   [CLIPS="head vtest ..."] [NOISES="cam g10 ..."] [PEERS="mdegrain vbm3d"] BUILD=build lab/denoise/offline.sh [FOLDER]
#
# Installs a Debian 13 with VapourSynth in FOLDER (.cache/offline), unless an earlier run did. The peers are mvtools'
# MDegrain with 6 and with 3 frames either way, and V-BM3D. They are GPL, so they are run here and never shipped. Each
# has the best of a grid of strengths, chosen by luma's PSNR with the clean truth. Ours is automatic. The
# results of peers are kept. Prints PSNR of luma and chroma (dB), and writes them to .cache/denoise/results.offline.tsv.
# Needs root, a network and 1 GB.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/setup.sh"
. "$root/scripts/chroot.sh"

[ $# -le 1 ] || die "usage: ${0##*/} [FOLDER]" 2
own_mounts "$@"
folder=${1:-$root/.cache/offline}
cache=$root/.cache/denoise
tool=$(cd "${BUILD:-$root/build}" && pwd)/lab/denoise/denoise
[ -x "$tool" ] || die "$tool is missing: run lab/denoise/denoise.sh first"

make_system trixie "$folder"
folder=$(cd "$folder" && pwd)
mount_system "$folder"
[ -e "$folder/usr/bin/python3" ] || install_in "$folder" python3-minimal libpython3-stdlib
if [ ! -e "$folder/opt/peers/vapoursynth" ]; then
  ensure 'command:pip python3-pip'
  # This machine's pip fetches the packages, which need a newer Python than this machine's.
  pip install -q --root-user-action ignore --no-deps --ignore-requires-python --only-binary=:all: --python-version 3.12 \
    --target "$folder/opt/peers" vapoursynth==79 vapoursynth-mvtools==29 vapoursynth-bm3dcpu==2.17
fi
cp "$root/lab/denoise/offline.py" "$folder/opt/peers"
rm -rf "$folder/opt/results"
mkdir -p "$folder/opt/results"

# Prints a line as denoise.sh does, with PSNR only.
line() { # NAME FILE
  printf '%s\t%s\t%s\t%s\n' "$clip" "$noise" "$1" "$("$tool" measure "$clean" "$2" 640 360 | cut -d' ' -f1,2 | tr ' ' '\t')"
}
# Runs peers, unless the results of these strengths are kept: peers NAME STRENGTH...
peers() {
  local kept="$clip.$noise.$*.txt" result
  if [ ! -e "$kept" ]; then
    in_system "$folder" env PYTHONPATH=/opt/peers python3 /opt/peers/offline.py 640 360 "$1" /opt/results "${@:2}" <"$in"
    for result in "$folder/opt/results"/*.yuv; do
      line "$(basename "$result" .yuv)" "$result"
      rm "$result"
    done >"$kept.new"
    mv "$kept.new" "$kept"
  fi
  cat "$kept"
}
# MDegrain's strengths share a search for vectors.
mdegrain() { peers mdegrain 150 300 450 600 900 1300 1900 2700 3800; }
# V-BM3D is slow, so each strength is tried alone, away from the middle as long as the results rise.
vbm3d() {
  local best=0 sigma next luma result
  for next in "13 18 26 37" "9 6 4 3"; do
    for sigma in $next; do
      result=$(peers vbm3d "$sigma")
      printf '%s\n' "$result"
      luma=$(cut -f4 <<<"$result")
      awk "BEGIN { exit !($luma < $best) }" && break
      best=$luma
    done
    # A second strength that was better leaves nothing to find on the other side.
    [ "$sigma" = 18 ] || break
  done
}
# Keeps the best strength of each peer.
best() { sort -t "$(printf '\t')" -k4,4nr | awk -F'\t' '{ split($3, name, "="); if (!seen[name[1]]++) print }'; }

cd "$cache"
for noise in ${NOISES:-cam g10 x264 grain}; do
  for clip in ${CLIPS:-head vtest pan city grass cabin dark hopper street chelsea later}; do
    in=$clip.$noise.yuv clean=$clip.clean.yuv
    case $noise in cam | x264) clean=$clip.camclean.yuv ;; esac
    [ -e "$in" ] || die "$in is missing: run lab/denoise/denoise.sh first"
    line noisy "$in"
    level=$("$tool" filter "$in" 640 360 offline.out.yuv)
    line "cudadenoise ($level)" offline.out.yuv
    for peer in ${PEERS:-mdegrain vbm3d}; do
      "$peer"
    done | best
  done
done | tee results.offline.tsv | column -t -s "$(printf '\t')"
rm -f offline.out.yuv
