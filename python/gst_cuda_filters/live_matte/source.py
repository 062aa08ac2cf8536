"""Describes where frames come from: a camera, a file or URI, or a test pattern.

Each source is a description for Gst.parse_launch, whose last pad has raw video.
"""
import ctypes
import dataclasses
import fractions
import glob
import pathlib
import re

from gi.repository import GLib, Gst

from .. import _gst
from .._program import quoted
from . import Failure

VIDEO = "video/x-raw; video/x-raw(ANY)"


@dataclasses.dataclass
class Source:
    description: str
    live: bool
    name: str


def element(name, package):
    """Fails if GStreamer lacks the element."""
    if not Gst.ElementFactory.find(name):
        raise Failure(f"GStreamer has no element {name}. On Debian and Ubuntu: apt install {package}")
    return name


def undecoded(message):
    """Returns the stream for which GStreamer reports a missing decoder."""
    about = message.get_structure()
    if not about or about.get_name() != "missing-plugin":
        return []
    caps = about.get_value("detail")
    return [caps.get_structure(0).get_name() if isinstance(caps, Gst.Caps) else str(caps)]


def reason(error, streams, name):
    """Returns why a file or a URI cannot be read. `streams` are those that could not be decoded."""
    if not streams:
        remote = Gst.Uri.is_valid(str(name)) and not str(name).startswith("file:")
        if remote and error.matches(Gst.StreamError.quark(), Gst.StreamError.FAILED):
            # GStreamer's sources give no other reason if no server answers.
            return "nothing can be read from there. Is the address right, and is there a network connection?"
        return error.message
    if not any(each.startswith(("video/", "image/")) for each in streams):
        return "there is no video in it"
    return (f"nothing here decodes {', '.join(streams)}. On Debian and Ubuntu: "
            "apt install gstreamer1.0-libav gstreamer1.0-plugins-good gstreamer1.0-plugins-bad")


def has_alpha(caps):
    info = _gst.VideoInfo()
    known = _gst.video_info_from_caps(ctypes.byref(info), _gst.address_of(caps))
    return bool(known) and bool(info.finfo.contents.flags & _gst.FORMAT_ALPHA)


def same_file(one, other):
    """Returns whether two paths, or a URI and a path, name the same existing file or device."""
    if str(one).startswith("file:"):
        one = GLib.filename_from_uri(str(one))[0]
    one, other = pathlib.Path(one), pathlib.Path(other)
    return one.exists() and other.exists() and one.samefile(other)


def scaled(size):
    """Describes frames of one size, with borders if the aspect differs."""
    return f" ! videoscale ! video/x-raw,width={size[0]},height={size[1]},pixel-aspect-ratio=1/1" if size else ""


def make(where, size, rate):
    """`where` is a file, a URI, /dev/videoN, "test" for a moving ball, or None for the first
    camera."""
    if where is None:
        cameras = sorted(glob.glob("/dev/video*"), key=lambda path: int(re.sub(r"\D", "", path) or 0))
        if not cameras:
            raise Failure("there is no camera (no /dev/videoN). Name a video file, or try it with: "
                          "gst-cuda-live-matte test")
        for path in cameras[:-1]:
            try:
                return camera(path, size, rate)
            except Failure:
                # Many cameras have a second device, without video.
                continue
        return camera(cameras[-1], size, rate)
    if where == "test":
        width, height = size or (1280, 720)
        return Source(f"videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width={width},"
                      f"height={height},framerate={rate}/1", True, "test pattern")
    if str(where).startswith("/dev/"):
        return camera(where, size, rate)
    if Gst.Uri.is_valid(str(where)):
        uri = str(where)
    else:
        path = pathlib.Path(where)
        if not path.is_file():
            raise Failure(f"there is no file {where}")
        uri = path.resolve().as_uri()
    element("deinterlace", "gstreamer1.0-plugins-good")
    # Phones store the rotation of their video as metadata.
    description = (f"uridecodebin name=decode uri={quoted(uri)} caps={quoted(VIDEO)} ! video/x-raw(ANY) "
                   "! queue name=read max-size-bytes=0 max-size-buffers=3 ! videoconvert ! deinterlace "
                   "! videoflip video-direction=auto"
                   f"{scaled(size) or ' ! videoscale ! capsfilter name=size'}")
    return Source(description, uri.startswith(("rtsp:", "rtsps:", "rtp:", "udp:", "srt:")), str(where))


def camera(path, size, rate):
    if not pathlib.Path(path).exists():
        raise Failure(f"there is no camera {path}")
    mode = choose_mode(modes(path), size or (1280, 720), rate)
    if not mode:
        raise Failure(f"{path} gives no video that can be used")
    return Source(camera_line(path, mode, size), True, str(path))


def modes(path):
    """Returns the caps that a camera offers."""
    source = Gst.ElementFactory.make(element("v4l2src", "gstreamer1.0-plugins-good"))
    source.props.device = str(path)
    try:
        if source.set_state(Gst.State.READY) == Gst.StateChangeReturn.FAILURE:
            raise Failure(f"cannot open {path}: is another program using it, and are you in the group video?")
        return source.get_static_pad("src").query_caps(None)
    finally:
        source.set_state(Gst.State.NULL)


def camera_line(path, mode, size):
    decode = f" ! {element('jpegdec', 'gstreamer1.0-plugins-good')}" if mode.startswith("image/") else ""
    return f"v4l2src device={quoted(path)} ! {mode}{decode} ! videoconvert{scaled(size)}"


def choose_mode(caps, size, rate):
    """Returns the best of a camera's modes as caps, or None if there is none: the nearest size,
    then enough frames per second, then frames that need no decoding."""
    best, best_cost = None, None
    for i in range(caps.get_size()):
        structure = caps.get_structure(i)
        media = structure.get_name()
        if media not in ("video/x-raw", "image/jpeg"):
            continue
        width = nearest(structure, "width", size[0])
        height = nearest(structure, "height", size[1])
        if not width or not height:
            continue
        fps = nearest_rate(structure, rate)
        size_cost = abs(width * height - size[0] * size[1]) / (size[0] * size[1])
        shape_cost = abs(width / height - size[0] / size[1])
        slow = max(0.0, 1 - (fps or rate) / rate)
        # A camera of 10 frames per second is worse than one of another size.
        cost = (size_cost + 2 * shape_cost + 3 * slow, media != "video/x-raw")
        if best is None or cost < best_cost:
            mode = f"{media},width={width},height={height}"
            if media == "video/x-raw" and structure.get_string("format"):
                mode += f",format={structure.get_string('format')}"
            if fps:
                mode += f",framerate={fps.numerator}/{fps.denominator}"
            best, best_cost = mode, cost
    return best


def values(structure, field):
    """Returns the field as text: one value, a {list} or a [range]."""
    text = structure.to_string()
    match = re.search(rf"\b{field}=\(\w+\)(\{{[^}}]*\}}|\[[^\]]*\]|[^,;]+)", text)
    return match.group(1).strip() if match else ""


def nearest(structure, field, wanted):
    text = values(structure, field)
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    if not numbers:
        return None
    if text.startswith("["):
        low, high = numbers[0], numbers[1]
        step = numbers[2] if len(numbers) > 2 else 1
        return low + (min(max(wanted, low), high) - low) // step * step
    return min(numbers, key=lambda n: abs(n - wanted))


def nearest_rate(structure, wanted):
    text = values(structure, "framerate")
    rates = [fractions.Fraction(int(n), int(d or 1)) for n, d in re.findall(r"(\d+)(?:/(\d+))?", text) if int(n)]
    if not rates:
        return None
    if text.startswith("["):
        return min(max(fractions.Fraction(wanted), rates[0] if len(rates) > 1 else 0), rates[-1])
    return min(rates, key=lambda r: abs(r - wanted))
