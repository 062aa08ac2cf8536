"""DLPack: capsules that consumers take arrays from."""
from __future__ import annotations

import atexit
import ctypes
import struct
from ctypes import c_char_p, c_int, c_void_p, py_object
from typing import Any

from . import _gst, _layout

CPU = 1
CUDA = 2

_READ_ONLY = 1

# DLTensor: data; device type and id; ndim; dtype code, bits and lanes; shape; strides; byte offset
_TENSOR = "QiiiBBHQQQ"
# DLManagedTensor: tensor; manager's own; deleter
_UNVERSIONED = struct.Struct("=" + _TENSOR + "QQ")
# DLManagedTensorVersioned: version; manager's own; deleter; flags; tensor
_VERSIONED = struct.Struct("=IIQQQ" + _TENSOR)
_DELETER = {False: _UNVERSIONED.size - 8, True: 16}  # where the deleter's address is
_VERSION = (1, 0)
_NAME = {False: b"dltensor", True: b"dltensor_versioned"}

_TYPES = {"uint8": (1, 8), "uint16": (1, 16), "float16": (2, 16), "float32": (2, 32)}

# Instances of our own, as argument types belong to the function object.
_python = ctypes.PyDLL(None)
_capsule_new = _gst.declare(
    _python, "PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p
)
_capsule_is_valid = _gst.declare(_python, "PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_capsule_pointer = _gst.declare(_python, "PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_incref = _gst.declare(_python, "Py_IncRef", None, py_object)

# What exports keep alive, by the address of the structure that the consumer has. Dictionaries are
# changed in one step, so no lock is needed: a deleter can run in the middle of anything.
_exports: dict[int, tuple[Any, bool]] = {}
_ended = False


def _delete(address: int, exports: dict[int, Any] = _exports, free: Any = _gst.free) -> None:
    """The deleter. Consumers call it from any thread."""
    owner = exports.pop(address, None)
    if owner is not None:
        free(address)


def _drop(capsule: int, names: Any = tuple(_NAME.values()), is_valid: Any = _capsule_is_valid,
          pointer: Any = _capsule_pointer, delete: Any = _delete) -> None:
    """The destructor of a capsule. One that was consumed has another name by then."""
    for name in names:
        if is_valid(capsule, name):
            delete(pointer(capsule, name))


# Called with the address of a capsule that has no references left, which py_object would give it.
_drop_callback = ctypes.PYFUNCTYPE(None, c_void_p)(_drop)
_delete_callback = ctypes.CFUNCTYPE(None, c_void_p)(_delete)
_drop_address = ctypes.cast(_drop_callback, c_void_p).value
_delete_address = ctypes.cast(_delete_callback, c_void_p).value
# Capsules can outlive this module.
for _object in (_drop_callback, _delete_callback, *_NAME.values()):
    _incref(_object)


def _end() -> None:
    """At exit: consumers that are still there shall not call into an interpreter that is gone."""
    global _ended
    _ended = True
    for address, (_, versioned) in list(_exports.items()):
        c_void_p.from_address(address + _DELETER[versioned]).value = None
    # Their memory stays as it is to the end of the process.
    if _exports:
        _incref(_exports)


atexit.register(_end)


def export(owner: Any, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str,
           device: tuple[int, int], readonly: bool,
           max_version: tuple[int, int] | None) -> Any:
    """A capsule whose consumer keeps `owner` alive.

    `strides` are in bytes. Without `max_version`, or with one before 1.0, the structure is that
    of DLPack 0, which cannot say that the memory is read-only.
    """
    versioned = max_version is not None and max_version[0] >= 1
    code, bits = _TYPES[dtype]
    n = len(shape)
    size = bits // 8
    layout = _VERSIONED if versioned else _UNVERSIONED
    sizes = (*shape, *(stride // size for stride in strides))
    address = _gst.malloc0(layout.size + 16 * n)
    at = address + layout.size
    tensor = (pointer, *device, n, code, bits, 1, at, at + 8 * n, 0)
    deleter = 0 if _ended else _delete_address
    if versioned:
        head = layout.pack(*_VERSION, 0, deleter, _READ_ONLY if readonly else 0, *tensor)
    else:
        head = layout.pack(*tensor, 0, deleter)
    ctypes.memmove(address, head + struct.pack(f"={2 * n}q", *sizes), layout.size + 16 * n)
    _exports[address] = (owner, versioned)
    try:
        return _capsule_new(address, _NAME[versioned], _drop_address)
    except BaseException:
        _delete(address)
        raise


def consumer_count() -> int:
    """How many consumers have an array now."""
    return len(_exports)


class Taken:
    """Memory of somebody else's array, which is kept for as long as this object is there."""

    __slots__ = ("pointer", "shape", "strides", "dtype", "device", "readonly", "stream", "_owner",
                 "_deleter")

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: str
    device: tuple[int, int]
    readonly: bool
    stream: int | None  # on which work may still write it; None: on any; 0: on none

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._deleter: tuple[Any, int] | None = None

    def __del__(self) -> None:
        if self._deleter:
            deleter, address = self._deleter
            deleter(address)


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_capsule_set_name = _gst.declare(_python, "PyCapsule_SetName", c_int, py_object, c_char_p)
_object_pointer = _gst.declare(
    ctypes.PyDLL(None), "PyCapsule_GetPointer", c_void_p, py_object, c_char_p
)
_USED = b"used_dltensor"
_incref(_USED)
_DTYPES = {code: name for name, code in _TYPES.items()}
_TYPESTRS = {"u1": "uint8", "u2": "uint16", "f2": "float16", "f4": "float32"}


def _from_interface(array: Any, interface: Any, device: tuple[int, int]) -> Taken:
    taken = Taken(array)
    typestr = interface["typestr"]
    dtype = _TYPESTRS.get(typestr[1:])
    if dtype is None or typestr[0] == ">":
        raise TypeError(f"an array has elements of type {typestr}: must be {', '.join(_TYPES)}")
    taken.dtype = dtype
    taken.shape = tuple(interface["shape"])
    taken.pointer, taken.readonly = interface["data"]
    strides = interface.get("strides")
    if strides is None:
        strides = _layout.row_major(taken.shape, _layout.SIZES[dtype])
    taken.strides = tuple(strides)
    taken.device = device
    taken.stream = interface["stream"] or 0 if "stream" in interface else None
    return taken


def _from_capsule(array: Any, capsule: Any, stream: int) -> Taken:
    address = _object_pointer(capsule, _NAME[False])
    taken = Taken(array)
    (data, kind, number, n, code, bits, lanes, shape, strides, offset, _, deleter) = (
        _UNVERSIONED.unpack(ctypes.string_at(address, _UNVERSIONED.size))
    )
    _capsule_set_name(capsule, _USED)
    if deleter:
        taken._deleter = (_Deleter(deleter), address)
    dtype = _DTYPES.get((code, bits))
    if dtype is None or lanes != 1:
        raise TypeError(
            f"an array has elements of DLPack's type {code} with {bits} bits: must be "
            f"{', '.join(_TYPES)}"
        )
    taken.dtype = dtype
    taken.shape = tuple(struct.unpack(f"={n}q", ctypes.string_at(shape, 8 * n)))
    size = bits // 8
    taken.strides = (
        tuple(s * size for s in struct.unpack(f"={n}q", ctypes.string_at(strides, 8 * n)))
        if strides
        else _layout.row_major(taken.shape, size)
    )
    taken.pointer = data + offset
    taken.device = kind, number
    taken.readonly = False
    taken.stream = stream
    return taken


def take(array: Any, stream_on: Any) -> Taken:
    """The memory of an array that has DLPack or an array interface.

    `stream_on` gives the stream of a device that shall wait for the work that writes the array.
    """
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        return _from_interface(array, interface, (CPU, 0))
    if hasattr(array, "__dlpack__"):
        device = tuple(array.__dlpack_device__())
        if device[0] == CPU:
            return _from_capsule(array, array.__dlpack__(), 0)
        if device[0] == CUDA:
            return _from_capsule(array, array.__dlpack__(stream=stream_on(device[1])), 0)
        raise TypeError(f"an array is on a device of type {device[0]}: must be the CPU or CUDA")
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_interface(array, interface, (CUDA, -1))
    raise TypeError(
        f"{type(array).__name__} is no array: it has neither DLPack nor an array interface"
    )
