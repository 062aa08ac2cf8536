"""Makes README's moving example: moving.py CACHE PLUGINS MADE, where CACHE is .cache/ after tests/live/live.sh has run.

A portrait with known alpha sways before a street. MADE.mp4 and MADE.webp show the video, the portrait cut out by the
network's mask alone, by an earlier plugin in the folder PLUGINS, and by the plugin as it is. The example is made with
f89dfea as the earlier plugin, which is the last one without the cut at sure samples.
"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CACHE, BEFORE, MADE = map(pathlib.Path, sys.argv[1:])
sys.path[:0] = [str(ROOT / "tests" / "live"), str(ROOT / "tests" / "python")]

import clips  # noqa: E402
import cv2  # noqa: E402
import numpy as np  # noqa: E402
from common import FOLDER, PROGRAM, gcf, samples_of, without_loss  # noqa: E402

FRAMES = 75
SIZE = 640, 360
CUT = 96, 528  # the columns that are shown
SWAY = 0.12  # share of the width, to both sides
BEHIND = np.array([0x60, 0x38, 0x20])  # blue, green and red of the new background


def played(file):
    """Returns the frames of a file in OpenCV's order."""
    return [np.array(gcf.frame(sample).planes[0])[..., :3]
            for sample in samples_of(file, "videoconvert ! video/x-raw,format=BGRx !")]


def cut_out(frame, matte):
    """Returns a frame before the new background."""
    alpha = matte / 255.0
    return np.rint(frame * alpha + BEHIND * (1 - alpha)).astype(np.uint8)


def live(background, plugins=None):
    """Returns the frames that the program makes."""
    made = FOLDER / "made.mkv"
    environment = dict(os.environ)
    if plugins:
        environment.update(GST_PLUGIN_PATH_1_0=str(plugins), GST_REGISTRY_1_0=str(FOLDER / "registry"))
    subprocess.run([sys.executable, PROGRAM, clip, "--output", made, "--bitrate", "0", "--quiet", "--backend", "cpu",
                    "--background", background], check=True, env=environment)
    return played(made)


def scene():
    """Returns frames and their truth."""
    clips.FRAMES = FRAMES
    cut = clips.cutout(CACHE, "collins").astype(np.float32)
    cut[..., :3] *= cut[..., 3:] / 255
    scale = 1.05 * SIZE[1] / cut.shape[0]
    for i, behind in enumerate(clips.backgrounds(CACHE, "street")):
        behind = cv2.resize(behind, SIZE, interpolation=cv2.INTER_AREA)
        turn = 2 * np.pi * i / FRAMES
        x = SIZE[0] * (0.5 + SWAY * np.sin(turn)) - scale * cut.shape[1] / 2
        y = SIZE[1] * (0.06 + 0.02 * np.cos(2 * turn))
        place = np.array([[scale, 0, x], [0, scale, y]])
        moved = cv2.warpAffine(cut, place, SIZE, flags=cv2.INTER_LINEAR)
        alpha = moved[..., 3] / 255
        yield np.rint(moved[..., :3] + behind * (1 - alpha[..., np.newaxis])).astype(np.uint8), alpha


frames, truth = zip(*scene())
clips.write_y4m(FOLDER / "clip.y4m", frames)
clip = without_loss(FOLDER / "clip.y4m")
frames = played(clip)
mattes = [live("mask"), live("matte", BEFORE), live("matte")]
wide, gap = CUT[1] - CUT[0], 4
for i, frame in enumerate(frames):
    panels = [frame] + [cut_out(frame, matte[i]) for matte in mattes]
    sheet = np.full((2 * SIZE[1] + gap, 2 * wide + gap, 3), 255, np.uint8)
    for j, panel in enumerate(panels):
        y, x = j // 2 * (SIZE[1] + gap), j % 2 * (wide + gap)
        sheet[y:y + SIZE[1], x:x + wide] = panel[:, CUT[0]:CUT[1]]
    cv2.imwrite(str(FOLDER / f"{i:03}.png"), sheet)
for name, matte in zip(("mask", "before", "now"), mattes):
    off = [np.abs(m[..., 1] / 255 - t) for m, t in zip(matte, truth)]
    print(f"{name:7} MSE {1000 * np.mean(np.square(off)):6.3f}  SAD {np.mean(np.sum(off, axis=(1, 2))) / 1000:6.3f}")
CODED = {".mp4": "-c:v libx264 -crf 23 -preset veryslow -pix_fmt yuv420p -movflags +faststart",
         ".webp": "-vf scale=720:-2:flags=area,fps=12.5 -c:v libwebp_anim -q:v 60 -compression_level 6 -loop 0"}
for ending, options in CODED.items():
    subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-framerate", "25", "-i", str(FOLDER / "%03d.png"),
                    *options.split(), f"{MADE}{ending}"], check=True)
