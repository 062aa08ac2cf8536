"""Makes descriptions for Gst.parse_launch of the background and of the output."""
import dataclasses
import os
import pathlib
import re

from gi.repository import Gst

from . import Failure
from .source import element, quoted

LOOPBACK = """On Debian and Ubuntu:
  apt install v4l2loopback-dkms
  modprobe v4l2loopback video_nr=10 card_label=live-matte exclusive_caps=1
and then --output /dev/video10"""

OUTPUTS = ("window, FILE.mp4, FILE.mov, FILE.mkv, hls:FOLDER, rtmp://..., srt://..., /dev/videoN (v4l2loopback), "
           "pipewire, none, or '! ELEMENTS'")

# All programs take this format from a camera.
CAMERA = "video/x-raw,format=YUY2"


@dataclasses.dataclass
class Background:
    matte: str  #: properties of cudaguidedmatte
    behind: str = ""  #: a branch that fills the pad behind of the compositor; none without one


def background(text):
    if text in ("matte", "mask"):
        return Background("output=matte")
    kind, _, value = text.partition(":")
    if kind == "blur":
        try:
            sigma = float(value) if value else 20.0
        except ValueError:
            sigma = 0.0
        if not 2 <= sigma <= 256:
            raise Failure(f"--background {text}: SIGMA of blur:SIGMA must be a number of pixels from 2 to 256")
        return Background(f"output=composite background=blur background-sigma={sigma} foreground=estimate")
    if kind == "color":
        if not re.fullmatch("[0-9a-fA-F]{6}", value):
            raise Failure(f"--background {text}: color:RRGGBB must have six hexadecimal digits, as in color:00b140")
        return Background(f"output=composite background=color background-color=0xff{value} foreground=estimate")
    path = pathlib.Path(text)
    if not path.is_file():
        raise Failure(f"--background {text}: must be blur[:SIGMA], color:RRGGBB, matte, mask or a file that exists")
    element("compositor", "gstreamer1.0-plugins-base")
    element("aspectratiocrop", "gstreamer1.0-plugins-good")
    return Background("output=alpha foreground=estimate", path.resolve().as_uri())


def output(text, live, bitrate):
    """Returns the branch behind the result, and whether it writes a file."""
    # A live source sets the pace, so the sink need not wait.
    paced = "false" if live else "true"
    if text == "window":
        element("autovideosink", "gstreamer1.0-plugins-good")
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            raise Failure("there is no display for a window (neither DISPLAY nor WAYLAND_DISPLAY is set): "
                          "--output FILE.mp4 makes a file")
        # autovideosink tries it where no other sink works, and DirectFB then ends the program.
        directfb = Gst.ElementFactory.find("dfbvideosink")
        if directfb:
            directfb.set_rank(Gst.Rank.NONE)
        return f"videoconvert ! autovideosink name=window sync={paced}", False
    if text == "none":
        return "fakesink sync=false", False
    if text == "pipewire":
        element("pipewiresink", "gstreamer1.0-pipewire")
        return (f"videoconvert ! {CAMERA} ! identity drop-allocation=true ! pipewiresink name=pipewire mode=provide "
                f"sync={paced} "
                'stream-properties="properties,media.class=Video/Source,media.role=Camera,'
                'node.name=live-matte,node.description=live-matte"'), False
    if text.startswith("/dev/"):
        element("v4l2sink", "gstreamer1.0-plugins-good")
        if not pathlib.Path(text).exists():
            raise Failure(f"there is no {text}: a virtual camera takes the kernel module v4l2loopback. {LOOPBACK}")
        return f"videoconvert ! {CAMERA} ! v4l2sink device={quoted(text)} sync={paced}", False
    if text.startswith("!"):
        return f"videoconvert {text}", False
    scheme = text.partition(":")[0]
    if scheme in ("rtmp", "rtmps", "srt"):
        # Servers get frames at the pace of their times, also those of a file.
        encoded = f"videoconvert ! video/x-raw,format=I420 ! {encoder(True, bitrate)} ! h264parse config-interval=-1"
        if scheme == "srt":
            element("srtsink", "gstreamer1.0-plugins-bad")
            return (f"{encoded} ! mpegtsmux name=mux alignment=7 ! srtsink name=file uri={quoted(text)} sync={paced} "
                    "wait-for-connection=false"), False
        element("rtmp2sink", "gstreamer1.0-plugins-bad")
        return (f"{encoded} ! flvmux name=mux streamable=true ! rtmp2sink name=file location={quoted(text)} "
                f"sync={paced}"), False
    if scheme == "hls":
        return hls(pathlib.Path(text[4:]), live, bitrate), True
    path = pathlib.Path(text)
    muxers = {".mp4": "mp4mux", ".mov": "qtmux", ".mkv": "matroskamux"}
    file = f"filesink name=file location={quoted(path)}"
    if Gst.Uri.is_valid(text):
        raise Failure(f"--output {text} is a URI that the program cannot send to: --output is {OUTPUTS}")
    if path.suffix.lower() not in muxers:
        raise Failure(f"--output {text}: --output is {OUTPUTS}")
    if not path.parent.is_dir():
        raise Failure(f"--output {text}: there is no folder {path.parent}")
    element("h264parse", "gstreamer1.0-plugins-bad")
    return (f"videoconvert ! video/x-raw,format=I420 ! {encoder(live, bitrate)} ! h264parse "
            f"! {muxers[path.suffix.lower()]} name=mux ! {file}"), True


def hls(folder, live, bitrate):
    """Returns the branch that writes a playlist and its segments."""
    element("hlssink2", "gstreamer1.0-plugins-bad")
    if not folder.name or not folder.parent.is_dir():
        raise Failure(f"--output hls:{folder}: there is no folder {folder.parent}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise Failure(f"--output hls:{folder}: cannot make the folder ({error.strerror})") from None
    # A camera's playlist moves on, and the playlist of a file has all of it.
    kept = "playlist-length=5 max-files=10" if live else "playlist-length=0 max-files=0"
    return (f"videoconvert ! video/x-raw,format=I420 ! {encoder(live, bitrate)} ! h264parse config-interval=-1 "
            f"! mux.video hlssink2 name=mux target-duration=2 {kept} "
            f"location={quoted(folder / 'segment%05d.ts')} playlist-location={quoted(folder / 'index.m3u8')}")


def encoder(live, bitrate):
    if Gst.ElementFactory.find("x264enc"):
        # A film can wait for a better encoding; a camera cannot.
        speed = "superfast tune=zerolatency" if live else "veryfast"
        # Reordered frames get wrong times where the rate of a camera changes.
        rate = f"bitrate={bitrate}" if bitrate else "pass=quant quantizer=0"
        return f"x264enc speed-preset={speed} bframes=0 {rate} key-int-max=60"
    if not bitrate:
        raise Failure("--bitrate 0 takes x264enc. On Debian and Ubuntu: apt install gstreamer1.0-plugins-ugly")
    if Gst.ElementFactory.find("openh264enc"):
        return f"openh264enc bitrate={bitrate * 1000} complexity=low"
    element("x264enc", "gstreamer1.0-plugins-ugly")
