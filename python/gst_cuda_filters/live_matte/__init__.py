"""The program gst-cuda-live-matte, one idea per file. It takes PyGObject and NumPy."""
import signal
import sys

# Until the pipeline runs, Ctrl-C ends the program at once and without a message. Python would raise an exception
# instead, which libraries lose or take for an error of their own.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    import gi
    import numpy  # noqa: F401

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
except (ImportError, ValueError) as error:
    other = "" if sys.executable == "/usr/bin/python3" else f" for /usr/bin/python3 (this is {sys.executable})"
    sys.exit(f"{error}. On Debian and Ubuntu: apt install python3-gi gir1.2-gstreamer-1.0 python3-numpy{other}")


class Failure(Exception):
    """Something that the user can mend; its text says how."""


def running_time(pad, buffer):
    """The buffer's running time, which all streams share; None for a buffer without a timestamp."""
    event = pad.get_sticky_event(Gst.EventType.SEGMENT, 0)
    if not event or buffer.pts == Gst.CLOCK_TIME_NONE:
        return None
    time = event.parse_segment().to_running_time(Gst.Format.TIME, buffer.pts)
    return None if time == Gst.CLOCK_TIME_NONE else time
