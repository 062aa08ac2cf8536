"""Brings a network's masks to the frames of the video.

The network's thread takes the newest tensor, makes a mask of it, and has it enlarged to the frame's
size. Each frame gets the newest mask: a probe pushes the mask's buffer, which all of its frames share,
to the alpha side of alphacombine. With `patience`, a frame waits for its own mask, but not for ever, and
with `wait`, it waits as long as that takes.
"""
from __future__ import annotations

import collections
import os
import re
import threading
import time
import traceback
import typing

import gst_cuda_filters as gcf
import numpy as np
from gi.repository import Gst

from . import Failure, running_time, still


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
        rows, columns = mask.shape
        # Rows of GStreamer's frames begin at multiples of four bytes.
        if columns % 4:
            mask = np.pad(mask, ((0, 0), (0, -columns % 4)))
        small = Gst.Buffer.new_wrapped(mask.tobytes())
        if (columns, rows) == (width, height):
            return small
        if self.wanted != (width, height):
            self.wanted = width, height
            self.size.props.caps = Gst.Caps.from_string(f"video/x-raw,width={width},height={height}")
        caps = Gst.Caps.from_string(f"video/x-raw,format=GRAY8,width={columns},height={rows},framerate=0/1")
        self.small.emit("push-sample", Gst.Sample.new(small, caps, None, None))
        sample = self.large.emit("pull-sample")
        if not sample:
            raise Failure("a mask could not be enlarged")
        return sample.get_buffer()

    def stop(self):
        self.pipeline.set_state(Gst.State.NULL)


class Mask(typing.NamedTuple):
    number: int
    at: int | None  #: running time of the frame that it was made of
    buffer: typing.Any  #: of the frame's size; None before the first mask that is one
    size: tuple


class Tensor(typing.NamedTuple):
    at: int | None  #: running time
    sample: typing.Any
    picture: typing.Any  #: for still.same(), or None


#: No more tensors than this are kept. Fewer frames wait for their masks, unless the network hangs.
MOST_PENDING = 32


class Masks:
    def __init__(self, networks, pads, masks, wait, patience, shown, skip, failed):
        """`networks` each get the tensors of their size. `pads` are those where the frames arrive of
        which tensors are made, the tensors, and the frames that need masks. `masks` is the appsrc that
        gets the masks. `patience` returns how many seconds a frame of a running time can still wait
        for its own mask, and without a time how many a new frame can. It is None if frames take the
        newest mask at once. With `shown`, the masks are the result instead of a frame's alpha. With
        `skip`, a picture that stands still keeps its mask. `failed` is called with an exception."""
        self.networks = networks
        self.appsrc = masks
        self.wait, self.patience, self.shown, self.failed = wait, patience, shown, failed
        self.enlarge = Enlarger()
        self.changed = threading.Condition()
        self.size = None
        self.caps_sent = self.caps_seen = 0
        self.newest = None
        # if the video lags behind the network, newer masks are too early
        self.recent = collections.deque(maxlen=32)
        self.own = {}  # with `wait`, the masks of frames that have not come yet, by frame number
        self.made = 0
        self.joined = 0
        # Tensors that the network has not seen. If frames do not wait for their masks, the newest one is enough.
        self.pending = collections.deque(maxlen=MOST_PENDING if patience else 1)
        self.work_at = self.taken_at = None  # running times of the frame at work, and of the newest tensor
        self.usual = 0.0  # seconds that the network usually takes
        self.pictures = collections.deque(maxlen=32)  # (pts, picture) of frames whose tensors are on their way
        self.seen = None  # (running time, picture) of the frame that the network saw last
        self.cuts = collections.deque()  # running times of frames that do not continue the earlier ones
        self.complete = False  # no other tensor will come
        self.ended = False  # no other mask will come
        # since the previous report: ages of masks, times of the network, frames for which it was too slow or not needed
        self.ages, self.seconds, self.late, self.still = [], [], 0, 0
        both = Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM
        before, tensors, frames = pads
        if skip:
            before.add_probe(Gst.PadProbeType.BUFFER, self.look)
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

    def look(self, pad, info):
        frame = info.get_buffer()
        luma = np.asarray(gcf.frame(frame, pad.get_current_caps()).planes[0])
        self.pictures.append((frame.pts, still.Picture(luma)))
        return Gst.PadProbeReturn.OK

    def take(self, pad, info):
        with self.changed:
            if info.type & Gst.PadProbeType.BUFFER:
                while self.wait and self.pending and not self.ended:
                    self.changed.wait()
                buffer = info.get_buffer()
                picture = None
                while self.pictures and picture is None:
                    pts, found = self.pictures.popleft()
                    picture = found if pts == buffer.pts else None
                self.taken_at = running_time(pad, buffer)
                sample = Gst.Sample.new(buffer, pad.get_current_caps(), None, None)
                self.pending.append(Tensor(self.taken_at, sample, picture))
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
                    while not (self.pending or self.complete or self.ended):
                        self.changed.wait()
                    if self.ended or not self.pending:
                        break
                    tensor = self.choose()
                    self.work_at = tensor.at
                    self.changed.notify_all()
                self.see(tensor.sample, tensor.picture)
        except Exception as error:  # whatever it is, the program ends with its text
            self.failed(error if isinstance(error, Failure) else Failure(traceback.format_exc()))
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def choose(self):
        """Takes the oldest tensor whose mask is in time for its frame, or the newest one. Older ones are left out."""
        while len(self.pending) > 1 and not self.in_time():
            self.pending.popleft()
        if self.patience and self.pending[0].at is not None and self.usual < self.patience() and not self.in_time():
            # The next frame can have its own mask if the network waits for it, but need not come.
            self.changed.wait_for(lambda: len(self.pending) > 1 or self.complete or self.ended, self.patience())
            while len(self.pending) > 1:
                self.pending.popleft()
        return self.pending.popleft()

    def in_time(self):
        """Returns whether the network can probably finish the oldest tensor while its frame waits."""
        at = self.pending[0].at
        return bool(self.patience) and at is not None and self.patience(at) > self.usual

    def see(self, sample, picture):
        begun = time.monotonic()
        tensor = gcf.tensor(sample)
        place = tensor.letterbox
        size = place.source_width, place.source_height
        if self.is_cut():
            for each in self.networks:
                each.restart()
            self.seen = None
        skip = self.is_same(picture, size)
        large = self.newest.buffer if skip else self.make(tensor, place, size)
        number, self.made = self.made, self.made + 1
        with self.changed:
            self.newest = Mask(number, self.work_at, large, size)
            self.work_at = None
            self.recent.append(self.newest)
            if self.wait:
                self.own[number] = self.newest
            if skip:
                self.still += 1
            else:
                self.seen = self.newest.at, picture
                self.seconds.append(time.monotonic() - begun)
                self.usual += (self.seconds[-1] - self.usual) / 8 if self.usual else self.seconds[-1]
            self.changed.notify_all()

    def make(self, tensor, place, size):
        network = next(each for each in self.networks if each.takes(tensor.shape))
        mask = network.mask(tensor)
        if mask is None:
            # The frame gets the previous mask.
            return self.newest.buffer if self.newest else None
        if self.shown:
            mask = (mask * (219 / 255) + 16.5).astype(np.uint8)  # in the range of luma
        return self.enlarge(content(mask, place, network.size_of(tensor.shape)), *size)

    def is_cut(self):
        """Returns whether the frame at work does not continue the one before it."""
        cut = False
        with self.changed:
            while self.cuts and (self.work_at is None or self.cuts[0] <= self.work_at):
                self.cuts.popleft()
                cut = True
        return cut

    def is_same(self, picture, size):
        """Returns whether the network need not see the frame at work."""
        if not (picture and self.seen and self.seen[1] and self.newest.buffer and self.newest.size == size):
            return False
        if self.work_at is None or self.seen[0] is None or self.work_at - self.seen[0] >= still.LIMIT:
            return False
        return still.same(picture, self.seen[1])

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
        at = running_time(pad, frame)
        with self.changed:
            if self.wait:
                while number not in self.own and not self.ended:
                    self.changed.wait()
                mask = self.own.pop(number, self.newest)
            else:
                mask = self.own_mask(at) if self.patience and at is not None else None
                mask = mask or next((each for each in reversed(self.recent)
                                     if at is None or each.at is None or each.at <= at), self.newest)
            if mask and mask.at is not None and at is not None:
                self.ages.append((at - mask.at) / Gst.SECOND)
        large = mask.buffer if mask and mask.size == self.size and mask.buffer else self.nobody
        buffer = large.copy_region(Gst.BufferCopyFlags.MEMORY | Gst.BufferCopyFlags.META, 0, large.get_size())
        # The masks have their own segment, which begins at 0.
        buffer.pts, buffer.duration = at or 0, frame.duration
        self.appsrc.emit("push-buffer", buffer)

    def own_mask(self, at):
        """Waits for the mask of the frame itself. Returns None if it comes too late, or never."""
        end = time.monotonic() + self.patience(at)
        while not self.ended:
            for mask in reversed(self.recent):
                if mask.at == at:
                    return mask
            passed = self.complete or self.taken_at is not None and self.taken_at >= at
            left = end - time.monotonic()
            if left <= 0 or passed and at != self.work_at and all(at != each.at for each in self.pending):
                break
            self.changed.wait(left)
        self.late += 1
        return None

    def report(self):
        """Returns how old masks were and how long the network took, both in seconds, for how many frames it was too
        slow, and how many it did not have to see, since the previous call."""
        with self.changed:
            told = self.ages, self.seconds, self.late, self.still
            self.ages, self.seconds, self.late, self.still = [], [], 0, 0
        return told


def content(mask, place, size):
    """Returns the part of a mask that shows the frame, without a letterbox's borders. `size` is the tensor's."""
    rows, columns = mask.shape
    x, y = columns / size[0], rows / size[1]
    left, top = round(place.left * x), round(place.top * y)
    right, bottom = round((place.left + place.width) * x), round((place.top + place.height) * y)
    return mask[top:max(bottom, top + 1), left:max(right, left + 1)]
