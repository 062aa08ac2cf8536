#!/usr/bin/env bash
# shellcheck disable=SC2317 # `try` calls functions
# Checks that the files of "meson install" work on their own, on a machine with or without a driver.
. "$(dirname "$0")/tap.sh"

check 'meson install' env DESTDIR="$work/root" meson install -C "$build" --no-rebuild --quiet
plugin=$(find "$work/root" -name libgstcudafilters.so)
plugins=$(pkg-config --variable=pluginsdir gstreamer-1.0)
if [ "$plugin" = "$work/root$(realpath -m "$plugins")/libgstcudafilters.so" ]; then
  pass "the plugin goes to GStreamer's folder $plugins"
else
  echo "$plugin" >"$work/log"
  fail "the plugin goes to GStreamer's folder $plugins" "$work/log"
fi

# Programs find the installed files by pkg-config. In a staging folder the pkg-config file names
# other paths.
printf '%s\n' '#include <gst/gstcudaletterboxmeta.h>' \
  'int main(void) {' \
  '  GstCudaLetterboxGeometry geometry;' \
  '  gst_init(NULL, NULL);' \
  '  return gst_buffer_get_cuda_letterbox_geometry(gst_buffer_new(), &geometry);' \
  '}' >"$work/header.c"
# try NAME FUNCTION...: runs a case without a time limit other than Meson's
try() {
  local name=$1
  shift
  if "$@" >"$work/log" 2>&1; then pass "$name"; else fail "$name" "$work/log"; fi
}
# compile COMPILER STANDARD SOURCE STAGING MODULE...
compile() {
  local compiler=$1 standard=$2 source=$3 staging=$4 flags folder
  shift 4
  folder=$(pkg-config --variable=includedir gst-cuda-filters)/gst-cuda-filters
  read -ra flags < <(pkg-config --cflags --libs "$@")
  case " ${flags[*]} " in
    *" -I$folder "*) ;;
    *) echo "$folder is not among ${flags[*]}" && return 1 ;;
  esac
  "$compiler" "-std=$standard" -Wall -Wextra -Werror "-I$staging$folder" -o "$work/program" "$source" "${flags[@]}" &&
    "$work/program"
}
# header_is_found KIND PKG_CONFIG_PATH [STAGING]
header_is_found() {
  PKG_CONFIG_PATH=$2 try "$1: a program in C includes gstcudaletterboxmeta.h" \
    compile "${CC:-cc}" c99 "$work/header.c" "${3:-}" gst-cuda-filters gstreamer-1.0
}
pc=$(find "$work/root" -name gst-cuda-filters.pc)
header_is_found -Dlibrary=internal "${pc%/*}" "$work/root"

# The build's own copy must not be found instead.
export GST_PLUGIN_PATH_1_0=${plugin%/*}
expected=$(elements)
[ -n "$expected" ] || fail 'the plugin has elements'
for element in $expected; do
  gst-inspect-1.0 "$element" >"$work/log" 2>&1
  name="$element is found where it was installed"
  if grep -qF "$plugin" "$work/log"; then pass "$name"; else fail "$name" "$work/log"; fi
done
if gst-inspect-1.0 -b 2>&1 | tee "$work/log" | grep -q cudafilters; then
  fail 'the plugin is not on the blacklist' "$work/log"
else
  pass 'the plugin is not on the blacklist'
fi

# The build's own copy may search for libraries in folders that the loader does not search.
name='no folder of this machine to load libraries from'
if readelf -dW "$plugin" | grep -E 'RPATH|RUNPATH' >"$work/log"; then fail "$name" "$work/log"; else pass "$name"; fi

# CUDA's runtime is linked in and the driver is opened at run time, so neither may be needed to load
# the plugin.
name='needs neither the CUDA runtime nor the driver to load'
if ldd "$plugin" >"$work/log" 2>&1 && ! grep -qE 'libcuda(rt)?\.so|not found' "$work/log"; then
  pass "$name"
else
  fail "$name" "$work/log"
fi

# Tests the other values of -Dlibrary, which packages use, in prefixes of their own. They are built
# without optimisation and for one instruction set, which takes seconds. Their folder is kept, so
# that the next run compiles only changed files.
folder=$(cd "$build" && pwd)/tests/installed
mkdir -p "$folder"
rm -rf "$folder"/prefix-*
# install_kind NAME OPTION...
install_kind() {
  local name=$1 again=()
  shift
  # A configured folder prints its summary again only with --reconfigure.
  [ ! -e "$folder/$name/build.ninja" ] || again=(--reconfigure)
  meson setup "${again[@]}" "$folder/$name" "$root" "--prefix=$folder/prefix-$name" -Dcuda=disabled -Dtests=disabled \
    -Doptimization=0 -Dcpp_args=-DHWY_COMPILE_ONLY_STATIC "$@" &&
    nice ninja -C "$folder/$name" ${JOBS:+-j "$JOBS"} && meson install -C "$folder/$name" --no-rebuild
}
try -Dlibrary=installed install_kind library -Dlibrary=installed -Dplugin=disabled
pc=$(find "$folder/prefix-library" -name gst-cuda-filters.pc)
header_is_found -Dlibrary=installed "${pc%/*}"
PKG_CONFIG_PATH=${pc%/*} try '-Dlibrary=installed: a program in C++ filters' \
  compile "${CXX:-c++}" c++17 "$root/packaging/user.cpp" '' gst-cuda-filters

# The program in docs/embedding.md gets three frames with a dot in the middle, which spreads: with
# sigma=2, a 25th stays.
awk '/^[`]+cpp$/ { inside = 1; next } /^[`]+$/ { inside = 0 } inside' "$root/docs/embedding.md" >"$work/blur.cpp"
blurs() {
  local flags result
  read -ra flags < <(pkg-config --cflags --libs gst-cuda-filters)
  "${CXX:-c++}" -std=c++17 -Wall -Wextra -Werror -o "$work/blur" "$work/blur.cpp" "${flags[@]}" || return
  python3 -c 'import sys; f = bytearray(64 * 48); f[24 * 64 + 32] = 250; sys.stdout.buffer.write(bytes(f) * 3)' |
    "$work/blur" 64 48 2 >"$work/blurred" || return
  result=$(python3 -c 'import sys; f = sys.stdin.buffer.read(); print(len(f), f[24 * 64 + 32], f[0])' <"$work/blurred")
  echo "bytes, middle and corner: $result"
  [ "$result" = '9216 10 0' ] && ! "$work/blur" 64 48 90 </dev/null 2>"$work/refused" && grep 'sigma is 90' "$work/refused"
}
PKG_CONFIG_PATH=${pc%/*} try '-Dlibrary=installed: the program of docs/embedding.md filters' blurs

# The plugin is linked to that library.
PKG_CONFIG_PATH=${pc%/*} try -Dlibrary=system install_kind plugin -Dlibrary=system
path=$(sed -n 's/.*export GST_PLUGIN_PATH=\([^ ]*\)$/\1/p' "$work/log" | head -n 1)
header_is_found -Dlibrary=system "$folder/prefix-plugin/lib/pkgconfig:${pc%/*}"
plugin=$(find "$folder/prefix-plugin" -path '*/gstreamer-1.0/libgstcudafilters.so')
name='in a prefix, the plugin is where Meson says that GStreamer must be told to search'
if [ -n "$plugin" ] && [ "$plugin" = "$path/libgstcudafilters.so" ]; then pass "$name"; else fail "$name"; fi
unset GST_PLUGIN_PATH_1_0
name='and GStreamer finds it there'
GST_PLUGIN_PATH=$path GST_REGISTRY_1_0=$work/prefix.bin gst-inspect-1.0 cudafilters >"$work/log" 2>&1
if grep -qF "$path/libgstcudafilters.so" "$work/log"; then pass "$name"; else fail "$name" "$work/log"; fi

# The benchmarks contain the reference of the tests.
name='-Dtests=disabled: the reference of the tests is not compiled'
ninja -C "$folder/library" -t commands all >"$work/log"
if [ -s "$work/log" ] && ! grep reference "$work/log"; then pass "$name"; else fail "$name" "$work/log"; fi
meson setup "$work/bench" "$root" -Dcuda=disabled -Dplugin=disabled -Dtests=disabled -Dbench=enabled >"$work/log" 2>&1
name='-Dtests=disabled -Dbench=enabled: the benchmarks are built'
if meson introspect --targets "$work/bench" 2>>"$work/log" | grep -q '"bench-kernels"'; then
  pass "$name"
else
  fail "$name" "$work/log"
fi

# All headers of the library must be installed.
meson introspect --installed "$folder/library" | grep -oE '"[^"]*/include/gst-cuda-filters/[^"]*"' | tr -d '"' |
  sed 's|.*/include/gst-cuda-filters/||' | sort >"$work/installed"
name='what an installed header includes is installed'
mapfile -t headers <"$work/installed"
for header in "${headers[@]}"; do
  sed -n 's/^#include "\(.*\)"/\1/p' "$root/$header" | while read -r include; do
    grep -qxF -e "$include" -e "$(dirname "$header")/$include" "$work/installed" || echo "$header includes $include"
  done
done >"$work/log"
if [ -s "$work/installed" ] && [ ! -s "$work/log" ]; then
  pass "$name"
else
  fail "$name" "$work/log"
fi
finish
