#!/usr/bin/env python3
"""Tests batch_of(): the rows of a batch as arrays, and boxes that go back to the streams."""
import gc

from harness import case, equal, load_gst, raises, run, skip_all

Gst = load_gst()
from gi.repository import GstVideo  # noqa: E402

try:
    import numpy as np
except ImportError:
    skip_all("NumPy is not there")
import gst_cuda_filters as gcf  # noqa: E402

SIZES = [(64, 48), (48, 64), (32, 32)]


class Streams:
    """Is a pipeline of three streams of known colours, with a sink for batches or for streams."""

    def __init__(self, behind, rows=3, batch="max-wait=4294967295", network=None):
        line = (f"cudaletterboxbatch name=batch backend=cpu {batch} ! other/tensors,format=static,"
                f"num_tensors=1,types=float32,dimensions=32:32:3:{rows} ! {behind} ")
        for i, (w, h) in enumerate(SIZES):
            line += (f"videotestsrc num-buffers=5 pattern=solid-color foreground-color={0xff000000 | 51 * (i + 1)} ! "
                     f"video/x-raw,format=RGB,width={w},height={h},framerate=25/1 ! batch.sink_{i} ")
        self.pipeline = Gst.parse_launch(line)
        if network:
            self.pipeline.get_by_name("network").connect("handoff", network)
        self.pipeline.set_state(Gst.State.PLAYING)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pipeline.set_state(Gst.State.NULL)

    def pull(self, name="sink"):
        sample = self.pipeline.get_by_name(name).emit("try-pull-sample", 60 * Gst.SECOND)
        assert sample, "nothing came"
        return sample


@case()
def rows_and_tensor():
    with Streams("appsink name=sink sync=false") as streams:
        for n in range(5):
            batch = gcf.batch_of(streams.pull())
            equal(batch.tensor.shape, (3, 3, 32, 32))
            values = np.asarray(batch.tensor)
            assert np.array_equal(np.from_dlpack(batch.tensor), values)
            equal([row.stream for row in batch.rows], [0, 1, 2])
            for i, row in enumerate(batch.rows):
                assert row.present
                equal(row.pts, n * 40 * Gst.MSECOND)
                # The picture is in the middle, and its blue tells the stream.
                assert abs(values[i, 2, 16, 16] - 0.2 * (i + 1)) < 1e-6
                frame = row.frame
                equal((frame.format, frame.width, frame.height), ("RGB", *SIZES[i]))
                equal(np.asarray(frame.planes[0])[3, 4].tolist(), [0, 0, 51 * (i + 1)])
                # The whole row covers the picture and its borders.
                box = row.letterbox.to_source([0.0, 0.0, 32.0, 32.0])
                size = max(SIZES[i])
                equal((box[2] - box[0], box[3] - box[1]), (size, size))


@case()
def absent_rows():
    with Streams("appsink name=sink sync=false", rows=4, batch="max-wait=20 batch-size=4") as streams:
        batch = gcf.batch_of(streams.pull())
        row = batch.rows[3]
        equal((row.present, row.stream, row.pts), (False, None, None))
        for use in (lambda: row.frame, lambda: row.letterbox, lambda: row.attach([[0, 0, 1, 1]])):
            raises(ValueError, "absent", use)
        assert abs(float(np.asarray(batch.tensor)[3, 0, 0, 0]) - 114 / 255) < 1e-6


@case()
def rows_outlive_the_sample():
    with Streams("appsink name=sink sync=false") as streams:
        rows = gcf.batch_of(streams.pull()).rows
        gc.collect()
        equal(np.asarray(rows[1].frame.planes[0])[0, 0, 2], 102)


@case()
def attached_boxes_reach_the_streams():
    errors = []

    def network(identity, buffer):
        try:
            caps = identity.get_static_pad("src").get_current_caps()
            for row in gcf.batch_of(buffer, caps).rows:
                row.attach(np.array([[8.0, 8.0, 24.0, 16.0]]), [f"thing {row.stream}"], [0.5])
        except Exception as error:
            errors.append(error)

    with Streams("identity name=network signal-handoffs=true ! cudaletterboxunbatch name=streams "
                 + " ".join(f"streams.src_{i} ! queue ! appsink name=out{i} sync=false" for i in range(3)),
                 network=network) as streams:
        for n in range(5):
            for i, (w, h) in enumerate(SIZES):
                buffer = streams.pull(f"out{i}").get_buffer()
                assert not errors, errors
                equal(buffer.pts, n * 40 * Gst.MSECOND)
                meta = GstVideo.buffer_get_video_region_of_interest_meta_id(buffer, 0)
                scale = max(w, h) / 32
                left, top = (w - 32 * scale) / 2, (h - 32 * scale) / 2
                equal((meta.x, meta.y, meta.w, meta.h),
                      (8 * scale + left, 8 * scale + top, 16 * scale, 8 * scale))
                detection = meta.get_param("detection")
                equal(detection.get_value("confidence"), 0.5)
                equal(detection.get_value("label"), f"thing {i}")


def two_streams():
    """Returns a pipeline of two black streams through batches of two rows."""
    line = ("cudaletterboxbatch name=batch backend=cpu max-wait=4294967295 ! other/tensors,format=static,"
            "num_tensors=1,types=float32,dimensions=32:32:3:2 ! cudaletterboxunbatch name=streams ")
    for i in range(2):
        line += (f"videotestsrc num-buffers=3 pattern=black ! video/x-raw,format=RGB,width=64,height=32 ! batch.sink_{i} "
                 f"streams.src_{i} ! queue ! overlaycomposition ! fakesink name=out{i} signal-handoffs=true sync=false ")
    return line


@case()
def boxes_are_found_and_drawn():
    pipeline = Gst.parse_launch(two_streams())
    seen = [], []

    def look(_, buffer, pad, frames):
        picture = np.asarray(gcf.frame(buffer, pad.get_current_caps()).planes[0]).copy()
        frames.append((gcf.boxes_of(buffer), picture))

    for i in range(2):
        pipeline.get_by_name(f"out{i}").connect("handoff", look, seen[i])
    boxes = [np.array([[8, 12, 16, 20], [0, 8, 4, 12]]), []]
    gcf.play(pipeline, lambda batch: batch.attach(boxes, "thing", [[0.5, 0.25], []]), draw=True)
    equal([len(frames) for frames in seen], [3, 3])
    for found, picture in seen[0]:
        equal(found, [(16, 8, 32, 24, "thing", 0.5), (0, 0, 8, 8, "thing", 0.25)])
        green = np.zeros((32, 64), bool)
        for left, top, right, bottom, *_ in found:
            green[top:bottom, left:right] = True
            green[top + 2:bottom - 2, left + 2:right - 2] = False
        assert np.array_equal(picture[..., 1] > 200, green)
    for found, picture in seen[1]:
        equal((found, picture.max() < 32), ([], True))


@case()
def play_tells_of_errors():
    def fails(batch):
        raise KeyError("no such box")

    raises(RuntimeError, "KeyError no such box", gcf.play, two_streams(), fails)
    raises(RuntimeError, "/nonexistent", gcf.play, "filesrc location=/nonexistent ! fakesink")
    raises(Exception, "no element", gcf.play, "no_such_element ! fakesink")
    gcf.play("videotestsrc num-buffers=1 ! fakesink")


@case()
def wrong_values():
    with Streams("appsink name=sink sync=false") as streams:
        row = gcf.batch_of(streams.pull()).rows[0]
        raises(ValueError, "shape", row.attach, [[1, 2, 3]])
        raises(ValueError, "2 labels for 1 boxes", row.attach, [[1, 2, 3, 4]], ["a", "b"])
        raises(ValueError, "0 scores for 1 boxes", row.attach, [[1, 2, 3, 4]], ["a"], [])
    with Streams("appsink name=sink sync=false") as streams:
        batch = gcf.batch_of(streams.pull())
        raises(ValueError, "boxes for 1 rows 3", batch.attach, [[]])
        raises(ValueError, "labels for 2 rows 3", batch.attach, [[], [], []], [[], []])
    caps = "other/tensors,format=static,num_tensors=1,types=uint8,dimensions=4:4:3:1"
    raises(ValueError, "cudaletterboxbatch", gcf.batch_of, Gst.Buffer.new_wrapped(bytes(48)), caps)


run()
