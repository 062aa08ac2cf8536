#!/usr/bin/env python3
"""Shows a camera or a clip in a browser, through filters whose settings the page changes.

    webrtc.py [--port 8080] [--address 127.0.0.1] [--source SOURCE] [--filter FILTER]

    webrtc.py --source 'v4l2src ! videoconvert' --filter 'cudadenoise'
    webrtc.py --source 'filesrc location=clip.mp4 ! decodebin ! videoconvert'

Open http://127.0.0.1:8080 in a browser. The page asks for an offer (POST /offer), the server starts the
pipeline and answers with the offer of webrtcbin, and the page posts its answer (POST /answer). Settings, statistics
and warnings then travel on a data channel. One page is served at a time: a new page takes over.

The page is served on ADDRESS alone, and only under an IP address, ADDRESS or localhost: a page of another site could
let a name of its own lead here. Who gets the page can see the video and change the settings in SAFE. The video itself
is encrypted, and goes to nobody else, on whatever address of this machine the browser reaches.

Needs gstreamer1.0-nice, gstreamer1.0-plugins-bad, gstreamer1.0-plugins-ugly, python3-gi and gir1.2-gst-plugins-bad-1.0.
"""
import argparse
import http.server
import ipaddress
import json
import pathlib
import sys
import threading
import time
import urllib.parse

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstSdp", "1.0")
    gi.require_version("GstWebRTC", "1.0")
    from gi.repository import GObject, Gst, GstSdp, GstWebRTC
except (ImportError, ValueError) as error:
    sys.exit(f"{error}. On Debian and Ubuntu: apt install python3-gi gir1.2-gst-plugins-bad-1.0, for /usr/bin/python3 "
             f"(this is {sys.executable})")

PAGE = pathlib.Path(__file__).with_name("page.html")
BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "gst"  # the plugin of the source tree
BODY_LIMIT = 65536  # bytes of a request

# The settings that a page may change. The elements check the values, and none of these ends a stream, changes the
# caps or makes a frame take long.
SAFE = {
    "cudadenoise": ("enabled", "strength", "spatial"),
    "cudagaussian": ("enabled", "sigma"),
    "cudaguidedmatte": ("enabled", "key-tolerance", "key-softness", "despill", "background-color"),
    "cudapixelate": ("enabled", "block-size"),
}
# The right end of a slider where the property allows more than a slider can show.
SLIDER_END = {"sigma": 40, "block-size": 128}
# A disc before a green screen, so that there is something to cut out.
SOURCE = (
    "videotestsrc is-live=true pattern=ball background-color=0xff00b140 foreground-color=0xffe8b090"
    " ! video/x-raw,width=640,height=360,framerate=30/1"
)
FILTER = (
    "cudadenoise ! cudaguidedmatte mask=chroma-key key-color=0x00b140 key-tolerance=0.15 despill=1"
    " output=composite background-color=0xff305080"
)
# Every browser decodes VP8, and H.264 of the constrained baseline profile.
ENCODERS = {
    "h264": "x264enc tune=zerolatency speed-preset=veryfast bitrate=2500 key-int-max=60"
    " ! video/x-h264,profile=constrained-baseline ! rtph264pay config-interval=-1 aggregate-mode=zero-latency"
    " ! application/x-rtp,media=video,encoding-name=H264,payload=96,packetization-mode=(string)1",
    "vp8": "vp8enc deadline=1 cpu-used=8 threads=4 target-bitrate=2500000 keyframe-max-dist=60"
    " ! rtpvp8pay picture-id-mode=15-bit ! application/x-rtp,media=video,encoding-name=VP8,payload=97",
}


class Failure(Exception):
    """Holds what the page is told."""


class Session:
    """Holds the pipeline of one page."""

    def __init__(self, source, filters, codec):
        # The queue keeps only the newest frame, so that a slow encoder adds no delay.
        self.pipeline = Gst.parse_launch(
            f"{source} ! clocksync ! {filters} ! videoconvert ! video/x-raw,format=I420"
            f" ! queue leaky=downstream max-size-buffers=1 ! {ENCODERS[codec]}"
            " ! webrtcbin name=peer bundle-policy=max-bundle"
        )
        self.elements = {
            element.get_name(): element
            for element in reversed(self.pipeline.children)
            if element.get_factory().get_name() in SAFE
        }
        self.peer = self.pipeline.get_by_name("peer")
        # webrtcbin posts no EOS message.
        self.peer.sinkpads[0].add_probe(Gst.PadProbeType.EVENT_DOWNSTREAM, self.passed)
        # Data channels can be made from READY on.
        self.start(Gst.State.READY)
        self.channel = self.peer.emit("create-data-channel", "settings", None)
        self.channel.connect("on-open", self.opened)
        self.channel.connect("on-message-string", self.received)
        self.open = self.closed = False
        self.ended = None  # why the stream has ended: a text, which is empty at the end of a clip
        self.lock = threading.Lock()  # guards open and ended
        for element in self.elements.values():
            element.set_property("stats-interval", 1000)
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def start(self, state):
        if self.pipeline.set_state(state) != Gst.StateChangeReturn.FAILURE:
            return
        message = self.pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        self.pipeline.set_state(Gst.State.NULL)
        if not message:
            raise Failure("The pipeline does not start.")
        error, detail = message.parse_error()
        # The first line of the detail is a place in GStreamer's sources.
        raise Failure(" ".join([f"{message.src.get_name()}: {error.message}", *(detail or "").split("\n")[1:]]))

    def offer(self):
        """Starts the pipeline and returns the offer, with all candidates."""
        self.start(Gst.State.PLAYING)
        self.thread.start()
        reply = self.ask("create-offer", None)
        self.ask("set-local-description", reply.get_value("offer"))
        end = time.monotonic() + 10
        while self.peer.props.ice_gathering_state != GstWebRTC.WebRTCICEGatheringState.COMPLETE:
            if time.monotonic() > end:
                raise Failure("webrtcbin found no address in 10 s.")
            time.sleep(0.02)
        return self.peer.props.local_description.sdp.as_text()

    def answer(self, text):
        result, sdp = GstSdp.SDPMessage.new_from_text(text)
        if result != GstSdp.SDPResult.OK:
            raise Failure("The answer is no SDP.")
        answer = GstWebRTC.WebRTCSessionDescription.new(GstWebRTC.WebRTCSDPType.ANSWER, sdp)
        self.ask("set-remote-description", answer)

    def ask(self, signal, argument):
        promise = Gst.Promise.new()
        self.peer.emit(signal, argument, promise)
        if promise.wait() != Gst.PromiseResult.REPLIED:
            raise Failure(f"webrtcbin has no reply to {signal}.")
        reply = promise.get_reply()
        if reply and reply.has_field("error"):
            raise Failure(reply.get_value("error").message)
        return reply

    def close(self):
        self.closed = True
        self.pipeline.set_state(Gst.State.NULL)
        if self.thread.is_alive() and self.thread is not threading.current_thread():
            self.thread.join()

    # The data channel

    def tell(self, **message):
        if self.open:
            self.channel.emit("send-string", json.dumps(message))

    def opened(self, _):
        with self.lock:
            self.open, ended = True, self.ended
        self.tell(controls=[
            control_of(name, element.find_property(prop), element.get_property(prop))
            for name, element in self.elements.items()
            for prop in SAFE[element.get_factory().get_name()]
        ])
        if ended is not None:
            self.tell(ended=ended)

    def end(self, why):
        """Tells the page that the stream has ended, or does so when the channel opens."""
        with self.lock:
            self.ended = self.ended or why
            told = self.open
        if told:
            self.tell(ended=why)

    def received(self, _, text):
        try:
            self.set(**json.loads(text))
        except (Failure, TypeError, ValueError) as error:
            self.tell(warning=str(error))

    def set(self, element, property, value):  # noqa: A002
        target = self.elements.get(element)
        if not target or property not in SAFE[target.get_factory().get_name()]:
            raise Failure(f"{element}.{property} cannot be set from here.")
        spec = target.find_property(property)
        if isinstance(value, bool) or spec.value_type == GObject.TYPE_BOOLEAN:
            allowed = isinstance(value, bool) and spec.value_type == GObject.TYPE_BOOLEAN
        else:
            numbers = (int, float) if spec.value_type == GObject.TYPE_DOUBLE else int
            allowed = isinstance(value, numbers) and spec.minimum <= value <= spec.maximum
        if not allowed:
            raise Failure(f"{element}.{property} cannot be {value}.")
        target.set_property(property, value)

    # The bus

    def passed(self, _, info):
        if info.get_event().type == Gst.EventType.EOS:
            self.end("")
        return Gst.PadProbeReturn.OK

    def watch(self):
        kinds = Gst.MessageType.ELEMENT | Gst.MessageType.WARNING | Gst.MessageType.ERROR
        bus = self.pipeline.get_bus()
        while not self.closed:
            message = bus.timed_pop_filtered(Gst.SECOND // 5, kinds)
            if not message:
                continue
            if message.type == Gst.MessageType.ELEMENT:
                if message.has_name("application/x-cuda-filter-stats"):
                    stats = message.get_structure()
                    fields = [stats.nth_field_name(n) for n in range(stats.n_fields())]
                    self.tell(element=message.src.get_name(), stats={f: stats.get_value(f) for f in fields})
            elif message.type == Gst.MessageType.WARNING:
                self.tell(warning=message.parse_warning()[0].message)
            else:
                text = message.parse_error()[0].message
                print(text, flush=True)
                self.end(text)


def control_of(name, spec, value):
    """Returns what the page needs to draw a control."""
    control = {"element": name, "property": spec.name, "help": spec.blurb, "value": value}
    if spec.value_type == GObject.TYPE_BOOLEAN:
        return {**control, "kind": "switch"}
    if spec.name.endswith("-color"):
        return {**control, "kind": "color"}
    kind = "number" if spec.value_type == GObject.TYPE_DOUBLE else "whole"
    maximum = min(spec.maximum, SLIDER_END.get(spec.name, spec.maximum))
    return {**control, "kind": kind, "minimum": max(spec.minimum, 0), "maximum": maximum}


class Handler(http.server.BaseHTTPRequestHandler):
    session = None
    lock = threading.Lock()
    options = None

    def is_ours(self):
        """Tells whether the browser asks for this server by an address, or by a name that only leads here."""
        try:
            host = urllib.parse.urlsplit("//" + self.headers.get("Host", "")).hostname or ""
            if host not in ("localhost", self.options.address):
                ipaddress.ip_address(host)
        except ValueError:
            return False
        return True

    def do_GET(self):
        if not self.is_ours():
            return self.send_error(403)
        if self.path != "/":
            return self.send_error(404)
        self.reply(PAGE.read_bytes(), "text/html; charset=utf-8")

    def do_POST(self):
        if not self.is_ours():
            return self.send_error(403)
        # A page of another site cannot send JSON here without asking first, and nobody answers it.
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Content-Type") != "application/json" or not length.isdecimal():
            return self.send_error(415)
        if int(length) > BODY_LIMIT:
            return self.send_error(413)
        try:
            body = json.loads(self.rfile.read(int(length)))
            with Handler.lock:
                reply = self.negotiate(body)
        except (Failure, KeyError, TypeError, ValueError) as error:
            return self.reply(json.dumps({"error": str(error)}).encode(), "application/json", 400)
        self.reply(json.dumps(reply).encode(), "application/json")

    def negotiate(self, body):
        if self.path == "/offer":
            if body["codec"] not in ENCODERS:
                raise Failure("The codec must be h264 or vp8.")
            if Handler.session:
                Handler.session.close()
            o = self.options
            Handler.session = Session(o.source, o.filter, body["codec"])
            return {"sdp": Handler.session.offer()}
        if self.path != "/answer" or not Handler.session:
            raise Failure("There is nothing to answer.")
        Handler.session.answer(body["sdp"])
        return {}

    def reply(self, body, kind, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--address", default="127.0.0.1", help="of this machine, where the page is served")
    parser.add_argument("--source", default=SOURCE, help="elements that give video")
    parser.add_argument("--filter", default=FILTER, help="elements that filter it")
    Handler.options = parser.parse_args()
    Gst.init(None)
    # An installed plugin has precedence.
    if not Gst.ElementFactory.find("cudagaussian") and BUILT.is_dir():
        Gst.Registry.get().scan_path(str(BUILT))
    # A wrong element or property, or a missing camera, shows here, and not when the first page comes.
    try:
        Session(Handler.options.source, Handler.options.filter, "h264").close()
    except gi.repository.GLib.Error as error:
        sys.exit(f"The pipeline cannot be made: {error.message}")
    except Failure as failure:
        sys.exit(f"The pipeline cannot start: {failure}")
    server = http.server.ThreadingHTTPServer((Handler.options.address, Handler.options.port), Handler)
    print(f"ready at http://{Handler.options.address}:{server.server_port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    if Handler.session:
        Handler.session.close()


if __name__ == "__main__":
    main()
