#!/usr/bin/env python3
"""Makes frames that show a window moving across a picture, to the right and back in 100 frames.

  pan.py WIDTH WINDOW FRAMES < picture.raw > frames.raw

The picture is raw RGBA with WIDTH pixels per row. The frames have WINDOW pixels per row.
"""
import math
import sys


def shift(frame, most):
    return most * (1 - math.cos(2 * math.pi * frame / 100)) / 2


if __name__ == '__main__':
    if len(sys.argv) != 4 or not all(a.isdigit() for a in sys.argv[1:]):
        sys.exit(__doc__)
    width, window, frames = map(int, sys.argv[1:])
    picture = sys.stdin.buffer.read()
    if not 0 < window <= width or not picture or len(picture) % (4 * width):
        sys.exit('pan.py: the picture must be rows of WIDTH, of which WINDOW is a part')
    for frame in range(frames):
        first = 4 * round(shift(frame, width - window))
        for row in range(0, len(picture), 4 * width):
            sys.stdout.buffer.write(picture[row + first:row + first + 4 * window])
