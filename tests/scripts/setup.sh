#!/usr/bin/env bash
# shellcheck disable=SC2317 # `parallel` calls functions
# Checks which architectures scripts/setup.sh compiles CUDA code for, however it is called. Simple
# programs replace Meson, Ninja, nvcc and nvidia-smi, so that nothing is compiled.
. "$(dirname "$0")/tap.sh"

mkdir "$work/bin"
export PATH=$work/bin:$PATH
program() { cat >"$work/bin/$1" && chmod +x "$work/bin/$1"; }
# Python starts a hundred times, so it is the interpreter itself, not a script that looks for one.
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/bin/python3"
program nvcc </dev/null
program ninja </dev/null
program nvidia-smi <<'EOF'
#!/bin/sh
echo "$STUB_GPU"
EOF
# Stores the options of a folder in its file `options`.
program meson <<'EOF'
#!/usr/bin/env -S python3 -IS
import json, os, sys
command, words = sys.argv[1], [a for a in sys.argv[2:] if a != "-D"]
given = dict(a.removeprefix("-D").split("=", 1) for a in words if "=" in a)
folder = next((a for a in words if a.startswith("/") and "=" not in a), "")
path = os.path.join(folder, "options")
known = json.load(open(path)) if os.path.exists(path) else {"cuda": "auto", "cuda-arch": "auto", "werror": "false"}
if command == "--version":
    print("1.0.1")
elif command == "introspect":
    print(json.dumps([{"name": name, "value": value} for name, value in known.items()]))
else:
    json.dump(known | given, open(path, "w"))
    open(os.path.join(folder, "build.ninja"), "w").close()
EOF

# Prints the value of an option of the folder.
value() { python3 -c 'import json, sys; print(json.load(open("folder/options"))[sys.argv[1]])' "$1"; }

# way NAME GPU ARCH SAID BEFORE... -- OPTION...
#
# Builds a folder with OPTIONs. BEFORE says how the folder was left: `fresh` (it does not exist),
# `hand OPTION...` (somebody configured it), `compiled` (and compiled CUDA code there) or `script
# OPTION...` (the scripts built it). Its cuda-arch must then be ARCH. SAID tells whether the script
# must say that the code is for one architecture. GPU is the output of nvidia-smi.
way() {
  local name=$1 gpu=$2 arch=$3 said=$4 before=()
  shift 4
  while [ "$1" != -- ]; do
    before+=("$1")
    shift
  done
  shift
  export STUB_GPU=$gpu
  case ${before[0]} in
    hand | compiled)
      mkdir -p folder/cuda
      meson setup "$PWD/folder" "$root" "${before[@]:1}"
      [ "${before[0]}" = hand ] || touch folder/cuda/libcudakernels.a
      ;;
    script) STUB_GPU='No devices found.' build "$PWD/folder" "${before[@]:1}" >/dev/null ;;
  esac
  (build "$PWD/folder" "$@") >log 2>&1 || echo "build ended with $?" >>log
  {
    echo "cuda-arch is $(value cuda-arch) and must be $arch"
    echo "options: $(cat folder/options)"
  } >>log
  if [ "$(value cuda-arch)" != "$arch" ] || { grep -q 'compute capability 9.0 alone' log && [ "$said" = no ]; } ||
    { ! grep -q 'compute capability 9.0 alone' log && [ "$said" = yes ]; } ||
    { [[ $* == *werror=true* ]] && [ "$(value werror)" != true ]; }; then
    fail "$name" log
  else
    pass "$name"
  fi
}

none='No devices found.'
one='GPU 0: NVIDIA H200 (UUID: GPU-0)'
parallel way 'no folder yet' "$none" 90 yes fresh --
parallel way 'no folder yet, -Dwerror=true' "$none" 90 yes fresh -- -Dwerror=true
parallel way 'no folder yet, -Dcuda=enabled' "$none" 90 yes fresh -- -Dcuda=enabled
parallel way 'no folder yet, -Dcuda=disabled' "$none" auto no fresh -- -Dcuda=disabled
parallel way 'no folder yet, -Dcuda-arch=75' "$none" 75 no fresh -- -Dcuda-arch=75
parallel way 'no folder yet, -D cuda-arch=75' "$none" 75 no fresh -- -D cuda-arch=75
parallel way 'no folder yet, -Dcuda-arch=all' "$none" all no fresh -- -Dcuda-arch=all
parallel way 'no folder yet, a GPU' "$one" auto no fresh --
parallel way "the scripts' folder" "$none" 90 yes script --
parallel way "the scripts' folder, other options" "$none" 90 yes script -Dcuda=disabled -- -Dwerror=true
parallel way "the scripts' folder, of -Dcuda-arch=all" "$none" all no script -Dcuda-arch=all --
parallel way "the scripts' folder, a GPU that came since" "$one" auto no script --
parallel way 'a folder by hand' "$none" 90 yes hand --
parallel way 'a folder by hand, -Dwerror=true' "$none" 90 yes hand -- -Dwerror=true
parallel way 'a folder by hand, a GPU' "$one" auto no hand --
parallel way 'a folder by hand, without CUDA' "$none" auto no hand -Dcuda=disabled --
parallel way 'a folder by hand, of -Dcuda-arch=75' "$none" 75 no hand -Dcuda-arch=75 --
parallel way 'a folder by hand, compiled for all' "$none" auto no compiled --
finish
