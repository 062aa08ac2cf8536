"""Tests gst-cuda-filters-batch on a real Dask cluster of processes on this machine. Prints TAP.

Needs Dask's distributed. If it is not installed, it is fetched into a virtual environment in
.cache/.
"""
import collections
import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
from harness import case, equal, free_port, run, skip_all  # noqa: E402

CLIPS, BAD_EVERY, KILLED = 120, 20, 8
PIPELINE = (
    "filesrc location={in} ! y4mdec ! cudapixelate backend=cpu block-size=8 ! y4menc ! "
    "filesink location={out}"
)


def python_with_dask():
    """Returns an interpreter that has distributed, and makes a virtual environment if necessary."""
    made = ROOT / ".cache" / "dask" / "bin" / "python"
    for python in (sys.executable, str(made)):
        with contextlib.suppress(OSError):
            if not subprocess.run([python, "-c", "import distributed, numpy"], capture_output=True).returncode:
                return python
    try:
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", made.parents[1]], check=True,
                       capture_output=True)
        subprocess.run([made, "-m", "pip", "install", "-q", "distributed", "numpy"], check=True,
                       capture_output=True, timeout=400)
    except (OSError, subprocess.SubprocessError) as error:
        skip_all(f"Dask's distributed cannot be installed: {error}")
    return str(made)


PYTHON = python_with_dask()
ending = contextlib.ExitStack()
WORK = pathlib.Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="batch-")))
ENVIRONMENT = dict(
    os.environ, PYTHONPATH=str(ROOT / "python"), DASK_DISTRIBUTED__WORKER__DAEMON="false",
    PYTHONDONTWRITEBYTECODE="1",
)


def make_clips(folder, count, bad_every=0, width=32, height=24):
    """Makes clips of noise. The bad ones contain anything but video."""
    folder.mkdir()
    noise = random.Random(4)
    bad = set()
    for i in range(count):
        path = folder / f"clip {i:03d}.y4m"
        if bad_every and i % bad_every == 7:
            path.write_bytes(noise.randbytes(3000))
            bad.add(path.name)
            continue
        frames = b"".join(
            b"FRAME\n" + noise.randbytes(width * height * 3 // 2) for _ in range(2 + i % 4)
        )
        path.write_bytes(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height) + frames)
    return bad


def command(*arguments):
    return [PYTHON, "-m", "gst_cuda_filters.batch", *map(str, arguments)]


def batch(*arguments, timeout=600):
    done = subprocess.run(
        command(*arguments), env=ENVIRONMENT, text=True, capture_output=True, timeout=timeout
    )
    return done.returncode, done.stdout, done.stderr


# Most of the time of a short command is that of Dask's start, and cases of failing pipelines wait. Their commands run
# side by side, on one cluster.
@functools.cache
def beside():
    """Returns a pool of threads and the address of a cluster."""
    cluster = Cluster(1, 16)
    ending.callback(cluster.close)
    return ending.enter_context(concurrent.futures.ThreadPoolExecutor(4)), cluster.address


def batches(commands):
    """Returns a function that gives the result of the command of a name. All commands start at its first call."""
    @functools.cache
    def started():
        pool, address = beside()
        return {name: pool.submit(batch, *arguments, "--scheduler", address) for name, arguments in commands().items()}
    return lambda name: started()[name].result()


def outputs(folder):
    """Returns the content of the outputs by name, without the records."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".record.json")
    }


def failed_of(text):
    return {os.path.basename(line[7:].split(": ")[0]) for line in text.splitlines() if line.startswith("FAILED ")}


class Cluster:
    """Runs a scheduler and workers in processes. Restarts those that end."""

    def __init__(self, workers, threads=2):
        self.threads = threads
        self.port = free_port()
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scratch = tempfile.mkdtemp(dir=WORK)
        self.scheduler = self._start_scheduler()
        self.workers = [self._start_worker() for _ in range(workers)]
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _start(self, *arguments):
        return subprocess.Popen(
            [PYTHON, "-m", *arguments], env=ENVIRONMENT, cwd=self.scratch, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _start_scheduler(self):
        return self._start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port),
                           "--no-dashboard")

    def _start_worker(self):
        return self._start("distributed.cli.dask_worker", self.address, "--nthreads", str(self.threads), "--no-nanny",
                           "--no-dashboard", "--memory-limit", "0", "--death-timeout", "60")

    def _watch(self):
        while not self._ending.wait(0.2):
            if self.scheduler.poll() is not None:
                self.scheduler = self._start_scheduler()
            for i, worker in enumerate(self.workers):
                if worker.poll() is not None:
                    self.workers[i] = self._start_worker()

    def close(self):
        self._ending.set()
        self._thread.join()
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@case()
def one_machine():
    """Makes the outputs that other cases compare theirs with."""
    bad = make_clips(WORK / "in", CLIPS, BAD_EVERY)
    status, text, errors = batch(WORK / "in", WORK / "one", "--pipeline", PIPELINE, "--workers", 2)
    equal(status, 1)
    equal(failed_of(text), bad)
    assert "Failed to parse YUV4MPEG header" in text, text
    assert f"{CLIPS - len(bad)} clips made, 0 there already, {len(bad)} failed" in text, text
    assert "frames/s" in text and "median" in text and f"of {CLIPS} clips" in errors, text + errors
    made = outputs(WORK / "one")
    equal(set(made), {path.name for path in (WORK / "in").iterdir()} - bad)
    for name, content in made.items():
        # The output has as many frames as the clip, but other bytes.
        source = (WORK / "in" / name).read_bytes()
        equal(content.count(b"FRAME\n"), source.count(b"FRAME\n"))
        assert content != source, name


@case()
def workers_die_and_the_scheduler_restarts():
    cluster = Cluster(4)
    out, report = WORK / "many", WORK / "report.json"
    choose = random.Random(9)
    killed, restarted = 0, False
    # The pipeline is so slow that workers are killed in the middle of clips. The outputs must be
    # the same.
    pipeline = PIPELINE.replace("! cuda", "! identity sleep-time=60000 ! cuda")
    try:
        process = subprocess.Popen(
            command(WORK / "in", out, "--pipeline", pipeline, "--scheduler", cluster.address, "--report", report,
                    "--retries", 3),
            env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        while process.poll() is None:
            time.sleep(0.02)
            done = len(list(out.glob("*.record.json")))
            if done > CLIPS // 2 and not restarted:
                cluster.scheduler.kill()
                restarted = True
            elif killed < KILLED and done >= (killed + 1) * CLIPS // (2 * KILLED):
                choose.choice(cluster.workers).kill()
                killed += 1
        text, errors = process.communicate()
    finally:
        cluster.close()
    assert restarted and killed == KILLED, f"{killed} killed, restarted: {restarted}; {text}{errors}"
    bad = failed_of(text)
    equal(process.returncode, 1)
    equal(len(bad), CLIPS // BAD_EVERY)
    assert outputs(out) == outputs(WORK / "one"), errors
    rows = json.loads(report.read_text())
    equal(sorted(os.path.basename(row["clip"]) for row in rows), sorted(p.name for p in (WORK / "in").iterdir()))
    equal({os.path.basename(row["clip"]) for row in rows if row["error"]}, bad)


@case()
def outputs_within_the_clips_folder_are_no_clips():
    folder = WORK / "within"
    make_clips(folder, 1)
    for made in (1, 0):
        status, text, _ = batch(folder, folder / "out", "--pipeline", PIPELINE, "--workers", 1)
        equal(status, 0)
        assert f"{made} clips made, {1 - made} there already" in text, text


@case()
def what_is_finished_is_not_made_again():
    out = WORK / "one"
    names = sorted(outputs(out))
    gone, torn, changed = names[0], names[1], names[2]
    (out / gone).unlink()
    (out / torn).write_bytes(b"torn")
    record = out / (changed + ".record.json")
    record.write_text(record.read_text()[:40])
    kept = {name: (out / name).stat().st_mtime_ns for name in names[3:]}
    status, text, _ = batch(WORK / "in", out, "--pipeline", PIPELINE, "--workers", 1, "--retries", 0)
    equal(status, 1)
    assert f"3 clips made, {len(names) - 3} there already, {CLIPS // BAD_EVERY} failed" in text, text
    equal({name: (out / name).stat().st_mtime_ns for name in names[3:]}, kept)
    assert outputs(out) == outputs(WORK / "many")
    # Another pipeline makes other outputs.
    only = WORK / "few"
    only.mkdir()
    shutil.copy(WORK / "in" / names[0], only)
    for pipeline, made in ((PIPELINE, 1), (PIPELINE, 0), (PIPELINE.replace("=8", "=4"), 1)):
        status, text, _ = batch(only, WORK / "few-out", "--pipeline", pipeline, "--scheduler", beside()[1])
        equal(status, 0)
        assert f"{made} clips made, {1 - made} there already" in text, text


@case()
def an_interruption_can_be_resumed():
    """Ctrl-C in a terminal reaches all processes of the program."""
    clips, out, report = WORK / "held", WORK / "interrupted", WORK / "interrupted.json"
    shutil.copytree(WORK / "in", clips)
    # The program waits for a clip that nobody writes.
    late = clips / "clip 060.y4m"
    late.unlink()
    os.mkfifo(late)
    process = subprocess.Popen(
        command(clips, out, "--pipeline", PIPELINE, "--workers", 1, "--per-gpu", 1, "--report", report),
        env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )
    while process.poll() is None and len(list(out.glob("*.record.json"))) < 20:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    text, errors = process.communicate(timeout=200)
    equal(process.returncode, 130)
    assert "the same command goes on" in text and "Traceback" not in errors, text + errors
    states = collections.Counter(row["state"] for row in json.loads(report.read_text()))
    equal((set(states) - {"failed"}, sum(states.values())), ({"made", "interrupted"}, CLIPS))
    before = len(outputs(out))
    assert 20 <= before < CLIPS - CLIPS // BAD_EVERY, before
    late.unlink()
    shutil.copy(WORK / "in" / late.name, late)
    status, text, _ = batch(clips, out, "--pipeline", PIPELINE, "--workers", 2)
    equal(status, 1)
    assert outputs(out) == outputs(WORK / "one")


@case()
def tensors_become_shards():
    make_clips(WORK / "frames", 2)
    out = WORK / "tensors"
    status, text, errors = batch(
        WORK / "frames", out, "--workers", 1, "--shard", 2, "--pipeline",
        "filesrc location={in} ! y4mdec ! videoconvert ! cudaletterbox backend=cpu ! "
        "other/tensors,types=uint8,dimensions=(string)3:32:32:1 ! appsink name=tensors",
    )
    equal((status, errors.count("Traceback")), (0, 0))
    check = (
        "import numpy, sys; a, b = (numpy.load(sys.argv[1] + f'/0000{i}.npy') for i in (0, 1)); "
        "print(a.shape, b.shape, a.dtype, (a[:, :4] == 114).all(), (a[:, 4:28] == 114).all())"
    )
    shown = subprocess.run([PYTHON, "-c", check, out / "clip 001"], text=True, capture_output=True, check=True)
    equal(shown.stdout.strip(), "(2, 32, 32, 3) (1, 32, 32, 3) uint8 True False")


TEST = "filesrc location={in} ! fakesink videotestsrc num-buffers=50"

# Each name has a pipeline, further options and words of the message.
FAILING = {
    "moves for ever": (TEST.replace("num-buffers=50", "") + " ! fakesink sync=true name={out}", ["--timeout", 2],
                       "not done after 2 s (--timeout)"),
    "stalls": (f"{TEST} ! identity sleep-time=30000000 ! fakesink name={{out}}", ["--stall", 4],
               "nothing moved in the pipeline for 4 s, after 0 frames (--stall)"),
    "does not start": ("filesrc location={in} ! fakesink fakesrc num-buffers=0 ! fakesink appsrc ! fakesink name={out}",
                       ["--stall", 4], "nothing moved in the pipeline for 4 s"),
    "makes nothing": ("filesrc location={in} ! y4mdec ! fakesink name={out}", [], "made no {out}"),
    "full disk": (f"{TEST} ! tee name=t ! queue ! filesink location=/dev/full t. ! queue ! filesink location={{out}}",
                  [], "No space left on the resource"),
    "tensors of two sizes": (
        "filesrc location={in} ! fakesink concat name=all ! other/tensors,types=uint8 ! appsink name=tensors "
        + " ".join(f"videotestsrc num-buffers=2 ! cudaletterbox backend=cpu ! other/tensors,types=uint8,"
                   f"dimensions=(string)3:{size}:{size}:1 ! all." for size in (16, 32)),
        [], "tensors of one file have different sizes"),
}

SLOW = (f"{TEST} ! video/x-raw,framerate=5/1 ! identity sync=true ! queue min-threshold-buffers=50 max-size-buffers=0 "
        "max-size-bytes=0 max-size-time=0 ! filesink location={out}", ["--stall", 8], "")

failing = batches(lambda: {
    name: (WORK / "few", WORK / name, "--retries", 0, "--pipeline", pipeline, *more)
    for name, (pipeline, more, _) in {"slow": SLOW, **FAILING}.items()})


@case(*FAILING)
def a_pipeline_that_fails(name):
    words = FAILING[name][2]
    status, text, errors = failing(name)
    equal(status, 1)
    assert words in text and "FAILED" in text and "Traceback" not in errors, f"{name}: {text}{errors}"
    assert not outputs(WORK / name), outputs(WORK / name)


@case()
def a_slow_pipeline_does_not_stall():
    """The sink gets nothing for 9.8 s, as behind an encoder with lookahead, but buffers move before
    it."""
    status, text, _ = failing("slow")
    equal(status, 0)
    assert float(re.search("median ([0-9.]+) s", text)[1]) > 8, text


# These files contain nothing for a video pipeline. decodebin loses the error of many of them.
BROKEN = {
    "half.mp4": "videotestsrc num-buffers=5 ! openh264enc ! h264parse ! mp4mux",
    "half.mkv": "videotestsrc num-buffers=5 ! matroskamux",
    "sound.wav": "audiotestsrc num-buffers=20 ! wavenc",
}


@case()
def broken_files_end():
    folder, size = WORK / "broken", 200
    folder.mkdir()
    for name, line in BROKEN.items():
        made = subprocess.run(["gst-launch-1.0", "-q", *f"{line} ! filesink location={folder / name}".split()],
                              capture_output=True)
        if made.returncode:
            (folder / name).unlink(missing_ok=True)  # its encoder is missing
            continue
        content = (folder / name).read_bytes()
        for i in range(10):
            (folder / f"{i} {name}").write_bytes(content[:size] if name.startswith("half") else content)
        (folder / name).unlink()
    broken = {path.name for path in folder.iterdir()}
    assert len(broken) >= 20, broken
    shutil.copy(next(path for path in sorted((WORK / "in").iterdir()) if path.name in outputs(WORK / "one")), folder)
    (folder / "junk.mp4").write_bytes(random.Random(2).randbytes(3000))
    status, text, errors = batch(
        folder, WORK / "broken-out", "--workers", 2, "--retries", 0, "--pipeline",
        "filesrc location={in} ! decodebin ! videoconvert ! y4menc ! filesink location={out}",
    )
    equal(status, 1)
    equal(failed_of(text), broken | {"junk.mp4"})
    equal(len(outputs(WORK / "broken-out")), 1)
    assert "in work: " in errors, errors


@case()
def an_output_folder_that_vanishes():
    """The clip whose folder vanished fails with a message. Later clips are made in a new folder."""
    clips, out = WORK / "for a folder", WORK / "vanishes"
    make_clips(clips, 3)
    # The program has opened the output of a clip when it waits for the clip itself, which comes when its folder is
    # gone.
    late = {path: path.read_bytes() for path in sorted(clips.iterdir())[:2]}
    for path in late:
        path.unlink()
        os.mkfifo(path)
    process = subprocess.Popen(
        command(clips, out, "--workers", 1, "--per-gpu", 1, "--retries", 0, "--pipeline", PIPELINE),
        env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    for path, content in late.items():
        while process.poll() is None and not list(out.glob(f".batch/*/{path.name}")):
            time.sleep(0.02)
        shutil.rmtree(out)
        path.write_bytes(content)
    text, errors = process.communicate(timeout=200)
    equal(process.returncode, 1)
    equal(text.count("the output folder was removed while the clip was made"), 2)
    assert "Traceback" not in errors, errors
    equal(len(outputs(out)), 1)


# These pipelines cannot be built. Each has words of the single message that says so.
TYPOS = {
    "an element": (PIPELINE.replace("y4mdec", "y4mdecc"), 'no element "y4mdecc"'),
    "a property": (PIPELINE.replace("block-size", "blok-size"), 'no property "blok-size"'),
    "a value": (PIPELINE.replace("backend=cpu", "backend=cup"), 'could not set property "backend"'),
    "a value out of range": (PIPELINE.replace("=8", "=-3"), "out of range for property 'block-size'"),
    "a link": (PIPELINE.replace("y4mdec", "y4mdec ! audioconvert"), "could not link"),
    "syntax": (PIPELINE + " !", "--pipeline: "),
    "no appsink": ("filesrc location={in} ! fakesink name=tensors", "no appsink of the name tensors"),
}


typos = batches(lambda: {
    name: (WORK / "in", WORK / "typo", "--pipeline", pipeline) for name, (pipeline, _) in TYPOS.items()})


@case(*TYPOS)
def error_a_pipeline_that_cannot_be_made(name):
    words = TYPOS[name][1]
    status, text, errors = typos(name)
    equal((status, text), (2, ""))
    assert words in errors and errors.count("\n") == 1, errors
    assert not outputs(WORK / "typo")


@case()
def arguments_that_cannot_be():
    twins = WORK / "twins"
    twins.mkdir()
    for name in ("a.y4m", "a.mkv"):
        (twins / name).write_bytes(b"")
    for arguments, words in (
        ((WORK / "few", WORK / "x", "--pipeline", "fakesrc ! filesink location={out}"), "has no {in}"),
        ((WORK / "few", WORK / "x", "--pipeline", "filesrc location={in} ! fakesink"), "must have {out} or"),
        ((WORK / "nothing", WORK / "x", "--pipeline", PIPELINE), "must be a folder or a list"),
        ((twins, WORK / "x", "--suffix", ".y4m", "--pipeline", PIPELINE), "would both become a.y4m"),
        ((WORK / "few", WORK / "few", "--pipeline", PIPELINE), "the same folder"),
        ((WORK, WORK / "twins" / "a.mkv", "--pipeline", PIPELINE), "OUT cannot be made"),
        ((WORK / "few", WORK / "x", "--pipeline", PIPELINE, "--report", WORK / "nowhere" / "x"),
         "its folder does not exist"),
        ((WORK / "few", WORK / "x", "--pipeline", PIPELINE, "--stall", "-1"), "must be 0 or more"),
        ((WORK / "few", WORK / "x", "--pipeline", PIPELINE, "--workers", "0"), "must be 1 or more"),
        ((WORK / "few", WORK / "x", "--pipeline", PIPELINE, "--scheduler", "tcp://127.0.0.1:1", "--reconnect", "1"),
         "no scheduler answers at tcp://127.0.0.1:1"),
    ):
        status, _, errors = batch(*arguments)
        equal(status, 2)
        assert words in errors and "Traceback" not in errors, errors


with ending:
    run()
