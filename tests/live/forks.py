"""Runs a program of Python again and again: forks.py PROGRAM SOCKET. Each run is a fork of this process, which has
loaded the modules of live-matte, but has not started GStreamer. To load them takes most of the time of a short run.

A request is JSON with the program's arguments and environment, and comes with a file for its output. The answer is its
status.
"""
import contextlib
import json
import os
import pathlib
import runpy
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))

from gst_cuda_filters.live_matte import Failure, fetch, program  # noqa: E402,F401

with contextlib.suppress(Failure):
    fetch.litert()

with socket.socket(fileno=int(sys.argv.pop())) as requests:
    while True:
        text, files, _, _ = socket.recv_fds(requests, 1 << 20, 1)
        if not text:
            sys.exit()
        child = os.fork()
        if not child:
            break
        os.close(files[0])
        requests.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

request = json.loads(text)
for number in 1, 2:
    os.dup2(files[0], number)
os.close(files[0])
os.environ.update(request["environment"])
sys.argv[:] = [sys.argv[1], *request["arguments"]]
runpy.run_path(sys.argv[0], run_name="__main__")
