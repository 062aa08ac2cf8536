"""Manages the wheel's plugin on the command line: python -m gst_cuda_filters --help"""
from __future__ import annotations

import argparse
import sys

from . import _plugin


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gst_cuda_filters",
        description="Makes the elements of this package known to GStreamer's programs. Python "
        "programs that import gst_cuda_filters need none of it.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--path", action="store_true",
                      help="print the folder of the plugin for this GStreamer, for GST_PLUGIN_PATH")
    what.add_argument("--install", action="store_true",
                      help="link it into your plugin folder, where GStreamer looks by itself; to be "
                      "repeated when GStreamer or this package changes")
    what.add_argument("--uninstall", action="store_true", help="take that link away")
    arguments = parser.parse_args()
    try:
        if arguments.uninstall:
            link = _plugin.uninstall()
            print(f"removed {link}" if link else "nothing is installed")
            return 0
        version = _plugin.gstreamer_version()
        folder, problem = _plugin.choose(version)
        if arguments.path:
            print(folder)
        else:
            print(f"{_plugin.install()} -> {folder} (GStreamer {version[0]}.{version[1]})")
        if problem:
            print(f"The elements filter on the CPU alone: {problem}", file=sys.stderr)
        return 0
    except _plugin.PluginError as error:
        print(f"gst_cuda_filters: {error}", file=sys.stderr)
        return 1


sys.exit(main())
