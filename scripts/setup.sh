# shellcheck shell=bash disable=SC2034
# Scripts, tests and pipelines source this. It finds what the machine lacks, installs exactly that
# with apt, and builds.
#
#   ensure NEEDS [WANTS]      installs NEEDS or fails; reports missing WANTS but does not fail
#   build FOLDER [OPTION...] [-- TARGET...]
#                             configures FOLDER with Meson if necessary, and compiles all or the named
#                             targets
#   use_plugin FOLDER         lets GStreamer load the plugin that was built there
#   has_element NAME          succeeds if GStreamer has the element
#
# A capability is a command, a pkg-config module, a header, a GStreamer element, a Python module or
# a compiler with libFuzzer, from any source; after it stands the package that apt would install.
# NO_INSTALL=1 in the environment never installs. Exit status 3 says that something is missing and
# could not be installed.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  warn "$1"
  exit "${2:-1}"
}

# Each line has a capability, and the Debian and Ubuntu package that provides it.
needs_build='
  command:c++                      g++
  command:meson                    meson
  command:ninja                    ninja-build
  command:pkg-config               pkgconf
  module:gstreamer-1.0>=1.22       libgstreamer1.0-dev
  module:gstreamer-video-1.0>=1.22 libgstreamer-plugins-base1.0-dev
  module:libhwy                    libhwy-dev
'
needs_cuda='
  module:gstreamer-cuda-1.0>=1.22  libgstreamer-plugins-bad1.0-dev
  header:GL/gl.h                   libgl-dev
'
needs_run='
  command:gst-launch-1.0           gstreamer1.0-tools
  command:gst-inspect-1.0          gstreamer1.0-tools
  element:videoconvert             gstreamer1.0-plugins-base
  element:videotestsrc             gstreamer1.0-plugins-base
'

needs_pipelines='
  element:decodebin                gstreamer1.0-plugins-base
  element:compositor               gstreamer1.0-plugins-base
  element:rawvideoparse            gstreamer1.0-plugins-base
  element:videoscale               gstreamer1.0-plugins-base
  element:videocrop                gstreamer1.0-plugins-good
  element:videobox                 gstreamer1.0-plugins-good
  element:pngenc                   gstreamer1.0-plugins-good
  element:multifilesink            gstreamer1.0-plugins-good
  element:mp4mux                   gstreamer1.0-plugins-good
  element:h264parse                gstreamer1.0-plugins-bad
  element:x264enc                  gstreamer1.0-plugins-ugly
'
# These serve labels in the images, and the default clip's container and codec.
wants_pipelines='
  element:textoverlay              gstreamer1.0-x
  element:mpegpsdemux              gstreamer1.0-plugins-bad
  element:mpegvideoparse           gstreamer1.0-plugins-bad
  element:mpeg2dec                 gstreamer1.0-plugins-ugly
'
# The programs with pages in the browser need these.
wants_pages='
  python:gi                        python3-gi
  python:gi.repository.Gst         gir1.2-gstreamer-1.0
  python:gi.repository.GstWebRTC   gir1.2-gst-plugins-bad-1.0
  element:nicesrc                  gstreamer1.0-nice
'

# The CUDA compiler is often installed but not on the PATH.
if ! command -v nvcc >/dev/null; then
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr/local/cuda-*; do
    if [ -n "$folder" ] && [ -x "$folder/bin/nvcc" ]; then
      PATH=$PATH:$folder/bin
      break
    fi
  done
fi
if command -v nvcc >/dev/null; then
  needs_build+=$needs_cuda
fi

# Uses the registry, because loading nvcodec takes a GPU's driver a second. Reads to the list's end,
# because gst-inspect writes to a pipe.
has_element() { gst-inspect-1.0 2>/dev/null | grep "^[^ ]*:  $1: " >/dev/null; }
# nvidia-smi also succeeds if there is a driver but no device.
has_gpu() { [[ $(nvidia-smi -L 2>/dev/null) == 'GPU '* ]]; }

have() {
  local name=${1#*:}
  case $1 in
    command:*) command -v "$name" >/dev/null ;;
    module:*) pkg-config --exists "${name/>=/ >= }" 2>/dev/null ;;
    header:*)
      # GStreamer's headers include it, so their flags are used.
      local flags
      read -ra flags < <(pkg-config --cflags gstreamer-cuda-1.0 2>/dev/null) || :
      printf '#include <%s>\n' "$name" | c++ "${flags[@]}" -E -x c++ - >/dev/null 2>&1
      ;;
    element:*) has_element "$name" ;;
    # Debian's packages are for Debian's Python, which need not be the first on the PATH.
    python:*)
      python3 -W ignore -c "import $name" 2>/dev/null ||
        /usr/bin/python3 -W ignore -c "import $name" 2>/dev/null
      ;;
    # Succeeds if the compiler and its libFuzzer work.
    fuzzer:*)
      printf 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }\n' |
        "$name" -fsanitize=fuzzer -x c++ - -o /dev/null >/dev/null 2>&1
      ;;
    *) die "unknown capability $1" ;;
  esac
}

# Prints the lines of a list whose capability is missing.
missing_of() {
  local what package
  while read -r what package; do
    [ -z "$what" ] || have "$what" || printf '%s %s\n' "$what" "$package"
  done <<<"$1"
}

packages_of() { awk 'NF && !seen[$2]++ { print $2 }' <<<"$1" | paste -sd ' ' -; }
names_of() { awk 'NF { sub(/^[^:]*:/, "", $1); print $1 }' <<<"$1" | paste -sd ' ' -; }

# Prints why nothing can be installed here, or nothing.
why_no_install() {
  if [ -n "${NO_INSTALL:-}" ]; then
    echo 'NO_INSTALL is set'
  elif ! command -v apt-get >/dev/null; then
    echo 'there is no apt-get here'
  elif [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo 'this is not root, and there is no sudo'
  elif [ "$(id -u)" != 0 ] && [ ! -t 0 ] && ! sudo -n true 2>/dev/null; then
    echo 'this is not root, and sudo asks for a password'
  fi
}

apt_get() {
  local as_root=(env)
  [ "$(id -u)" = 0 ] || as_root=(sudo env)
  "${as_root[@]}" DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get -q -y \
    -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# Appends to the file that apt_log names.
install_packages() {
  say "Installing with apt-get: $*"
  if [ -z "${apt_is_updated:-}" ]; then
    apt_get update >>"$apt_log" 2>&1 || warn 'apt-get update failed; going on with the lists here'
    apt_is_updated=1
  fi
  apt_get install --no-install-recommends "$@" >>"$apt_log" 2>&1
}

ensure() {
  local needed wanted why package apt_log
  needed=$(missing_of "$1")
  wanted=$(missing_of "${2:-}")
  [ -n "$needed$wanted" ] || return 0

  why=$(why_no_install)
  if [ -z "$why" ]; then
    apt_log=$(mktemp)
    # shellcheck disable=SC2046 # package names are words
    if ! install_packages $(packages_of "$needed"$'\n'"$wanted"); then
      # If a wanted package cannot be installed, the needed ones and the others still are.
      [ -z "$needed" ] || [ -z "$wanted" ] || install_packages $(packages_of "$needed") || :
      for package in $(packages_of "$wanted"); do install_packages "$package" || :; done
    fi
    needed=$(missing_of "$needed")
    wanted=$(missing_of "$wanted")
    if [ -n "$needed" ]; then
      tail -n 20 "$apt_log" >&2
      why='apt-get could not provide them (its last lines are above)'
    elif [ -n "$wanted" ]; then
      why='apt-get could not provide them'
    fi
    rm -f "$apt_log"
  fi
  if [ -n "$needed" ]; then
    warn "missing: $(names_of "$needed")"
    warn "cannot install: $why"
    die "install them and run this again; on Debian or Ubuntu: apt-get install $(packages_of "$needed")" 3
  elif [ -n "$wanted" ]; then
    warn "going on without $(names_of "$wanted"): $why"
  fi
}

# Returns whether an option is among Meson's arguments, as -DNAME=VALUE or -D NAME=VALUE.
names_option() {
  local name=$1 argument
  shift
  for argument in "$@"; do
    [[ ${argument#-D} != "$name="* ]] || return 0
  done
  return 1
}

# Prints the value of cuda-arch that a build folder was configured with, or nothing.
cuda_arch_of() {
  meson introspect --buildoptions "$1" | python3 -c '
import json, sys
values = {option["name"]: option["value"] for option in json.load(sys.stdin)}
print("none" if values["cuda"] == "disabled" else values["cuda-arch"])'
}

# Configures again only if the options or a tool changed. A folder that somebody configured by hand
# keeps its settings except for the given options. So does any folder if no options are given.
#
# Without a GPU the CUDA code can only be compiled, and one architecture is enough to show that it
# compiles. All of them take an hour of processor time; they are compiled only if -Dcuda-arch says
# so or if that has been done before.
build() {
  local folder=$1 stamp=$1/.setup arguments=() tools options log one_arch=
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    arguments+=("$1")
    shift
  done
  [ $# = 0 ] || shift
  tools="$(c++ --version | head -n 1), $(command -v nvcc || echo no nvcc), $(meson --version)"
  options=${arguments[*]}
  if command -v nvcc >/dev/null && ! has_gpu && ! names_option cuda-arch "${arguments[@]}" &&
    [[ $options != *cuda=disabled* ]]; then
    one_arch=-Dcuda-arch=90
  fi
  if [ ! -e "$folder/build.ninja" ]; then
    [ ! -e "$stamp" ] || rm -rf "$folder"
  elif [ -e "$stamp" ] && { [ "$(sed -n 1p "$stamp")" != "$tools" ] ||
    { [ -n "$options" ] && [ "$(sed -n 2p "$stamp")" != "$options" ]; } ||
    # Since the folder was configured, a GPU was added, which needs its own architecture.
    { [ -n "$(sed -n 3p "$stamp")" ] && has_gpu; }; }; then
    rm -rf "$folder"
  fi
  if [ ! -e "$folder/build.ninja" ]; then
    arguments+=(${one_arch:+"$one_arch"})
    say "Configuring ${folder#"$root"/}${arguments[*]:+ with ${arguments[*]}}"
    mkdir -p "$folder"
    log=$(mktemp)
    if ! meson setup "${arguments[@]}" "$folder" "$root" >"$log" 2>&1; then
      cat "$log" >&2
      rm -f "$log"
      die 'meson setup failed'
    fi
    sed -n 's/^\(.*: \)\?WARNING: //p' "$log"
    rm -f "$log"
    printf '%s\n' "$tools" "$options" "$one_arch" >"$stamp"
  elif [ ! -e "$stamp" ]; then
    if [ -n "$one_arch" ] && [ "$(cuda_arch_of "$folder")" = auto ] &&
      [ ! -e "$folder/cuda/libcudakernels.a" ]; then
      arguments+=("$one_arch")
    fi
    if [ ${#arguments[@]} -gt 0 ]; then
      say "Changing ${folder#"$root"/}, which was configured by hand: ${arguments[*]}"
      meson configure "$folder" "${arguments[@]}" || die 'meson configure failed'
    fi
  fi
  if [ -n "$one_arch" ] && [ "$(cuda_arch_of "$folder")" = "${one_arch#*=}" ]; then
    say 'No GPU here: the CUDA code is compiled for compute capability 9.0 alone. To run or install it elsewhere, name'
    say "the GPU's: -Dcuda-arch=75, for instance, or -Dcuda-arch=all."
  fi
  say "Building ${folder#"$root"/}${*:+: $*}"
  ninja -C "$folder" ${JOBS:+-j "$JOBS"} "$@" || die 'the build failed'
}

# A separate registry keeps the user's one unchanged and hides the build from other programs.
use_plugin() {
  export GST_PLUGIN_PATH_1_0=$1/gst${GST_PLUGIN_PATH_1_0:+:$GST_PLUGIN_PATH_1_0}
  export GST_REGISTRY_1_0=$1/registry.bin
}
