"""Finds out whether the picture stands still, so that the network need not see it again.

Two pictures are the same if no block of them differs by more than noise does. As cudadenoise does, this takes the
noise from the difference itself, where at least half of the blocks stand still, and believes no more of it than a
single picture can have.
"""
import numpy as np

#: A picture is judged by about so many samples in a row. Samples are single pixels, so that they keep their noise.
SAMPLES = 320
BLOCK = 8
#: Limits of the noise's variance, in 8-bit code values. Coding alone causes the lower one.
LEAST, MOST = 0.6, 64.0
#: Noise alone keeps the mean square of a block's difference, and the square of its mean, below these multiples of
#: their usual values. The limits are wide because bright parts have more noise than dark ones.
SQUARE, MEAN = 4.0, 36.0
#: A coder takes away the finest part of noise, which is all that a single picture shows. So there may be more of it.
CODED = 3.0
#: Half a second later, the network sees the picture in any case.
LIMIT = 500_000_000


class Picture:
    """Keeps what is needed of a frame's luma, an array of bytes, to compare it."""

    def __init__(self, luma):
        self.size = luma.shape
        step = max(1, round(max(luma.shape) / SAMPLES))
        rows, columns = (max((side - 2) // step, BLOCK) for side in luma.shape)
        rows, columns = rows - rows % BLOCK, columns - columns % BLOCK

        def samples(offset):
            part = luma[:rows * step:step, offset:offset + columns * step:step]
            return part[:rows, :columns].astype(np.int16)
        self.samples = samples(1)
        # The second difference of neighbouring pixels has six times the variance of their noise.
        self.rough = 2 * self.samples - samples(0) - samples(2)


def blocks(values):
    """Returns the mean square and the mean of each block."""
    rows, columns = values.shape
    values = values.astype(np.float32).reshape(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    return (values * values).mean(axis=(1, 3)), values.mean(axis=(1, 3))


def same(picture, before):
    """Returns whether two pictures differ by noise alone."""
    if picture.size != before.size:
        return False
    square, mean = blocks(picture.samples - before.samples)
    temporal = np.median(square - mean * mean) / 2
    spatial = np.median(blocks(picture.rough)[0]) / 6
    noise = 2 * min(max(min(temporal, CODED * spatial), LEAST), MOST)
    return bool((square < SQUARE * noise).all() and (mean * mean < MEAN * noise / BLOCK ** 2).all())
