"""Runs offline denoisers of PyPI on a clip of raw frames of 8-bit 4:2:0. offline.sh runs it, in another system.

  offline.py WIDTH HEIGHT PEERS FOLDER STRENGTH... < CLIP

PEERS is mdegrain or vbm3d. Writes FOLDER/PEER=STRENGTH.yuv for each strength.
"""
import ctypes
import sys

import vapoursynth as vs

core = vs.core
width, height = int(sys.argv[1]), int(sys.argv[2])
peers, folder, *strengths = sys.argv[3:]
data = sys.stdin.buffer.read()
shapes = [(width, height), (width // 2, height // 2), (width // 2, height // 2)]
frame_size = sum(w * h for w, h in shapes)
blank = core.std.BlankClip(
    width=width, height=height, format=vs.YUV420P8, length=len(data) // frame_size, fpsnum=25, fpsden=1, keep=True
)


def fill(n, f):
    out, at = f.copy(), n * frame_size
    for plane, (w, h) in enumerate(shapes):
        row = out.get_write_ptr(plane).value
        for _ in range(h):
            ctypes.memmove(row, data[at : at + w], w)
            row += out.get_stride(plane)
            at += w
    return out


def mdegrain(clip):
    """Yields names and clips. The vectors are found once, in a blurred clip, and then refined."""
    radius = 6
    blurred = core.std.Convolution(clip, [1, 2, 1, 2, 4, 2, 1, 2, 1])
    search, source = core.mv.Super(blurred), core.mv.Super(clip, levels=1)
    vectors = []
    for delta in range(1, radius + 1):
        for backward in (True, False):
            v = core.mv.Analyse(search, isb=backward, delta=delta, blksize=16, overlap=8, search=5, searchparam=4)
            vectors.append(core.mv.Recalculate(search, v, thsad=100, blksize=8, overlap=4, search=5, searchparam=2))
    for thsad in map(int, strengths):
        # No block counts as changed for the detection of cuts, because the clips have none.
        options = {"thsad": thsad, "thscd1": 16000}
        yield f"mdegrain6={thsad}", core.mv.Degrain6(clip, source, *vectors, **options)
        yield f"mdegrain3={thsad}", core.mv.Degrain3(clip, source, *vectors[:6], **options)


def vbm3d(clip):
    exact = core.resize.Point(clip, format=vs.YUV420PS, range_in_s="full", range_s="full")
    for sigma in map(int, strengths):
        options = {"sigma": [sigma] * 3, "radius": 2, "block_step": 4}
        basic = core.bm3dcpu.BM3Dv2(exact, **options)
        final = core.bm3dcpu.BM3Dv2(exact, ref=basic, **options)
        yield f"vbm3d={sigma}", core.resize.Point(
            final, format=vs.YUV420P8, range_in_s="full", range_s="full", dither_type="none"
        )


loaded = core.std.ModifyFrame(blank, blank, fill)
grid = {"mdegrain": mdegrain, "vbm3d": vbm3d}[peers](loaded)
results = [(open(f"{folder}/{name}.yuv", "wb"), clip) for name, clip in grid]
# All strengths of a frame follow each other, so that they find its vectors in the cache.
for n in range(blank.num_frames):
    for file, clip in results:
        with clip.get_frame(n) as frame:
            for plane, (w, h) in enumerate(shapes):
                row = frame.get_read_ptr(plane).value
                for _ in range(h):
                    file.write(ctypes.string_at(row, w))
                    row += frame.get_stride(plane)
for file, _ in results:
    file.close()
