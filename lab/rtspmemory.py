#!/usr/bin/env python3
"""Measures the memory of pipelines/rtsp.cpp with clients that come and go: rtspmemory.py [CLIENTS [ROUNDS]]

Starts the server twice, with glibc's own arenas and with MALLOC_ARENA_MAX=2. In each round, CLIENTS (20) clients come
to each server within two seconds, and each leaves after 5 to 40 frames. The stream stops with the last of them. Prints
the resident memory and the threads after each round, when no client is left. BUILD names the build folder.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
SOURCE = "videotestsrc is-live=true ! video/x-raw,width=320,height=240,framerate=30/1"
# The server refuses some clients that come while it prepares or stops the stream, so they try again, as players do.
TRIES = 5


class Server:
    def __init__(self, name, **settings):
        self.name, self.clients, self.frames, self.failed = name, 0, 0, 0
        self.lock = threading.Lock()
        environment = {key: value for key, value in os.environ.items() if key != "MALLOC_ARENA_MAX"}
        self.process = subprocess.Popen([BUILD / "tests" / "rtsp", "0", SOURCE], stdout=subprocess.PIPE, text=True, env={
            **environment, "GST_PLUGIN_PATH": str(BUILD / "gst"), **settings})
        self.url = re.match("ready at (.*)", self.process.stdout.readline())[1]
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.clients = int(line.split()[0])

    def client(self, delay, frames):
        """Plays a number of frames."""
        time.sleep(delay)
        for _ in range(TRIES):
            player = Gst.parse_launch(f"rtspsrc location={self.url} latency=0 protocols=tcp ! rtph264depay "
                                      f"! identity eos-after={frames} ! fakesink sync=false")
            player.set_state(Gst.State.PLAYING)
            message = player.get_bus().timed_pop_filtered(60 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
            player.set_state(Gst.State.NULL)
            if message and message.type == Gst.MessageType.EOS:
                with self.lock:
                    self.frames += frames
                return
            time.sleep(0.5)
        with self.lock:
            self.failed += 1

    def status(self, field):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+)", text, re.M)[1])


def main():
    given = [int(each) for each in sys.argv[1:]]
    clients, rounds = given + [20, 30][len(given):]
    Gst.init(None)
    servers = [Server("own arenas"), Server("MALLOC_ARENA_MAX=2", MALLOC_ARENA_MAX="2")]
    try:
        for number in range(1, rounds + 1):
            threads = [threading.Thread(target=server.client, args=(random.uniform(0, 2), random.randrange(5, 40)))
                       for server in servers for _ in range(clients)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            end = time.monotonic() + 60
            while any(server.clients for server in servers) and time.monotonic() < end:
                time.sleep(0.1)
            time.sleep(1)
            print(f"round {number}:", "; ".join(
                f"{server.name} {server.status('VmRSS')} KiB, {server.status('Threads')} threads, {server.frames} frames, "
                f"{server.failed} clients failed" for server in servers), flush=True)
    finally:
        for server in servers:
            server.process.terminate()
            server.process.wait(20)


main()
