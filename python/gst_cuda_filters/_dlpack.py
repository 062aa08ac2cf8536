"""Implements DLPack: capsules that consumers take arrays from."""
from __future__ import annotations

import atexit
import ctypes
import functools
import struct
from ctypes import c_char_p, c_int, c_void_p, py_object
from typing import Any

from . import _gst, _layout

CPU = 1
CUDA = 2

_READ_ONLY = 1

# DLTensor has these fields: data; device type and id; ndim; dtype code, bits and lanes; shape;
# strides; byte offset.
_TENSOR = "QiiiBBHQQQ"
# DLManagedTensor has these fields: tensor; manager's context; deleter.
_UNVERSIONED = struct.Struct("=" + _TENSOR + "QQ")
# DLManagedTensorVersioned has these fields: version; manager's context; deleter; flags; tensor.
_VERSIONED = struct.Struct("=IIQQQ" + _TENSOR)
_DELETER = {False: _UNVERSIONED.size - 8, True: 16}  # offset of the deleter's address
# offset of the array's address
_DATA = {False: 0, True: _VERSIONED.size - struct.calcsize("=" + _TENSOR)}
_Word = ctypes.c_uint64
_VERSION = (1, 0)
_NAME = {False: b"dltensor", True: b"dltensor_versioned"}

_TYPES = {"uint8": (1, 8), "uint16": (1, 16), "float16": (2, 16), "float32": (2, 32)}

# These are separate instances because argument types belong to the function object.
_python = ctypes.PyDLL(None)
_capsule_new = _gst.declare(
    _python, "PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p
)
_capsule_is_valid = _gst.declare(_python, "PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_capsule_pointer = _gst.declare(_python, "PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_incref = _gst.declare(_python, "Py_IncRef", None, py_object)

# Maps the address of a consumer's structure to the object that it keeps alive and the list that the
# structure returns to. Dictionaries and lists change in one step, so no lock is needed: a deleter
# can run in the middle of anything.
_exports: dict[int, tuple[Any, _Structures]] = {}
_ended = False


class _Structures(list):
    """Holds structures for arrays of one shape on one device. They differ only in the array's
    address."""

    __slots__ = ("versioned", "_filled")

    def __init__(
        self, shape: _layout.Shape, device: tuple[int, int], readonly: bool, versioned: bool
    ) -> None:
        self.versioned = versioned
        code, bits = _TYPES[shape.dtype]
        layout = _VERSIONED if versioned else _UNVERSIONED
        n = len(shape.shape)

        def filled(address: int, pointer: int) -> bytes:
            at = address + layout.size
            deleter = 0 if _ended else _delete_address
            tensor = (pointer, *device, n, code, bits, 1, at, at + 8 * n, 0)
            if versioned:
                flags = _READ_ONLY if readonly else 0
                head = layout.pack(*_VERSION, 0, deleter, flags, *tensor)
            else:
                head = layout.pack(*tensor, 0, deleter)
            return head + shape.extents

        self._filled = filled

    def take(self, pointer: int) -> int:
        """Returns the address of a structure for the array at `pointer`."""
        try:
            address: int = self.pop()
        except IndexError:
            size = len(self._filled(0, 0))
            address = _gst.malloc0(size)
            ctypes.memmove(address, self._filled(address, pointer), size)
            return address
        _Word.from_address(address + _DATA[self.versioned]).value = pointer
        return address

    def __del__(self, free: Any = _gst.free) -> None:
        for address in self:
            free(address)


def _delete(address: int, exports: dict[int, Any] = _exports) -> None:
    """Deletes a structure. Consumers call this from any thread."""
    known = exports.pop(address, None)
    if known:
        known[1].append(address)


def _drop(capsule: int, is_valid: Any = _capsule_is_valid, pointer: Any = _capsule_pointer,
          delete: Any = _delete, name: bytes = _NAME[False]) -> None:
    """Destroys a capsule. A capsule that a consumer has used has another name by then."""
    if is_valid(capsule, name):
        delete(pointer(capsule, name))


# The destructor gets the address of a capsule: py_object would take a reference, although the
# capsule has none left.
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_drop_callback = {
    False: _Destructor(_drop),
    True: _Destructor(functools.partial(_drop, name=_NAME[True])),
}
_delete_callback = ctypes.CFUNCTYPE(None, c_void_p)(_delete)
_drop_address = {
    versioned: ctypes.cast(callback, c_void_p).value
    for versioned, callback in _drop_callback.items()
}
_delete_address = ctypes.cast(_delete_callback, c_void_p).value
# Capsules can outlive this module.
for _object in (*_drop_callback.values(), _delete_callback, *_NAME.values()):
    _incref(_object)


def _end() -> None:
    """Detaches consumers at exit, so that they do not call into an interpreter that has ended."""
    global _ended
    _ended = True
    if _gst.native:
        _gst.native.end()
    for address, (_, structures) in list(_exports.items()):
        c_void_p.from_address(address + _DELETER[structures.versioned]).value = None
    # Their memory is kept until the process ends.
    if _exports:
        _incref(_exports)


atexit.register(_end)


def export(
    owner: Any, pointer: int, shape: _layout.Shape, device: tuple[int, int], readonly: bool,
    versioned: bool,
) -> Any:
    """Returns a capsule whose consumer keeps `owner` alive.

    Without `versioned`, the structure is that of DLPack before 1.0, which cannot say that the
    memory is read-only.
    """
    if _gst.native:
        return _gst.native.export(
            owner, pointer, shape.extents, device, *_TYPES[shape.dtype], readonly, versioned
        )
    key = device, readonly, versioned
    structures = shape.exports.get(key)
    if structures is None:
        structures = shape.exports.setdefault(key, _Structures(shape, *key))
    if _ended:
        structures = _Structures(shape, *key)
    address = structures.take(pointer)
    _exports[address] = (owner, structures)
    try:
        return _capsule_new(address, _NAME[versioned], _drop_address[versioned])
    except BaseException:
        _delete(address)
        raise


class Taken:
    """Describes the memory of another library's array, and keeps the array."""

    __slots__ = ("pointer", "shape", "strides", "dtype", "device", "readonly", "stream", "_owner",
                 "_deleter")

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dtype: str
    device: tuple[int, int]
    readonly: bool
    stream: int | None  # on which work may still write it; None: any stream; 0: no work is pending

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
    """Returns the memory of an array that has DLPack or an array interface.

    `stream_on` returns the stream of a device that must wait for the work that writes the array.
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
