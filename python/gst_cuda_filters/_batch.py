"""Gives the batches of cudaletterboxbatch: one tensor of many streams, and what its rows are."""
from __future__ import annotations

import ctypes as _c
import json
from typing import Any, Sequence

from . import _frame, _gst, _layout

_BATCH_API = b"GstCudaLetterboxBatchMetaAPI"
_ORIGINAL_API = b"GstCudaLetterboxOriginalMetaAPI"


class _Meta(_c.Structure):
    """Is GstCudaLetterboxBatchMeta."""

    _fields_ = [("flags", _c.c_int), ("info", _c.c_void_p), ("n_rows", _c.c_uint),
                ("rows", _c.c_void_p)]


class _Row(_c.Structure):
    """Is GstCudaLetterboxBatchRow."""

    _fields_ = [("frame", _c.c_void_p), ("stream", _c.c_uint), ("origin", _c.c_void_p)]


class _Original(_c.Structure):
    """Is GstCudaLetterboxOriginalMeta."""

    _fields_ = [("flags", _c.c_int), ("info", _c.c_void_p), ("buffer", _c.c_void_p),
                ("caps", _c.c_void_p)]


def _meta_of(buffer: int, api: bytes) -> int:
    """Returns the address of a meta, or 0. The type exists once an element has made such a meta."""
    number = _gst.type_from_name(api)
    return _gst.buffer_get_meta(buffer, number) or 0 if number else 0


class Row:
    """Describes one row of a batch."""

    __slots__ = ("_batch", "_row")

    def __init__(self, batch: Batch, row: _Row) -> None:
        self._batch = batch
        self._row = row

    @property
    def present(self) -> bool:
        """False if no frame was there in time. The row then has the fill colour."""
        return bool(self._row.frame)

    @property
    def stream(self) -> int | None:
        """Number N of the pad sink_N, or None if the row is absent."""
        return self._row.stream if self.present else None

    def _buffer(self) -> int:
        if not self.present:
            raise ValueError("the row is absent: see Row.present")
        return self._row.frame

    @property
    def pts(self) -> int | None:
        """Presentation time of the frame in nanoseconds, or None."""
        if not self.present:
            return None
        pts = _gst.Buffer.from_address(self._row.frame).pts
        return None if pts == _gst.CLOCK_TIME_NONE else pts

    @property
    def letterbox(self) -> _frame.Letterbox:
        """Where the picture is in the row: row.letterbox.to_source(boxes)."""
        letterbox = _frame.letterbox_of(self._buffer())
        if letterbox is None:
            raise ValueError("the row has lost its GstCudaLetterboxMeta")
        return letterbox

    @property
    def frame(self) -> _frame.Frame:
        """The original frame, as frame() gives it. No copy is made."""
        return self.open_frame()

    def open_frame(self, *, host: bool = False) -> _frame.Frame:
        """Returns the original frame. With `host`, CUDA memory is copied to system memory."""
        address = _meta_of(self._buffer(), _ORIGINAL_API)
        if not address:
            raise ValueError("the row has lost its original frame")
        original = _Original.from_address(address)
        return _frame.make_frame(original.buffer, _layout.of_caps(original.caps), host)

    def attach(self, boxes: Any, labels: str | Sequence[str] | None = None,
               scores: Sequence[float] | None = None) -> None:
        """Adds boxes that a network has found in the row, for cudaletterboxunbatch.

        `boxes` are left, top, right and bottom in pixels of the row, as an array of shape (n, 4) or
        as lists. `labels` are a text for each box, or one text for all. Each box becomes a
        GstVideoRegionOfInterestMeta with its label as the type, and with its score as `confidence`
        in the parameter `detection`. cudaletterboxunbatch moves the metas to the original frame.

        Call it before the batch goes on, from one thread. Raises ValueError for an absent row, for
        boxes of another shape, and if labels or scores are not as many as the boxes.
        """
        rows = boxes.tolist() if hasattr(boxes, "tolist") else [list(box) for box in boxes]
        if any(not isinstance(box, list) or len(box) != 4 for box in rows):
            raise ValueError("boxes must have the shape (n, 4): left, top, right, bottom")
        if isinstance(labels, str):
            labels = [labels] * len(rows)
        for name, values in ("labels", labels), ("scores", scores):
            if values is not None and len(values) != len(rows):
                raise ValueError(f"{len(values)} {name} for {len(rows)} boxes")
        frame = self._buffer()
        if not _gst.mini_object_is_writable(frame):
            # A copy of the batch shares the frame.
            frame = self._row.frame = _gst.mini_object_make_writable(frame)
        tensor = self._batch.tensor.shape
        height, width = tensor[2:4] if tensor[1] == 3 else tensor[1:3]
        for i, box in enumerate(rows):
            left, right = (min(max(float(x), 0.0), float(width)) for x in box[0::2])
            top, bottom = (min(max(float(y), 0.0), float(height)) for y in box[1::2])
            label = "object" if labels is None else str(labels[i])
            x, y = int(left + 0.5), int(top + 0.5)
            meta = _gst.buffer_add_roi(frame, label.encode(), x, y, max(int(right + 0.5) - x, 0),
                                       max(int(bottom + 0.5) - y, 0))
            score = 1.0 if scores is None else float(scores[i])
            text = f"detection, confidence=(double){score!r}, label=(string){json.dumps(label)};"
            _gst.roi_add_param(meta, _gst.structure_from_string(text.encode(), None))

    def __repr__(self) -> str:
        return f"<Row of stream {self.stream}>" if self.present else "<absent Row>"


class Batch:
    """Holds a batch, as batch_of() returns it."""

    __slots__ = ("tensor", "rows", "_keep")

    tensor: _frame.Tensor  #: all rows, N x 3 x H x W or N x H x W x 3
    rows: tuple[Row, ...]  #: what each row is

    def __init__(self, sample: Any, caps: Any, host: bool) -> None:
        buffer, layout, keep = _frame.open_buffer(sample, caps)
        address = _meta_of(buffer, _BATCH_API)
        if not address:
            raise ValueError("the buffer is no batch: cudaletterboxbatch makes them")
        # The mapping keeps the buffer, and with it the rows.
        self.tensor = _frame.make_tensor(buffer, layout, host)
        self._keep = keep
        meta = _Meta.from_address(address)
        rows = (_Row * meta.n_rows).from_address(meta.rows)
        self.rows = tuple(Row(self, row) for row in rows)

    def attach(self, boxes: Sequence[Any], labels: str | Sequence[Any] | None = None,
               scores: Sequence[Any] | None = None) -> None:
        """Adds the boxes of all rows: those of row i are boxes[i], with labels[i] and scores[i].

        One text may be the label of all boxes. See Row.attach(). Absent rows are passed over. Raises
        ValueError if `boxes`, `labels` or `scores` are not as many as the rows.
        """
        boxes = list(boxes)
        for name, values in ("boxes", boxes), ("labels", labels), ("scores", scores):
            if not isinstance(values, (str, type(None))) and len(values) != len(self.rows):
                raise ValueError(f"{name} for {len(values)} rows: the batch has {len(self.rows)}")
        for i, row in enumerate(self.rows):
            if row.present:
                row.attach(boxes[i], labels if labels is None or isinstance(labels, str) else labels[i],
                           None if scores is None else scores[i])

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        present = sum(row.present for row in self.rows)
        return f"<Batch of {len(self.rows)} rows, {present} present, {self.tensor!r}>"


def batch_of(sample: Any, caps: Any = None, *, host: bool = False) -> Batch:
    """Returns a batch that cudaletterboxbatch made: its tensor, and the frames of its rows.

    `sample`, `caps` and `host` are those of tensor(). No copy is made. The frames, like the tensor,
    do not return to their pools until the result and the arrays made from it are gone.

    Raises ValueError for a buffer that is no batch, and else what tensor() raises.
    """
    return Batch(sample, caps, host)
