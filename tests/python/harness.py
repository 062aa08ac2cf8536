"""Runs test cases and prints TAP. A program imports this, marks its functions with @case, and calls
run()."""
import contextlib
import faulthandler
import os
import random
import signal
import socket
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

_cases = []


class Skip(Exception):
    """Raised with the reason why a case cannot run here."""


def case(*arguments):
    """Marks a function as a case. With arguments, makes one case for each of them."""

    def mark(function):
        name = function.__name__.replace("_", " ")
        for argument in arguments or (None,):
            if arguments:
                label = argument if isinstance(argument, str) else argument[0]
                _cases.append((f"{name}: {label}", lambda a=argument: function(a)))
            else:
                _cases.append((name, function))
        return function

    return mark


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def load_gst():
    """Returns PyGObject's Gst, or skips all cases of the program."""
    try:
        import gi

        gi.require_version("Gst", "1.0")
        gi.require_version("GstVideo", "1.0")
        from gi.repository import Gst
    except (ImportError, ValueError) as error:
        skip_all(f"PyGObject or GStreamer's introspection data: {error}")
    Gst.init(None)
    return Gst


def free_port(kind=socket.SOCK_STREAM):
    """Returns a port that nobody uses. It is none of those that the kernel gives to programs that ask for any, so nobody
    is given it before the test uses it."""
    while True:
        with socket.socket(socket.AF_INET, kind) as probe, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(16384, 32768)
            probe.bind(("127.0.0.1", port))
            return port


def raises(kind, words, function, *arguments, **named):
    """Checks that the call raises `kind` with all `words` in its message."""
    try:
        function(*arguments, **named)
    except kind as error:
        missing = [word for word in words.split() if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
    else:
        raise AssertionError(f"no {kind.__name__}")


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def run():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    faulthandler.enable()
    # A shell lets programs in its background ignore Ctrl-C, and those that they start would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    failed = count = 0
    for name, function in _cases:
        if wanted not in name:
            continue
        count += 1
        # If the case hangs, its stack is printed. A busy machine is no reason to end it.
        faulthandler.dump_traceback_later(600, exit=True)
        try:
            function()
            line = f"ok {count} - {name}"
        except Skip as why:
            line = f"ok {count} - {name} # SKIP {why}"
        except Exception:
            failed += 1
            line = "\n# ".join([f"not ok {count} - {name}", *traceback.format_exc().splitlines()])
        print(line, flush=True)
    if not count:
        print(f"Bail out! no case has {wanted!r} in its name")
        sys.exit(99)
    print(f"1..{count}")
    sys.exit(1 if failed else 0)
