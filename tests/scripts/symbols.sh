#!/usr/bin/env bash
# Checks that the plugin exports only its entry points, that it is compiled and linked with
# hardening, and that its own code opens no file, connection or program and reads no environment
# variable.
. "$(dirname "$0")/tap.sh"

plugin=$build/gst/libgstcudafilters.so
for tool in nm readelf; do
  command -v "$tool" >/dev/null || {
    echo "1..0 # SKIP $tool is not installed"
    exit 0
  }
done

# The linker itself adds the ends of sections.
nm -D --defined-only "$plugin" | awk '{ print $3 }' | grep -vxE '_edata|_end|__bss_start' | sort >"$work/exported"
name='exports its entry points only'
if diff - "$work/exported" >"$work/log" <<<$'gst_plugin_cudafilters_get_desc\ngst_plugin_cudafilters_register'; then
  pass "$name"
else
  fail "$name" "$work/log"
fi

readelf -dW "$plugin" >"$work/dynamic"
readelf -lW "$plugin" >"$work/segments"
# has NAME FILE PATTERN: passes if a line matches. hasnt: passes if none does.
has() { if grep -qE "$3" "$2"; then pass "$1"; else fail "$1" "$2"; fi; }
hasnt() { if grep -E "$3" "$2" >"$work/log"; then fail "$1" "$work/log"; else pass "$1"; fi; }
has 'symbols are bound when it is loaded' "$work/dynamic" 'BIND_NOW|FLAGS_1.*NOW'
has 'relocations are read-only afterwards' "$work/segments" 'GNU_RELRO'
has 'the stack is not executable' "$work/segments" 'GNU_STACK.* RW '
hasnt 'no segment is both writable and executable' "$work/segments" 'LOAD.* RWE '
hasnt 'no relocation of code' "$work/dynamic" 'TEXTREL'
nm -D -u "$plugin" >"$work/undefined"
has 'stack protector' "$work/undefined" '__stack_chk_fail'
has 'fortified calls' "$work/undefined" '_chk@GLIBC'

# Only our own code is checked. The CUDA runtime, which is linked in, does read its environment.
find "$build/gst/libgstcudafilters.so.p" "$build/libgst-cuda-filters.a" "$build/cuda" \
  \( -name '*.o' -o -name '*.a' \) -not -path '*generate*' -exec nm -u {} + 2>/dev/null >"$work/ours"
has 'its own objects were found' "$work/ours" 'gst_element_register'
hasnt 'reads no environment and opens nothing' "$work/ours" \
  ' U (secure_)?getenv(@|$)| U (f|fd)?open(64|at)?(@|$)| U (opendir|socket|connect|system|popen|fork|execv[pe]*|posix_spawn|dlopen)(@|$)| U g_(getenv|fopen|open|file_get_contents|spawn_.*)$'
finish
