"""Shows a picture or a video behind the subject, with the right frame for each of the subject's
frames.

A separate pipeline decodes the file, cuts it to the frame's aspect and scales it. The compositor
gets one of its frames for each of the subject's frames, with the same time. So both inputs end
together, and neither waits for the other.
"""
import time
import traceback

from gi.repository import Gst

from . import Failure, running_time
from .source import reason, undecoded

# The first frame may take this many seconds, because large pictures are slow to decode.
PATIENCE = 60
# So many frames can be between cudaguidedmatte and the compositor.
FRAMES_BEFORE = 8


def lasts(frame):
    """Returns how long a frame is shown."""
    return frame.duration if 0 < frame.duration < Gst.CLOCK_TIME_NONE else Gst.SECOND // 30


class Film:
    """Decodes a picture or a video again and again."""

    def __init__(self, name, uri, wait):
        """With `wait`, each frame is decoded in time; without it, a slow file's frames are shown for longer."""
        self.name, self.uri, self.wait = name, uri, wait
        self.line = self.pipeline = self.sink = None
        self.undecoded = []
        self.now = self.next = None  # the current frame, and the one after it
        self.fresh = False  # the current frame is the first one, and was not shown yet
        self.begin = 0  # time when this round of the file began; None before its first frame
        self.frames = 0  # number of frames in this round
        self.last = 0  # time of the newest frame in this round
        self.seeks = True  # whether seeking to the beginning works

    def open(self, caps):
        frame = caps.get_structure(0)
        width, height = frame.get_value("width"), frame.get_value("height")
        self.line = (
            f'uridecodebin uri="{self.uri}" caps="video/x-raw" ! videoconvert ! videoflip video-direction=auto '
            f"! aspectratiocrop aspect-ratio={width}/{height} ! videoscale ! videoconvert "
            f"! {caps.to_string()} ! appsink name=sink sync=false max-buffers=4")
        self.now = self.next = None
        self.begin = self.frames = 0
        self.launch()

    def launch(self):
        self.stop()
        self.pipeline = Gst.parse_launch(self.line)
        self.sink = self.pipeline.get_by_name("sink")
        self.pipeline.set_state(Gst.State.PLAYING)

    def pull(self, patient):
        """Returns the file's next frame and its time if it is decoded. After the last frame comes
        the first one again."""
        end = time.monotonic() + (PATIENCE if patient else 0)
        while True:
            sample = self.sink.emit("try-pull-sample", Gst.SECOND // 10 if patient else 0)
            if sample:
                return self.timed(sample.get_buffer())
            self.check()
            if self.sink.props.eos or time.monotonic() >= end:
                break
        if self.sink.props.eos:
            if not self.frames:
                if not self.seeks or self.begin is not None:
                    raise Failure(f"the background {self.name} has no frames")
                self.seeks = False  # the previous seek failed
            if self.frames != 1:
                self.again()
        return None

    def again(self):
        self.begin, self.frames = None, 0
        if not self.seeks or not self.pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, 0):
            self.launch()

    def timed(self, buffer):
        at = buffer.pts
        if self.frames and (at == Gst.CLOCK_TIME_NONE or at <= self.last):
            # Some files have no times, or the same one for all frames.
            at = self.last + lasts(buffer)
        elif at == Gst.CLOCK_TIME_NONE:
            at = 0
        self.frames, self.last = self.frames + 1, at
        return buffer, at

    def check(self):
        """Fails if the file cannot be read."""
        kinds = Gst.MessageType.ERROR | Gst.MessageType.ELEMENT
        while message := self.pipeline.get_bus().pop_filtered(kinds):
            if message.type == Gst.MessageType.ERROR:
                why = reason(message.parse_error()[0], self.undecoded, self.name)
                raise Failure(f"the background {self.name}: {why}")
            self.undecoded += undecoded(message)

    def prepare(self):
        """Decodes the first frame."""
        self.now, self.fresh = self.pull(True), True
        if not self.now:
            raise Failure(f"the background {self.name} has no frames")

    def frame(self, when):
        """Returns the frame to show at a time: the last one that has begun."""
        if not self.now:
            self.prepare()
        if self.fresh:
            self.fresh = False
            self.begin = when - self.now[1]
        while True:
            self.next = self.next or self.pull(self.wait)
            if not self.next:
                if self.begin is None and self.wait:
                    continue
                return self.now[0]
            if self.begin is None:
                self.begin = when - self.next[1]
            if self.begin + self.next[1] > when:
                return self.now[0]
            self.now, self.next = self.next, None

    def stop(self):
        if self.pipeline:
            self.pipeline.set_state(Gst.State.NULL)


class Behind:
    """Gives the compositor a frame of the film for each of the subject's frames, or a black one without a film."""

    def __init__(self, film, appsrc, front, failed):
        """`appsrc` feeds the compositor. `front` is the pad where the subject's frames arrive."""
        self.film, self.appsrc, self.failed = film, appsrc, failed
        self.caps = None
        self.late = None  # frames until the film is taken away
        front.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM, self.probe)

    def open(self, caps):
        frame = caps.get_structure(0)
        width, height = frame.get_value("width"), frame.get_value("height")
        ok, n, d = frame.get_fraction("framerate")
        # The compositor's output rate is that of both inputs.
        self.rate = f"framerate={n}/{d}" if ok and n else "framerate=30/1"
        form = "video/x-raw,format=I420,width={},height={},pixel-aspect-ratio=1/1,colorimetry=bt709"
        self.size = Gst.Caps.from_string(form.format(width, height))
        self.caps = Gst.Caps.from_string(f"{self.size.to_string()},{self.rate}")
        # An opaque picture covers the black frame, so that it can be small.
        self.none = Gst.Caps.from_string(f"{form.format(16, 16)},{self.rate}")
        if self.film:
            self.film.open(self.size)

    def show(self, film):
        """Shows another film, which is open. Its first frame is decoded, so that the video does not wait."""
        film, self.film, self.late = self.film, film, None
        if film:
            film.stop()

    def leave(self):
        """Takes the film away as soon as the frames have come that need it."""
        self.late = FRAMES_BEFORE

    def shown(self, when):
        film = self.film
        if film and self.late is not None:
            self.late -= 1
            if self.late < 0:
                self.show(None)
                film = None
        if film:
            return film.frame(when), self.caps
        return Gst.Buffer.new_wrapped(bytes([16]) * 256 + bytes([128]) * 128), self.none

    def probe(self, pad, info):
        try:
            if info.type & Gst.PadProbeType.BUFFER:
                front = info.get_buffer()
                when = running_time(pad, front) or 0
                shown, caps = self.shown(when)
                flags = Gst.BufferCopyFlags.MEMORY | Gst.BufferCopyFlags.META
                buffer = shown.copy_region(flags, 0, shown.get_size())
                buffer.pts, buffer.duration = when, front.duration
                self.appsrc.emit("push-sample", Gst.Sample.new(buffer, caps, None, None))
            elif info.get_event().type == Gst.EventType.CAPS:
                self.open(info.get_event().parse_caps())
            elif info.get_event().type == Gst.EventType.EOS:
                self.appsrc.emit("end-of-stream")
        except Exception as error:  # whatever it is, the program ends with its text
            self.failed(error if isinstance(error, Failure) else Failure(traceback.format_exc()))
            return Gst.PadProbeReturn.DROP
        return Gst.PadProbeReturn.OK

    def stop(self):
        if self.film:
            self.film.stop()
