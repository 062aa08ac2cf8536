"""A picture or a video behind the subject: for each of the subject's frames, the one that belongs there.

A pipeline of its own decodes the file, cuts it to the frame's aspect and scales it. Its frames go to the
compositor with the times of the subject's, one for one. So they end together, and neither waits.
"""
from gi.repository import Gst

from . import Failure, running_time


class Behind:
    def __init__(self, uri, appsrc, front, wait, failed):
        """`appsrc`: what feeds the compositor. `front`: the pad where the subject's frames come."""
        self.uri, self.appsrc, self.wait, self.failed = uri, appsrc, wait, failed
        self.pipeline = self.sink = self.caps = None
        self.now = self.next = None  # the frame that is shown, and the one after it
        self.begin = 0  # when this round of the file began
        self.frames = 0  # of this round
        front.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM, self.probe)

    def open(self, caps):
        frame = caps.get_structure(0)
        width, height = frame.get_value("width"), frame.get_value("height")
        ok, n, d = frame.get_fraction("framerate")
        self.stop()
        size = f"video/x-raw,format=I420,width={width},height={height},pixel-aspect-ratio=1/1,colorimetry=bt709"
        # The compositor's frames come at the rate of both of its inputs.
        self.caps = Gst.Caps.from_string(f"{size},framerate={n}/{d}" if ok and n else f"{size},framerate=30/1")
        self.pipeline = Gst.parse_launch(
            f'uridecodebin uri="{self.uri}" caps="video/x-raw" ! videoconvert ! videoflip video-direction=auto '
            f"! aspectratiocrop aspect-ratio={width}/{height} ! videoscale ! videoconvert "
            f"! {size} ! appsink name=sink sync=false max-buffers=4")
        self.sink = self.pipeline.get_by_name("sink")
        self.now = self.next = None
        self.begin = self.frames = 0
        self.pipeline.set_state(Gst.State.PLAYING)

    def pull(self, patient):
        """The file's next frame, if it is there; at the end the first one again."""
        sample = self.sink.emit("try-pull-sample", 5 * Gst.SECOND if patient else 0)
        if sample:
            self.frames += 1
            return sample
        message = self.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        if message:
            raise Failure(f"the background {self.uri}: {message.parse_error()[0].message}")
        if self.sink.props.eos:
            if not self.frames:
                raise Failure(f"the background {self.uri} has no frames")
            if self.frames > 1:
                self.begin = None
                self.frames = 0
                self.pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, 0)
        return None

    def frame(self, time):
        """The frame to show at a time: the last one that has begun."""
        if not self.now:
            self.now = self.pull(True)
            if not self.now:
                raise Failure(f"the background {self.uri} has no frames")
            self.begin = time - self.now.get_buffer().pts
        while True:
            self.next = self.next or self.pull(self.wait)
            if not self.next:
                if self.begin is None and self.wait:
                    continue
                return self.now
            if self.begin is None:
                self.begin = time - self.next.get_buffer().pts
            if self.begin + self.next.get_buffer().pts > time:
                return self.now
            self.now, self.next = self.next, None

    def probe(self, pad, info):
        try:
            if info.type & Gst.PadProbeType.BUFFER:
                front = info.get_buffer()
                time = running_time(pad, front) or 0
                sample = self.frame(time)
                flags = Gst.BufferCopyFlags.MEMORY | Gst.BufferCopyFlags.META
                buffer = sample.get_buffer().copy_region(flags, 0, sample.get_buffer().get_size())
                buffer.pts, buffer.duration = time, front.duration
                self.appsrc.emit("push-sample", Gst.Sample.new(buffer, self.caps, None, None))
            elif info.get_event().type == Gst.EventType.CAPS:
                self.open(info.get_event().parse_caps())
            elif info.get_event().type == Gst.EventType.EOS:
                self.appsrc.emit("end-of-stream")
        except Failure as error:
            self.failed(error)
            return Gst.PadProbeReturn.DROP
        return Gst.PadProbeReturn.OK

    def stop(self):
        if self.pipeline:
            self.pipeline.set_state(Gst.State.NULL)
