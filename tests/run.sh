#!/usr/bin/env bash
# Runs all tests: tests/run.sh [MESON OPTION...] [-- TEST...], for example with -Dwerror=true
# -Dcuda-arch=90
#
# tests/run.sh --quick runs a sample of the tests in a few minutes, while you work: one build
# (build-quick/) without CUDA's compiler and without sanitizers, and a sample of each table of
# cases. The CUDA kernels run on the emulated device.
#
# With TESTs, which are Meson's names or (from Meson 1.2 on) patterns of them, runs only those, of
# build/ or with --quick of build-quick/, and builds only what they need. `meson test --list` in that
# folder prints the names.
#
# First installs missing packages (see scripts/setup.sh). Two builds are tested: build/ as a user
# has it, with the CUDA backend if nvcc is installed, and build-sanitize/ with only the CPU backend,
# under AddressSanitizer and UndefinedBehaviorSanitizer. If clang with libFuzzer is installed, it
# compiles build-sanitize/, and the fuzz target fuzzes for a while; otherwise its corpus is only
# replayed.
# The last line is "N passed, N failed, N skipped". The exit status is 0 only if something passed
# and nothing failed.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/../scripts/setup.sh"

quick=
if [ "${1-}" = --quick ]; then
  quick=1
  shift
fi
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  options+=("$1")
  shift
done
[ $# != 1 ] || die "usage: ${0##*/} [--quick] [MESON OPTION...] [-- TEST...]" 2
tests=("${@:2}")
# `meson test` builds what TESTs need.
targets=()
[ ${#tests[@]} = 0 ] || targets=(-- build.ninja)

# Meson uses ccache if it is installed: a build of the same sources then takes seconds.
wants_tests='
  command:ccache                   ccache
  command:clang-format-14          clang-format-14
  command:shellcheck               shellcheck
  module:gstreamer-check-1.0       libgstreamer1.0-dev
  module:opencv4                   libopencv-dev
  command:valgrind                 valgrind
  module:gstreamer-rtsp-server-1.0 libgstrtspserver-1.0-dev
  element:rtspsrc                  gstreamer1.0-plugins-good
  element:facedetect               gstreamer1.0-opencv
  command:chromium                 chromium
  command:chromedriver             chromium-driver
  module:python3                   python3-dev
  python:cv2                       python3-opencv
  python:ensurepip                 python3-venv
  command:Xvfb                     xvfb
  command:dbus-daemon              dbus-daemon
  command:wireplumber              wireplumber
  element:pipewiresink             gstreamer1.0-pipewire
  element:avdec_h264               gstreamer1.0-libav
  element:ximagesink               gstreamer1.0-x
  command:clang++                  clang
  fuzzer:clang++                   libclang-rt-dev
  command:llvm-symbolizer          llvm
'
ensure "$needs_build $needs_run $needs_pipelines" "$wants_tests $wants_pages"

# The build without CUDA gets the options without those of CUDA.
cpu_options=()
for option in "${options[@]}"; do
  case $option in
    -Dcuda=* | -Dcuda-arch=*) ;;
    *) cpu_options+=("$option") ;;
  esac
done

# The demo may have configured build/ without CUDA.
[ ${#options[@]} -gt 0 ] || [ "$(sed -n 2p "$root/build/.setup" 2>/dev/null)" != -Dcuda=disabled ] || rm -rf "$root/build"
logs=()
run_tests() {
  local label=$1 folder=$2 more=1
  # In build/ more tests mostly wait: programs, pages and streams. The others are short of processors.
  [ "$label" != build ] || more=2
  say "Testing ${folder#"$root"/}"
  rm -f "$folder"/meson-logs/testlog*
  # Failures are counted below. Tests by name build what they need. Some tests mostly wait, so more
  # tests than there are processors run at a time.
  MESON_TESTTHREADS=$(($(nproc) + more)) meson test -C "$folder" "${@:3}" --print-errorlogs || :
  logs+=("$label=$folder/meson-logs/testlog.json")
}

# check_names FOLDER: ends with a message if a build has no test of a name. Meson ignores such a name.
check_names() {
  local name known
  known=$(meson test -C "$1" --list 2>/dev/null)
  for name in "${tests[@]}"; do
    [[ $name == *[*?[:]* ]] || grep -q " / $name\$" <<<"$known" || die "${1##*/} has no test $name"
  done
}

# without SETS: prints the option for a build without these of Highway's instruction sets, and without
# those that differ from others only in the width of vectors or in a few instructions
without() { printf '%s' "-DHWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL|HWY_SVE_256|HWY_SVE2_128$1)"; }

if [ -n "$quick" ]; then
  # Two instruction sets, AVX2 and the compiler's default, and little optimisation compile in less
  # than a third of the time.
  few=$(without '|HWY_AVX3|HWY_SVE|HWY_SVE2|HWY_RVV')
  build "$root/build-quick" -Dquick-tests=true -Dcuda=disabled -Dbench=disabled -Doptimization=1 \
    "-Dcpp_args=$few" "${cpu_options[@]}" "${targets[@]}"
  check_names "$root/build-quick"
  run_tests quick "$root/build-quick" "${tests[@]}"
  exec "$root/tests/count.py" "${logs[@]}"
fi

if [ ${#tests[@]} -gt 0 ]; then
  build "$root/build" "${options[@]}" "${targets[@]}"
  check_names "$root/build"
  run_tests build "$root/build" "${tests[@]}"
  exec "$root/tests/count.py" "${logs[@]}"
fi

build "$root/build" "${options[@]}"
# Little optimisation and only line numbers are used, because the SIMD code otherwise takes three
# times as long to compile with all of these checks. Other code is not optimised. The instruction
# sets are the widest, AVX2 and the compiler's default. SSE4 is the same code with narrower vectors,
# and build/ tests it.
checked=(-Dcuda=disabled '-Db_sanitize=address,undefined' -Db_lundef=false -Doptimization=1 -Ddebug=false
  -Db_ndebug=false -Dbench=disabled "-Dcpp_args=-g1 $(without '')" "${cpu_options[@]}")
# The fuzz target needs clang, which also compiles this build faster than GCC does. Warnings of a
# second compiler are not errors. Known leaks of libraries are told by the names that the symbolizer
# finds.
if have fuzzer:clang++ && have command:llvm-symbolizer; then
  CXX=clang++ build "$root/build-sanitize" "${checked[@]}" -Dfuzz=true -Dwerror=false
else
  say 'No clang with libFuzzer and llvm-symbolizer: the corpus of the fuzz target is only replayed.'
  build "$root/build-sanitize" "${checked[@]}"
fi

run_tests build "$root/build" --no-rebuild
run_tests sanitize "$root/build-sanitize" --no-rebuild
"$root/tests/count.py" "${logs[@]}"
