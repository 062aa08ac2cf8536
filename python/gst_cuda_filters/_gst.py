"""Calls GStreamer's C API through ctypes, as far as this package needs it.

The extension gst_cuda_filters_native, if it is installed, calls the functions that each frame needs
in a fifth of ctypes' time (lab/python.md). GST_CUDA_FILTERS_PURE=1 in the environment disables it.

Functions that may wait release the interpreter's lock: mapping, unmapping and releasing a buffer
may need a lock of a streaming thread, which may itself wait for the interpreter. Functions that
return at once and are called for each frame keep the lock, which is a little faster.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

native: Any = None
if not os.environ.get("GST_CUDA_FILTERS_PURE"):
    for _name in (f"{__package__}.gst_cuda_filters_native", "gst_cuda_filters_native"):
        try:
            native = importlib.import_module(_name)
            break
        except ImportError:
            pass

MAP_READ = 1
MAP_WRITE = 2
MAP_CUDA = 1 << 17
MAX_PLANES = 4
CLOCK_TIME_NONE = 2**64 - 1

FORMAT_ALPHA = 1 << 3
FORMAT_LE = 1 << 4
FORMAT_PALETTE = 1 << 5
FORMAT_TILED = 1 << 8

MEMORY_FLAG_READONLY = 1 << 1
BUFFER_COPY_FLAGS = 1 << 0
BUFFER_COPY_TIMESTAMPS = 1 << 1


class MiniObject(ctypes.Structure):
    _fields_ = [
        ("type", c_size_t),
        ("refcount", c_int),
        ("lockstate", c_int),
        ("flags", c_uint),
        ("functions", c_void_p * 3),
        ("priv_uint", c_uint),
        ("priv_pointer", c_void_p),
    ]


class Memory(ctypes.Structure):
    _fields_ = [
        ("mini_object", MiniObject),
        ("allocator", c_void_p),
        ("parent", c_void_p),
        ("maxsize", c_size_t),
        ("align", c_size_t),
        ("offset", c_size_t),
        ("size", c_size_t),
    ]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("mini_object", MiniObject),
        ("pool", c_void_p),
        ("pts", c_uint64),
        ("dts", c_uint64),
        ("duration", c_uint64),
        ("offset", c_uint64),
        ("offset_end", c_uint64),
    ]


class MapInfo(ctypes.Structure):
    _fields_ = [
        ("memory", c_void_p),
        ("flags", c_int),
        ("data", c_void_p),
        ("size", c_size_t),
        ("maxsize", c_size_t),
        ("user_data", c_void_p * 4),
        ("reserved", c_void_p * 4),
    ]


class VideoFormatInfo(ctypes.Structure):
    _fields_ = [
        ("format", c_int),
        ("name", c_char_p),
        ("description", c_char_p),
        ("flags", c_uint),
        ("bits", c_uint),
        ("n_components", c_uint),
        ("shift", c_uint * 4),
        ("depth", c_uint * 4),
        ("pixel_stride", c_int * 4),
        ("n_planes", c_uint),
        ("plane", c_uint * 4),
        ("poffset", c_uint * 4),
        ("w_sub", c_uint * 4),
        ("h_sub", c_uint * 4),
    ]


class VideoInfo(ctypes.Structure):
    _fields_ = [
        ("finfo", POINTER(VideoFormatInfo)),
        ("interlace_mode", c_int),
        ("flags", c_uint),
        ("width", c_int),
        ("height", c_int),
        ("size", c_size_t),
        ("views", c_int),
        ("chroma_site", c_int),
        ("colorimetry", c_int * 4),
        ("par_n", c_int),
        ("par_d", c_int),
        ("fps_n", c_int),
        ("fps_d", c_int),
        ("offset", c_size_t * MAX_PLANES),
        ("stride", c_int * MAX_PLANES),
        ("reserved", c_void_p * 4),
    ]


class VideoMeta(ctypes.Structure):
    _fields_ = [
        ("meta_flags", c_int),
        ("meta_info", c_void_p),
        ("buffer", c_void_p),
        ("flags", c_int),
        ("format", c_int),
        ("id", c_int),
        ("width", c_uint),
        ("height", c_uint),
        ("n_planes", c_uint),
        ("offset", c_size_t * MAX_PLANES),
        ("stride", c_int * MAX_PLANES),
    ]


class VideoCropMeta(ctypes.Structure):
    _fields_ = [
        ("meta_flags", c_int),
        ("meta_info", c_void_p),
        ("x", c_uint),
        ("y", c_uint),
        ("width", c_uint),
        ("height", c_uint),
    ]


class RoiMeta(ctypes.Structure):
    """Is the beginning of GstVideoRegionOfInterestMeta."""

    _fields_ = [
        ("meta_flags", c_int),
        ("meta_info", c_void_p),
        ("type", c_uint),
        ("id", c_int),
        ("parent_id", c_int),
        ("x", c_uint),
        ("y", c_uint),
        ("w", c_uint),
        ("h", c_uint),
    ]


def load(name: str) -> ctypes.CDLL:
    """Loads a library of GStreamer, the copy that this process uses if there is one."""
    try:
        return ctypes.CDLL(f"lib{name}.so.0")
    except OSError as error:
        raise ImportError(f"{name} (GStreamer 1.22 or newer) cannot be loaded: {error}") from None


def declare(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments
    return function


def keeping_lock(library: ctypes.CDLL) -> ctypes.PyDLL:
    """Returns the same library for functions that return at once."""
    return ctypes.PyDLL(library._name, handle=library._handle)


def quick(function: Any, waits: bool = False) -> Any:
    """Wraps a function of integers and addresses (integers, bytes or None), with the extension if
    possible.

    With `waits`, other threads run during the call.
    """
    if native is None:
        return function
    address = ctypes.cast(function, c_void_p).value
    return native.Function(address, len(function.argtypes), function.restype is c_void_p, waits)


_glib = load("glib-2.0")
_gobject = load("gobject-2.0")
_core = load("gstreamer-1.0")
_video = load("gstvideo-1.0")
_core_look = keeping_lock(_core)
_video_look = keeping_lock(_video)

malloc0 = declare(_glib, "g_malloc0", c_void_p, c_size_t)
free = declare(_glib, "g_free", None, c_void_p)
queue_new = declare(_glib, "g_async_queue_new", c_void_p)
queue_push = declare(_glib, "g_async_queue_push", None, c_void_p, c_void_p)
queue_pop = declare(_glib, "g_async_queue_pop", c_void_p, c_void_p)

# These are addresses of C functions, for callbacks that must not enter the interpreter.
queue_push_address = ctypes.cast(_glib.g_async_queue_push, c_void_p).value
closure_invalidate_address = ctypes.cast(_gobject.g_closure_invalidate, c_void_p).value

closure_new = declare(_gobject, "g_closure_new_simple", c_void_p, c_uint, c_void_p)
closure_ref = declare(_gobject, "g_closure_ref", c_void_p, c_void_p)
closure_sink = declare(_gobject, "g_closure_sink", None, c_void_p)
closure_unref = declare(_gobject, "g_closure_unref", None, c_void_p)
closure_add_invalidate_notifier = declare(
    _gobject, "g_closure_add_invalidate_notifier", None, c_void_p, c_void_p, c_void_p
)
value_take_boxed = declare(_gobject, "g_value_take_boxed", None, c_void_p, c_void_p)

init = declare(_core, "gst_init", None, c_void_p, c_void_p)
is_initialized = declare(_core, "gst_is_initialized", c_int)
version = declare(_core, "gst_version", None, *[POINTER(c_uint)] * 4)
buffer_get_type = declare(_core, "gst_buffer_get_type", c_size_t)
sample_get_type = declare(_core, "gst_sample_get_type", c_size_t)
caps_get_type = declare(_core, "gst_caps_get_type", c_size_t)

mini_object_ref = quick(declare(_core_look, "gst_mini_object_ref", c_void_p, c_void_p))
mini_object_unref = quick(declare(_core, "gst_mini_object_unref", None, c_void_p), waits=True)
sample_get_buffer = quick(declare(_core_look, "gst_sample_get_buffer", c_void_p, c_void_p))
sample_get_caps = quick(declare(_core_look, "gst_sample_get_caps", c_void_p, c_void_p))

buffer_new = declare(_core, "gst_buffer_new", c_void_p)
buffer_append_memory = declare(_core, "gst_buffer_append_memory", None, c_void_p, c_void_p)
buffer_copy_into = declare(
    _core, "gst_buffer_copy_into", c_int, c_void_p, c_void_p, c_int, c_size_t, c_size_t
)
buffer_get_size = declare(_core, "gst_buffer_get_size", c_size_t, c_void_p)
buffer_map = quick(declare(_core, "gst_buffer_map", c_int, c_void_p, c_void_p, c_int), waits=True)
buffer_n_memory = quick(declare(_core_look, "gst_buffer_n_memory", c_uint, c_void_p))
buffer_peek_memory = quick(
    declare(_core_look, "gst_buffer_peek_memory", c_void_p, c_void_p, c_uint)
)
buffer_unmap = quick(declare(_core, "gst_buffer_unmap", None, c_void_p, c_void_p), waits=True)
memory_is_type = quick(declare(_core_look, "gst_memory_is_type", c_int, c_void_p, c_char_p))
memory_new_wrapped = declare(
    _core, "gst_memory_new_wrapped", c_void_p, c_int, c_void_p, c_size_t, c_size_t, c_size_t,
    c_void_p, c_void_p,
)

caps_from_string = declare(_core, "gst_caps_from_string", c_void_p, c_char_p)
caps_get_structure = declare(_core, "gst_caps_get_structure", c_void_p, c_void_p, c_uint)
caps_is_fixed = declare(_core, "gst_caps_is_fixed", c_int, c_void_p)
_caps_to_string = declare(_core, "gst_caps_to_string", c_void_p, c_void_p)
structure_get_name = declare(_core, "gst_structure_get_name", c_char_p, c_void_p)
structure_get_string = declare(_core, "gst_structure_get_string", c_char_p, c_void_p, c_char_p)
_structure_get_double = declare(
    _core, "gst_structure_get_double", c_int, c_void_p, c_char_p, POINTER(c_double)
)
_structure_get_int = declare(
    _core, "gst_structure_get_int", c_int, c_void_p, c_char_p, POINTER(c_int)
)

caps_copy = declare(_core, "gst_caps_copy", c_void_p, c_void_p)
caps_set_features_simple = declare(
    _core, "gst_caps_set_features_simple", None, c_void_p, c_void_p
)
caps_features_from_string = declare(_core, "gst_caps_features_from_string", c_void_p, c_char_p)
pool_get_config = declare(_core, "gst_buffer_pool_get_config", c_void_p, c_void_p)
pool_config_set_params = declare(
    _core, "gst_buffer_pool_config_set_params", None, c_void_p, c_void_p, c_uint, c_uint, c_uint
)
pool_config_add_option = declare(
    _core, "gst_buffer_pool_config_add_option", None, c_void_p, c_char_p
)
pool_set_config = declare(_core, "gst_buffer_pool_set_config", c_int, c_void_p, c_void_p)
pool_set_active = declare(_core, "gst_buffer_pool_set_active", c_int, c_void_p, c_int)
pool_acquire = declare(
    _core, "gst_buffer_pool_acquire_buffer", c_int, c_void_p, POINTER(c_void_p), c_void_p
)
object_unref = declare(_core, "gst_object_unref", None, c_void_p)
element_get_type = declare(_core, "gst_element_get_type", c_size_t)
element_set_context = declare(_core, "gst_element_set_context", None, c_void_p, c_void_p)
type_is_a = declare(_gobject, "g_type_check_instance_is_a", c_int, c_void_p, c_size_t)

meta_get_info = declare(_core_look, "gst_meta_get_info", c_void_p, c_char_p)
buffer_get_custom_meta = declare(
    _core_look, "gst_buffer_get_custom_meta", c_void_p, c_void_p, c_char_p
)
custom_meta_get_structure = declare(_core_look, "gst_custom_meta_get_structure", c_void_p, c_void_p)
buffer_get_meta = declare(_core, "gst_buffer_get_meta", c_void_p, c_void_p, c_size_t)
type_from_name = declare(_gobject, "g_type_from_name", c_size_t, c_char_p)
mini_object_is_writable = declare(_core, "gst_mini_object_is_writable", c_int, c_void_p)
mini_object_make_writable = declare(_core, "gst_mini_object_make_writable", c_void_p, c_void_p)
structure_from_string = declare(
    _core, "gst_structure_from_string", c_void_p, c_char_p, c_void_p
)

buffer_get_video_meta = quick(declare(_video_look, "gst_buffer_get_video_meta", c_void_p, c_void_p))
buffer_add_video_meta_full = declare(
    _video, "gst_buffer_add_video_meta_full", c_void_p, c_void_p, c_int, c_int, c_uint, c_uint,
    c_uint, c_void_p, c_void_p,
)
buffer_add_roi = declare(
    _video, "gst_buffer_add_video_region_of_interest_meta", c_void_p, c_void_p, c_char_p, c_uint,
    c_uint, c_uint, c_uint
)
roi_add_param = declare(
    _video, "gst_video_region_of_interest_meta_add_param", None, c_void_p, c_void_p
)
roi_get_param = declare(
    _video, "gst_video_region_of_interest_meta_get_param", c_void_p, c_void_p, c_char_p
)
roi_meta_api_get_type = declare(_video, "gst_video_region_of_interest_meta_api_get_type", c_size_t)
buffer_iterate_meta = declare(
    _core, "gst_buffer_iterate_meta_filtered", c_void_p, c_void_p, POINTER(c_void_p), c_size_t
)
quark_to_string = declare(_glib, "g_quark_to_string", c_char_p, c_uint)
video_crop_meta_api_get_type = declare(_video, "gst_video_crop_meta_api_get_type", c_size_t)
video_info_from_caps = declare(
    _video, "gst_video_info_from_caps", c_int, POINTER(VideoInfo), c_void_p
)
_video_format_from_string = declare(_video, "gst_video_format_from_string", c_int, c_char_p)
video_info_set_format = declare(
    _video, "gst_video_info_set_format", c_int, POINTER(VideoInfo), c_int, c_uint, c_uint
)
video_buffer_pool_new = declare(_video, "gst_video_buffer_pool_new", c_void_p)
video_meta_map = declare(
    _video, "gst_video_meta_map", c_int, c_void_p, c_uint, c_void_p, POINTER(c_void_p),
    POINTER(c_int), c_int,
)
video_meta_unmap = declare(_video, "gst_video_meta_unmap", c_int, c_void_p, c_uint, c_void_p)

if not is_initialized():
    init(None, None)

BUFFER_TYPE: int = buffer_get_type()
SAMPLE_TYPE: int = sample_get_type()
CAPS_TYPE: int = caps_get_type()
VIDEO_FORMAT_RGB: int = _video_format_from_string(b"RGB")
CROP_META_TYPE: int = video_crop_meta_api_get_type()
ROI_META_TYPE: int = roi_meta_api_get_type()


def runtime_version() -> tuple[int, int]:
    """Returns the major and minor version of the GStreamer that is loaded."""
    numbers = [c_uint() for _ in range(4)]
    version(*map(byref, numbers))
    return numbers[0].value, numbers[1].value


def caps_to_string(caps: int) -> str:
    text = _caps_to_string(caps)
    try:
        return ctypes.string_at(text).decode()
    finally:
        free(text)


def structure_get_double(structure: int, name: bytes) -> float:
    value = c_double()
    if not _structure_get_double(structure, name, byref(value)):
        raise KeyError(name.decode())
    return value.value


def structure_get_int(structure: int, name: bytes) -> int:
    value = c_int()
    if not _structure_get_int(structure, name, byref(value)):
        raise KeyError(name.decode())
    return value.value


_boxed: Any = None  # PyGObject's class of boxed values, set on first use
_knows: dict[type, bool] = {}


def _is_mini_object(kind: type) -> bool:
    """Returns whether instances of a class are PyGObject's of one of the three types that are used
    here."""
    global _boxed
    gtype = getattr(kind, "__gtype__", None)
    known = getattr(gtype, "name", None) in ("GstBuffer", "GstSample", "GstCaps")
    if known and _boxed is None:
        import gi

        _boxed = gi._gi.Boxed
    _knows[kind] = known
    return known


def address_of(obj: Any) -> int:
    """Returns the address of the GstMiniObject that `obj` stands for, or 0.

    Takes PyGObject's objects (Gst.Sample, Gst.Buffer, Gst.Caps) or a ctypes.c_void_p.
    """
    kind = type(obj)
    if kind is c_void_p:
        return obj.value or 0
    known = _knows.get(kind)
    if known is None:
        known = _is_mini_object(kind)
    # The hash of a boxed value is its address. A derived class may have another hash, so the base's
    # is used.
    return _boxed.__hash__(obj) if known else 0


def element_of(obj: Any) -> int:
    """Returns the address of the GstElement that PyGObject's object, or a ctypes.c_void_p, stands
    for."""
    address = 0
    if isinstance(obj, c_void_p):
        address = obj.value or 0
    elif hasattr(type(obj), "__gtype__"):
        import gi

        if isinstance(obj, gi._gi.GObject):
            # This hash is the address, as with boxed values.
            address = gi._gi.GObject.__hash__(obj)
    if not address or not type_is_a(address, element_get_type()):
        raise TypeError(f"must be a Gst.Element, not {type(obj).__name__}")
    return address


def _word_at(address: int) -> int:
    return c_size_t.from_address(address).value


word_at: Any = native.word_at if native else _word_at
bytes_at: Any = native.bytes_at if native else ctypes.string_at

# The first word of a GstMiniObject is its GType.
type_of = word_at


def times_mapped(memory: int) -> int:
    """Returns how often a GstMemory is mapped. GStreamer counts with 8 bits."""
    # The upper half of the second word is the lock's state.
    return word_at(memory + MiniObject.refcount.offset) >> 40 & 0xFF


def to_python(buffer: int) -> Any:
    """Wraps the reference `buffer` in a Gst.Buffer, or without PyGObject in a ctypes.c_void_p."""
    try:
        import gi

        gi.require_version("Gst", "1.0")
        from gi.repository import GObject, Gst
    except (ImportError, ValueError):
        return c_void_p(buffer)
    value = GObject.Value(Gst.Buffer)
    value_take_boxed(gi._gi.Boxed.__hash__(value), buffer)
    return value.get_boxed()
