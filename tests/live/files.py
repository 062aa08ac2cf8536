"""Tests live-matte with files as people have them: sound, sizes that change, no times, no video."""
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
from common import FOLDER, MISSING, PROGRAM, Gst, frames_of, live_matte, make, program, run_program, samples_of
from gst_cuda_filters._watch import Watch
from harness import Skip, case
from gst_cuda_filters.live_matte import fetch, source, sound

VIDEO = "videotestsrc num-buffers=20 pattern=ball ! video/x-raw,format=I420,width=320,height=180,framerate=20/1"
TONE = "audiotestsrc freq=440 num-buffers=20 samplesperbuffer=2205 ! audio/x-raw,rate=44100,channels=2 ! audioconvert"
H264 = "x264enc ! h264parse"
PLAIN = "--background", "color:203040"


def encoder():
    name = next(filter(Gst.ElementFactory.find, sound.ENCODERS), None)
    if not name:
        raise Skip("GStreamer has no encoder for AAC")
    return name


def clip(name="in.mp4"):
    file = FOLDER / name
    make(f"{VIDEO} ! {H264} ! mp4mux ! filesink location={file}")
    return file


def sound_of(file):
    """Returns the samples of a file's sound at 44.1 kHz."""
    buffers = [sample.get_buffer() for sample in samples_of(
        file, "audioconvert ! audioresample ! audio/x-raw,format=F32LE,rate=44100,channels=1 !")]
    return np.concatenate([np.frombuffer(b.extract_dup(0, b.get_size()), np.float32) for b in buffers]
                          or [np.zeros(0, np.float32)])


# Each name has the pipeline from the tone to the file, and the extension of the result.
SOUNDS = {
    "AAC": ("{encoder} ! aacparse ! mp4mux name=mux", "mp4"),
    "not coded": ("matroskamux name=mux", "mp4"),
    "into Matroska": ("{encoder} ! aacparse ! matroskamux name=mux", "mkv"),
}


@case(*SOUNDS)
def sound_goes_along(name):
    way, extension = SOUNDS[name]
    file, made = FOLDER / "talk", FOLDER / f"out.{extension}"
    make(f"{VIDEO} ! {H264} ! mux. {TONE} ! {way.format(encoder=encoder())} ! filesink location={file}")
    live_matte(file, *PLAIN, "--output", made)
    size, times = frames_of(made)
    assert (size, len(times)) == ((320, 180), 20), (size, len(times))
    samples = sound_of(made)
    assert 0.95 < len(samples) / 44100 < 1.15, len(samples)
    # The tone's start and end are left out.
    strength = np.abs(np.fft.rfft(samples[8820:35280]))
    assert abs(strength.argmax() * 44100 / 26460 - 440) < 5, strength.argmax()


@case()
def sound_ends_with_the_frames():
    """The sound ends with the last frame if the program is told to end."""
    file, made = FOLDER / "talk.mp4", FOLDER / "out.mp4"
    make(f"{VIDEO.replace('num-buffers=20', 'num-buffers=200')} ! {H264} ! mux. "
         f"{TONE.replace('num-buffers=20', 'num-buffers=200')} ! {encoder()} ! aacparse ! mp4mux name=mux "
         f"! filesink location={file}")
    seen = []

    def patch(it):
        def count(pad, info):
            seen.append(pad)
            if len(seen) == 40:
                it.end()
            return Gst.PadProbeReturn.OK
        it.parts["matte"].get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, count)
    run_program(file, *PLAIN, "--output", made, patch=patch)
    times, samples = frames_of(made)[1], sound_of(made)
    assert 40 <= len(times) < 200, len(times)
    assert abs(len(samples) / 44100 - len(times) / 20) < 0.3, (len(samples) / 44100, len(times) / 20)


@case("240x320", "640x360")
def a_size_that_changes(second):
    """The frame size changes, as in broadcasts. Frames are scaled to the first size, also for
    another network."""
    width, height = second.split("x")
    parts = []
    for part, size in (("a.ts", "width=320,height=180"), ("b.ts", f"width={width},height={height}")):
        make(f"{VIDEO.replace('width=320,height=180', size)} ! {H264} ! mpegtsmux ! filesink location={FOLDER / part}")
        parts.append((FOLDER / part).read_bytes())
    file, made = FOLDER / "in.ts", FOLDER / "out.mp4"
    file.write_bytes(b"".join(parts))
    live_matte(file, *PLAIN, "--output", made)
    size, times = frames_of(made)
    assert size == (320, 180) and 38 <= len(times) <= 40, (size, len(times))


@case("240x320", "640x480")
def another_network_from_then_on(second):
    """A camera is turned. Frames before and after that get masks of their own, and none waits for
    ever."""
    other = VIDEO.replace("width=320,height=180", "width={},height={}".format(*second.split("x")))
    sources = f"concat name=all  {VIDEO} ! all.  {other} ! all.  all. ! videoconvert"
    kept, program.source.make = program.source.make, lambda *_: source.Source(sources, False, "sources")
    try:
        it, said = run_program("sources", *PLAIN, "--output", "none", "--wait-for-mask")
    finally:
        program.source.make = kept
    assert it.left == it.masks.made == 40, (it.left, it.masks.made, said)


@case("1:0:0:0", "1:4:0:0", "2:0:0:0", "bt709")
def colorimetry(text):
    """The source's colorimetry may lack a matrix, as that of gray video does."""
    frames = f"{VIDEO} ! capssetter caps=video/x-raw,colorimetry=(string){text}"
    kept, program.source.make = program.source.make, lambda *_: source.Source(frames, False, "frames")
    try:
        it, said = run_program("frames", *PLAIN, "--output", "none")
    finally:
        program.source.make = kept
    assert it.left == 20, (it.left, said)


def motion_jpeg(name, frames):
    """One picture follows the other without timestamps."""
    make(f"videotestsrc num-buffers={frames} pattern=ball ! video/x-raw,width=320,height=180 ! jpegenc "
         f"! filesink location={FOLDER / name}")
    return FOLDER / name


@case("subject", "background")
def frames_without_times(role):
    file, made = motion_jpeg("frames.mjpeg", 20 if role == "subject" else 6), FOLDER / "out.mkv"
    if role == "subject":
        live_matte(file, *PLAIN, "--output", made)
    else:
        live_matte(clip(), "--background", file, "--output", made)
    size, times = frames_of(made)
    assert (size, len(times)) == ((320, 180), 20) and times == sorted(set(times)), (size, times)


def audio():
    file = FOLDER / "tone.wav"
    make(f"{TONE} ! wavenc ! filesink location={file}")
    return file


def picture():
    file = FOLDER / "picture.png"
    make(f"videotestsrc num-buffers=1 ! video/x-raw,width=320,height=180 ! pngenc ! filesink location={file}")
    return file


def half(file):
    data = file.read_bytes()
    file.write_bytes(data[:len(data) // 8])
    return file


def tiny():
    file = FOLDER / "tiny.png"
    make(f"videotestsrc num-buffers=1 ! video/x-raw,width=8,height=8 ! pngenc ! filesink location={file}")
    return file


def text():
    file = FOLDER / "text.jpg"
    file.write_text("no picture")
    return file


# Each name has the program's arguments and words of its message. No output is left behind.
UNUSABLE = {
    "sound alone": (lambda: [audio()], "tone.wav there is no video in it"),
    "sound alone, shown": (lambda: [audio(), "--output", "none"], "tone.wav there is no video in it"),
    "a picture": (lambda: [picture()], "picture.png is a picture a video or a camera is needed"),
    "half a file": (lambda: [half(clip("half.mp4"))], "half.mp4"),
    "nobody there": (lambda: ["http://127.0.0.1:9/a.mp4"], "http://127.0.0.1:9/a.mp4 nothing can be read address"),
    "few pixels": (lambda: [tiny()], "tiny.png has 8 x 8 pixels at least 16 x 16"),
    "text behind": (lambda: [clip(), "--background", text()], "the background text.jpg"),
    "half a picture behind": (lambda: [clip(), "--background", half(picture())], "the background picture.png"),
    "sound behind": (lambda: [clip(), "--background", audio()], "the background tone.wav there is no video in it"),
    "a property out of range": (lambda: [clip(), "--matte", "color-sigma=5"], "color-sigma=5: is from 0.001 to 1"),
    "a property of no value": (lambda: [clip(), "--matte", "refine=much"], "refine=much: that is no value"),
    "a camera that is no device": (lambda: ["--camera", "front"], "--camera front: a number, or a path"),
}


@case(*UNUSABLE)
def error_unusable(name):
    if MISSING:
        raise Skip(MISSING)
    made = FOLDER / "unusable.mp4"
    begun = time.monotonic()
    said = live_matte("--output", made, *UNUSABLE[name][0](), fails=UNUSABLE[name][1])
    assert not made.exists(), made.stat().st_size
    assert "Warning" not in said and time.monotonic() - begun < 400, said


# Each name has the format and size of the source's frames, and the notes about them.
NOTES = {
    "nothing": ("I420,width=320,height=180", []),
    "an alpha channel": ("AYUV,width=320,height=180", ["has an alpha channel, which is left out"]),
    "an odd width": ("I420,width=321,height=180", ["has 321 x 180 pixels even without the last column."]),
    "an odd size": ("I420,width=321,height=181",
                    ["has 321 x 181 pixels even without the last column and the last row."]),
}


@case(*NOTES)
def what_is_left_out(name):
    """The program says once what it leaves out."""
    frames, notes = NOTES[name]
    file = FOLDER / "notes.mkv"
    make(f"videotestsrc num-buffers=5 ! video/x-raw,format={frames},framerate=20/1 ! matroskamux "
         f"! filesink location={file}")
    said = live_matte(file, *PLAIN, "--output", "none")
    lines = [line for line in said.splitlines() if line.startswith("Note: ")]
    assert len(lines) == len(notes), said
    for line, words in zip(lines, notes):
        assert all(word in line for word in ["notes.mkv", *words.split()]), line


@case("half.mp4", "whole.mp4", "half.mkv", "whole.mkv")
def nothing_to_play(name):
    """decodebin sometimes loses the error of such a file."""
    file = FOLDER / name
    make(f"{VIDEO} ! {H264} ! {'mp4mux' if name.endswith('mp4') else 'matroskamux'} ! filesink location={file}")
    if name.startswith("half"):
        file.write_bytes(file.read_bytes()[:200])
    # All play at once, because a Watch needs a second to tell.
    pipelines = [Gst.parse_launch(f"uridecodebin name=decode uri={file.as_uri()} ! fakesink") for _ in range(10)]
    waiting = [(pipeline, Watch(pipeline.get_by_name("decode"))) for pipeline in pipelines]
    assert not any(reader.stopped() for _, reader in waiting)
    for pipeline in pipelines:
        pipeline.set_state(Gst.State.PLAYING)
    end = time.monotonic() + 200
    while waiting and time.monotonic() < end:
        time.sleep(0.01)
        for pipeline, reader in list(waiting):
            message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR | Gst.MessageType.EOS)
            stopped = reader.stopped()
            if not message and not stopped:
                continue
            waiting.remove((pipeline, reader))
            pipeline.set_state(Gst.State.NULL)
            failed = stopped or message.type == Gst.MessageType.ERROR
            assert bool(failed) == name.startswith("half"), (stopped, message and message.type)
    assert not waiting, len(waiting)


@case("mp4", "mkv")
def error_no_space(extension):
    if MISSING:
        raise Skip(MISSING)
    # Noise soon fills what is written at once.
    noise, file = FOLDER / "noise.mp4", FOLDER / f"full.{extension}"
    make(f"{VIDEO.replace('pattern=ball', 'pattern=snow')} ! {H264} ! mp4mux ! filesink location={noise}")
    file.symlink_to("/dev/full")
    said = live_matte(noise, "--bitrate", "0", "--background", "blur:2", "--output", file,
                      fails=f"--output {file}: No space left The file is not complete.")
    assert "made" not in said, said


@case("the source", "the source's URI", "the background")
def error_output_that_is_read(what):
    file = clip()
    before = file.read_bytes()
    arguments = {"the source": [file], "the source's URI": [file.as_uri()],
                 "the background": [clip("other.mp4"), "--background", file]}[what]
    live_matte(*arguments, "--output", FOLDER / "." / file.name, fails="would overwrite which is read")
    assert file.read_bytes() == before


def interrupted(arguments, begun, seconds, **environment):
    """Sends Ctrl-C so many seconds after the program starts, and expects its exit status without a
    traceback."""
    running = subprocess.Popen([sys.executable, PROGRAM, "test", *PLAIN, *arguments], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env=dict(os.environ, **environment))
    try:
        begun(running)
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=200)[1]
    finally:
        running.kill()
    assert "Traceback" not in said and "Error" not in said, said
    return running.returncode


@case("0.0", "0.1", "0.2", "0.3", "0.5", "1.0")
def ends_while_it_starts(seconds):
    def ready(running):
        # Before that, Python itself still starts and cannot handle the signal.
        while running.poll() is None and "/gi/" not in pathlib.Path(f"/proc/{running.pid}/maps").read_text():
            time.sleep(0.01)
    interrupted(["--output", FOLDER / "start.mp4"], ready, float(seconds))


@case()
def ends_while_it_fetches():
    """A download that was interrupted leaves no file."""
    home = FOLDER / "fetched"
    status = interrupted(["--output", "none"], lambda running: running.stderr.readline(), 0.5, XDG_CACHE_HOME=str(home))
    left = list((home / "gst-cuda-filters").iterdir())
    assert status and not left, (status, left)


@case()
def two_at_a_time():
    """Two programs that share a cache and fetch at the same time both work."""
    if MISSING:
        raise Skip(MISSING)
    commands = [[sys.executable, PROGRAM, clip(), *PLAIN, "--output", FOLDER / file] for file in ("one.mp4", "two.mp4")]
    running = [subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) for command in commands]
    said = [each.communicate(timeout=400)[1] for each in running]
    assert [each.returncode for each in running] == [0, 0], said
    for file in ("one.mp4", "two.mp4"):
        assert frames_of(FOLDER / file)[1], said


@case()
def two_fetch_at_a_time():
    """Programs that share an empty cache fill it once. Each fetch is so slow that both begin before one ends."""
    done, results = [], []

    def run(*command):
        done.append(command)
        time.sleep(0.5)
        made = pathlib.Path(command[-1]) if "venv" in command else next(home.glob("venv-*"))
        packages = made / "lib" / "python3" / "site-packages"
        for file in (made / "bin" / "pip", *([packages / "fetched" / "__init__.py"] if "install" in command else [])):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
        packages.mkdir(parents=True, exist_ok=True)
    home = FOLDER / "shared"
    home.mkdir()
    kept = fetch.cache, fetch.run
    fetch.cache, fetch.run = lambda: home, run
    try:
        threads = [threading.Thread(target=lambda: results.append(fetch.package("fetched", "fetched>=1")))
                   for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        fetch.cache, fetch.run = kept
    assert len(results) == len(done) == 2, done


@case("none", "a file")
def error_a_cache_that_cannot_be_made(what):
    if what == "a file":
        (FOLDER / "cache").write_text("")
    home = FOLDER / "cache" if what == "a file" else pathlib.Path("/proc/nowhere")
    done = subprocess.run([sys.executable, PROGRAM, "test", "--output", "none"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=200, env=dict(os.environ, XDG_CACHE_HOME=str(home)))
    assert done.returncode and "XDG_CACHE_HOME" in done.stdout and "Traceback" not in done.stdout, done.stdout
