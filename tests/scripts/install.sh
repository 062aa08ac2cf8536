#!/usr/bin/env bash
# What "meson install" puts into place loads on its own, on a machine with or without a driver.
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

# A program in C finds the header by pkg-config.
pc=$(find "$work/root" -name gst-cuda-filters.pc)
printf '%s\n' '#include <gst/gstcudaletterboxmeta.h>' \
  'int main(void) { GstCudaLetterboxGeometry g; return gst_buffer_get_cuda_letterbox_geometry(0, &g); }' >"$work/use.c"
# shellcheck disable=SC2016 # the words are the inner shell's
check 'the header is found by pkg-config, and is C' env PKG_CONFIG_PATH="${pc%/*}" bash -c '
  flags=$(pkg-config --cflags --libs gst-cuda-filters) &&
    include=$(pkg-config --variable=includedir gst-cuda-filters)/gst-cuda-filters &&
    case " $flags " in *" -I$include "*) ;; *) exit 1 ;; esac &&
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -I"$1$include" -o "$1.use" "$2" $flags' \
  bash "$work/root" "$work/use.c"

# The build's own copy must not stand in for it.
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

# The build's own copy may have a way to libraries in folders that the loader does not search.
name='no folder of this machine to load libraries from'
if readelf -dW "$plugin" | grep -E 'RPATH|RUNPATH' >"$work/log"; then fail "$name" "$work/log"; else pass "$name"; fi

# CUDA's runtime is inside and the driver is opened at run time: neither may be needed to load.
name='needs neither the CUDA runtime nor the driver to load'
if ldd "$plugin" >"$work/log" 2>&1 && ! grep -qE 'libcuda(rt)?\.so|not found' "$work/log"; then
  pass "$name"
else
  fail "$name" "$work/log"
fi

# With the filter library for other programs: its headers are all there.
check 'meson setup -Dlibrary=installed' meson setup "$work/library" "$root" -Dlibrary=installed -Dcuda=disabled \
  -Dplugin=disabled -Dtests=disabled -Dbench=disabled
meson introspect --installed "$work/library" | grep -oE '"[^"]*/include/gst-cuda-filters/[^"]*"' | tr -d '"' |
  sed 's|.*/include/gst-cuda-filters/||' | sort >"$work/installed"
name='what an installed header includes is installed'
if (cd "$root" && [ -s "$work/installed" ] && xargs sed -n 's/^#include "\(.*\)"/\1/p' <"$work/installed") |
  sort -u | comm -23 - "$work/installed" >"$work/log" && [ ! -s "$work/log" ]; then
  pass "$name"
else
  fail "$name" "$work/log"
fi
finish
