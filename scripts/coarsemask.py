#!/usr/bin/env python3
"""Masks as a segmentation network gives them, frame by frame, for a drawing of one.

  coarsemask.py FRAMES < drawing > masks.raw

A line of the drawing is a row, with # where the mask is. In each frame a fifth of the squares along
its edge is wrong. The output is raw video of 8-bit gray, one pixel per square, the same in every run.
"""
import random
import sys

if len(sys.argv) != 2 or not sys.argv[1].isdigit():
    sys.exit(__doc__)
rows = [[c == '#' for c in line] for line in sys.stdin.read().split()]
width, height = len(rows[0]), len(rows)
if any(len(row) != width for row in rows) or width % 4:
    sys.exit('coarsemask.py: all rows must have the same width, a multiple of 4')


def at_edge(x, y):
    around = ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1))
    return any(rows[min(max(j, 0), height - 1)][min(max(i, 0), width - 1)] != rows[y][x]
               for i, j in around)


edge = [[at_edge(x, y) for x in range(width)] for y in range(height)]
source = random.Random(1)
for _ in range(int(sys.argv[1])):
    for y in range(height):
        sys.stdout.buffer.write(bytes(
            255 * (rows[y][x] != (edge[y][x] and source.random() < 0.2)) for x in range(width)))
