#!/usr/bin/env bash
# shellcheck disable=SC1091,SC2016 # Markdown has backticks
# Tests and measures everything on a machine with a GPU, and writes the report:
#
#   lab/gpu-report.sh [OPTION...] [-DMESON_OPTION...]
#
#   --out FILE      the report (default lab/gpu-report.md)
#   --build FOLDER  the build to use, made where there is none (default build-gpu)
#   --work FOLDER   where each part leaves its results (default BUILD/gpu-report)
#   --parts LIST    of build,tests,sanitizer,bench,pipelines (default all, in this order). The report is
#                   put together from what the parts have left, so they can run one at a time
#   --clip FILE     an H.264 video for the decoder's pipelines (default: one made here, if x264enc is)
#   --baseline FILE an older build's bench-kernels, which is run before this one's, or what one wrote with
#                   --csv: the report then has both times of each row and the change
#   --commit TEXT   what is tested, where the sources are not a git checkout
#   --bench LIST    of kernels,pipeline,streams: which benchmarks the part bench runs (default all)
#   --quick         few benchmark rows and few cases under the sanitizer
#
# It runs on the first GPU, or those of CUDA_VISIBLE_DEVICES: of two, the element tests' cases of several devices
# run too. Nothing is installed. A part that fails shows as failed in the report, and the exit status is 1.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/lab/gpu-report.md build=$root/build-gpu work='' clip='' baseline='' commit=${COMMIT:-} quick='' bench=kernels,pipeline,streams
parts=build,tests,sanitizer,bench,pipelines
meson_options=()
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=--quick ;;
    -D*) meson_options+=("$1") ;;
    --out | --build | --work | --parts | --clip | --baseline | --commit | --bench)
      [ $# -gt 1 ] || die "$1 needs a value"
      declare "${1#--}=$2"
      shift
      ;;
    *) sed -n '3,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
for part in ${parts//,/ }; do
  case $part in build | tests | sanitizer | bench | pipelines) ;; *) die "no part $part" ;; esac
done
absolute() { (cd "$(dirname "$1")" 2>/dev/null && printf '%s/%s\n' "$PWD" "$(basename "$1")") || die "no folder for $1"; }
[ -z "$clip" ] || { [ -r "$clip" ] || die "cannot read $clip"; clip=$(absolute "$clip"); }
[ -z "$baseline" ] || { [ -r "$baseline" ] || die "cannot read $baseline"; baseline=$(absolute "$baseline"); }
build=$(absolute "$build") out=$(absolute "$out")
work=${work:-$build/gpu-report}
mkdir -p "$work" || die "cannot make $work"
work=$(absolute "$work")

# Each line describes an element's pipelines: ELEMENT|FORMATS|PROPERTIES|DOWNSTREAM SIZE, if that
# differs. cudaletterboxrestore starts with the letterbox in front of it, which has the backend. The
# backends of cudadenoise may differ at the threshold of a motion test, so it gets one frame at a
# time.
elements='
cudadenoise|RGBA NV12 I420|noise=4 temporal=1|
cudagaussian|RGBA NV12 I420|sigma=1.5|
cudagaussian|RGBA NV12|sigma=5 border=replicate|
cudamedian|RGBA NV12 I420|size=5|
cudamedian|RGBA NV12|size=15|
cudapixelate|RGBA NV12 I420|block-size=16|
cudaguidedmatte|RGBA|mask=chroma-key radius=16|
cudaletterbox|RGBA NV12|rule=ultralytics|width=640,height=640
cudaletterboxrestore|RGBA NV12|keep-original=true ! video/x-raw(ANY),width=320,height=320 ! cudaletterboxrestore|
'

say() { printf '\n== %s\n' "$*"; }
# --exists would also require a plugin as new as GStreamer. The registry is used because loading
# nvcodec takes the driver a second.
has_element() { gst-inspect-1.0 2>/dev/null | grep "^[^ ]*:  $1: " >/dev/null; }
# ended ok|failed|skipped TEXT: records how the part ended; the last call counts
ended() { printf '%s %s\n' "$1" "$2" >"$work/$part.status"; printf '%s: %s: %s\n' "$part" "$1" "$2"; }
# Writes lines of the part's section of the report.
line() { printf '%s\n' "$@" >>"$work/$part.md"; }

# The compiler and the sanitizer are often installed but not on the PATH.
for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  if [ -n "$folder" ] && [ -d "$folder/bin" ]; then
    PATH=$PATH:$folder/bin:$folder/compute-sanitizer
    break
  fi
done

part_build() {
  local log=$work/build.log
  if [ ! -e "$build/build.ninja" ] && ! meson setup "$build" "${meson_options[@]}" >"$log" 2>&1; then
    tail -n 20 "$log"
    ended failed 'meson setup failed'
    return
  fi
  if ! ninja -C "$build" >>"$log" 2>&1; then
    grep -E 'error|FAILED' "$log" | head -n 20
    ended failed 'the compiler failed'
    return
  fi
  ended ok ''
}

# Writes a table of Meson's tests with their single cases, and those that failed.
part_tests() {
  local log=$build/meson-logs/testlog.json summary names
  rm -f "$build"/meson-logs/testlog*
  # Tests on the emulated device need no GPU, and neither do tests of the sources, of packages, and
  # of the CPU backend alone.
  mapfile -t names < <(meson test -C "$build" --list 2>/dev/null | sed 's|.* / ||; s|.*:||' |
    grep -vE '^ninja|emulated|fuzz|smoke|format|shellcheck|memcheck|-simd$' |
    grep -vxE 'batch|churn|count|faces|install|live|new-filter|rtsp|setup|python-device.*|soak')
  # All plugins are scanned once here, not by each test that starts without a registry.
  GST_PLUGIN_PATH_1_0=$build/gst GST_REGISTRY_1_0=$build/tests/registry gst-inspect-1.0 >/dev/null 2>&1
  # All tests run at the same time. Those that load nvcodec wait for each other in the driver.
  VF_TEST_LIMIT=400 timeout 560 meson test -C "$build" --no-rebuild -t 3 "${names[@]}" >"$work/tests.log" 2>&1 || :
  "$root/tests/count.py" "GPU machine=$log" >"$work/tests.count" 2>&1
  summary=$(tail -n 1 "$work/tests.count")
  python3 - "$root/tests" "$log" >>"$work/tests.md" <<'PYTHON'
import json, re, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import count
# Kernel cases start with the backend, and element cases name memory-backend. Template cases need no
# device.
gpu = re.compile(r'cuda |\w+/(?:\w+-cuda|cuda-\w+)/(?!formats/)')
tests = {}  # parts of a test are a row: their cases, and the longest part's time
for line in open(sys.argv[2], encoding='utf-8'):
    test = json.loads(line)
    name = re.sub(r'-\d+$', '', test['name'].split(':')[-1].split(' / ')[-1])
    cases, seconds = tests.setdefault(name, ([], []))
    cases += count.cases(test)
    seconds.append(test.get('duration', 0))
print('| test | passed | failed | skipped | of the passed on the GPU | s |')
print('|---|---|---|---|---|---|')
for name, (cases, seconds) in sorted(tests.items()):
    n = lambda outcome: sum(c[0] == outcome for c in cases)
    on_gpu = sum(c[0] == 'passed' and bool(gpu.match(c[1])) for c in cases)
    print(f"| {name} | {n('passed')} | {n('failed')} | {n('skipped')} | {on_gpu or '-'} | {max(seconds):.0f} |")
PYTHON
  if [ "$(wc -l <"$work/tests.count")" -gt 1 ]; then
    line '' '```'
    head -n -1 "$work/tests.count" | cut -c 1-300 | head -n 60 >>"$work/tests.md"
    line '```'
  fi
  case $summary in
    *' 0 failed, '*) ended ok "$summary" ;;
    *) ended failed "${summary:-meson test gave no results}" ;;
  esac
}

# sanitize TOOL WHAT COMMAND...: runs one command under one tool. Writes a row of the table, which
# says ok only if the tool reported nothing, the command succeeded and, if it prints cases, some ran
# on the GPU.
sanitize() {
  local tool=$1 what=$2 code cases says outcome=FAILED log start=$SECONDS
  log=$work/sanitizer-$1-${2//[^a-z]/-}
  shift 2
  timeout 240 compute-sanitizer --tool "$tool" --error-exitcode 86 "$@" >"$log.log" 2>&1
  code=$?
  cases=$(grep -cE '^(not )?ok [0-9]+ - cuda ' "$log.log")
  says=$(sed -n 's/^=* *[A-Z]* SUMMARY: //p' "$log.log" | tail -n 1)
  case $code in
    0) [ -z "$says" ] || grep -q '^ok .* # SKIP' "$log.log" || outcome=ok ;;
    124) says="not done in 240 s; $says" ;;
    *) says="exit status $code; $says" ;;
  esac
  case $*$cases in */kernels*0) [ "$cases" != 0 ] || outcome=FAILED ;; esac
  printf '| %s | %s | %s | %s | %s | %s |\n' "$tool" "$what" "${cases/#0/-}" "${says:-no summary}" \
    $outcome $((SECONDS - start)) >"$log.result"
}

# Runs a command while others run, as many as the GPU and the host can take.
a_job() {
  local most half
  most=$(nproc) half=$(($(nproc) / 2))
  [ "$most" -le 8 ] || most=$((half > 8 ? half : 8))
  while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n; done
  "$@" &
}

part_sanitizer() {
  local tool filter filters sample=10 every element words
  [ -z "$quick" ] || sample=60
  command -v compute-sanitizer >/dev/null || { ended skipped 'no compute-sanitizer here'; return; }
  filters=$(python3 -c '
import json, sys
for test in json.load(open(sys.argv[1])):
    if "--filter" in test["cmd"]: print(test["cmd"][test["cmd"].index("--filter") + 1])
' "$build/meson-info/intro-tests.json" | grep -v opencv | sort -u) # nothing of OpenCV runs on the GPU
  [ -n "$filters" ] || { ended failed 'the build has no kernel tests'; return; }
  rm -f "$work"/sanitizer-*
  for filter in $filters; do
    for tool in memcheck racecheck initcheck synccheck; do
      every=$sample
      # racecheck is the slowest tool, and the Gaussian has several times as many cases as the
      # others.
      [ $tool != racecheck ] || every=$((5 * sample))
      [ "$tool$filter" != racecheckgaussian ] || every=$((10 * sample))
      a_job sanitize $tool "$filter" "$build/tests/kernels" --backend cuda --filter "$filter" \
        --sample "$every" --max-pixels 50000 --seed 1
    done
  done
  while read -r element; do
    read -ra words <<<"$element"
    [ "$element" != cudaletterboxrestore ] || read -ra words <<<"cudaletterbox keep-original=true ! $element"
    ! has_element cudaupload || ! GST_PLUGIN_PATH=$build/gst has_element "$element" ||
      GST_PLUGIN_PATH=$build/gst a_job sanitize memcheck "$element in a pipeline" gst-launch-1.0 -q \
        videotestsrc num-buffers=3 ! video/x-raw,format=RGBA,width=322,height=182 ! cudaupload \
        ! "$cuda" ! "${words[@]}" ! "$cuda" ! cudadownload ! video/x-raw ! fakesink
  done < <(awk -F '|' 'NF { print $1 }' <<<"$elements" | sort -u)
  wait
  printf '%s\n' '| tool | over | cases | says | outcome | s |' '|---|---|---|---|---|---|' >>"$work/sanitizer.md"
  cat "$work"/sanitizer-*.result >>"$work/sanitizer.md"
  if grep -q FAILED "$work"/sanitizer-*.result; then
    grep -h FAILED "$work"/sanitizer-*.result
    grep -hE '^=========' "$work"/sanitizer-*.log | grep -vE 'SUMMARY: 0|COMPUTE-SANITIZER' | cut -c 1-160 | head -n 40
    ended failed "$(grep -l FAILED "$work"/sanitizer-*.result | wc -l) of $(cat "$work"/sanitizer-*.result | wc -l) runs"
  else
    ended ok "$(cat "$work"/sanitizer-*.result | wc -l) runs without an error or a hazard"
  fi
}

# The benchmarks run one after the other and alone, because they measure time.
part_bench() {
  local name code before ran=0 slower='' bad=() only=()
  if [ -n "$baseline" ] && [ -x "$baseline" ]; then
    before=$work/bench-before.csv
    # Older builds do not know --backend and exit with 2.
    for name in '--backend cuda' ''; do
      # shellcheck disable=SC2086 # none or some words
      timeout 400 "$baseline" $quick $name --csv "$before" >"$work/bench-before.txt" 2>&1
      code=$?
      [ $code = 2 ] || break
    done
    [ $code = 0 ] || bad+=("the baseline: exit status $code")
  else
    before=$baseline
  fi
  for name in ${bench//,/ }; do
    rm -f "$work/bench-$name".*
    if [ ! -x "$build/bench/bench-$name" ]; then
      bad+=("bench-$name is not built")
      continue
    fi
    only=()
    [ -z "$quick" ] || only=("$quick")
    case $name in
      kernels) only+=(--backend cuda) ;;
      streams)
        # Decoders feed the streams of the given clip.
        only=(--streams '32,128' --chain batch)
        [ -z "$clip" ] || only+=(--clip "$clip")
        ;;
    esac
    GST_PLUGIN_PATH=$build/gst timeout 400 "$build/bench/bench-$name" "${only[@]}" \
      --csv "$work/bench-$name.csv" >"$work/bench-$name.txt" 2>&1
    code=$?
    line '' "### bench-$name" '' '```'
    cat "$work/bench-$name.txt" >>"$work/bench.md"
    line '```'
    cat "$work/bench-$name.txt"
    case $code in
      0) ran=$((ran + 1)) ;;
      77) ;; # it says why it has nothing to do here
      *) bad+=("bench-$name: exit status $code") ;;
    esac
  done
  if [ -n "$before" ] && [ -s "$work/bench-kernels.csv" ]; then
    line '' '### Before and after' ''
    # The reader judges what is slower, because times differ from run to run.
    "$root/bench/compare.py" "$before" "$work/bench-kernels.csv" >"$work/bench-change.md" 2>&1
    cat "$work/bench-change.md" >>"$work/bench.md"
    slower="; against the baseline: $(tail -n 1 "$work/bench-change.md")"
  fi
  if [ ${#bad[@]} = 0 ] && [ $ran != 0 ] && [ -s "$work/bench-kernels.csv" ]; then
    ended ok "$ran programs, every row checked$slower"
  elif [ ${#bad[@]} = 0 ]; then
    ended skipped 'nothing ran on a GPU'
  else
    ended failed "$(IFS=';' && printf '%s' "${bad[*]}")"
  fi
}

cuda='video/x-raw(memory:CUDAMemory)'
frames=12
# Shows moving fine rings, in all colours if the format has colours.
test_source() {
  local pattern=zone-plate
  [ "$1" != RGBA ] || pattern=chroma-zone-plate
  printf 'videotestsrc num-buffers=%s pattern=%s kx2=12 ky2=12 kt=2 ! video/x-raw,format=%s,width=1280,height=720' \
    "$frames" $pattern "$1"
}
h264=video/x-h264,stream-format=byte-stream

# The functions below work in $frames_in, a separate folder, so that pipelines can run at the same
# time.

# launch NAME LINE: runs a launch line; fails unless it ends normally
launch() {
  local words
  read -ra words <<<"$2"
  (cd "$frames_in" && timeout 120 gst-launch-1.0 -q "${words[@]}") >"$frames_in/$1.log" 2>&1 &&
    ! grep -q '^ERROR' "$frames_in/$1.log"
}
why() { grep -hm 1 -E 'ERROR|WARNING|erroneous' "$frames_in/$1.log" | cut -c 1-200 | tr '|' '/'; }
bytes_of() { stat -c %s "$frames_in/$1.raw"; }

# with_backend LINE BACKEND: prints the line with that backend for its first element
with_backend() { printf '%s backend=%s%s' "${1%% !*}" "$2" "${1#"${1%% !*}"}"; }

# differing A B: writes how the frames of two runs differ to A-B.differs, and prints the start
differing() {
  local a b
  a=$(bytes_of "$1") b=$(bytes_of "$2")
  if [ "$a" != "$b" ]; then
    printf '%s bytes of %s frames and %s bytes\n' "$a" "$frames" "$b"
  else
    # cmp -l prints one line per differing byte: offset and both values in octal.
    cmp -l "$frames_in"/{"$1","$2"}.raw | awk -v size=$((a / frames)) '
      function value(o) { return int(o / 100) * 64 + int(o % 100 / 10) * 8 + o % 10 }
      { f = int(($1 - 1) / size); d = value($2) - value($3); if (d < 0) d = -d
        if (!(f in n)) { order[k++] = f; first[f] = ($1 - 1) % size }
        n[f]++; last[f] = ($1 - 1) % size; if (d > most[f]) most[f] = d }
      END { for (i = 0; i < k; i++) { f = order[i]
        printf "frame %d: %d of %d bytes, from %d to %d, by up to %d\n", f, n[f], size, first[f], last[f], most[f] } }'
  fi >"$frames_in/$1-$2.differs"
  head -n 2 "$frames_in/$1-$2.differs" | paste -sd ';' | sed 's/;/; /g'
}

# outcome_of CUDA SYSTEM ELEMENT AFTER-CUDA AFTER: prints the outcome for compare, below
outcome_of() {
  local differ most cuda system cpu mapped
  # The caps in front and behind are fixed, because an element that takes both memories would
  # choose.
  cuda="$1 ! $3$4 ! cudadownload ! video/x-raw ! filesink location=cuda.raw"
  system="$2 ! $(with_backend "$3" cuda)$5 ! filesink location=system.raw"
  cpu="$2 ! $(with_backend "$3" cpu)$5 ! filesink location=cpu.raw"
  mapped="$1 ! $(with_backend "$3" cpu)$4 ! cudadownload ! video/x-raw ! filesink location=mapped.raw"
  # All lines run in one process, because each process takes seconds to load nvcodec. If that fails,
  # each line runs alone to show which one failed.
  if launch all "$cuda $system $cpu $mapped"; then
    :
  elif ! launch cuda "$cuda"; then
    printf 'FAILED: %s\n' "$(why cuda)"
    return
  elif ! launch system "$system"; then
    printf 'FAILED in system memory: %s\n' "$(why system)"
    return
  elif ! launch cpu "$cpu"; then
    printf 'FAILED on the CPU: %s\n' "$(why cpu)"
    return
  elif ! launch mapped "$mapped"; then
    printf 'FAILED on the CPU in CUDA memory: %s\n' "$(why mapped)"
    return
  else
    printf 'FAILED: only together with others: %s\n' "$(why all)"
    return
  fi
  if [ "$(bytes_of cuda)" = 0 ]; then
    printf 'FAILED: no frames\n'
  elif ! cmp -s "$frames_in"/{cuda,system}.raw; then
    printf 'FAILED: not the frames that system memory gives: %s\n' "$(differing cuda system)"
  elif [ "$(bytes_of cuda)" != "$(bytes_of cpu)" ]; then
    printf 'FAILED: not as many bytes as the CPU gives: %s\n' "$(differing cuda cpu)"
  else
    read -r differ most < <(cmp -l "$frames_in"/{cuda,cpu}.raw | awk '
      function value(o) { return int(o / 100) * 64 + int(o % 100 / 10) * 8 + o % 10 }
      { d = value($2) - value($3); if (d < 0) d = -d; if (d > most) most = d; n++ }
      END { print n + 0, most + 0 }')
    [ "$most" -le 1 ] && printf 'ok: ' || printf 'FAILED (%s): ' "$(differing cuda cpu)"
    printf 'exact against system memory; the CPU within %s, ' "$most"
    awk -v n="$differ" -v all="$(bytes_of cuda)" 'BEGIN { printf "%.3f %% equal", 100 - 100 * n / all }'
    if ! cmp -s "$frames_in"/{mapped,cpu}.raw; then
      printf '; FAILED: on the CPU, CUDA memory gives other frames than system memory: %s' "$(differing mapped cpu)"
    fi
    printf '\n'
  fi
}

# compare NUMBER CUDA SYSTEM ELEMENT SIZE: runs one element on frames in CUDA memory, which the
# launch line CUDA makes; on the same frames in system memory, from the line SYSTEM, through CUDA;
# and on the CPU, from both memories. Writes a row of the table.
compare() {
  local frames_in=$work/frames/$1 after='' after_cuda outcome
  mkdir -p "$frames_in"
  [ -z "$5" ] || after=" ! video/x-raw,$5"
  after_cuda=" ! $cuda${5:+,$5}"
  outcome=$(outcome_of "$2" "$3" "$4" "$after_cuda" "$after")
  printf '| `%s` | %s |\n' "${2//..\//} ! $4$after_cuda ! cudadownload" "$outcome" >"$work/pipeline-$1.result"
  # The differences help to find out what failed.
  grep -rs . "$frames_in" --include '*.differs' -h >"$work/pipeline-$1.differs" || rm -f "$work/pipeline-$1.differs"
  rm -f "$frames_in"/*.raw
}

part_pipelines() {
  local element formats properties size format decode='' decoded number=100 frames_in=$work/frames bad
  rm -rf "$work/frames" "$work"/pipeline-*.{result,differs}
  mkdir -p "$work/frames"
  export GST_PLUGIN_PATH_1_0=$build/gst${GST_PLUGIN_PATH:+:$GST_PLUGIN_PATH}
  export GST_REGISTRY_1_0=$work/registry
  for element in cudaupload cudadownload; do
    has_element $element || { ended skipped "no $element here"; return; }
  done

  # The decoder's pipelines use the given clip, or one made here.
  if ! has_element nvh264dec; then
    printf 'no nvh264dec: no decoder pipelines\n'
  elif [ -n "$clip" ]; then
    cp "$clip" "$work/frames/clip"
    decode="filesrc location=../clip ! parsebin ! nvh264dec"
  elif has_element x264enc && launch clip "$(test_source I420) ! x264enc ! $h264 ! filesink location=clip.h264"; then
    decode="filesrc location=../clip.h264 ! h264parse ! nvh264dec"
  fi

  while IFS='|' read -r element formats properties size; do
    if [ -z "$element" ] || ! has_element "$element"; then continue; fi
    for format in $formats; do
      a_job compare $((number += 1)) "$(test_source "$format") ! cudaupload ! $cuda" \
        "$(test_source "$format")" "${element%restore} $properties" "$size"
    done
    if [ -n "$decode" ] && [[ $formats = *NV12* ]]; then
      decoded="$decode ! $cuda ! identity eos-after=$frames"
      a_job compare $((number += 1)) "$decoded" "$decoded ! cudadownload ! video/x-raw" \
        "${element%restore} $properties" "$size"
    fi
  done <<<"$elements"
  wait
  if [ $number = 100 ]; then
    ended failed 'no element of the plugin was found'
    return
  fi
  while read -r element; do
    [[ $elements = *"
$element|"* ]] || printf '| `%s` | FAILED: the table of elements has no line for it |\n' "$element" \
      >"$work/pipeline-no-$element.result"
  done < <(sed -n 's/.*GST_ELEMENT_REGISTER(\([a-z0-9]*\),.*/\1/p' "$root/gst/plugin.cpp")
  printf '%s\n' '| pipeline | outcome |' '|---|---|' >>"$work/pipelines.md"
  cat "$work"/pipeline-*.result | tee -a "$work/pipelines.md"
  [ -n "$decode" ] || line '' 'Without nvh264dec, or without a clip: no decoder pipelines.'
  bad=$(grep -l FAILED "$work"/pipeline-*.result | wc -l)
  if [ "$bad" = 0 ]; then
    ended ok "$((number - 100)) pipelines"
  else
    ended failed "$bad of $((number - 100)) pipelines"
  fi
}

describe_machine() {
  local gpu cuda_version
  gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)
  gpu=${gpu:-none found, none}
  cuda_version=$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  [ -n "$commit" ] || commit=$(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null)
  printf '%s\n' '| | |' '|---|---|' \
    "| GPU | ${gpu%,*} |" \
    "| driver | ${gpu#*, } |" \
    "| CUDA toolkit | ${cuda_version:-none} |" \
    "| GStreamer | $(gst-launch-1.0 --version 2>/dev/null | sed -n 's/^GStreamer //p') |" \
    "| system | $(. /etc/os-release 2>/dev/null && printf '%s' "${PRETTY_NAME:-}"), $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1) |" \
    "| compiler | $(c++ --version 2>/dev/null | head -n 1) |" \
    "| commit | ${commit:-unknown} |" \
    "| date | $(date -u +%F) |" >"$work/machine.md"
}

write_report() {
  local part title state text failed=0
  {
    printf '# GPU report\n\nWritten by `lab/gpu-report.sh`, which ran what is below. [performance.md](performance.md) says how times are\nmeasured and what the columns mean.\n\n'
    cat "$work/machine.md"
    printf '\n| part | outcome | | s |\n|---|---|---|---|\n'
    for part in build tests sanitizer bench pipelines; do
      state='not run' text=''
      [ ! -e "$work/$part.status" ] || read -r state text <"$work/$part.status"
      case $state in failed) state='**failed**' failed=1 ;; esac
      printf '| %s | %s | %s | %s |\n' "$part" "$state" "$text" "$(cat "$work/$part.seconds" 2>/dev/null)"
    done
    for part in tests sanitizer pipelines bench; do
      [ -s "$work/$part.md" ] || continue
      case $part in
        tests) title='Tests' ;;
        sanitizer) title="compute-sanitizer, over a sample of the kernel tests' cases" ;;
        pipelines) title='Pipelines' ;;
        bench) title='Benchmarks' ;;
      esac
      printf '\n## %s\n\n' "$title"
      [ $part != pipelines ] ||
        printf 'Each was run four times: as shown, on the same frames in system memory with `backend=cuda`, and with\n`backend=cpu` in both memories; the frames were compared byte by byte.\n\n'
      # The report must not show a machine's folder names.
      sed -e "s|$work/||g" -e "s|$build/||g" -e "s|$root/||g" "$work/$part.md"
    done
  } >"$out"
  printf 'wrote %s\n' "$out"
  return $failed
}

# Each process that loads nvcodec takes seconds per visible GPU, one process at a time.
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
describe_machine
for part in build tests sanitizer bench pipelines; do
  case ,$parts, in *",$part,"*) ;; *) continue ;; esac
  say "$part"
  rm -f "$work/$part.status" "$work/$part.md" "$work/$part.seconds"
  start=$SECONDS
  ended failed 'it did not come to its end' >/dev/null
  # The report is written before and after each part, in case the machine goes away.
  write_report >/dev/null
  if [ $part != build ] && [ ! -e "$build/build.ninja" ]; then
    ended failed 'there is no build'
  else
    "part_$part"
  fi
  printf '%s\n' $((SECONDS - start)) >"$work/$part.seconds"
  write_report >/dev/null
done
say report
write_report
