"""Makes one clip of a batch: the work of a worker. Uses only the standard library.

A clip is finished when its record lies next to its output: `NAME.record.json`, with the size and
time of the clip, the pipeline, and the size and SHA-256 of each file that was made. Files are made
in a folder of the outputs' file system and renamed when they are complete, the record last. So
however a worker ends, an output with a record is right, and one without is made again. Two workers
that make the same clip leave the same files as one.
"""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

# An appsink of this name receives tensors that are written as .npy files.
TENSORS = "tensors"
# Files are made in this folder of the output folder.
WORK = ".batch"


class ClipError(Exception):
    """Says in one line why a clip has no output."""


def reason(error: OSError) -> str:
    """Returns the error's text without Python's number."""
    return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)


@dataclasses.dataclass(frozen=True)
class Job:
    clip: str  # path of the clip
    output: str  # path of the output: a file, or with `tensors` a folder
    root: str  # path of the output folder
    pipeline: str  # description with {in} and {out}
    tensors: bool
    shard: int
    timeout: float  # seconds for the whole clip; 0 means no limit
    stall: float  # seconds in which nothing moves; 0 means no limit
    run: str  # begins the names of this run's unfinished folders

    @property
    def record(self) -> str:
        return self.output + ".record.json"

    @property
    def name(self) -> str:
        return os.path.relpath(self.output, self.root)


def quoted(description: str, name: str, path: str) -> str:
    """Returns the description with `path` in place of {name}, quoted for GStreamer's parser."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    # Quotes that the user has put around {name} are not doubled.
    description = description.replace('"{%s}"' % name, '"%s"' % escaped)
    return description.replace("{%s}" % name, '"%s"' % escaped)


def _identity(job: Job) -> dict[str, Any]:
    status = os.stat(job.clip)
    return {
        "clip": os.path.basename(job.clip),
        "bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "pipeline": job.pipeline,
        "shard": job.shard if job.tensors else 0,
    }


def finished(job: Job) -> dict[str, Any] | None:
    """Returns the record of a clip's output if this pipeline made it from this very clip and it is
    complete."""
    try:
        with open(job.record, encoding="utf-8") as file:
            record = json.load(file)
        files = record["files"]
        if record["identity"] != _identity(job):
            return None
        for name, made in files.items():
            if os.path.getsize(os.path.join(os.path.dirname(job.output), name)) != made["bytes"]:
                return None
        return record
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _describe(path: str) -> dict[str, Any]:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": os.path.getsize(path), "sha256": digest.hexdigest()}


def _publish(job: Job, made: str, record: dict[str, Any], work: str) -> None:
    if not os.path.isdir(work):
        raise ClipError(f"{job.root}: the output folder was removed while the clip was made")
    if job.tensors:
        names = sorted(os.listdir(made))
        base = os.path.basename(job.output)
        record["files"] = {
            f"{base}/{name}": _describe(os.path.join(made, name)) for name in names
        }
        if not names:
            raise ClipError("the pipeline made no tensor")
    else:
        if not os.path.isfile(made):
            raise ClipError("the pipeline made no {out}")
        record["files"] = {os.path.basename(job.output): _describe(made)}
    os.makedirs(os.path.dirname(job.output) or ".", exist_ok=True)
    # An old record must not vouch for a new file.
    if os.path.lexists(job.record):
        os.unlink(job.record)
    if job.tensors:
        shutil.rmtree(job.output, ignore_errors=True)
        try:
            os.rename(made, job.output)
        except OSError:
            # Another worker has made the same files in the meantime.
            if not os.path.isdir(job.output):
                raise
    else:
        os.replace(made, job.output)
    part = os.path.join(work, "record")
    with open(part, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, job.record)


# A pipeline that is not made in so many seconds is given up.
CHECK = 300.0


class _Runner:
    """Runs one pipeline after the other in a process, see pipeline.py."""

    def __init__(self) -> None:
        environment = dict(os.environ)
        package = str(pathlib.Path(__file__).resolve().parents[2])
        paths = [package, *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gst_cuda_filters.batch.pipeline"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
        )
        self._answer = b""

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def run(self, request: dict[str, Any], timeout: float, stall: float) -> dict[str, Any]:
        """Returns the answer to a request. `stall` also limits how long the process may be silent
        before it begins."""
        process = self._process
        assert process.stdin and process.stdout
        frames = 0
        now = time.monotonic()
        end = now + timeout if timeout else float("inf")
        stalled = now + stall if stall else float("inf")
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            pass  # it has ended, and reading says how
        while True:
            while b"\n" not in self._answer:
                limit = min(end, stalled)
                left = max(0.0, limit - time.monotonic()) if limit < float("inf") else None
                if not select.select([process.stdout], [], [], left)[0]:
                    self.stop()
                    if end <= stalled:
                        raise ClipError(f"not done after {timeout:g} s (--timeout)")
                    raise ClipError(f"nothing moved in the pipeline for {stall:g} s, after {frames} frames (--stall)")
                more = os.read(process.stdout.fileno(), 1 << 16)
                if not more:
                    raise ClipError(self._how_it_ended())
                self._answer += more
            line, _, self._answer = self._answer.partition(b"\n")
            answer = json.loads(line)
            if "moved" not in answer:
                return answer
            frames = answer["moved"]
            stalled = time.monotonic() + stall if stall else float("inf")

    def _how_it_ended(self) -> str:
        status = self._process.wait()
        if status >= 0:
            return f"the pipeline's process ended with status {status}"
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"the pipeline's process ended by {name}"

    def stop(self) -> None:
        self._process.kill()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            pass  # the kernel holds it, as where a network's file system is gone


# Runners without work. The next thread that asks takes the last one, so there are never more runners
# than clips at once.
_idle: list[_Runner] = []
_idle_lock = threading.Lock()


def _run_pipeline(request: dict[str, Any], timeout: float, stall: float) -> dict[str, Any]:
    with _idle_lock:
        runner = _idle.pop() if _idle else None
    if not runner or not runner.is_alive():
        runner = _Runner()
    answer = runner.run(request, timeout, stall)
    if answer.get("last"):
        runner.stop()
    else:
        with _idle_lock:
            _idle.append(runner)
    if "error" in answer:
        raise ClipError(answer["error"])
    return answer


def _request(job: Job, made: str) -> dict[str, Any]:
    description = quoted(quoted(job.pipeline, "in", job.clip), "out", made)
    return {"pipeline": description, "tensors": made if job.tensors else None, "shard": job.shard}


def dask_setup(_worker: Any) -> None:
    """Dask calls this in the workers that the program starts. Ctrl-C reaches them, too, but the program ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def check_pipeline(job: Job) -> None:
    """Makes a clip's pipeline without running it. Raises ClipError if that fails."""
    # The job's limits are for clips. This also starts a process, which loads GStreamer's plugins.
    _run_pipeline({**_request(job, job.output), "check": True}, 0, CHECK)


def run_clip(job: Job) -> dict[str, Any]:
    """Makes a clip's output unless it exists. Returns its record, or raises ClipError."""
    if record := finished(job):
        return {**record, "was_there": True}
    started = time.monotonic()
    try:
        identity = _identity(job)
        os.makedirs(os.path.join(job.root, WORK), exist_ok=True)
        work = tempfile.mkdtemp(prefix=job.run + "-", dir=os.path.join(job.root, WORK))
    except OSError as error:
        raise ClipError(reason(error)) from None
    try:
        # The file has its final name from the start, because elements may look at its ending.
        made = os.path.join(work, os.path.basename(job.output))
        answer = _run_pipeline(_request(job, made), job.timeout, job.stall)
        record = {
            "identity": identity,
            "frames": answer["frames"],
            "seconds": round(time.monotonic() - started, 3),
        }
        _publish(job, made, record, work)
        return record
    except OSError as error:
        raise ClipError(reason(error)) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
