"""Tests which mask a frame of live-matte gets, when the network need not run, and that sound stays with its frames."""
import re
import time

import numpy as np
from common import FOLDER, Gst, make, punctual, run_program, samples_of
from files import H264, encoder
from harness import Skip, case, equal
from gst_cuda_filters.live_matte import still

PLAIN = "--background", "color:203040", "--backend", "cpu"


def picture(texture=20):
    """Returns a picture of 360 x 640 with soft parts and sharp ones, and a texture of that level."""
    y, x = np.mgrid[:360, :640]
    values = 60 + x / 8 + 30 * np.sin(y / 40) + 40 * ((x // 64 + y // 64) % 2)
    return values + np.random.default_rng(0).normal(0, texture, values.shape) * (x > 400)


def noisy(values, level, seed):
    values = values + np.random.default_rng(seed).normal(0, 1, values.shape) * level
    return still.Picture(np.clip(values + 0.5, 0, 255).astype(np.uint8))


def moved(values, top, left, size, by):
    """Moves a piece of the picture."""
    values = values.copy()
    values[top + by:top + by + size, left + by:left + by + size] = values[top:top + size, left:left + size].copy()
    return values


# Each name has the level of the noise, what changes, and whether the picture stands still.
PICTURES = {
    "nothing": (0, lambda it: it, True),
    "noise of a good camera": (1, lambda it: it, True),
    "noise of a camera in poor light": (6, lambda it: it, True),
    "more noise where it is bright": (lambda it: 1 + it / 80, lambda it: it, True),
    "a small piece, without noise": (0, lambda it: moved(it, 100, 120, 24, 2), False),
    "a small piece, with noise": (2, lambda it: moved(it, 100, 120, 24, 8), False),
    "a hand in poor light": (6, lambda it: moved(it, 100, 100, 60, 30), False),
    "all of it": (2, lambda it: np.roll(it, 2, axis=1), False),
    "the light, a little": (2, lambda it: it + 3, False),
    "everything, as snow does": (0, lambda it: np.random.default_rng(7).normal(128, 60, it.shape), False),
    "a fine texture that moves everywhere": (0, lambda it: np.roll(it, 1, axis=0), False),
}


@case(*PICTURES)
def a_still_picture(name):
    level, change, expected = PICTURES[name]
    values = picture()
    levels = [level(each) if callable(level) else level for each in (values, change(values))]
    equal(still.same(noisy(change(values), levels[1], 2), noisy(values, levels[0], 1)), expected)


@case("70", "90")
def a_still_picture_as_jpeg(quality):
    """The coder leaves noise out in some blocks and changes it in others."""
    try:
        import cv2
    except ImportError as why:
        raise Skip(str(why)) from None
    pictures = []
    for seed in 1, 2:
        values = picture(0) + np.random.default_rng(seed).normal(0, 3, (360, 640))
        ok, data = cv2.imencode(".jpg", np.clip(values, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, int(quality)])
        pictures.append(still.Picture(cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)))
    assert still.same(*pictures)


@case()
def pictures_of_two_sizes_and_of_few_pixels():
    small = still.Picture(np.zeros((16, 16), np.uint8))
    assert still.same(small, still.Picture(np.zeros((16, 16), np.uint8)))
    assert not still.same(small, still.Picture(np.zeros((16, 18), np.uint8)))


class Slow:
    """Replaces the network by one that takes `seconds` and finds nobody."""

    def __init__(self, seconds=0.0):
        self.seconds, self.runs, self.ages, self.late = seconds, 0, [], 0

    def __call__(self, it):
        report, own = it.masks.report, it.net

        def mask(tensor):
            self.runs += 1
            time.sleep(self.seconds)
            return np.zeros((own.height, own.width), np.uint8)

        def told():
            kept = report()
            self.ages += kept[0]
            self.late += kept[2]
            return kept
        it.net.mask, it.masks.report = mask, told


def clip(frames, pattern, rate=20):
    file = FOLDER / "in.mp4"
    make(f"videotestsrc num-buffers={frames} pattern={pattern} ! video/x-raw,format=I420,width=320,height=180,"
         f"framerate={rate}/1 ! {H264} ! mp4mux ! filesink location={file}")
    return file


@case("smpte75", "ball")
def the_network_rests(pattern):
    """A still picture is shown to the network twice a second, and one that moves always."""
    network = Slow()
    it, said = run_program(clip(40, pattern), *PLAIN, "--output", "none", "--wait-for-mask", patch=network)
    assert (it.left, it.masks.made) == (40, 40), (it.left, it.masks.made, said)
    # The clip has 2 seconds. A coder may change a picture a little.
    assert network.runs == 40 if pattern == "ball" else 4 <= network.runs <= 8, network.runs


# Each name has the seconds that the network takes, the options, whether each frame has its own mask, and the range of
# the masks' mean age in ms.
DELAYS = {
    "a fast network": (0.02, "--delay 100", True, (0, 0)),
    "no delay": (0.02, "--delay 0", False, (30, 150)),
    "a network of 200 ms": (0.2, "--delay 100", False, (100, 400)),
    "a network of 70 ms": (0.07, "--delay 200", False, (5, 60)),
    "auto, into a file": (0.02, f"--output {FOLDER / 'live.mkv'}", True, (0, 0)),
    "auto, into nothing": (0.02, "", False, (30, 150)),
    "a film behind": (0.06, "--delay 150 --background {film}", False, (0, 60)),
}


@case(*DELAYS)
@punctual
def delay_of_a_camera(name):
    seconds, options, own, (least, most) = DELAYS[name]
    options = options.format(film=clip(20, "snow")).split()
    network = Slow(seconds)
    output = [] if "--output" in options else ["--output", "none"]
    it, said = run_program("test", "--size", "320x180", "--rate", 20, "--seconds", 4, *PLAIN, *options, *output,
                           patch=network)
    it.masks.report()
    assert it.left >= 70, (it.left, said)
    # The first frames may come before the network is ready, and a busy machine delays others.
    age = 1000 * np.median(network.ages[5:]) if own else 1000 * np.mean(network.ages[5:])
    assert least - 1 <= age <= most + 1, (age, network.ages, said)
    latencies = [float(text) for text in re.findall(r"latency +(\d+)", said)]
    assert max(latencies) <= 1000 * seconds + 80 or not own, said
    assert network.late <= 8 if own or "--delay" not in options or options[1] == "0" else network.late > 10, network.late
    assert "network too slow for" in said or network.late <= 10, said


@case("in time", "slower than the video")
@punctual
def delay_of_a_file(name):
    """A file that is shown keeps its pace, and each frame has its own mask if the network is fast enough."""
    network = Slow(0.02 if name == "in time" else 0.15)
    it, said = run_program(clip(60, "ball"), *PLAIN, "--output", "! videoconvert ! fakesink sync=true", patch=network)
    took = it.newest - it.first
    assert it.left == 60 and 2.4 < took < 3.4, (it.left, took, said)
    it.masks.report()
    own = sum(age == 0 for age in network.ages)
    assert own >= 57 if name == "in time" else 5 < own < 45, (network.ages, said)


@case()
def sound_waits_with_the_frames():
    """A flash and a tone that come together leave together."""
    file, made = FOLDER / "flash.mkv", FOLDER / "made.ts"
    raw, tone = FOLDER / "flash.raw", FOLDER / "flash.pcm"
    raw.write_bytes(bytes([16] * (320 * 180) + [128] * (320 * 90)) * 20 + bytes([235] * (320 * 180) + [128] * (320 * 90)) * 20)
    tone.write_bytes(np.int16(np.arange(88200) % 100 // 50 * 20000 * (np.arange(88200) >= 44100)).tobytes())
    make(f"matroskamux name=mux ! filesink location={file} filesrc location={raw} ! rawvideoparse format=i420 width=320 "
         f"height=180 framerate=20/1 ! {H264} ! mux. filesrc location={tone} ! rawaudioparse num-channels=1 ! audioconvert "
         f"! {encoder()} ! aacparse ! mux.")
    it, said = run_program(file, "--backend", "cpu", "--output", f"! {H264} ! mpegtsmux name=mux ! filesink location={made}",
                           patch=Slow(0.06))
    equal(it.left, 40)
    begun = {}
    for kind, conversion in (("video", "videoconvert ! video/x-raw,format=GRAY8 !"),
                             ("audio", "audioconvert ! audio/x-raw,format=S16LE,channels=1 !")):
        for sample in samples_of(made, conversion, kind):
            buffer = sample.get_buffer()
            data = np.frombuffer(buffer.extract_dup(0, buffer.get_size()), np.uint8 if kind == "video" else np.int16)
            if kind not in begun and np.abs(data.astype(int)).max() > (128 if kind == "video" else 4000):
                first = np.argmax(np.abs(data.astype(int)) > 4000) / 44100 if kind == "audio" else 0
                begun[kind] = buffer.pts / Gst.SECOND + first
    assert abs(begun["video"] - begun["audio"]) < 0.06, begun
