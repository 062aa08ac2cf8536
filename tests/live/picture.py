"""Makes docs/images/live-matte.jpg: picture.py CACHE FILE.jpg, where CACHE is .cache/ after live.sh
has run.

It shows a frame of a clip, the network's mask of it, and the portrait over the blurred background.
"""
import pathlib
import sys

CACHE, MADE = map(pathlib.Path, sys.argv[1:])

import clips  # noqa: E402
import cv2  # noqa: E402
import numpy as np  # noqa: E402
from common import FOLDER, live_matte, without_loss  # noqa: E402

FRAME = 12
SIZE, GAP = (480, 270), 4


def shown(file):
    """Returns a frame of a file."""
    video = cv2.VideoCapture(str(file), cv2.CAP_FFMPEG)
    for _ in range(FRAME + 1):
        ok, frame = video.read()
        assert ok, file
    return frame


frames = [frame for frame, _ in clips.compose(CACHE, "collins", "city")]
clips.write_y4m(FOLDER / "clip.y4m", frames)
clip = without_loss(FOLDER / "clip.y4m")
images = [frames[FRAME]]
for background in "mask", "blur":
    live_matte(clip, "--output", FOLDER / "made.mkv", "--bitrate", "0", "--background", background)
    images.append(shown(FOLDER / "made.mkv"))
gap = np.full((SIZE[1], GAP, 3), 255, np.uint8)
images = [cv2.resize(image, SIZE, interpolation=cv2.INTER_AREA) for image in images]
cv2.imwrite(str(MADE), np.hstack([images[0], gap, images[1], gap, images[2]]), [cv2.IMWRITE_JPEG_QUALITY, 92])
