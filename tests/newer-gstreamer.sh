#!/usr/bin/env bash
# Runs all tests on a newer GStreamer than this machine's:
#
#   tests/newer-gstreamer.sh [--suite SUITE] FOLDER [MESON OPTION...] [-- TEST...]
#
# Installs a Debian in FOLDER with debootstrap, unless an earlier run did. SUITE is trixie
# (GStreamer 1.26, the default), forky (1.28), experimental (sid with GStreamer 1.29) or another
# one. Then copies the sources into it and runs tests/run.sh there, which installs the packages that
# it needs. nvcc is used if it is on this machine. Nothing outside FOLDER changes. Needs root, a
# network and 5 GB. The environment variable MIRROR names another mirror than debootstrap's.
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
# Builds of an earlier run are kept, so only changed files are compiled again.
copy_sources "$folder"
in_system "$folder" tests/run.sh "$@"
