#!/usr/bin/env bash
# scripts/new-filter makes a filter that builds and passes its tests, on the CPU and on the emulated device, and it
# refuses stems that cannot be used. All of this happens in a copy of the tree.
. "$(dirname "$0")/tap.sh"

# The copies of the tree and of the build folder lie to each other as the originals do. Meson names files by paths
# between the two, so Ninja compiles only what the new filter changes.
built=$(realpath "$build")
tree=$work$root
new_build=$work$built
mkdir -p "$tree"
(cd "$root" && sources | tar -cT -) | tar -xC "$tree"
files() { (cd "$tree" && find . -type f -exec md5sum {} + | sort); }

# refused STEM TEXT: the script says TEXT and leaves the tree alone
refused() {
  files >"$work/before"
  if "$tree/scripts/new-filter" "$1" >"$work/log" 2>&1; then
    fail "'$1' is refused"
  elif grep -q "$2" "$work/log" && files | cmp -s "$work/before" -; then
    pass "'$1' is refused"
  else
    fail "'$1' is refused with a message" "$work/log"
  fi
}
refused median 'taken: there is cpu/median.cpp'
refused letterboxrestore 'taken: there is gst/'
refused 3x3 'is no stem'
refused '' 'is no stem'
refused ../x 'is no stem'
refused double 'is a word of C++'

# Between other names, and longer than foo: other lines break.
check 'makes a filter' "$tree/scripts/new-filter" newsharpener
check 'the new files are as clang-format makes them' "$tree/tests/scripts/format.sh" "$build"
mkdir -p "$new_build"
(cd "$built" && tar -c --exclude=./tests/installed --exclude=./meson-logs .) | tar -xC "$new_build"
check 'is configured' meson setup --reconfigure "$new_build" "$tree"
limit=2700
check 'is built' nice ninja -C "$new_build" gst/libgstcudafilters.so tests/kernels tests/emulated-kernels \
  tests/elements/elements tests/fuzz/fuzz-elements
export GST_PLUGIN_PATH_1_0=$new_build/gst GST_REGISTRY_1_0=$work/new-registry
# check_cases NAME COMMAND...: passes where the command succeeds and has run a case
check_cases() {
  if within "${@:2}" >"$work/log" 2>&1 && grep -q '^ok' "$work/log"; then pass "$1"; else fail "$1" "$work/log"; fi
}
cd "$new_build" || exit
check_cases 'its kernels on the CPU' tests/kernels --filter newsharpener --seed 1
check_cases 'its kernels on the emulated device' tests/emulated-kernels --backend cuda --filter newsharpener \
  --sample 4 --max-pixels 20000 --seed 1
check_cases 'its element' tests/elements/elements --element cudanewsharpener --cycles 5 --changes 5 \
  --max-pixels 10000 --seed 1
# Nothing of the corpus but what is new.
mkdir "$work/corpus"
cp "$tree"/tests/fuzz/corpus/newsharpener-* "$work/corpus"
check_cases 'its inputs of the fuzz target' tests/fuzz/fuzz-elements "$work/corpus" 1
check 'the plugin has its element' gst-inspect-1.0 "$new_build/gst/libgstcudafilters.so" cudanewsharpener
finish
