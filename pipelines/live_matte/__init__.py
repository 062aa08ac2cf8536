"""The parts of live-matte.py, one idea per file."""


from gi.repository import Gst


class Failure(Exception):
    """Something that the user can mend; its text says how."""


def running_time(pad, buffer):
    """When the buffer is to be shown, in the time that all streams share; None where it does not say."""
    event = pad.get_sticky_event(Gst.EventType.SEGMENT, 0)
    if not event or buffer.pts == Gst.CLOCK_TIME_NONE:
        return None
    time = event.parse_segment().to_running_time(Gst.Format.TIME, buffer.pts)
    return None if time == Gst.CLOCK_TIME_NONE else time
