"""Copies the first sound track of a file to the output, without re-encoding if it is AAC."""
from gi.repository import Gst

from . import Failure, fetch, running_time
from .source import VIDEO

#: The muxers take this format without encoding.
CODED = "audio/mpeg, mpegversion=(int)4"
ENCODERS = "fdkaacenc", "avenc_aac", "voaacenc"
#: Muxers name their pads for sound in these ways.
PADS = "audio_%u", "audio", "sink_%d"


class Sound:
    def __init__(self, name, decode, pipeline, mux, until, failed):
        """`decode` reads the file `name`, and `mux` writes the other. `until` returns the time when
        the sound must end, or None to end with its file."""
        self.name, self.pipeline, self.mux, self.until, self.failed = name, pipeline, mux, until, failed
        self.seen = set()  # kinds of streams seen so far
        decode.props.caps = Gst.Caps.from_string(f"{VIDEO}; audio/x-raw(ANY); {CODED}")
        decode.connect("pad-added", self.added)
        decode.connect("no-more-pads", self.complete)

    def added(self, decode, pad):
        caps = (pad.get_current_caps() or pad.query_caps(None)).get_structure(0).get_name()
        kind = caps.partition("/")[0]
        if kind == "audio" and "audio" not in self.seen:
            self.join(pad, caps == "audio/mpeg")
        self.seen.add(kind)

    def join(self, pad, coded):
        encoder = next(filter(Gst.ElementFactory.find, ENCODERS), None)
        if not coded and not encoder:
            fetch.say(f"The sound of {self.name} is left out: GStreamer has no encoder for AAC. On Debian and Ubuntu: "
                      "apt install gstreamer1.0-libav")
            return
        # The muxer takes sound only up to the newest frame, and the network delays frames.
        way = Gst.parse_bin_from_description(
            "queue name=sound max-size-buffers=0 max-size-bytes=0 max-size-time=0 ! "
            + ("aacparse" if coded else f"audioconvert ! audioresample ! {encoder} ! aacparse"), True)
        self.pipeline.add(way)
        name = next(each for each in PADS if self.mux.get_pad_template(each))
        way.get_static_pad("src").link(self.mux.request_pad_simple(name))
        way.sync_state_with_parent()
        way.get_by_name("sound").get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, self.leave)
        pad.link(way.get_static_pad("sink"))

    def leave(self, pad, info):
        """Ends the sound with the frames when the program is told to end."""
        until = self.until()
        if until is None or (running_time(pad, info.get_buffer()) or 0) < until:
            return Gst.PadProbeReturn.OK
        pad.push_event(Gst.Event.new_eos())
        return Gst.PadProbeReturn.DROP

    def complete(self, decode):
        if "video" not in self.seen:
            self.failed(Failure(f"{self.name}: there is no video in it"))
