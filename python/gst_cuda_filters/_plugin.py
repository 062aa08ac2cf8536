"""Chooses the build of GStreamer's plugin that fits, and installs it, if the package is from a
wheel.

A wheel has a build for each line of GStreamer whose CUDA library differs, in plugins/1.22 and so
on, and one in plugins/cpu that needs nothing of gst-plugins-bad. They share lib/. Packages of a
distribution and the source tree have no plugins/ here: GStreamer finds their plugin itself.
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import warnings
from typing import Optional

_PLUGINS = pathlib.Path(__file__).resolve().parent / "plugins"
_NAME = "gst-cuda-filters"


class PluginError(RuntimeError):
    """Raised if the plugin cannot be used, installed or removed here."""


def has_plugins() -> bool:
    return _PLUGINS.is_dir()


def _core() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libgstreamer-1.0.so.0")
    except OSError as error:
        raise PluginError(f"GStreamer 1.22 or newer cannot be loaded: {error}") from None


def gstreamer_version() -> tuple[int, int]:
    numbers = [ctypes.c_uint() for _ in range(4)]
    _core().gst_version(*map(ctypes.byref, numbers))
    return numbers[0].value, numbers[1].value


def _missing(line: tuple[int, ...]) -> Optional[str]:
    """Returns the library of gst-plugins-bad that the build for a line needs and that is missing.
    """
    for library in ["libgstcuda-1.0.so.0"] + ["libgstanalytics-1.0.so.0"] * (line >= (1, 26)):
        try:
            ctypes.CDLL(library)
        except OSError:
            return library
    return None


def choose(version: tuple[int, int]) -> tuple[pathlib.Path, Optional[str]]:
    """Returns the folder of the build for a version of GStreamer, and what prevents the use of
    CUDA."""
    if not has_plugins():
        raise PluginError("this package has no plugin in it: install one for your system")
    lines = sorted(tuple(map(int, p.name.split("."))) for p in _PLUGINS.iterdir() if p.name != "cpu")
    fitting = [line for line in lines if line <= version]
    if not fitting:
        have, need = (".".join(map(str, v)) for v in (version, lines[0]))
        raise PluginError(f"GStreamer {have} is too old: {need} or newer is needed")
    library = _missing(fitting[-1])
    if library:
        return _PLUGINS / "cpu", f"{library} is missing (on Debian: libgstreamer-plugins-bad1.0-0)"
    return _PLUGINS / ".".join(map(str, fitting[-1])), None


def use() -> None:
    """Makes this process, and those that it starts, find the plugin."""
    if not has_plugins():
        return
    try:
        folder = str(choose(gstreamer_version())[0])
    except PluginError as error:
        # Arrays need no plugin, so this is only a warning.
        warnings.warn(str(error), RuntimeWarning, stacklevel=3)
        return
    core = _core()
    if core.gst_is_initialized():
        core.gst_registry_get.restype = ctypes.c_void_p
        core.gst_registry_find_plugin.restype = ctypes.c_void_p
        registry = ctypes.c_void_p(core.gst_registry_get())
        plugin = core.gst_registry_find_plugin(registry, b"cudafilters")
        if plugin:
            core.gst_object_unref(ctypes.c_void_p(plugin))
        else:
            core.gst_registry_scan_path(registry, os.fsencode(folder))
    # GStreamer reads the second variable if the first is not set.
    name = "GST_PLUGIN_PATH_1_0"
    if name not in os.environ and "GST_PLUGIN_PATH" in os.environ:
        name = "GST_PLUGIN_PATH"
    _append(name, folder)
    _append("GST_PRESET_PATH", str(_PLUGINS.parent / "presets"))


def _append(name: str, folder: str) -> None:
    """Adds a folder to a list in the environment."""
    path = [p for p in os.environ.get(name, "").split(os.pathsep) if p]
    if folder not in path:
        os.environ[name] = os.pathsep.join(path + [folder])


def _link() -> pathlib.Path:
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return pathlib.Path(data) / "gstreamer-1.0" / "plugins" / _NAME


def install() -> pathlib.Path:
    """Links the plugin's folder into the user's plugin folder, and returns the link."""
    # The folder is linked, not the file, because the plugin finds its library relative to its real
    # folder.
    link, folder = _link(), choose(gstreamer_version())[0]
    if link.is_symlink():
        link.unlink()
    elif link.exists():
        raise PluginError(f"{link} is there and is no link: remove it first")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder, target_is_directory=True)
    return link


def uninstall() -> Optional[pathlib.Path]:
    """Removes the link and folders that are then empty. Returns None if there is no link."""
    link = _link()
    if not link.is_symlink():
        return None
    link.unlink()
    for folder in (link.parent, link.parent.parent):
        try:
            folder.rmdir()
        except OSError:
            break
    return link
