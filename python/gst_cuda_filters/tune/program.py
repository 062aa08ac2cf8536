"""Runs a pipeline and serves a page that tunes this plugin's elements in it.

The page shows the picture before and after the filters, has a control for every property, and gives the
gst-launch-1.0 line with the settings to copy.
"""
import argparse
import os
import pathlib
import queue
import signal
import sys
import threading

from gi.repository import GLib, Gst

from .._program import Failure, on_signal
from . import controls, description
from .pictures import Pictures
from .server import PORT, Board, Server

EXAMPLES = """examples:
  %(prog)s 'v4l2src ! videoconvert ! cudadenoise'
  %(prog)s 'filesrc location=clip.mp4 ! decodebin ! videoconvert ! cudapixelate ! videoconvert ! autovideosink'
  %(prog)s --bind 0.0.0.0 'v4l2src ! videoconvert ! cudagaussian'     from a phone in the same network

PIPELINE is written as for gst-launch-1.0. Without a sink at its end, the picture is only on the page. Files play in
a loop. Ctrl-C ends the program.
"""
# Seconds that a pipeline may take to start again after a change that needs it.
START = 10


def port(text):
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number from 0 to 65535")
    return int(text)


def options(arguments=None):
    parser = argparse.ArgumentParser(prog="gst-cuda-filters-tune", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("pipeline", nargs="+", metavar="PIPELINE", help="a pipeline with at least one element of this plugin, as one "
        "text or as for gst-launch-1.0")
    add("--port", type=port, metavar="N", help=f"port of the page; 0 is any free one (default: {PORT}, or any if "
        "another program has it)")
    add("--bind", default="127.0.0.1", metavar="ADDRESS", help="address to serve the page on (127.0.0.1: this machine "
        "only). For other addresses, the page's own address has a random token")
    add("--once", action="store_true", help="end with the stream instead of playing it again")
    return parser.parse_args(arguments)


class Program:
    def __init__(self, chosen):
        self.once = chosen.once
        self.loop = GLib.MainLoop()
        self.failure = self.end = None
        self.restarting = None  # while the pipeline starts again, a queue of its errors
        self.lock = threading.Lock()
        self.text = description.joined(chosen.pipeline)
        self.pipeline = self.make()
        filters = controls.elements(self.pipeline)
        if not filters:
            raise Failure("the pipeline has no element of this plugin, which are " + ", ".join(controls.factories()))
        names = [each.get_factory().get_name() for each in filters]
        self.elements = [controls.Element(each, name if names.count(name) == 1 else None, self.restart)
                         for each, name in zip(filters, names)]
        before = next(iter(filters[0].sinkpads), None)
        after = next(iter(filters[-1].srcpads), None)
        if not before or not after:
            raise Failure(f"{filters[0].get_name()} and {filters[-1].get_name()} must be linked")
        left_out = {each.id for each in self.elements} - {each.name for each in self.mentions}
        note = f"The line lacks the settings of {', '.join(sorted(left_out))}, which other elements make." if left_out \
            else ""
        self.board = Board("gst-cuda-filters-tune", self.elements, Pictures(before, after), self.line, note)
        self.server = Server(self.board, chosen.bind, chosen.port)

    def make(self):
        pipeline = self.parse()
        if any(not pad.is_linked() for element in pipeline.children for pad in element.srcpads):
            self.text += " ! fakesink sync=true"
            pipeline = self.parse()
        return pipeline

    def parse(self):
        self.mentions = description.mentions(self.text, controls.factories())
        try:
            pipeline = Gst.parse_launch(description.named(self.text, self.mentions))
        except GLib.Error as error:
            raise Failure(f"the pipeline cannot be made: {error.message}") from None
        if not isinstance(pipeline, Gst.Bin):
            whole = Gst.Pipeline.new()
            whole.add(pipeline)
            pipeline = whole
        return pipeline

    def line(self):
        """Returns the gst-launch-1.0 line with the settings of this moment."""
        settings = {each.id: each.words() for each in self.elements}
        words = [" ".join([each.factory, *([f"name={each.name}"] if each.typed else []), *settings.get(each.name, [])])
                 for each in self.mentions]
        return description.shell(description.replaced(self.text, self.mentions, words))

    def restart(self, change, undo):
        """Starts the pipeline again with a change. If it does not start, it starts without the change."""
        with self.lock:
            self.restarting = queue.SimpleQueue()
            try:
                why = self.start_with(change)
                if why:
                    self.start_with(undo)
                    raise Failure(why)
            finally:
                self.restarting = None

    def start_with(self, change):
        """Returns why the pipeline does not start with a change, or None."""
        self.pipeline.set_state(Gst.State.READY)
        change()
        while not self.restarting.empty():
            self.restarting.get()
        self.pipeline.set_state(Gst.State.PLAYING)
        result, _, _ = self.pipeline.get_state(START * Gst.SECOND)
        if result == Gst.StateChangeReturn.FAILURE:
            try:
                return self.restarting.get(timeout=2)
            except queue.Empty:
                return "the pipeline does not start"
        return None

    def again(self):
        """Plays the stream from its beginning. Returns whether it can."""
        return not self.once and self.pipeline.seek_simple(Gst.Format.TIME, Gst.SeekFlags.FLUSH, 0)

    def message(self, bus, message):
        if message.type == Gst.MessageType.EOS:
            if not self.again():
                self.end = "The stream has ended."
                self.loop.quit()
        elif message.type == Gst.MessageType.ERROR:
            error, detail = message.parse_error()
            # The first line of the detail is a place in GStreamer's sources.
            text = " ".join([f"{message.src.get_name()}: {error.message}", *(detail or "").split("\n")[1:]])
            restarting = self.restarting
            if restarting:
                restarting.put(text)
                return
            self.failure = self.failure or Failure(text)
            self.loop.quit()
        elif message.type == Gst.MessageType.WARNING:
            self.board.warn(message)
        elif message.type == Gst.MessageType.LATENCY:
            self.pipeline.recalculate_latency()

    def run(self):
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message", self.message)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            on_signal(GLib.PRIORITY_HIGH, number, lambda: self.loop.quit() or True)
        # A pipeline that cannot start has a message on the bus, which the loop reads.
        self.pipeline.set_state(Gst.State.PLAYING)
        GLib.idle_add(lambda: print(f"Tune at {self.server.address}", file=sys.stderr, flush=True))
        self.loop.run()
        self.server.stop(f"The pipeline has failed. {self.failure}" if self.failure else self.end)
        self.pipeline.set_state(Gst.State.NULL)
        if self.failure:
            raise self.failure


def main(built=None, presets=None):
    """`built` is a folder with the plugin, used if GStreamer has none, and `presets` one with its presets."""
    chosen = options()
    if presets and presets.is_dir():
        os.environ.setdefault("GST_PRESET_PATH", str(presets))
    Gst.init(None)
    try:
        if not Gst.ElementFactory.find("cudagaussian") and built and pathlib.Path(built).is_dir():
            Gst.Registry.get().scan_path(str(built))
        if not Gst.ElementFactory.find("cudagaussian"):
            raise Failure("GStreamer has no element cudagaussian: install this project's plugin, or build it in the "
                          "tree (meson setup build && ninja -C build)")
        Program(chosen).run()
    except Failure as error:
        sys.exit(f"gst-cuda-filters-tune: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
