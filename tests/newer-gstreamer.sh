#!/usr/bin/env bash
# Runs every test on a newer GStreamer than this machine's:
#
#   tests/newer-gstreamer.sh [--suite SUITE] FOLDER [MESON OPTION...]
#
# Makes a Debian in FOLDER with debootstrap, unless it is there from an earlier run: trixie (GStreamer
# 1.26), the default, forky (1.28) or another SUITE. Copies the sources into it and runs tests/run.sh in
# it, which installs there what it needs. nvcc comes along if it is on this machine. Nothing outside
# FOLDER changes. Asks for root, a network and 5 GB. MIRROR in the environment names another mirror than
# debootstrap's own.
#
# The exit status and the last line are those of tests/run.sh.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"

usage="usage: ${0##*/} [--suite SUITE] FOLDER [MESON OPTION...]"
suite=trixie
packages=ca-certificates

if [ "${1:-}" = --suite ]; then
  [ $# -ge 2 ] || die "$usage" 2
  suite=$2
  shift 2
fi
folder=${1:-}
case $folder in '' | -*) die "$usage" 2 ;; esac
case $suite in '' | *[!a-z]*) die "$suite is no name of a suite" 2 ;; esac
shift
[ "$(id -u)" = 0 ] || die 'this makes and enters another system: run it as root' 2

# What is mounted below is mounted for this process and its children alone, and is gone with the
# last of them, however they end.
if [ -z "${NEWER_GSTREAMER_MOUNTS:-}" ]; then
  unshare --mount --propagation private true 2>/dev/null ||
    die 'cannot make a mount namespace: a container needs the right to mount (CAP_SYS_ADMIN)' 2
  NEWER_GSTREAMER_MOUNTS=own exec unshare --mount --propagation private "${BASH_SOURCE[0]}" \
    --suite "$suite" "$folder" "$@"
fi

ensure 'command:debootstrap debootstrap'

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ "$folder" != / ] || die 'FOLDER cannot be /' 2
if [ -e "$folder/.made" ]; then
  made=$(cat "$folder/.made")
  # Those of earlier versions of this script are all the same.
  [ "${made:-trixie}" = "$suite" ] || die "$folder is Debian $made: name another folder for $suite" 2
else
  [ -z "$(ls -A "$folder")" ] ||
    die "$folder is neither empty nor a finished system: empty it, or name another" 2
  say "Installing Debian $suite in $folder"
  log=$(mktemp)
  # A suite that is newer than this machine's debootstrap is made as all the others are.
  scripts=${DEBOOTSTRAP_DIR:-/usr/share/debootstrap}/scripts
  how=$scripts/$suite
  [ -e "$how" ] || how=$scripts/sid
  if ! debootstrap --variant=minbase --include="$packages" "$suite" "$folder" \
    "${MIRROR:-}" "$how" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    # Half a system is of no use, and the next run is to start anew.
    rm -rf --one-file-system "${folder:?}"/*
    rm -f "$log"
    die 'debootstrap failed (its last lines are above)'
  fi
  rm -f "$log"
  printf '%s\n' "$suite" >"$folder/.made"
fi

# What is in testing is as new as the mirror: a copy of it may be older than its date allows.
printf 'Acquire::Check-Valid-Until "false";\n' >"$folder/etc/apt/apt.conf.d/80valid"
# Names of hosts are looked up as here, and packages come through the same proxy.
cp -L /etc/resolv.conf "$folder/etc/resolv.conf"
if command -v apt-config >/dev/null; then
  apt-config dump | grep -E '^Acquire::https?::Proxy ' >"$folder/etc/apt/apt.conf.d/80proxy" || :
fi

mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
if command -v nvcc >/dev/null; then
  # nvcc itself says where it is: the command may be a wrapper.
  toolkit=$(nvcc --dryrun --compile -x cu /dev/null -o /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')
  toolkit=$(readlink -f "${toolkit:-/}")
  if [ -x "$toolkit/bin/nvcc" ] && [ "$toolkit" != /usr ]; then
    mkdir -p "$folder/usr/local/cuda"
    mount --bind -o ro "$toolkit" "$folder/usr/local/cuda"
  else
    warn "going on without nvcc: it is not in a folder of its own"
  fi
fi

# Builds of an earlier run stay: only what changed is compiled again.
sources=$folder/src/gst-cuda-filters
mkdir -p "$sources"
find "$sources" -mindepth 1 -maxdepth 1 ! -name 'build*' -exec rm -rf {} +
tar -C "$root" --exclude='./build*' --exclude=./.git --exclude=./.cache --exclude=./demo-out -cf - . |
  tar -C "$sources" --no-same-owner -xf -

status=0
# shellcheck disable=SC2016 # the words are the inner shell's
chroot "$folder" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
  ${JOBS:+JOBS="$JOBS"} bash -c 'cd /src/gst-cuda-filters && exec tests/run.sh "$@"' run.sh "$@" ||
  status=$?
exit "$status"
