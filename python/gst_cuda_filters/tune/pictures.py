"""Takes pictures of the frames before and after the filters, as JPEG, while somebody watches.

A probe takes one frame before the first filter, and another probe takes the same frame behind the last one. Both
remove themselves with it. A pipeline of their own encodes the two frames, so that the filtered pipeline neither waits
nor has other elements than without the page.
"""
import contextlib
import re
import threading
import time

from gi.repository import GLib, Gst

from .._program import running_time

# Larger pictures are scaled down to this number of pixels.
PIXELS = 1280 * 720
# At most so many pairs of pictures are made per second, and encoding them takes at most this share of one core.
RATE = 12
SHARE = 0.08
# A frame that the filters hold back or drop is given up after so many seconds.
PATIENCE = 2
# Frames whose times differ by less than this are the same frame.
TOLERANCE = Gst.MSECOND


class Unshown(Exception):
    """Says why frames cannot be shown."""


class Encoder:
    """Makes JPEG pictures of one pad's frames."""

    def __init__(self, checker):
        """With `checker`, frames with alpha are shown over a checkerboard, and without it opaque."""
        self.checker = checker
        self.caps = self.pipeline = None
        self.why = None  # why frames with these caps cannot be shown
        self.number = 0

    def open(self, caps):
        self.close()
        self.number = 0
        self.caps = caps
        self.steady = Gst.Caps.from_string(re.sub(r"framerate=\(fraction\)[^,;]+", "framerate=(fraction)10/1",
                                                  caps.to_string()))
        frame = caps.get_structure(0)
        if frame.get_name() != "video/x-raw":
            raise Unshown(f"{frame.get_name()} is no picture")
        width, height = frame.get_value("width"), frame.get_value("height")
        known, n, d = frame.get_fraction("pixel-aspect-ratio")
        wide = width * n / d if known and d else width
        scale = min(1.0, (PIXELS / (wide * height)) ** 0.5)
        size = (max(2, round(wide * scale / 2) * 2), max(2, round(height * scale / 2) * 2)) if scale < 1 or wide != width \
            else (width, height)
        line = "appsrc name=frames format=time ! "
        if caps.get_features(0).contains("memory:CUDAMemory"):
            line += "cudadownload ! "
        if self.checker and has_alpha(frame):
            line += "compositor background=checker ! "
        line += (f"videoconvert ! videoscale ! video/x-raw,width={size[0]},height={size[1]},pixel-aspect-ratio=1/1 "
                 "! jpegenc quality=88 ! appsink name=pictures sync=false max-buffers=1")
        try:
            self.pipeline = Gst.parse_launch(line)
        except GLib.Error as error:
            raise Unshown(error.message) from None
        self.frames, self.pictures = map(self.pipeline.get_by_name, ("frames", "pictures"))
        self.pipeline.set_state(Gst.State.PLAYING)

    def __call__(self, buffer, caps):
        if not self.caps or not caps.is_equal(self.caps):
            self.why = None
            try:
                self.open(caps)
            except Unshown as why:
                self.why = why
        if self.why:
            raise self.why
        # The compositor repeats frames where times are missing, so frames get times without gaps.
        frame = buffer.copy_region(Gst.BufferCopyFlags.MEMORY | Gst.BufferCopyFlags.META | Gst.BufferCopyFlags.FLAGS,
                                   0, buffer.get_size())
        frame.pts, frame.duration = self.number * Gst.SECOND // 10, Gst.SECOND // 10
        self.number += 1
        self.frames.emit("push-sample", Gst.Sample.new(frame, self.steady, None, None))
        sample = self.pictures.emit("try-pull-sample", 5 * Gst.SECOND)
        if sample:
            made = sample.get_buffer()
            return made.extract_dup(0, made.get_size())
        message = self.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        self.close()
        self.why = Unshown(message.parse_error()[0].message if message else "the frames cannot be encoded")
        raise self.why

    def close(self):
        if self.pipeline:
            self.pipeline.set_state(Gst.State.NULL)
        self.pipeline = None


def has_alpha(frame):
    """Returns whether the name of a format says that it has alpha: RGBA, A420, AYUV, GBRA, VUYA, AV12 ..."""
    return "A" in (frame.get_string("format") or "").replace("GRAY", "")


class Pictures:
    def __init__(self, before, after):
        """`before` and `after` are pads."""
        self.pads = before, after
        self.encoders = Encoder(False), Encoder(True)
        self.changed = threading.Condition()
        self.watchers = 0
        self.number, self.pair = 0, None  # the pair is [JPEG or the reason why there is none, ...]
        self.ended = False
        self.taken = threading.Event()
        self.first = self.second = self.time = None
        self.interval = 1 / RATE
        self.thread = threading.Thread(target=self.work, name="pictures", daemon=True)
        self.thread.start()

    @contextlib.contextmanager
    def watching(self):
        with self.changed:
            self.watchers += 1
            self.changed.notify_all()
        try:
            yield
        finally:
            with self.changed:
                self.watchers -= 1

    def next(self, number, timeout):
        """Returns the newest pair and its number, or None without one that is newer than `number`."""
        with self.changed:
            self.changed.wait_for(lambda: self.number > number or self.ended, timeout)
            return (self.number, self.pair) if self.number > number and self.pair else None

    def stop(self):
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        self.taken.set()
        self.thread.join(timeout=10)
        for encoder in self.encoders:
            encoder.close()

    def work(self):
        while not self.ended:
            with self.changed:
                self.changed.wait_for(lambda: self.watchers or self.ended)
            if self.ended:
                return
            begun = time.monotonic()
            if self.take() and not self.ended:
                shot = time.monotonic()
                pair = [self.encoded(*each) for each in zip(self.encoders, (self.first, self.second))]
                self.first = self.second = None
                cost = time.monotonic() - shot
                # Other threads may have held the encoder up, so the interval follows its time slowly.
                self.interval += 0.2 * (max(1 / RATE, cost / SHARE) - self.interval)
                with self.changed:
                    self.number, self.pair = self.number + 1, pair
                    self.changed.notify_all()
            time.sleep(max(0.0, begun + self.interval - time.monotonic()))

    @staticmethod
    def encoded(encoder, taken):
        try:
            return encoder(*taken)
        except Unshown as why:
            return str(why)

    def take(self):
        """Takes a frame before and after the filters. Returns whether both came."""
        self.taken.clear()
        self.first = self.second = None
        before, after = self.pads
        ids = {}

        def first(pad, info):
            self.first, self.time = (info.get_buffer(), pad.get_current_caps()), running_time(pad, info.get_buffer())
            ids.pop(before)
            ids[after] = after.add_probe(Gst.PadProbeType.BUFFER, second)
            return Gst.PadProbeReturn.REMOVE

        def second(pad, info):
            when = running_time(pad, info.get_buffer())
            if None not in (when, self.time) and when + TOLERANCE < self.time:
                return Gst.PadProbeReturn.OK
            self.second = info.get_buffer(), pad.get_current_caps()
            ids.pop(after)
            self.taken.set()
            return Gst.PadProbeReturn.REMOVE

        ids[before] = before.add_probe(Gst.PadProbeType.BUFFER, first)
        came = self.taken.wait(PATIENCE)
        for pad, number in list(ids.items()):
            pad.remove_probe(number)
        return came and self.second is not None
