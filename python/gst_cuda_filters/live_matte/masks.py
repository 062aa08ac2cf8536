"""Brings a network's masks to the frames of the video, without ever holding the video up.

The network's thread takes the newest tensor, makes a mask of it, and has it enlarged to the frame's
size. Each frame gets the newest mask: a probe pushes the mask's buffer, which all of its frames share,
to the alpha side of alphacombine. With `wait`, each frame gets its own mask.
"""
import collections
import os
import re
import threading
import time
import traceback

import gst_cuda_filters as gcf
import numpy as np
from gi.repository import Gst

from . import Failure, running_time


class Enlarger:
    """Scales one mask at a time with GStreamer's bilinear scaler."""

    def __init__(self):
        self.pipeline = Gst.parse_launch(
            "appsrc name=small format=time ! videoscale method=bilinear add-borders=false ! capsfilter name=size "
            "! appsink name=large sync=false async=false max-buffers=1")
        self.small, self.size, self.large = map(self.pipeline.get_by_name, ("small", "size", "large"))
        self.wanted = None
        self.pipeline.set_state(Gst.State.PLAYING)

    def __call__(self, mask, width, height):
        if self.wanted != (width, height):
            self.wanted = width, height
            self.size.props.caps = Gst.Caps.from_string(f"video/x-raw,width={width},height={height}")
        rows, columns = mask.shape
        # Rows of GStreamer's frames begin at multiples of four bytes.
        mask = np.pad(mask, ((0, 0), (0, -columns % 4)))
        caps = Gst.Caps.from_string(f"video/x-raw,format=GRAY8,width={columns},height={rows},framerate=0/1")
        self.small.emit("push-sample", Gst.Sample.new(Gst.Buffer.new_wrapped(mask.tobytes()), caps, None, None))
        sample = self.large.emit("pull-sample")
        if not sample:
            raise Failure("a mask could not be enlarged")
        return sample.get_buffer()

    def stop(self):
        self.pipeline.set_state(Gst.State.NULL)


class Masks:
    def __init__(self, networks, tensors, frames, masks, wait, shown, failed):
        """`networks` each get the tensors of their size. `tensors` is the pad where tensors arrive,
        `frames` the pad where frames arrive that need masks, and `masks` the appsrc that gets the
        masks. With `shown`, the masks are the result instead of a frame's alpha. `failed` is called
        with an exception."""
        self.networks = networks
        self.appsrc = masks
        self.wait, self.shown, self.failed = wait, shown, failed
        self.enlarge = Enlarger()
        self.changed = threading.Condition()
        self.size = None
        self.caps_sent = self.caps_seen = 0
        self.newest = None  # (number, pts, buffer, size)
        # if the video lags behind the network, newer masks are too early
        self.recent = collections.deque(maxlen=8)
        self.own = {}  # with `wait`, the masks of frames that have not come yet, by frame number
        self.made = 0
        self.joined = 0
        self.sample = None  # the newest tensor that the network has not seen
        self.complete = False  # no other tensor will come
        self.ended = False  # no other mask will come
        self.ages, self.seconds = [], []  # since the previous report
        both = Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM
        tensors.add_probe(both, self.take)
        frames.add_probe(both, self.probe)
        masks.get_static_pad("src").add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, self.see_caps)
        self.thread = threading.Thread(target=self.work, name="network", daemon=True)

    def start(self):
        self.thread.start()

    def stop(self):
        """Ends the network's thread, and wakes the threads that wait for a mask."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        self.thread.join(timeout=5)
        self.enlarge.stop()

    # These run in the thread of the network's branch. A sink would block it until the pipeline
    # plays.

    def take(self, pad, info):
        with self.changed:
            if info.type & Gst.PadProbeType.BUFFER:
                while self.wait and self.sample and not self.ended:
                    self.changed.wait()
                self.sample = Gst.Sample.new(info.get_buffer(), pad.get_current_caps(), None, None)
            elif info.get_event().type == Gst.EventType.EOS:
                self.complete = True
            else:
                return Gst.PadProbeReturn.OK
            self.changed.notify_all()
        return Gst.PadProbeReturn.DROP if info.type & Gst.PadProbeType.BUFFER else Gst.PadProbeReturn.OK

    # These run in the network's thread.

    def work(self):
        try:
            # If there are few processors, the video has priority.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
            while True:
                with self.changed:
                    while not (self.sample or self.complete or self.ended):
                        self.changed.wait()
                    if self.ended or not self.sample:
                        break
                    sample, self.sample = self.sample, None
                    self.changed.notify_all()
                self.see(sample)
        except Exception as error:  # whatever it is, the program ends with its text
            self.failed(error if isinstance(error, Failure) else Failure(traceback.format_exc()))
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def see(self, sample):
        begun = time.monotonic()
        tensor = gcf.tensor(sample)
        place = tensor.letterbox
        network = next(each for each in self.networks if each.takes(tensor.shape))
        mask = network.mask(tensor)
        number, self.made = self.made, self.made + 1
        if mask is None:
            # The frame gets the previous mask.
            large = self.newest[2] if self.newest else None
        else:
            if self.shown:
                mask = (mask * (219 / 255) + 16.5).astype(np.uint8)  # in the range of luma
            large = self.enlarge(content(mask, place, network.size_of(tensor.shape)), place.source_width, place.source_height)
        size = place.source_width, place.source_height
        with self.changed:
            self.newest = number, tensor.pts, large, size
            self.recent.append(self.newest)
            if self.wait:
                self.own[number] = self.newest
            self.seconds.append(time.monotonic() - begun)
            self.changed.notify_all()

    # These run in the video's thread.

    def probe(self, pad, info):
        if info.type & Gst.PadProbeType.BUFFER:
            self.join(pad, info.get_buffer())
            # A sink would hold frames up until the pipeline plays.
            return Gst.PadProbeReturn.DROP if self.shown else Gst.PadProbeReturn.OK
        if info.get_event().type == Gst.EventType.CAPS:
            self.set_caps(info.get_event().parse_caps())
        elif info.get_event().type == Gst.EventType.EOS:
            self.appsrc.emit("end-of-stream")
        return Gst.PadProbeReturn.OK

    def set_caps(self, caps):
        frame = caps.get_structure(0)
        self.size = frame.get_value("width"), frame.get_value("height")
        # alphacombine wants masks to have the range of the frames. Frames without colorimetry, or with an unknown
        # matrix, have the range of video.
        colorimetry = frame.get_string("colorimetry") or "bt601"
        if self.shown or re.match(r"\d+:0:", colorimetry):
            colorimetry = "bt601"
        ok, n, d = frame.get_fraction("framerate")
        # alphacombine counts the caps on both of its sides, and waits where it gets more on one. So masks
        # get new ones whenever frames do, also equal ones, and none may overtake another in appsrc.
        with self.changed:
            while self.caps_seen < self.caps_sent and not self.ended:
                self.changed.wait()
            self.caps_sent += 1
        self.appsrc.props.caps = Gst.Caps.from_string(
            f"video/x-raw,format=GRAY8,width={self.size[0]},height={self.size[1]},"
            f"framerate={n if ok else 0}/{d if ok else 1},colorimetry=(string){colorimetry},"
            f"number=(int){self.caps_sent}")
        # Until there is a mask, everything is background.
        stride = -self.size[0] % 4 + self.size[0]
        self.nobody = Gst.Buffer.new_wrapped(bytes([16 if self.shown else 0]) * (stride * self.size[1]))

    def see_caps(self, pad, info):
        if info.get_event().type == Gst.EventType.CAPS:
            with self.changed:
                self.caps_seen += 1
                self.changed.notify_all()
        return Gst.PadProbeReturn.OK

    def join(self, pad, frame):
        number, self.joined = self.joined, self.joined + 1
        with self.changed:
            if self.wait:
                while number not in self.own and not self.ended:
                    self.changed.wait()
                mask = self.own.pop(number, self.newest)
            else:
                mask = next((each for each in reversed(self.recent) if each[1] is None or each[1] <= frame.pts),
                            self.newest)
            if mask and mask[1] is not None and frame.pts != Gst.CLOCK_TIME_NONE:
                self.ages.append((frame.pts - mask[1]) / Gst.SECOND)
        large = mask[2] if mask and mask[3] == self.size and mask[2] else self.nobody
        buffer = large.copy_region(Gst.BufferCopyFlags.MEMORY | Gst.BufferCopyFlags.META, 0, large.get_size())
        # The masks have their own segment, which begins at 0.
        buffer.pts, buffer.duration = running_time(pad, frame) or 0, frame.duration
        self.appsrc.emit("push-buffer", buffer)

    def report(self):
        """Returns how old masks were and how long the network took, both in seconds, since the
        previous call."""
        with self.changed:
            ages, seconds = self.ages, self.seconds
            self.ages, self.seconds = [], []
        return ages, seconds


def content(mask, place, size):
    """Returns the part of a mask that shows the frame, without a letterbox's borders. `size` is the tensor's."""
    rows, columns = mask.shape
    x, y = columns / size[0], rows / size[1]
    left, top = round(place.left * x), round(place.top * y)
    right, bottom = round((place.left + place.width) * x), round((place.top + place.height) * y)
    return mask[top:max(bottom, top + 1), left:max(right, left + 1)]
