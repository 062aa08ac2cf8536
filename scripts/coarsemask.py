#!/usr/bin/env python3
"""Turns a drawing into masks like those of a segmentation network, frame by frame.

  coarsemask.py FRAMES [COLUMNS] < drawing > masks.raw

A line of the drawing is a row, with # where the mask is. In each frame a fifth of the squares along
its edge is wrong. The output is raw video of 8-bit gray with one pixel per square, the same in
every run. With COLUMNS it shows a window of that many squares that moves across the drawing, as
pan.py moves one across a picture.
"""
import random
import sys

from pan import shift

if len(sys.argv) not in (2, 3) or not all(a.isdigit() for a in sys.argv[1:]):
    sys.exit(__doc__)
rows = [[c == '#' for c in line] for line in sys.stdin.read().split()]
width, height = len(rows[0]), len(rows)
columns = int(sys.argv[2]) if len(sys.argv) > 2 else width
if any(len(row) != width for row in rows) or columns % 4 or not 0 < columns <= width:
    sys.exit('coarsemask.py: all rows must have the same width, and the window a multiple of 4')


def at_edge(x, y):
    around = ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1))
    return any(rows[min(max(j, 0), height - 1)][min(max(i, 0), width - 1)] != rows[y][x]
               for i, j in around)


edge = [[at_edge(x, y) for x in range(width)] for y in range(height)]
source = random.Random(1)
for frame in range(int(sys.argv[1])):
    first = shift(frame, width - columns)
    for y in range(height):
        sys.stdout.buffer.write(bytes(
            255 * (rows[y][x] != (edge[y][x] and source.random() < 0.2))
            for x in (min(int(first + i + 0.5), width - 1) for i in range(columns))))
