#!/usr/bin/env bash
# pipelines/rtsp.cpp with clients that come and go: each gets frames, and the server's memory stays level.
. "$(dirname "$0")/tap.sh"

[ -x "$build/tests/rtsp" ] || {
  echo '1..0 # SKIP gstreamer-rtsp-server-1.0 is not installed'
  exit
}
has_element rtspsrc || {
  echo '1..0 # SKIP GStreamer has no rtspsrc'
  exit
}

line=$(sed -n "s,^//   \\(g++ .*\\) -o rtsp,\\1 -o '$work/rtsp',p" "$root/pipelines/rtsp.cpp")
check 'the command of its opening compiles it' bash -c "cd '$root' && $line && [ -x '$work/rtsp' ]"

name='a wrong filter is refused'
if within "$build/tests/rtsp" 0 'videotestsrc is-live=true' 'cudadenoise noise=wrong' >"$work/wrong" 2>&1; then
  fail "$name" "$work/wrong"
else
  check "$name" grep 'The pipeline cannot be made: .*noise' "$work/wrong"
fi

MALLOC_ARENA_MAX=1 "$build/tests/rtsp" 0 'videotestsrc is-live=true ! video/x-raw,width=160,height=120,framerate=30/1' \
  >"$work/server" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null' EXIT
until grep -q '^ready at' "$work/server" || [ "$SECONDS" -gt "$limit" ]; do sleep 0.1; done
url=$(sed -n 's/^ready at //p' "$work/server")

# A client that leaves after ten frames. gst-rtsp-server closes the connection of some clients that come while it
# prepares or stops the shared pipeline, so a client tries three times, as players do.
client() {
  local attempt
  for attempt in 1 2 3; do
    timeout 200 gst-launch-1.0 -q rtspsrc location="$url" latency=0 protocols=tcp ! rtph264depay \
      ! identity eos-after=10 ! fakesink && return
    echo "attempt $attempt failed"
    sleep 1
  done
  return 1
}
five_clients() {
  local i clients=() failed=0
  for i in 1 2 3 4 5; do
    client >"$work/client.$i" 2>&1 &
    clients+=($!)
  done
  for i in "${clients[@]}"; do wait "$i" || failed=1; done
  return "$failed"
}
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }

for round in 1 2 3 4; do
  name="clients $((5 * round - 4)) to $((5 * round)) get frames"
  if five_clients; then pass "$name"; else fail "$name" "$work/client.1"; fi
  until [ "$(tail -n 1 "$work/server")" = '0 clients' ] || [ "$SECONDS" -gt 2000 ]; do sleep 0.1; done
  [ "$round" != 1 ] || before=$(resident)
done
grown=$(($(resident) - before))
echo "# resident memory grew by $grown KiB between the first round and the last"
check 'memory stays level' test "$grown" -lt 8192
check 'the server still runs' kill -0 "$server"
kill -INT "$server"
if wait "$server"; then pass 'a signal ends the server'; else fail 'a signal ends the server' "$work/server"; fi
trap - EXIT
finish
