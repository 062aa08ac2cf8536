"""Cuts a person out of live video, hair included, and puts another background behind.

A segmentation network finds roughly where the person is, and cudaguidedmatte finds the exact edge.
The network runs in parallel. In a window, each frame uses the newest mask; elsewhere, it waits a
moment for its own. The network and the library that runs it are fetched once, into
~/.cache/gst-cuda-filters.
"""
import argparse
import json
import math
import os
import pathlib
import signal
import sys
import threading
import time

from gi.repository import GLib, Gst

from .._program import on_signal
from .._watch import Watch
from ..tune import server
from . import Failure, behind, fetch, masks, network, output, page, plain, running_time, sound, source

# A queue's size is limited in frames, not in bytes or time.
FRAMES = "max-size-bytes=0 max-size-time=0 max-size-buffers"
# The queue of the video has room for this many frames, and for those that wait for their masks.
IN_QUEUE = 3
# --delay auto stands for this many seconds.
DELAY = 0.1
# A time that jumps by more than a second is no continuation.
JUMP = Gst.SECOND
PARTS = ("decode", "read", "size", "crop", "frames", "video", "join", "masks", "tensors", "input", "aspect", "back",
         "matte", "behind", "front", "mix", "rate", "window", "pipewire", "mux", "file")

EXAMPLES = """examples:
  %(prog)s                                          the first camera, its background blurred, in a window
  %(prog)s --background beach.jpg                   before a picture
  %(prog)s --output /dev/video10                    as a virtual camera, for video calls
  %(prog)s --output pipewire                        the same for programs that use PipeWire
  %(prog)s --camera 2 --size 1920x1080 --output talk.mp4
  %(prog)s talk.mov --background color:00b140 --output green.mp4
  %(prog)s talk.mov --background matte --output matte.mp4
  %(prog)s --output 'srt://:7001?mode=listener' --page  as a stream, with a page that changes it
  %(prog)s --model other.tflite --model-activation sigmoid --model-channel 1

For --output /dev/videoN, see v4l2loopback. Ctrl-C ends the program, and its file is complete.
"""


def size(text):
    width, _, height = text.partition("x")
    if not (width.isdigit() and height.isdigit() and 16 <= int(width) <= 16384 and 16 <= int(height) <= 16384):
        raise argparse.ArgumentTypeError(f"{text}: must be WIDTHxHEIGHT, each from 16 to 16384")
    return int(width), int(height)


def integer(low, high):
    def parse(text):
        if not text.isdigit() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text}: must be a whole number from {low} to {high}")
        return int(text)
    return parse


def delay(text):
    if text == "auto":
        return None
    if not text.isdigit() or int(text) > 10000:
        raise argparse.ArgumentTypeError(f"{text}: must be auto or a whole number of milliseconds from 0 to 10000")
    return int(text)


def names(text):
    """Parses names with commas between them, which must differ."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found) or len(set(found)) < len(found) or any(word.lstrip("-").isdigit() for word in found):
        raise argparse.ArgumentTypeError(f"{text}: must be different names, as in background,hair,clothes")
    return found


def channels(text):
    """Parses numbers or names of channels with commas between them."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"{text}: must be different numbers or classes of channels, as in 1,2 or hair")
    return tuple(int(word) if word.lstrip("-").isdigit() else word for word in found)


def numbers(count):
    def parse(text):
        try:
            values = tuple(map(float, text.split(",")))
        except ValueError:
            values = ()
        if len(values) != count or not all(abs(value) < 1e6 for value in values) or count == 2 and values[0] == values[1]:
            raise argparse.ArgumentTypeError(
                f"{text}: must be " + ("two different numbers, as in 0,1 or -1,1" if count == 2 else
                                       "three numbers, as in 0.485,0.456,0.406"))
        return values
    return parse


def options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("source", nargs="?", metavar="SOURCE", help="a video file, a URI, a camera /dev/videoN, or test for a "
        "moving ball (default: the first camera)")
    add("--camera", metavar="N", help="the camera's number or path")
    add("--size", type=size, metavar="WxH", help="size of the video (default: the camera's mode nearest to "
        "1280x720, or the file's own size)")
    add("--rate", type=integer(1, 1000), default=30, metavar="N", help="frames per second to ask a camera for (30)")
    add("--background", default="blur", metavar="WHAT", help="blur[:SIGMA] (default, SIGMA 20 pixels), "
        "color:RRGGBB, an image or a video file; matte and mask show the matte, or the network's mask, in gray")
    add("--output", default="window", metavar="WHERE", help="window (default), FILE.mp4, .mov or .mkv, "
        "hls:FOLDER, rtmp://..., srt://..., /dev/videoN (v4l2loopback), pipewire, none, or '! ELEMENTS' of GStreamer "
        "that take raw video")
    add("--backend", choices=("auto", "cuda", "cpu"), default="auto", help="where frames are filtered (auto)")
    add("--mask-error", type=integer(0, 64), metavar="PIXELS", help="largest error of the mask's edge, in "
        "pixels of the frame; 0 means 18 (default: 1.5 pixels of the network)")
    add("--matte", action="append", default=[], metavar="NAME=VALUE", help="set another property of "
        "cudaguidedmatte; may be repeated")
    add("--wait-for-mask", action=argparse.BooleanOptionalAction, help="give each frame its own mask, however long the "
        "network takes (default: only from a file to a file)")
    add("--skip-still", action=argparse.BooleanOptionalAction, default=True, help="keep the mask while the picture stands "
        "still, for half a second at most (yes)")
    add("--delay", type=delay, metavar="MS", help="give each frame its own mask if that comes within this many ms, else "
        "the newest one; auto (default) is 100 for files, streams and virtual cameras, and 0 for windows")
    add("--bitrate", type=integer(0, 200000), default=8000, metavar="KBIT", help="bitrate of a file in kbit/s (8000); "
        "0 is lossless")
    add("--seconds", type=integer(1, 10**6), metavar="N", help="end after this many seconds")
    add("--engine", choices=("litert", "gst"), default="litert", help="what runs the network: LiteRT or ONNX Runtime "
        "beside the pipeline (litert), or GStreamer's tfliteinference in it (gst, from GStreamer 1.28 on)")
    add("--threads", type=integer(1, 64), default=1, help="threads that run the network (1)")
    add("--quiet", action="store_true", help="do not print a line per second")
    add("--json", action="store_true", help="print the line per second as JSON, to the standard output")
    add("--page", nargs="?", type=integer(0, 65535), const=server.PORT, metavar="PORT", help="serve a page for the "
        f"browser that shows the picture and changes the background and the matte ({server.PORT}; 0 is any free port)")
    model = parser.add_argument_group("another network (TensorFlow Lite or ONNX, image in, mask out)")
    add = model.add_argument
    add("--model", metavar="FILE", help="the network's file (default: MediaPipe's network for people up to 4 m away)")
    add("--model-size", type=size, metavar="WxH", help="size of its input, if the file does not say it")
    add("--model-range", type=numbers(2), metavar="LOW,HIGH", help="values of its input for black and white "
        "(0,1; MODNet's file: -1,1)")
    add("--model-mean", type=numbers(3), metavar="R,G,B", help="mean of its input's channels, which run from 0 to 1, "
        "instead of a range")
    add("--model-std", type=numbers(3), metavar="R,G,B", help="their standard deviation")
    add("--model-order", choices=("rgb", "bgr"), help="order of its input's channels (rgb)")
    add("--model-fit", choices=("stretch", "letterbox"), help="stretch frames to the input's size, or keep their aspect "
        "and add borders (stretch)")
    add("--model-output", type=integer(0, 99), metavar="N", help="number of the output with the mask (0, or that with "
        "the name pha, alpha, matte or mask)")
    add("--model-channel", type=channels, metavar="N,...", help="numbers or classes of the channels whose sum is the "
        "mask (the last, or all classes except background)")
    add("--model-classes", type=names, metavar="NAME,...", help="names of its output's channels, for a network with "
        f"several classes (of 6 channels: {','.join(network.PERSON)})")
    add("--model-mirror", action=argparse.BooleanOptionalAction, help="also show it each frame mirrored, and use the mean "
        "of both masks: smaller errors for twice the time (TensorFlow Lite: yes, ONNX: no)")
    add("--model-activation", choices=tuple(network.ACTIVATIONS), help="function that turns the output into "
        "probabilities (none; softmax for classes whose values are logits)")
    words = sys.argv[1:] if arguments is None else list(arguments)
    typed = list(words)
    for option in {"--model-range", "--model-mean", "--model-channel"}.intersection(words[:-1]):
        # argparse would take a negative number for an option.
        at = words.index(option)
        words[at:at + 2] = ["=".join(words[at:at + 2])]
    chosen = parser.parse_args(words)
    if chosen.model_range and (chosen.model_mean or chosen.model_std):
        parser.error("--model-range excludes --model-mean and --model-std")
    if chosen.model_std and 0 in chosen.model_std:
        parser.error("--model-std: no channel's standard deviation can be 0")
    chosen.typed = typed
    if chosen.camera is not None:
        if chosen.source is not None:
            parser.error("--camera and a SOURCE exclude each other")
        if not chosen.camera.isdigit() and not chosen.camera.startswith("/dev/"):
            parser.error(f"--camera {chosen.camera}: must be a number, or a path such as /dev/video2")
        chosen.source = f"/dev/video{chosen.camera}" if chosen.camera.isdigit() else chosen.camera
    return chosen


def mean(seconds):
    """Returns the mean in milliseconds, or None of nothing."""
    return 1000 * sum(seconds) / len(seconds) if seconds else None


def line_of(told):
    """Returns a report as a line for people."""
    line = f"{told['seconds']:6.0f} s  {told['frames_per_second']:6.1f} frames/s"
    if told["latency_ms"] is not None:
        line += f"  latency {told['latency_ms']:4.0f} ms"
    if told["mask_age_ms"] is not None:
        line += f"  mask {told['mask_age_ms']:4.0f} ms old, {told['mask_age_longest_ms']:.0f} at most"
    if told["network_ms"] is not None:
        line += f"  network {told['masks_per_second']:.1f}/s, {told['network_ms']:.0f} ms"
    if told["still"]:
        line += f"  {told['still']} frames still"
    if told["late"]:
        line += f"  network too slow for {told['late']} frames"
    if told["dropped"]:
        line += f"  {told['dropped']} frames dropped"
    return line


class Program:
    def __init__(self, chosen):
        self.chosen = chosen
        self.loop = GLib.MainLoop()
        self.failure = None
        self.ending = 0
        # if the program was told to end, the time of the first frame that is left out
        self.until = None
        self.told = set()
        self.undecoded = []  # names of the streams that cannot be decoded
        self.lock = threading.Lock()
        self.entered = self.left = 0
        self.first = self.newest = None  # times when frames came out
        self.latencies, self.entries = [], {}
        self.source = source.make(chosen.source, chosen.size, chosen.rate)
        self.background = output.background(chosen.background)
        sink, self.writes = output.output(chosen.output, self.source.live, chosen.bitrate)
        for what in (chosen.source, chosen.background):
            if what and source.same_file(what, chosen.output):
                raise Failure(f"--output {chosen.output} would overwrite {what}, which is read")
        self.wait = chosen.wait_for_mask
        if self.wait and chosen.delay is not None:
            raise Failure("--wait-for-mask and --delay exclude each other")
        if chosen.delay and chosen.engine == "gst":
            raise Failure("--delay takes --engine litert")
        # in seconds
        self.delay = (chosen.delay or 0) / 1000
        if chosen.delay is None and self.wait is None:
            self.wait = self.writes and not self.source.live
            self.delay = 0 if self.wait or chosen.output in ("window", "none") else DELAY
        self.net = self.server = None
        if chosen.page is not None and chosen.background == "mask":
            raise Failure("--page takes another --background than mask, which has no matte")
        self.pipeline = self.make(sink)

    def load(self):
        """The networks to choose from: MediaPipe has one for wide frames, and one for others."""
        chosen = self.chosen
        about = network.Description(chosen.model_range, chosen.model_mean, chosen.model_std, chosen.model_order,
                                    chosen.model_fit, chosen.model_output, chosen.model_channel, chosen.model_classes,
                                    chosen.model_activation, chosen.model_mirror)
        if chosen.engine == "gst":
            # These checks come before anything is fetched.
            if not Gst.ElementFactory.find("tfliteinference"):
                raise Failure("--engine gst takes GStreamer's tfliteinference, from version 1.28 on; this is "
                              f"{Gst.version_string()}. On Debian and Ubuntu: apt install gstreamer1.0-plugins-bad")
            if chosen.background == "mask":
                raise Failure("--background mask takes --engine litert")
            if chosen.model and not chosen.model_size:
                raise Failure("--engine gst takes --model-size with --model")
        files = [pathlib.Path(chosen.model)] if chosen.model else [fetch.network_file(name) for name in fetch.NETWORKS]
        if not files[0].is_file():
            raise Failure(f"there is no model {files[0]}")
        if chosen.engine == "litert":
            return [network.load(file, about, chosen.model_size, chosen.threads, chosen.backend) for file in files]
        if files[0].suffix.lower() == ".onnx":
            raise Failure("--engine gst takes a network of TensorFlow Lite")
        about = about.complete({"mirror": True})
        file = plain.plain(files[0], about.mirror and not chosen.model)
        return [network.InPipeline(file, about, chosen.model_size or fetch.WIDE, chosen.threads)]

    def make(self, sink):
        chosen = self.chosen
        self.nets = self.load()
        self.net = self.nets[0]
        # The network's masks have small errors, so colours get less weight, and only near ones are compared.
        # Cameras are noisy, so colours that differ a little more count as equal.
        matte = (f"cudaguidedmatte name=matte backend={chosen.backend} radius=12 mask-trust=1.1 color-reach=64 "
                 f"color-sigma=0.055 {self.background.matte}")
        branches = [f"{self.source.description} ! videocrop name=crop ! video/x-raw,format=I420 ! tee name=frames"]
        if chosen.engine == "gst":
            result = f"{self.inside()} ! {matte} {self.net.matte}"
        elif chosen.background == "mask":
            branches += self.beside("fakesink name=join sync=false async=false")
            result = "appsrc name=masks format=time ! videoconvert"
        else:
            branches += self.beside("join.sink")
            result = f"alphacombine name=join appsrc name=masks format=time ! join.alpha join. ! {matte}"
        if self.background.behind or chosen.page is not None:
            branches.append("appsrc name=behind format=time ! queue ! mix.sink_0")
            result += (f" ! queue name=front {FRAMES}=2 ! mix.sink_1 "
                       "compositor name=mix start-time-selection=first sink_0::zorder=0 sink_1::zorder=1")
        # A camera may change its rate, but encoders and virtual cameras accept only the first one.
        branches.append(f"{result} ! capssetter name=rate ! queue name=result {FRAMES}=2 ! {sink}")
        pipeline = Gst.parse_launch(" ".join(branches))
        self.parts = {name: pipeline.get_by_name(name) for name in PARTS}
        if self.parts["pipewire"]:
            # In some versions (1.4) the clock of the sink stands still while there is no viewer.
            pipeline.use_clock(Gst.SystemClock.obtain())
        for each in ([f"mask-error={chosen.mask_error}"] if chosen.mask_error is not None else []) + chosen.matte:
            self.set_property(each)
        self.masks = self.behind = None
        if chosen.engine == "litert":
            pads = [self.parts[name].get_static_pad("sink") for name in ("aspect", "tensors", "join")]
            self.masks = masks.Masks(self.nets, pads, self.parts["masks"], self.wait,
                                     self.patience if self.delay else None, chosen.background == "mask",
                                     chosen.skip_still, self.fail)
        if self.parts["mix"] and self.delay and self.source.live:
            self.parts["mix"].props.latency = int(self.delay * Gst.SECOND)
        if self.parts["behind"]:
            film = self.background.behind and behind.Film(chosen.background, self.background.behind, self.wait)
            self.behind = behind.Behind(film, self.parts["behind"], self.parts["front"].get_static_pad("sink"),
                                        self.fail)
        if self.parts["decode"] and self.parts["mux"] and not self.source.live:
            sound.Sound(self.source.name, self.parts["decode"], pipeline, self.parts["mux"], lambda: self.until,
                        self.fail)
        both = Gst.PadProbeType.BUFFER | Gst.PadProbeType.EVENT_DOWNSTREAM
        self.parts["crop"].get_static_pad("sink").add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, self.uncropped)
        self.last_time = None
        self.cut, self.entered_at = False, None
        self.reader = None
        if self.parts["decode"]:
            self.reader = Watch(self.parts["decode"])
            self.parts["read"].get_static_pad("sink").add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, self.opaque)
            self.parts["crop"].get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self.timed)
        if self.parts["size"]:
            self.parts["crop"].get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, self.settle)
        self.parts["frames"].get_static_pad("sink").add_probe(both, self.enter)
        self.parts["frames"].get_static_pad("sink").add_probe(Gst.PadProbeType.EVENT_UPSTREAM, self.stay)
        self.parts["rate"].get_static_pad("sink").add_probe(both, self.leave)
        return pipeline

    @property
    def leaky(self):
        """When the source is faster than the filter, a camera's frames are dropped, and a file's frames wait."""
        return "leaky=downstream" if self.source.live and not self.wait else ""

    def beside(self, join):
        """Returns the branches of the video and of the network's tensors. The network runs outside
        the pipeline."""
        properties, tensor = self.net.letterbox
        # The tensors of a file wait with their frames.
        seldom = "" if self.wait or self.delay and not self.source.live else "leaky=downstream"
        return [
            f"frames. ! queue name=video {self.leaky} {FRAMES}={IN_QUEUE} ! {join}",
            f"frames. ! queue {seldom} {FRAMES}=1 ! capssetter name=aspect "
            f"! cudaletterbox backend={self.chosen.backend} {properties} "
            f"! capsfilter name=input caps={source.quoted(tensor)} ! fakesink name=tensors sync=false async=false",
        ]

    def inside(self):
        """Returns the branch of a network that runs in the pipeline and attaches its tensors to the
        frames."""
        dropped = "dropped=restore" if self.leaky else ""
        return (f"frames. ! queue name=video {FRAMES}=3 ! capssetter name=aspect "
                f"! cudaletterbox backend={self.chosen.backend} keep-original=true ! {self.net.caps} "
                f"! queue {self.leaky} {FRAMES}=1 ! {self.net.element} "
                f"! cudaletterboxrestore {dropped} ! capssetter name=back ! queue {FRAMES}=3")

    def set_property(self, setting):
        name, equals, value = setting.partition("=")
        matte = self.parts["matte"]
        if not equals or matte and not matte.find_property(name):
            raise Failure(f"--matte {setting}: NAME=VALUE, where NAME is a property of cudaguidedmatte")
        if matte:
            about = matte.find_property(name)
            try:
                if hasattr(about, "minimum") and not about.minimum <= float(value) <= about.maximum:
                    raise Failure(f"--matte {setting}: {name} is from {about.minimum:g} to {about.maximum:g}")
                Gst.parse_launch(f"cudaguidedmatte {name}={source.quoted(value)}")
            except (GLib.Error, ValueError):
                raise Failure(f"--matte {setting}: that is no value of {name}") from None
            Gst.util_set_object_arg(matte, name, value)

    def tell(self, text):
        """Prints a note for the user once."""
        if text not in self.told:
            self.told.add(text)
            fetch.say(text)

    def opaque(self, pad, info):
        event = info.get_event()
        if event.type == Gst.EventType.CAPS and source.has_alpha(event.parse_caps()):
            self.tell(f"Note: {self.source.name} has an alpha channel, which is left out: the matte comes from the "
                      "network alone.")
        return Gst.PadProbeReturn.OK

    def uncropped(self, pad, info):
        """Crops frames to even sizes, which H.264 and 4:2:0 need."""
        event = info.get_event()
        if event.type == Gst.EventType.SEGMENT:
            self.last_time = None
        if event.type == Gst.EventType.CAPS:
            frame = event.parse_caps().get_structure(0)
            width, height = frame.get_value("width"), frame.get_value("height")
            if min(width, height) < 16:
                self.fail(Failure(f"{self.source.name} has {width} x {height} pixels, and at least 16 x 16 are needed"))
                return Gst.PadProbeReturn.DROP
            if width % 2 or height % 2:
                left_out = " and ".join(["the last column"] * (width % 2) + ["the last row"] * (height % 2))
                self.tell(f"Note: {self.source.name} has {width} x {height} pixels. The result has even sizes, without "
                          f"{left_out}.")
            self.parts["crop"].props.right = width % 2
            self.parts["crop"].props.bottom = height % 2
        return Gst.PadProbeReturn.OK

    def settle(self, pad, info):
        """Scales later frames of another size to the first one's, because encoders take one size."""
        caps = pad.get_current_caps()
        if not caps:  # downstream refused them
            return Gst.PadProbeReturn.OK
        frame = caps.get_structure(0)
        ok, n, d = frame.get_fraction("pixel-aspect-ratio")
        self.parts["size"].props.caps = Gst.Caps.from_string(
            f"video/x-raw,width={frame.get_value('width')},height={frame.get_value('height')},"
            f"pixel-aspect-ratio={f'{n}/{d}' if ok else '1/1'}")
        return Gst.PadProbeReturn.REMOVE

    def timed(self, pad, info):
        """Sets times on frames if the file has none, or the same one for all."""
        frame = info.get_buffer()
        if self.last_time is not None and (frame.pts == Gst.CLOCK_TIME_NONE or frame.pts <= self.last_time):
            frame.pts = self.last_time + behind.lasts(frame)
        elif frame.pts == Gst.CLOCK_TIME_NONE:
            frame.pts = 0
        self.last_time = frame.pts
        return Gst.PadProbeReturn.OK

    def stay(self, pad, info):
        """Keeps the network's branch from influencing the source's format."""
        reconfigure = info.get_event().type == Gst.EventType.RECONFIGURE
        return Gst.PadProbeReturn.DROP if reconfigure else Gst.PadProbeReturn.OK

    def enter(self, pad, info):
        if not info.type & Gst.PadProbeType.BUFFER:
            event = info.get_event()
            if event.type == Gst.EventType.CAPS:
                self.fit(event.parse_caps().get_structure(0))
            elif event.type == Gst.EventType.SEGMENT:
                self.cut = self.entered > 0
            return Gst.PadProbeReturn.OK
        if self.ending:
            if self.until is None:
                self.until = running_time(pad, info.get_buffer()) or 0
            # The source may ignore the end, so the elements behind it get it from here.
            pad.get_peer().push_event(Gst.Event.new_eos())
            return Gst.PadProbeReturn.DROP
        at = running_time(pad, info.get_buffer())
        if at is not None:
            jump = self.entered_at is not None and not 0 <= at - self.entered_at <= JUMP
            discont = self.entered and info.get_buffer().has_flags(Gst.BufferFlags.DISCONT)
            if self.masks and (self.cut or jump or discont):
                self.masks.cuts.append(at)
            self.cut, self.entered_at = False, at
        with self.lock:
            self.entered += 1
            self.entries[at] = time.monotonic()
        return Gst.PadProbeReturn.OK

    def patience(self, at=None):
        """Returns how many seconds a frame of this running time can wait for its mask, or a new frame."""
        if at is None:
            return self.delay
        if self.source.live:
            with self.lock:
                return self.entries.get(at, 0) + self.delay - time.monotonic()
        # A file's frames have time until they are shown. The first ones come before the clock runs.
        clock = self.pipeline.get_clock()
        return (at - clock.get_time() + self.pipeline.get_base_time()) / Gst.SECOND if clock else 1

    def fit(self, frame):
        width, height = frame.get_value("width"), frame.get_value("height")
        for net in self.nets:
            net.fit(width, height)
        ok, n, d = frame.get_fraction("framerate")
        if self.delay and self.source.live:
            waiting = math.ceil(self.delay * (n / d if ok and n else self.chosen.rate))
            self.parts["video"].props.max_size_buffers = IN_QUEUE + waiting
        # The network whose input has the nearest shape sees the frames.
        self.net = min(self.nets, key=lambda net: abs(math.log(width * net.height / (height * net.width))))
        if self.masks:
            self.parts["input"].props.caps = Gst.Caps.from_string(self.net.letterbox[1])
        if self.net.description.fit == "stretch":
            # cudaletterbox keeps the aspect: pixels of this shape fill the network's input.
            shape = f"{height * self.net.width}/{width * self.net.height}"
            self.parts["aspect"].props.caps = Gst.Caps.from_string(f"video/x-raw,pixel-aspect-ratio={shape}")
            if self.parts["back"]:
                ok, n, d = frame.get_fraction("pixel-aspect-ratio")
                shape = f"{n}/{d}" if ok else "1/1"
                self.parts["back"].props.caps = Gst.Caps.from_string(f"video/x-raw,pixel-aspect-ratio={shape}")
        if self.parts["matte"] and self.chosen.mask_error is None and not any(
                each.startswith("mask-error=") for each in self.chosen.matte):
            self.parts["matte"].props.mask_error = network.mask_error(self.net, width, height)
            if self.server:
                self.server.board.controls["matte"].fitted()

    def leave(self, pad, info):
        if not info.type & Gst.PadProbeType.BUFFER:
            event = info.get_event()
            if event.type == Gst.EventType.CAPS and not self.parts["rate"].props.caps.get_size():
                ok, n, d = event.parse_caps().get_structure(0).get_fraction("framerate")
                if ok:
                    self.parts["rate"].props.caps = Gst.Caps.from_string(f"video/x-raw,framerate={n}/{d}")
            return Gst.PadProbeReturn.OK
        at, now = running_time(pad, info.get_buffer()), time.monotonic()
        with self.lock:
            self.left += 1
            self.newest = now
            self.first = self.first or now
            begun = self.entries.pop(at, None)
            if len(self.entries) > 100:  # most of them belong to frames that were dropped
                self.entries = {key: value for key, value in self.entries.items() if now - value < 5}
            clock = self.pipeline.get_clock()
            if self.source.live and clock and at is not None:
                self.latencies.append((clock.get_time() - self.pipeline.get_base_time() - at) / Gst.SECOND)
            elif begun is not None:
                self.latencies.append(now - begun)
        return Gst.PadProbeReturn.OK

    def report(self):
        if not self.loop.is_running():
            return False
        now = time.monotonic()
        with self.lock:
            frames, latencies, self.latencies = self.left - self.last[1], self.latencies, []
            self.last, before = (now, self.left), self.last
            joined = self.masks.joined + self.parts["video"].props.current_level_buffers if self.masks else self.entered
            dropped = self.entered - joined
        ages, seconds, late, still = self.masks.report() if self.masks else ([], [], 0, 0)
        span = now - before[0]
        told = {"seconds": now - self.begun, "frames": self.left, "frames_per_second": frames / span,
                "latency_ms": mean(latencies), "mask_age_ms": mean(ages),
                "mask_age_longest_ms": 1000 * max(ages) if ages else None,
                "masks_per_second": len(seconds) / span, "network_ms": mean(seconds), "late": late, "still": still,
                "dropped": max(dropped, 0) if self.source.live else 0}
        if self.chosen.json:
            fetch.say(json.dumps({name: value and round(value, 2) for name, value in told.items()}), "stdout")
        elif not self.chosen.quiet:
            fetch.say(line_of(told))
        if self.reader and not self.entered and self.reader.stopped():
            self.fail(Failure(f"{self.source.name}: there is nothing in it that can be played"))
        return True

    def fail(self, error):
        """Ends the program with an error. Any thread may call it, and the first error is shown."""
        self.failure = self.failure or error
        GLib.idle_add(self.give_up)

    def give_up(self):
        if not (self.writes and self.left):
            self.loop.quit()
        elif not self.ending:
            # The recording up to the camera's removal is kept.
            self.end()
        return False

    def decodes(self, element):
        """Returns whether the element belongs to the reader of the file."""
        decode = self.parts["decode"]
        return decode and (element == decode or element.has_as_ancestor(decode))

    def sends(self, element):
        """Returns whether the element belongs to what writes or sends the result."""
        sink = self.parts["file"] or self.parts["mux"]
        return sink and (element == sink or element.has_as_ancestor(sink))

    def message(self, bus, message):
        if message.type == Gst.MessageType.EOS:
            rate = self.parts["rate"].props.caps
            if self.writes and self.left == 1 and rate.get_size() and rate.to_string().endswith("0/1"):
                self.failure = Failure(f"{self.source.name} is a picture, but a video or a camera is needed")
                self.left = 0
            self.loop.quit()
        elif message.type == Gst.MessageType.ERROR:
            error, detail = message.parse_error()
            if self.chosen.output == "window" and message.src.has_as_ancestor(self.parts["window"]) and \
                    error.matches(Gst.ResourceError.quark(), Gst.ResourceError.NOT_FOUND) and self.left:
                self.loop.quit()  # the window was closed
            elif message.src == self.parts["pipewire"]:
                # Some versions (1.2 to 1.4) report an error when the last viewer goes.
                if error.message != "all buffers have been removed":
                    self.fail(Failure(f"--output pipewire: {error.message}: is PipeWire running, with a session "
                                      "manager (wireplumber)?"))
            elif self.sends(message.src):
                self.writes = False  # nothing more is written
                self.fail(Failure(f"--output {self.chosen.output}: {error.message}"
                                  + (" The file is not complete." if self.left else "")))
            elif self.decodes(message.src):
                self.fail(Failure(f"{self.source.name}: {source.reason(error, self.undecoded, self.source.name)}"))
            else:
                self.fail(Failure(f"{message.src.get_name()}: {error.message}"
                                  + (f"\n{detail}" if os.environ.get("GST_DEBUG") else "")))
        elif message.type == Gst.MessageType.ELEMENT:
            self.undecoded += source.undecoded(message)
        elif message.type == Gst.MessageType.WARNING and self.server and message.src == self.parts["matte"]:
            self.server.board.warn(message)
        elif message.type == Gst.MessageType.WARNING and message.src == self.parts["window"]:
            # Without a window, autovideosink goes on with a sink that shows nothing.
            self.fail(Failure("no window can be opened: is DISPLAY or WAYLAND_DISPLAY right, and is there an element "
                              "for it (apt install gstreamer1.0-x gstreamer1.0-gl)? --output FILE.mp4 makes a file"))
        elif message.type == Gst.MessageType.INFO:
            self.tell(message.parse_info()[0].message)

    def summary(self):
        text = f"{self.left} frames in {time.monotonic() - self.begun:.1f} s"
        if self.left > 1 and self.newest > self.first:
            # The network and the GPU take seconds to start, so the rate counts from the first frame.
            text += (f": {(self.left - 1) / (self.newest - self.first):.1f} frames/s from the first, after "
                     f"{self.first - self.begun:.1f} s")
        if self.masks:
            text += f", {self.masks.made} masks"
        return text + (f": made {self.chosen.output}" if self.writes else "")

    def end(self):
        self.ending += 1
        if self.ending > 1:
            if self.writes:
                self.failure = self.failure or Failure(f"interrupted: {self.chosen.output} is not complete")
            self.loop.quit()
            return False
        # Frames carry the end on. For a source that gives none, it is sent after 2 seconds.
        GLib.timeout_add_seconds(2, lambda: self.pipeline.send_event(Gst.Event.new_eos()) and False)
        GLib.timeout_add_seconds(3 if self.failure else 10, self.loop.quit)
        return True

    def run(self):
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message", self.message)
        # A terminal that is closed sends SIGHUP.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            on_signal(GLib.PRIORITY_HIGH, number, lambda: self.end() or True)
        self.begun = time.monotonic()
        self.last = self.begun, 0
        if self.masks:
            self.masks.start()
        if self.chosen.page is not None:
            self.server = page.serve(self)
            fetch.say(f"Tune at {self.server.address}")
        if self.pipeline.set_state(Gst.State.PLAYING) != Gst.StateChangeReturn.FAILURE:
            GLib.timeout_add_seconds(1, self.report)
            if self.chosen.seconds:
                GLib.timeout_add_seconds(self.chosen.seconds, lambda: self.end() and False)
        self.loop.run()
        if self.server:
            self.server.stop()
        if self.masks:
            self.masks.stop()
        self.pipeline.set_state(Gst.State.NULL)
        if self.behind:
            self.behind.stop()
        if self.writes and not self.left:
            # A file without a frame cannot be played.
            self.failure = self.failure or Failure(f"no frame came for {self.chosen.output}")
            if os.path.isfile(self.chosen.output):
                os.remove(self.chosen.output)
        if self.left or not self.failure:
            fetch.say(self.summary())
        if self.failure:
            raise self.failure


def main(built=None):
    """`built` is a folder with the plugin, used if GStreamer has none."""
    chosen = options()
    Gst.init(None)
    GLib.set_application_name("live-matte")  # the window's title
    try:
        if not Gst.ElementFactory.find("cudaguidedmatte") and built and built.is_dir():
            Gst.Registry.get().scan_path(str(built))
        for name in ("cudaguidedmatte", "cudaletterbox"):
            if not Gst.ElementFactory.find(name):
                raise Failure(f"GStreamer has no element {name}: install this project's plugin, or build it in "
                              "the tree (meson setup build && ninja -C build)")
        source.element("alphacombine", "gstreamer1.0-plugins-bad")
        source.element("capssetter", "gstreamer1.0-plugins-good")
        Program(chosen).run()
    except (Failure, GLib.Error) as error:
        sys.exit(f"live-matte: {error.message if isinstance(error, GLib.Error) else error}")
    except KeyboardInterrupt:
        sys.exit(130)
