#!/usr/bin/env bash
# shellcheck disable=SC2317 # `parallel` calls functions
# Checks the verdict and the exit status of the soak for a good run and for each kind of failure.
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# soaks STATUS LINE OPTION...: runs the soak until its output has such a line, or to its end for
# `end`, and expects this exit status.
soaks() {
  local status=$1 line=$2 ended=0 process
  shift 2
  "$build/tests/soak" "$@" --backend cpu --every 0.5 >log 2>&1 &
  process=$!
  if [ "$line" != end ]; then
    until grep -qsE -- "$line" log || [ "$SECONDS" -gt "$limit" ]; do sleep 0.1; done
    kill "$process"
  fi
  wait "$process" || ended=$?
  [ "$ended" = "$status" ] || {
    printf 'exit status %d, not %d\n' "$ended" "$status" >>log
    return 1
  }
}
# expect NAME PATTERN... -- STATUS SECONDS URI [OPTION...]
expect() {
  local name=$1 patterns=() pattern
  shift
  while [ "$1" != -- ]; do
    patterns+=("$1")
    shift
  done
  soaks "${@:2}" || {
    fail "$name" log
    return
  }
  for pattern in "${patterns[@]}"; do
    grep -qE -- "$pattern" log || {
      printf 'no line with: %s\n' "$pattern" >>log
      fail "$name" log
      return
    }
  done
  pass "$name"
}

held=('^ok 1 - [1-9][0-9]* frames' '^ok 2 - 0 errors' '^ok 3 - heap grew' '^ok 4 - resident memory grew'
  '^ok 5 - device memory # SKIP' '^ok 6 - CUDA contexts # SKIP' '^1\.\.6$' '^# held$')
# Lines of the report. Memory is judged after more than 9 seconds, so that each quarter has notes on a
# busy machine, too. Such a short run tells little of memory, so its bound is wide.
frames='^# [0-9.]+ [1-9]'
later='^# 0\.[2-9] [1-9]'
wide=(--max-memory 100000)
parallel expect 'a run to its end holds' "${held[@]}" \
  -- 0 end test --minutes 0.1 --max-wait 600 --warm-up 0.02 "${wide[@]}"
parallel expect 'a signal ends it, and it holds so far' '^# ended by signal 15' "${held[@]}" \
  -- 0 "$later" test --minutes 1 --max-wait 600 --warm-up 0.01 "${wide[@]}"
parallel expect 'memory that grows' '^not ok 3 - heap grew' '^not ok 4 - resident memory grew' '^# FAILED$' \
  -- 1 "$later" test --minutes 1 --max-wait 600 --warm-up 0.01 --max-memory -1000000
mkfifo "$work/pipe"
parallel expect 'frames that stop' '^not ok 1 - 0 frames, at most [1-9]' '^# FAILED$' \
  -- 1 end fd://3 --minutes 1 --max-wait 2 3<>"$work/pipe"
parallel expect 'an error' '^not ok 2 - 1 errors' '^# FAILED$' -- 1 end "file://$work/missing" --minutes 1
parallel expect 'latency' '^not ok [0-9] - p99' '^# FAILED$' -- 1 "$frames" test --minutes 1 --max-wait 600 --max-p99 0.01
parallel expect 'a run within its warm-up' '^ok 3 - memory # SKIP' '^# held$' -- 0 "$frames" test --minutes 2 --max-wait 600
clip="$work/a clip.avi"
gst-launch-1.0 -q videotestsrc num-buffers=30 ! video/x-raw,width=160,height=90 ! jpegenc ! avimux \
  ! filesink location="$clip"
script_plays() {
  if BUILD=$build CLIP=$clip within "$root/lab/soak.sh" --backend cpu --minutes 0.1 --warm-up 0.02 "${wide[@]}" >log 2>&1 &&
    grep -q '^# held$' log; then
    pass "$1"
  else
    fail "$1" log
  fi
}
parallel script_plays 'lab/soak.sh plays a file'
finish
