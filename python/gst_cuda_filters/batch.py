"""Many clips through one pipeline, on all GPUs of a machine or of a cluster.

    gst-cuda-filters-batch IN OUT --pipeline "filesrc location={in} ! ... ! filesink location={out}"
    python -m gst_cuda_filters.batch ...                          # the same

Clips are shared out by Dask (pip install distributed): processes of this machine, one per GPU, or
the workers of a scheduler (--scheduler), and so Slurm, Kubernetes and SSH by Dask's own means;
docs/many-clips.md has examples. Run the same command again after an interruption: it goes on.
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
from typing import Any

from ._clip import TENSORS, WORK, ClipError, Job, finished, run_clip

EXAMPLES = """examples:
  gst-cuda-filters-batch clips/ out/ --suffix .mkv --pipeline "filesrc location={in} ! decodebin !
    videoconvert ! cudadenoise ! x264enc ! matroskamux ! filesink location={out}"
  gst-cuda-filters-batch list.txt tensors/ --shard 512 --pipeline "filesrc location={in} ! decodebin !
    videoconvert ! cudaletterbox ! other/tensors,types=float32,dimensions=(string)640:640:3:1 !
    appsink name=tensors"
  gst-cuda-filters-batch clips/ out/ --scheduler tcp://head:8786 --pipeline ...
"""
# At most so many pipelines at once on a worker, where that is found by trying.
MOST_PER_WORKER = 16
# More pipelines must be faster by this to be kept.
GAIN = 1.1


class UsageError(Exception):
    pass


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

    parser.add_argument("input", metavar="IN", help="folder of clips, or a text file with a path a line")
    parser.add_argument("output", metavar="OUT", help="folder for what is made")
    parser.add_argument(
        "--pipeline", required=True,
        help="description as of gst-launch-1.0, with {in} and {out}; or with {in} and an appsink of the "
        f"name {TENSORS}, whose tensors become .npy files of OUT/NAME/",
    )
    parser.add_argument("--suffix", help="ending of outputs' names instead of the clips' own, as .mkv")
    parser.add_argument("--shard", type=count, default=256, help="tensors in a .npy file (%(default)s)")
    parser.add_argument(
        "--workers", type=count_or_auto, default=0, metavar="N",
        help="processes on this machine; auto (default): one per GPU, or per two processors without one",
    )
    parser.add_argument(
        "--per-gpu", type=count_or_auto, default=0, metavar="N",
        help="pipelines at once per worker; auto (default): found with the first clips",
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask scheduler, as tcp://head:8786")
    parser.add_argument("--retries", type=int, default=1, help="of a clip that fails (%(default)s)")
    parser.add_argument("--timeout", type=seconds, default=0, help="seconds for a clip; 0 (default): none")
    parser.add_argument(
        "--reconnect", type=seconds, default=120,
        help="seconds to wait for a scheduler that is gone (%(default)s)",
    )
    parser.add_argument("--report", metavar="FILE", help="writes times and errors of all clips as JSON")
    options = parser.parse_args(arguments)
    if options.retries < 0:
        parser.error("--retries must be 0 or more")
    return options


def find_clips(where: str) -> tuple[str, list[str]]:
    """The folder that clips' names count from, and their paths."""
    if os.path.isdir(where):
        clips = []
        for folder, folders, files in os.walk(where):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            clips += [os.path.join(folder, name) for name in sorted(files) if not name.startswith(".")]
        return where, clips
    try:
        with open(where, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: must be a folder or a list of paths: {error}") from None
    return "", [line for line in lines if line and not line.startswith("#")]


def make_jobs(options: argparse.Namespace) -> list[Job]:
    tensors = re.search(rf"\bname={TENSORS}\b", options.pipeline) is not None
    if "{in}" not in options.pipeline:
        raise UsageError("--pipeline has no {in}")
    if tensors == ("{out}" in options.pipeline):
        raise UsageError(f"--pipeline must have {{out}} or an appsink name={TENSORS}, one of the two")
    base, clips = find_clips(options.input)
    root = os.path.abspath(options.output)
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
                options.shard, options.timeout, run,
            )
        )
    if not jobs:
        raise UsageError(f"{options.input}: no clips")
    if base and root == os.path.abspath(base):
        raise UsageError("IN and OUT are the same folder")
    return jobs


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may name, one each."""
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
    # What happens to workers is reported for clips.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        import distributed
    except ImportError as error:
        raise UsageError(f"Dask is missing ({error}): pip install distributed") from None
    return distributed


def start_cluster(workers: int) -> Any:
    """A scheduler and workers on this machine, each with a GPU of its own as long as there are."""
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
        # Frames are GStreamer's, which Dask's limit of memory knows nothing of.
        options = dict(local, nthreads=MOST_PER_WORKER, memory_limit=0, env=environment,
                       dashboard=False, silence_logs="CRITICAL")
        return {"cls": distributed.Nanny, "options": options}

    return distributed.SpecCluster(
        scheduler={"cls": distributed.Scheduler,
                   "options": dict(local, port=0, dashboard=False, dashboard_address=None)},
        workers={i: worker(i) for i in range(number)},
    )


class Width:
    """How many clips are worked on at once: more, as long as that makes them faster."""

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
        # Those that were begun before do not count.
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

    def show(self, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._shown < (0.2 if self._tty else 10):
            return
        self._shown = now
        spent = now - self._started
        line = f"{self.done} of {self._total} clips, {self.failed} failed, {self.frames / spent:.0f} frames/s"
        if self.done and not last:
            line += f", {spent / self.done * (self._total - self.done):.0f} s left"
        if self._tty:
            width = 30
            full = width * self.done // max(1, self._total)
            print(f"\r[{'#' * full}{'.' * (width - full)}] {line}\033[K", end="\n" if last else "",
                  file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


@dataclasses.dataclass
class Outcome:
    job: Job
    record: dict[str, Any] | None = None
    error: str = ""


class Batch:
    """Clips on their way through a Dask cluster."""

    LOST_IN_A_ROW = 10  # connections, without a clip done in between

    def __init__(self, jobs: list[Job], options: argparse.Namespace, address: str, width: Width | None) -> None:
        self._distributed = import_distributed()
        self._options = options
        self._address = address
        self._width = width
        self._waiting = collections.deque((job, 0) for job in jobs)
        self._running: dict[Any, tuple[Job, int]] = {}
        self._client: Any = None
        self._number = 0
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
                    raise UsageError(f"no scheduler at {self._address}: {error}") from None
                time.sleep(0.5)

    def _disconnect(self) -> None:
        self._waiting.extendleft(self._running.values())
        self._running.clear()
        try:
            self._client.close(timeout=2)
        except Exception:  # it is gone already
            pass

    def _capacity(self) -> int:
        if self._width:
            return self._width.clips
        # Of others' workers, as many as they have threads; some more, so that none waits for a clip.
        try:
            threads = sum(self._client.nthreads().values())
        except (OSError, TimeoutError):
            threads = 0  # workers are to come
        return max(1, threads + threads // 4)

    def _submit(self) -> None:
        capacity = self._capacity()
        while self._waiting and len(self._running) < capacity:
            job, attempt = self._waiting[0]
            self._number += 1
            future = self._client.submit(
                run_clip, job, key=f"{job.name}-{self._number}-{time.time_ns()}", pure=False
            )
            self._waiting.popleft()
            self._running[future] = (job, attempt)
            future.add_done_callback(lambda _: self._changed.set())

    def _take(self, future: Any) -> None:
        job, attempt = self._running[future]
        outcome = Outcome(job)
        error = None
        forgotten = future.status in ("cancelled", "lost")  # by the scheduler
        # Both may fail while a scheduler goes: then the clip is still among those that run.
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
                    self._submit()
                    self._changed.wait(1)
                    self._changed.clear()
                    for future in [f for f in self._running if f.status != "pending"]:
                        self._take(future)
                        lost = 0
                except Exception:  # whatever Dask raises while its scheduler goes
                    lost += 1
                    if lost > self.LOST_IN_A_ROW:
                        raise
                    self._disconnect()
                    self._connect()
                self.progress.show()
        finally:
            self._disconnect()
        self.progress.show(last=True)


def clean(root: str, run: str) -> None:
    """Removes what killed workers of this run left, and of any run a day ago."""
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


def write_report(path: str, outcomes: list[Outcome]) -> None:
    rows = [
        {"clip": o.job.clip, "output": o.job.output, "error": o.error}
        | {key: o.record[key] for key in ("frames", "seconds") if o.record}
        for o in sorted(outcomes, key=lambda o: o.job.name)
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)


def work_through(options: argparse.Namespace) -> int:
    jobs = make_jobs(options)
    started = time.monotonic()
    to_do = [job for job in jobs if not finished(job)]
    outcomes: list[Outcome] = []
    status = 0
    if to_do:
        import_distributed()
        os.makedirs(options.output, exist_ok=True)
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
    if options.report:
        write_report(options.report, outcomes)
    failed = summarize(outcomes, len(jobs) - len(to_do), time.monotonic() - started)
    if status == 130:
        print(f"interrupted with {len(to_do) - len(outcomes)} clips to go: the same command goes on")
    return status or failed


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        return work_through(options)
    except UsageError as error:
        print(f"gst-cuda-filters-batch: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    # Workers look functions up by this module's name.
    from gst_cuda_filters.batch import main as run

    sys.exit(run())
