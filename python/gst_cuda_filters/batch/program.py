"""Many clips through one pipeline, on all GPUs of a machine or of a cluster.

    gst-cuda-filters-batch IN OUT --pipeline "filesrc location={in} ! ... ! filesink location={out}"
    python -m gst_cuda_filters.batch ...                          # the same

Dask (pip install distributed) shares the clips out: to processes of this machine, one per GPU, or to
the workers of a scheduler (--scheduler), which Dask's own tools start on Slurm, Kubernetes or by SSH.
docs/many-clips.md has examples. After an interruption, run the same command again: it goes on.
"""
from __future__ import annotations

import argparse
import collections
import ctypes
import dataclasses
import json
import logging
import os
import re
import shutil
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import clip as worker_module
from .clip import TENSORS, WORK, ClipError, Job, check_pipeline, finished, reason, run_clip

EXAMPLES = """examples:
  gst-cuda-filters-batch clips/ out/ --suffix .mkv --pipeline "filesrc location={in} ! decodebin !
    videoconvert ! cudadenoise ! x264enc ! matroskamux ! filesink location={out}"
  gst-cuda-filters-batch list.txt tensors/ --shard 512 --pipeline "filesrc location={in} ! decodebin !
    videoconvert ! cudaletterbox ! other/tensors,types=float32,dimensions=(string)640:640:3:1 !
    appsink name=tensors"
  gst-cuda-filters-batch clips/ out/ --scheduler tcp://head:8786 --pipeline ...
"""
# --per-gpu auto tries up to this many pipelines at once on a worker.
MOST_PER_WORKER = 16
# Twice as many pipelines are kept if they make this many times as many clips per second.
GAIN = 1.1
# The progress line names this many of the clips in work.
NAMED = 3


class UsageError(Exception):
    """Raised for a command that cannot be carried out. The text says what to change."""


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gst-cuda-filters-batch", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def count(text: str) -> int:
        value = int(text)
        if value < 1:
            raise argparse.ArgumentTypeError(f"is {value}: must be 1 or more")
        return value

    def count_or_auto(text: str) -> int:
        return 0 if text == "auto" else count(text)

    def seconds(text: str) -> float:
        value = float(text)
        if not 0 <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"is {text}: must be 0 or more")
        return value

    parser.add_argument("input", metavar="IN", help="folder of clips, or a text file with one path per line")
    parser.add_argument("output", metavar="OUT", help="folder for the outputs")
    parser.add_argument(
        "--pipeline", required=True,
        help="a pipeline as gst-launch-1.0 takes it, with {in} for the clip's path and {out} for the output's; "
        f"or with {{in}} and appsink name={TENSORS}, whose tensors go to .npy files in OUT/NAME/",
    )
    parser.add_argument(
        "--suffix", metavar="ENDING", help="ending of the outputs' names instead of the clips' own, such as .mkv",
    )
    parser.add_argument("--shard", type=count, default=256, metavar="N", help="tensors per .npy file (%(default)s)")
    parser.add_argument(
        "--workers", type=count_or_auto, default=0, metavar="N",
        help="processes on this machine; auto (default): one per GPU, or per two processors without one",
    )
    parser.add_argument(
        "--per-gpu", type=count_or_auto, default=0, metavar="N",
        help="pipelines at once per worker; auto (default): found with the first clips",
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://head:8786")
    parser.add_argument(
        "--retries", type=int, default=1, metavar="N", help="how often a clip that fails is tried again (%(default)s)",
    )
    parser.add_argument(
        "--stall", type=seconds, default=60, metavar="SECONDS",
        help="a clip fails if no buffer moves anywhere in its pipeline for this long (%(default)s); 0: no limit",
    )
    parser.add_argument(
        "--timeout", type=seconds, default=0, metavar="SECONDS",
        help="a clip fails if it takes longer than this; 0 (default): no limit",
    )
    parser.add_argument(
        "--reconnect", type=seconds, default=120, metavar="SECONDS",
        help="how long to wait for a scheduler that does not answer (%(default)s)",
    )
    parser.add_argument("--report", metavar="FILE", help="write the state, time and error of each clip as JSON")
    options = parser.parse_args(arguments)
    if options.retries < 0:
        parser.error("--retries must be 0 or more")
    return options


def find_clips(where: str, root: str) -> tuple[str, list[str]]:
    """Returns the folder that clips' names are relative to, and their paths. Files below `root` are
    outputs."""
    if os.path.isdir(where):
        clips = []
        for folder, folders, files in os.walk(where):
            folders[:] = sorted(
                name for name in folders
                if not name.startswith(".") and os.path.abspath(os.path.join(folder, name)) != root
            )
            clips += [os.path.join(folder, name) for name in sorted(files) if not name.startswith(".")]
        return where, clips
    try:
        with open(where, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except OSError as error:
        raise UsageError(f"IN must be a folder or a list of paths: {reason(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"IN must be a folder or a list of paths: {where} is no text file") from None
    return "", [line for line in lines if line and not line.startswith("#")]


def make_jobs(options: argparse.Namespace) -> list[Job]:
    tensors = re.search(rf"\bname={TENSORS}\b", options.pipeline) is not None
    if "{in}" not in options.pipeline:
        raise UsageError("--pipeline has no {in}")
    if tensors == ("{out}" in options.pipeline):
        raise UsageError(f"--pipeline must have {{out}} or an appsink name={TENSORS}, one of the two")
    root = os.path.abspath(options.output)
    base, clips = find_clips(options.input, root)
    run = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"
    jobs: list[Job] = []
    taken: dict[str, str] = {}
    for clip in clips:
        name = os.path.relpath(clip, base) if base else os.path.basename(clip)
        if options.suffix is not None or tensors:
            name = os.path.splitext(name)[0] + (options.suffix or "")
        if name in taken:
            raise UsageError(f"{taken[name]} and {clip} would both become {name}")
        taken[name] = clip
        jobs.append(
            Job(
                os.path.abspath(clip), os.path.join(root, name), root, options.pipeline, tensors,
                options.shard, options.timeout, options.stall, run,
            )
        )
    if not jobs:
        raise UsageError(f"{options.input} holds no clips")
    if options.report and not os.path.isdir(os.path.dirname(os.path.abspath(options.report))):
        raise UsageError(f"--report {options.report}: its folder does not exist")
    if base and root == os.path.abspath(base):
        raise UsageError("IN and OUT are the same folder")
    return jobs


def visible_gpus() -> list[str]:
    """Returns the GPUs that this program may use, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name for name in chosen.split(",") if name.strip() and name.strip() != "-1"]
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    number = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(number)):
        return []
    return [str(i) for i in range(number.value)]


def import_distributed() -> Any:
    # A worker that is lost is reported with its clips.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        import distributed
    except ImportError as error:
        raise UsageError(f"Dask is missing ({error}): pip install distributed") from None
    return distributed


def start_cluster(workers: int) -> Any:
    """Runs a scheduler and workers on this machine. The GPUs are assigned to the workers in turn.
    """
    distributed = import_distributed()
    gpus = visible_gpus()
    if gpus and not workers:
        try:
            from dask_cuda import LocalCUDACluster
        except ImportError:
            pass
        else:
            return LocalCUDACluster(threads_per_worker=MOST_PER_WORKER, dashboard_address=None)
    number = workers or len(gpus) or max(1, (os.cpu_count() or 1) // 2)
    local = {"host": "127.0.0.1", "protocol": "tcp"}

    def worker(index: int) -> dict[str, Any]:
        environment = {"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]} if gpus else {}
        # GStreamer allocates the frames, and Dask's limit of memory does not count them.
        options = dict(local, nthreads=MOST_PER_WORKER, memory_limit=0, env=environment,
                       preload=[worker_module.__name__], dashboard=False, silence_logs="CRITICAL")
        return {"cls": distributed.Nanny, "options": options}

    return distributed.SpecCluster(
        scheduler={"cls": distributed.Scheduler,
                   "options": dict(local, port=0, dashboard=False, dashboard_address=None)},
        workers={i: worker(i) for i in range(number)},
    )


class Width:
    """Finds how many clips to work on at once. The number doubles as long as clips per second grow
    by GAIN."""

    def __init__(self, workers: int, fixed: int) -> None:
        self._workers = workers
        self._trying = not fixed
        self.per_worker = fixed or 1
        self._best = 0.0
        self._begin(time.monotonic())

    @property
    def clips(self) -> int:
        return self._workers * self.per_worker

    def _begin(self, now: float) -> None:
        self._since, self._done = now, 0
        # Clips that began before the change do not count.
        self._skip = self.clips

    def done(self) -> None:
        if not self._trying:
            return
        now = time.monotonic()
        if self._skip:
            self._skip -= 1
            if not self._skip:
                self._since = now
            return
        self._done += 1
        if self._done < max(4, 2 * self.clips):
            return
        speed = self._done / max(now - self._since, 1e-9)
        if speed < GAIN * self._best:
            self.per_worker = max(1, self.per_worker // 2)
            self._trying = False
        elif self.per_worker == MOST_PER_WORKER:
            self._trying = False
        else:
            self._best = speed
            self.per_worker *= 2
            self._begin(now)


class Progress:
    def __init__(self, total: int) -> None:
        self._total = total
        self._tty = sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown = 0.0
        self.frames = self.done = self.failed = 0

    def show(self, working: Sequence[tuple[str, float]] = (), last: bool = False) -> None:
        """`working` holds the clips in work and their start times, the oldest first."""
        now = time.monotonic()
        if not last and now - self._shown < (0.2 if self._tty else 10):
            return
        self._shown = now
        spent = now - self._started
        line = f"{self.done} of {self._total} clips, {self.failed} failed, {self.frames / spent:.0f} frames/s"
        if self.done and not last:
            line += f", {spent / self.done * (self._total - self.done):.0f} s left"
        if working:
            line += "; in work: " + ", ".join(f"{name} ({now - since:.0f} s)" for name, since in working[:NAMED])
            if len(working) > NAMED:
                line += f" and {len(working) - NAMED} more"
        if self._tty:
            width = 30
            full = width * self.done // max(1, self._total)
            line = f"[{'#' * full}{'.' * (width - full)}] {line}"[:shutil.get_terminal_size().columns - 1]
            print(f"\r{line}\033[K", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Outcome:
    job: Job
    record: dict[str, Any] | None = None
    error: str = ""


class Batch:
    """Sends clips through a Dask cluster."""

    LOST_IN_A_ROW = 10  # maximum number of connections lost in a row without a finished clip

    def __init__(self, jobs: list[Job], options: argparse.Namespace, address: str, width: Width | None) -> None:
        self._distributed = import_distributed()
        self._options = options
        self._address = address
        self._width = width
        self._waiting = collections.deque((job, 0) for job in jobs)
        self._running: dict[Any, tuple[Job, int, float]] = {}  # with the attempt and the start time
        self._client: Any = None
        self._number = 0
        self._checked = False
        self._changed = threading.Event()
        self.outcomes: list[Outcome] = []
        self.progress = Progress(len(jobs))

    def _connect(self) -> None:
        end = time.monotonic() + self._options.reconnect
        while True:
            try:
                self._client = self._distributed.Client(
                    self._address, timeout=5, set_as_default=False,
                    name="gst-cuda-filters-batch",
                )
                return
            except (OSError, TimeoutError) as error:
                if time.monotonic() > end:
                    raise UsageError(f"no scheduler answers at {self._address}: {error}") from None
                time.sleep(0.5)

    def _disconnect(self) -> None:
        self._waiting.extendleft((job, attempt) for job, attempt, _ in self._running.values())
        self._running.clear()
        try:
            self._client.close(timeout=2)
        except Exception:  # it is gone already
            pass

    def _capacity(self) -> int:
        if self._width:
            return self._width.clips
        # Workers of a cluster take one clip per thread. A few more are handed out, so that no thread waits.
        try:
            threads = sum(self._client.nthreads().values())
        except (OSError, TimeoutError):
            threads = 0  # there are no workers yet
        return max(1, threads + threads // 4)

    def _send(self, function: Callable[[Job], Any], job: Job) -> Any:
        self._number += 1
        return self._client.submit(function, job, key=f"{job.name}-{self._number}-{time.time_ns()}", pure=False)

    def _check(self) -> None:
        """Lets a worker make the first pipeline, so that a typo is reported once and not for each
        clip."""
        future = self._send(check_pipeline, self._waiting[0][0])
        while future.status == "pending":
            if self._client.status in ("closed", "closing"):
                raise ConnectionError("the client is closed")
            time.sleep(0.02)
        if future.status == "error" and isinstance(error := future.exception(), ClipError):
            raise UsageError(f"--pipeline: {error}")
        future.result()
        self._checked = True

    def _submit(self) -> None:
        capacity = self._capacity()
        while self._waiting and len(self._running) < capacity:
            job, attempt = self._waiting[0]
            future = self._send(run_clip, job)
            self._waiting.popleft()
            self._running[future] = (job, attempt, time.monotonic())
            future.add_done_callback(lambda _: self._changed.set())

    def _take(self, future: Any) -> None:
        job, attempt, _ = self._running[future]
        outcome = Outcome(job)
        error = None
        forgotten = future.status in ("cancelled", "lost")  # by the scheduler
        # Both calls may fail while a scheduler ends. The clip is then still among those that run.
        if future.status == "finished":
            outcome.record = future.result()
        elif not forgotten:
            error = future.exception()
        del self._running[future]
        if forgotten:
            self._waiting.appendleft((job, attempt))
            return
        if error and attempt < self._options.retries:
            self._waiting.append((job, attempt + 1))
            return
        if error:
            outcome.error = str(error) if isinstance(error, ClipError) else f"{type(error).__name__}: {error}"
        future.release()
        self.outcomes.append(outcome)
        self.progress.done += 1
        self.progress.failed += bool(outcome.error)
        self.progress.frames += outcome.record["frames"] if outcome.record else 0
        if self._width:
            self._width.done()

    def run(self) -> None:
        lost = 0
        self._connect()
        try:
            while self._waiting or self._running:
                try:
                    if self._client.status in ("closed", "closing"):
                        raise ConnectionError("the client is closed")
                    if not self._checked:
                        self._check()
                    self._submit()
                    self._changed.wait(1)
                    self._changed.clear()
                    for future in [f for f in self._running if f.status != "pending"]:
                        self._take(future)
                        lost = 0
                except UsageError:
                    raise
                except Exception:  # Dask raises many kinds while its scheduler ends
                    lost += 1
                    if lost > self.LOST_IN_A_ROW:
                        raise
                    self._disconnect()
                    self._connect()
                self.progress.show([(os.path.basename(job.clip), since) for job, _, since in self._running.values()])
        finally:
            self._disconnect()
        self.progress.show(last=True)


def clean(root: str, run: str) -> None:
    """Removes the unfinished files of this run's killed workers, and those of runs that are a day
    old."""
    work = os.path.join(root, WORK)
    try:
        for entry in os.scandir(work):
            if entry.name.startswith(run) or entry.stat().st_mtime < time.time() - 24 * 3600:
                shutil.rmtree(entry.path, ignore_errors=True)
        os.rmdir(work)
    except OSError:
        pass  # none there, or in use


def summarize(outcomes: list[Outcome], there: int, seconds: float) -> int:
    failed = sorted((o for o in outcomes if o.error), key=lambda o: o.job.name)
    made = [o.record for o in outcomes if o.record]
    frames = sum(record["frames"] for record in made)
    print(
        f"{len(made)} clips made, {there} there already, {len(failed)} failed; {frames} frames in "
        f"{seconds:.1f} s, {frames / max(seconds, 1e-9):.1f} frames/s, {len(made) / max(seconds, 1e-9):.2f} clips/s"
    )
    if made:
        times = [record["seconds"] for record in made]
        print(f"a clip took {min(times):.2f} to {max(times):.2f} s, median {statistics.median(times):.2f} s")
    for outcome in failed:
        print(f"FAILED {outcome.job.clip}: {outcome.error}")
    return 1 if failed else 0


def write_report(path: str, jobs: list[Job], to_do: list[Job], outcomes: list[Outcome]) -> None:
    ends = {outcome.job: outcome for outcome in outcomes}
    waiting = set(to_do)

    def row(job: Job) -> dict[str, Any]:
        end = ends.get(job) or Outcome(job)
        not_made = "interrupted" if job in waiting else "there already"
        state = "failed" if end.error else "made" if end.record else not_made
        return {"clip": job.clip, "output": job.output, "state": state, "error": end.error} | {
            key: end.record[key] for key in ("frames", "seconds") if end.record
        }

    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump([row(job) for job in sorted(jobs, key=lambda job: job.name)], file, indent=1)
    except OSError as error:
        raise UsageError(f"--report cannot be written: {reason(error)}") from None


def work_through(options: argparse.Namespace) -> int:
    jobs = make_jobs(options)
    started = time.monotonic()
    to_do = [job for job in jobs if not finished(job)]
    outcomes: list[Outcome] = []
    status = 0
    if to_do:
        import_distributed()
        try:
            os.makedirs(options.output, exist_ok=True)
        except OSError as error:
            raise UsageError(f"OUT cannot be made: {reason(error)}") from None
        cluster = None if options.scheduler else start_cluster(options.workers)
        try:
            width = Width(len(cluster.worker_spec), options.per_gpu) if cluster else None
            address = cluster.scheduler_address if cluster else options.scheduler
            batch = Batch(to_do, options, address, width)
            outcomes = batch.outcomes
            try:
                batch.run()
            except KeyboardInterrupt:
                status = 130
        finally:
            if cluster:
                cluster.close(timeout=10)
            clean(options.output, jobs[0].run)
    failed = summarize(outcomes, len(jobs) - len(to_do), time.monotonic() - started)
    if status == 130:
        print(f"interrupted with {len(to_do) - len(outcomes)} clips to go: the same command goes on")
    if options.report:
        write_report(options.report, jobs, to_do, outcomes)
    return status or failed


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        return work_through(options)
    except UsageError as error:
        print(f"gst-cuda-filters-batch: {error}", file=sys.stderr)
        return 2
