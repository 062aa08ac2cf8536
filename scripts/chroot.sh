# shellcheck shell=bash disable=SC2154
# Scripts that build or test in another Debian or Ubuntu in a folder source this after
# scripts/setup.sh.
#
#   own_mounts "$@"               runs the script again with its own mounts, which vanish when its last
#                                 process ends
#   make_system SUITE FOLDER      makes a minimal system with debootstrap, unless it exists
#   mount_system FOLDER           mounts its /proc and /dev, and sets up access to package archives
#   mount_toolkit FOLDER          mounts this machine's CUDA toolkit as its /usr/local/cuda; fails
#                                 without one
#   copy_sources FOLDER           copies the project to its /src/gst-cuda-filters; what was built and
#                                 fetched there is kept
#   in_system FOLDER COMMAND...   runs a command in it, in /src/gst-cuda-filters if that exists
#   install_in FOLDER PACKAGE...  runs apt-get install
#   release_of SUITE              prints how the versions of its packages end
#   share_ccache FOLDER           lets it use this machine's compiler cache
#
# All need root. A suite is one of Debian's, or noble (Ubuntu 24.04). experimental is Debian's sid
# with the GStreamer of experimental. The environment variables MIRROR and UBUNTU_MIRROR name other
# mirrors.

ubuntu_mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
# This key signs Ubuntu's archive. Debian 12 has no package of it.
ubuntu_key=F6ECB3762474EDA9D21B7022871920D1991BC93C
ubuntu_keyring_package=pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb

own_mounts() {
  [ "$(id -u)" = 0 ] || die 'this makes and enters another system: run it as root' 2
  [ -z "${OWN_MOUNTS:-}" ] || return 0
  unshare --mount --propagation private true 2>/dev/null ||
    die 'cannot make a mount namespace: a container needs the right to mount (CAP_SYS_ADMIN)' 2
  OWN_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"
}

# Prints a text that the versions of a suite's packages contain.
release_of() {
  case $1 in
    bookworm) echo deb12 ;;
    trixie) echo deb13 ;;
    forky) echo deb14 ;;
    noble) echo ubuntu24.04 ;;
    *) die "no packages are made for $1" 2 ;;
  esac
}

is_ubuntu() { [ "$1" = noble ]; }

# Prints the path of a keyring with the key of Ubuntu's archive.
ubuntu_keyring() {
  local keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg folder=$root/.cache/ubuntu-keyring
  if [ ! -e "$keyring" ]; then
    keyring=$folder$keyring
    if [ ! -e "$keyring" ]; then
      mkdir -p "$folder"
      curl -fsSL -o "$folder/keyring.deb" "$ubuntu_mirror/$ubuntu_keyring_package" ||
        die "cannot get Ubuntu's keyring"
      dpkg-deb -x "$folder/keyring.deb" "$folder"
    fi
  fi
  gpg --show-keys --with-colons "$keyring" 2>/dev/null | grep -q "^fpr:.*:$ubuntu_key:" ||
    die "$keyring has not the key of Ubuntu's archive"
  printf '%s\n' "$keyring"
}

# Lets apt take GStreamer's packages from a suite that it otherwise takes nothing from.
take_gstreamer_of() {
  local suite=$1 apt=$2/etc/apt mirror
  read -r _ mirror _ < <(grep -hm 1 '^deb ' "$apt/sources.list")
  printf 'deb %s %s main\n' "$mirror" "$suite" >"$apt/sources.list.d/$suite.list"
  printf 'Package: *gst*\nPin: release a=%s\nPin-Priority: 990\n' "$suite" >"$apt/preferences.d/$suite"
}

make_system() {
  local suite=$1 folder=$2 made log scripts how base mirror=${MIRROR:-}
  local options=(--variant=minbase --include=ca-certificates)
  case $suite in '' | *[!a-z]*) die "$suite is no name of a suite" 2 ;; esac
  mkdir -p "$folder"
  [ "$(realpath "$folder")" != / ] || die 'the folder cannot be /' 2
  if [ -e "$folder/.made" ]; then
    made=$(cat "$folder/.made")
    # An empty file is from an earlier version of this script, which made only trixie.
    [ "${made:-trixie}" = "$suite" ] || die "$folder is $made: name another folder for $suite" 2
    return
  fi
  [ -z "$(ls -A "$folder")" ] ||
    die "$folder is neither empty nor a finished system: empty it, or name another" 2
  ensure 'command:debootstrap debootstrap'
  say "Installing $suite in $folder"
  # A suite that is newer than this machine's debootstrap is made like all others.
  scripts=${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts
  # experimental has only packages that are newer than in sid.
  base=$suite
  [ "$suite" != experimental ] || base=sid
  how=$scripts/$base
  if is_ubuntu "$suite"; then
    mirror=$ubuntu_mirror
    options+=("--components=main,universe" --keyring="$(ubuntu_keyring)")
    [ -e "$how" ] || how=$scripts/jammy
  else
    [ -e "$how" ] || how=$scripts/sid
  fi
  log=$(mktemp)
  if ! debootstrap "${options[@]}" "$base" "$folder" "$mirror" "$how" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    # Half a system is useless, so the next run starts from scratch.
    rm -rf --one-file-system "${folder:?}"/*
    rm -f "$log"
    die 'debootstrap failed (its last lines are above)'
  fi
  rm -f "$log"
  # Recommended packages and translated package lists are left out.
  printf 'APT::Install-Recommends "false";\nAcquire::Languages "none";\n' >"$folder/etc/apt/apt.conf.d/80small"
  # The system can be made again, so writes need not wait for the disk.
  echo force-unsafe-io >"$folder/etc/dpkg/dpkg.cfg.d/unsafe-io"
  [ "$suite" = "$base" ] || take_gstreamer_of "$suite" "$folder"
  printf '%s\n' "$suite" >"$folder/.made"
}

mount_system() {
  local folder=$1
  # A mirror's copy of testing may be older than its date allows.
  printf 'Acquire::Check-Valid-Until "false";\n' >"$folder/etc/apt/apt.conf.d/80valid"
  # The system uses this machine's name servers and proxy.
  cp -L /etc/resolv.conf "$folder/etc/resolv.conf"
  if command -v apt-config >/dev/null; then
    apt-config dump | grep -E '^Acquire::https?::Proxy ' >"$folder/etc/apt/apt.conf.d/80proxy" || :
  fi
  mount -t proc proc "$folder/proc"
  mount --rbind /dev "$folder/dev"
}

mount_toolkit() {
  local folder=$1 toolkit
  command -v nvcc >/dev/null || return
  # The nvcc command may be a wrapper, so nvcc itself is asked for its folder.
  toolkit=$(nvcc --dryrun --compile -x cu /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')
  toolkit=$(readlink -f "${toolkit:-/}")
  [ -x "$toolkit/bin/nvcc" ] && [ "$toolkit" != /usr ] || return
  mkdir -p "$folder/usr/local/cuda"
  mount --bind -o ro "$toolkit" "$folder/usr/local/cuda"
}

copy_sources() {
  local sources=$1/src/gst-cuda-filters new file
  mkdir -p "$sources"
  new=$(mktemp -d -p "$1/src")
  tar -C "$root" --exclude='./build*' --exclude=./.git --exclude=./.cache --exclude=./demo-out --exclude=__pycache__ \
    -cf - . | tar -C "$new" --no-same-owner -xf -
  # Unchanged files keep their times. Changed files get new ones, because objects that were built
  # there meanwhile may be newer than the change.
  (cd "$sources" && find . \( -path './build*' -o -path ./.cache \) -prune -o -type f -print0) | while read -rd '' file; do
    cmp -s "$new/$file" "$sources/$file" || rm "$sources/$file"
  done
  cp -rn --preserve=mode "$new/." "$sources"
  rm -rf "$new"
}

in_system() {
  local folder=$1
  shift
  # shellcheck disable=SC2016 # the words are the inner shell's
  chroot "$folder" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin HOME=/root LANG=C.UTF-8 \
    ${JOBS:+JOBS="$JOBS"} bash -c 'cd /src/gst-cuda-filters 2>/dev/null || cd / && exec "$@"' in_system "$@"
}

install_in() {
  local folder=$1 log
  shift
  log=$(mktemp)
  # shellcheck disable=SC2016 # the words are the inner shell's
  if ! in_system "$folder" env DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get -q update && apt-get -q -y --no-install-recommends install "$@"' sh "$@" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "cannot install $* in $folder (the last lines are above)"
  fi
  rm -f "$log"
}

# Lets compilers in the system use this machine's compiler cache, if it has one.
share_ccache() {
  local folder=$1 cache
  command -v ccache >/dev/null || return 0
  cache=$(ccache --get-config cache_dir) && [ -d "$cache" ] || return 0
  mkdir -p "$folder/root/.cache/ccache"
  mount --bind "$cache" "$folder/root/.cache/ccache"
  [ ! -e "$HOME/.config/ccache" ] || { mkdir -p "$folder/root/.config" && cp -r "$HOME/.config/ccache" "$folder/root/.config"; }
}
