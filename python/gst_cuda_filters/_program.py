"""Holds what the programs share: PyGObject's GStreamer, failures with a text for the user, and signals."""
import contextlib
import ctypes
import signal
import sys

# GStreamer loads libunwind. Unless the compiler's library comes first, libraries that are loaded later take libunwind's
# functions of the same names, and their first C++ exception ends the program.
with contextlib.suppress(OSError):
    ctypes.CDLL("libgcc_s.so.1", ctypes.RTLD_GLOBAL)

# Until the pipeline runs, Ctrl-C ends the program at once and without a message. Python would raise an exception
# instead, which libraries lose or take for an error of their own.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def need(*packages):
    """Returns a sentence about what to install."""
    other = "" if sys.executable == "/usr/bin/python3" else f" for /usr/bin/python3 (this is {sys.executable})"
    return f"On Debian and Ubuntu: apt install {' '.join(packages)}{other}"


try:
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import GLib, Gst
except (ImportError, ValueError) as error:
    sys.exit(f"{error}. {need('python3-gi', 'gir1.2-gstreamer-1.0', 'python3-numpy')}")

try:
    gi.require_version("GLibUnix", "2.0")
    from gi.repository import GLibUnix

    on_signal = GLibUnix.signal_add
except (ImportError, ValueError, AttributeError):  # GLib before 2.80, and PyGObject before 3.52
    on_signal = GLib.unix_signal_add


class Failure(Exception):
    """Something that the user can mend; its text says how."""


def running_time(pad, buffer):
    """The buffer's running time, which all streams share; None for a buffer without a timestamp."""
    event = pad.get_sticky_event(Gst.EventType.SEGMENT, 0)
    if not event or buffer.pts == Gst.CLOCK_TIME_NONE:
        return None
    time = event.parse_segment().to_running_time(Gst.Format.TIME, buffer.pts)
    return None if time == Gst.CLOCK_TIME_NONE else time


def quoted(text):
    """Returns a text as a value in a description for Gst.parse_launch."""
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
