#!/usr/bin/env python3
"""Adds salt and pepper to raw video, and measures how much of a noise is left.

  noise.py add SHARE FRAME_BYTES LUMA_BYTES < clean.raw > noisy.raw
      makes that share of the pixels black or white, in the luma that each frame begins with
  noise.py psnr FRAME_BYTES LUMA_BYTES clean.raw other.raw
      prints the peak signal-to-noise ratio of luma in dB

The noise is the same in every run. The ratio is the mean of ten frames, evenly spread.
"""
import math
import os
import random
import sys


def add(share, frame_bytes, luma_bytes):
    source = random.Random(1)
    while frame := sys.stdin.buffer.read(frame_bytes):
        frame = bytearray(frame)
        for value in (16, 235):
            for i in source.choices(range(luma_bytes), k=int(share * luma_bytes / 2)):
                frame[i] = value
        sys.stdout.buffer.write(frame)


def psnr(frame_bytes, luma_bytes, clean_path, other_path):
    frames = os.path.getsize(clean_path) // frame_bytes
    if not frames or os.path.getsize(other_path) < frames * frame_bytes:
        sys.exit(f'noise.py: {other_path} has fewer frames than {clean_path}')
    squares = [d * d for d in range(256)]
    total = count = 0
    with open(clean_path, 'rb') as clean, open(other_path, 'rb') as other:
        for i in range(min(10, frames)):
            at = i * frames // min(10, frames) * frame_bytes
            clean.seek(at)
            other.seek(at)
            a, b = clean.read(luma_bytes), other.read(luma_bytes)
            total += sum(squares[abs(x - y)] for x, y in zip(a, b))
            count += luma_bytes
    print('inf' if not total else f'{10 * math.log10(255 * 255 * count / total):.1f}')


if len(sys.argv) == 5 and sys.argv[1] == 'add':
    add(float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
elif len(sys.argv) == 6 and sys.argv[1] == 'psnr':
    psnr(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
else:
    sys.exit(__doc__)
