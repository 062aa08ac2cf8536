#!/usr/bin/env python3
"""Runs the Python snippets of docs/embedding.md as they are written there."""
import os
import re
import subprocess
import sys
import time
import urllib.request

from harness import Skip, case, equal, free_port, load_gst, run

Gst = load_gst()
from gi.repository import GLib  # noqa: E402

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "embedding.md")
with open(PAGE, encoding="utf-8") as page:
    SNIPPETS = re.findall(r"```python\n(.*?)```", page.read(), re.S)


def snippet(words):
    """Returns the only snippet that has these words."""
    found = [text for text in SNIPPETS if words in text]
    assert len(found) == 1, f"{len(found)} snippets have {words!r}"
    return found[0]


def load(words):
    """Returns the names that a snippet defines."""
    names = {"Gst": Gst}
    exec(snippet(words), names)  # noqa: S102
    return names


def frames_until(sink, wanted):
    """Pulls frames until one has what is wanted."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        sample = sink.emit("try-pull-sample", 60 * Gst.SECOND)
        assert sample, "no frame came"
        buffer = sample.get_buffer()
        if wanted(buffer.extract_dup(0, buffer.get_size())):
            return
    raise AssertionError("no such frame came")


def playing(line):
    pipeline = Gst.parse_launch(line)
    pipeline.set_state(Gst.State.PLAYING)
    return pipeline


@case()
def every_snippet_is_run_here():
    equal(len(SNIPPETS), 4)


@case()
def prometheus():
    text = snippet("http.server")
    assert len([line for line in text.splitlines() if line.strip()]) <= 24, "it is no longer short"
    line = ("videotestsrc is-live=true ! video/x-raw,width=64,height=48 ! cudadenoise name=clean ! cudapixelate name=hide "
            "enabled=false ! fakesink")
    port = free_port()
    program = subprocess.Popen([sys.executable, "-c", text, line, str(port)], stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 90
        values = {}
        while values.get('cuda_filter_frames{element="hide"}', 0) < 5:
            assert time.monotonic() < end and program.poll() is None, (values, program.poll())
            time.sleep(0.2)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=90) as reply:
                    lines = reply.read().decode().splitlines()
            except OSError:
                continue
            # The format is a name, labels in braces, and a number.
            parts = [re.fullmatch(r"([a-z_]+\{element=\"\w+\"\}) (-?[0-9.e+-]+)", text) for text in lines]
            assert all(parts), lines
            values = {part[1]: float(part[2]) for part in parts}
    finally:
        program.kill()
        program.communicate()
    assert values['cuda_filter_passed{element="hide"}'] >= 5, values
    assert 'cuda_filter_noise_level{element="clean"}' in values, values
    assert values['cuda_filter_processing_time_mean{element="clean"}'] > 0, values


@case()
def messages():
    names = load("recalculate_latency")
    said = []
    names["print"] = lambda *words: said.append(" ".join(map(str, words)))
    pipeline = Gst.parse_launch("videotestsrc is-live=true ! video/x-raw,width=64,height=48 "
                                "! cudagaussian name=blur sigma=2 backend=cpu ! fakesink")
    names["watch_pipeline"](pipeline)
    pipeline.set_state(Gst.State.PLAYING)
    context = GLib.MainContext.default()

    def until(words):
        end = time.monotonic() + 90
        while not any(words in line for line in said):
            assert time.monotonic() < end, (words, said)
            context.iteration(False)
            time.sleep(0.01)

    until("blur filters on cpu -1")
    pipeline.get_by_name("blur").props.sigma = 90
    until("sigma cannot be 90.0 but 0 to ")
    equal(pipeline.get_by_name("blur").props.sigma, 2)
    pipeline.post_message(Gst.Message.new_error(pipeline, GLib.Error("it broke"), ""))
    until("it broke")
    equal(pipeline.get_state(0)[1], Gst.State.NULL)


@case("cudapixelate block-size=16", "cudagaussian sigma=4", "cudadenoise strength=3")
def insert_and_remove(filters):
    names = load("def insert(")
    pipeline = playing("videotestsrc name=source pattern=checkers-8 is-live=true ! video/x-raw,format=GRAY8,width=64,height=64,framerate=100/1 "
                       "! queue name=before ! appsink name=sink max-buffers=2 sync=false")
    sink, before = pipeline.get_by_name("sink"), pipeline.get_by_name("before")
    plain = sink.emit("pull-sample").get_buffer()
    plain = plain.extract_dup(0, plain.get_size())
    for _ in range(5):
        name, *settings = filters.split()
        element = Gst.ElementFactory.make(name)
        for setting in settings:
            Gst.util_set_object_arg(element, *setting.split("="))
        names["insert"](before, element)
        # The denoiser leaves a clean picture as it is, so its counter shows that it is there.
        if name == "cudadenoise":
            frames_until(sink, lambda _: element.props.stats.get_value("frames") > 2)
        else:
            frames_until(sink, lambda data: data != plain)
        names["remove"](element)
        frames_until(sink, lambda data: data == plain)
        end = time.monotonic() + 90
        while element.get_parent():
            assert time.monotonic() < end, "it was not removed"
            time.sleep(0.01)
        frames_until(sink, lambda data: data == plain)
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    assert not message, message.parse_error()


@case()
def shared_contexts():
    names = load("share_contexts")
    probe = playing("videotestsrc num-buffers=1 ! cudagaussian backend=auto ! fakesink name=sink")
    info = probe.get_bus().timed_pop_filtered(60 * Gst.SECOND, Gst.MessageType.INFO)
    probe.set_state(Gst.State.NULL)
    if info.parse_info_details().get_value("backend") != "cuda":
        raise Skip("no device")
    made = []

    def count(bus, message):
        if message.type == Gst.MessageType.HAVE_CONTEXT:
            made.append(message.parse_have_context())
        return share(bus, message)

    share, names["share_contexts"] = names["share_contexts"], count
    pipelines = []
    def play(device):
        # Frames are small and few, so that the pipelines that play already need little of an emulated device.
        pipeline = Gst.parse_launch("videotestsrc is-live=true ! video/x-raw,width=32,height=24,framerate=5/1 ! cudagaussian "
                                    f"name=filter sigma=2 backend=cuda cuda-device-id={device} ! fakesink")
        names["start"](pipeline)
        equal(pipeline.get_state(90 * Gst.SECOND)[1], Gst.State.PLAYING)
        pipelines.append(pipeline)
        return pipeline.get_by_name("filter").props.stats.get_value("device")

    for _ in range(3):
        play(-1)
    equal(len(made), 1)
    if os.environ.get("VF_EMULATION_DEVICE") == "devices=2":
        # Each device has one context, however many pipelines there are and whichever comes first.
        for device in [1, 0, 1, 1, 0]:
            equal(play(device), device)
        equal(len(made), 2)
    for pipeline in pipelines:
        pipeline.set_state(Gst.State.NULL)


run()
