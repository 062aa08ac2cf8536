#!/usr/bin/env bash
# Runs every test on a newer GStreamer than this machine's:
#
#   tests/newer-gstreamer.sh [--suite SUITE] FOLDER [MESON OPTION...] [-- TEST...]
#
# Makes a Debian in FOLDER with debootstrap, unless it is there from an earlier run: trixie (GStreamer
# 1.26), the default, forky (1.28), experimental (sid with GStreamer 1.29) or another SUITE. Copies the
# sources into it and runs tests/run.sh in it, which installs there what it needs. nvcc comes along if it is
# on this machine. Nothing outside FOLDER changes. Asks for root, a network and 5 GB. MIRROR in the
# environment names another mirror than debootstrap's own.
#
# The exit status and the last line are those of tests/run.sh.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"
. "$root/scripts/chroot.sh"

usage="usage: ${0##*/} [--suite SUITE] FOLDER [MESON OPTION...] [-- TEST...]"
[ "${1:-}" = --suite ] || set -- --suite trixie "$@"
[ $# -ge 3 ] || die "$usage" 2
own_mounts "$@"
suite=$2
folder=$3
case $folder in '' | -*) die "$usage" 2 ;; esac
shift 3

make_system "$suite" "$folder"
folder=$(cd "$folder" && pwd)
mount_system "$folder"
mount_toolkit "$folder" || warn 'going on without nvcc: it is not here, or not in a folder of its own'
# Builds of an earlier run stay: only what changed is compiled again.
copy_sources "$folder"
in_system "$folder" tests/run.sh "$@"
