"""Measures how far a moving edge is off by the age of its mask: age.py CACHE, where CACHE is .cache/ after
tests/live/live.sh has run.

A portrait with known alpha sways before a city. The network is replaced by one that knows the truth at its own size,
and gives it after a time, or for an earlier frame. The error is the sum of alpha's absolute errors divided by the
length of the true edge: the pixels by which the edge is off.
"""
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CACHE = pathlib.Path(sys.argv.pop(1))
sys.path[:0] = [str(ROOT / "tests" / "live"), str(ROOT / "tests" / "python")]

import clips  # noqa: E402
import cv2  # noqa: E402
import numpy as np  # noqa: E402
from common import FOLDER, Gst, gcf, program, run_program, samples_of, without_loss  # noqa: E402
from gst_cuda_filters.live_matte import source  # noqa: E402

SIZE, NETWORK = (640, 360), (256, 144)
SECONDS = 3
# The portrait sways by this share of the width to both sides, once in so many seconds: up to 200 pixels per second.
SWAY, PERIOD = 0.15, 3.0


def scene(rate):
    """Returns frames and their truth."""
    cut = clips.cutout(CACHE, "collins").astype(np.float32)
    cut[..., :3] *= cut[..., 3:] / 255
    behind = cv2.resize(clips.backgrounds(CACHE, "city")[0], SIZE, interpolation=cv2.INTER_AREA)
    scale = 0.85 * SIZE[1] / cut.shape[0]
    frames, truth = [], []
    for i in range(SECONDS * rate):
        x = SIZE[0] * (0.5 + SWAY * np.sin(2 * np.pi * i / rate / PERIOD)) - scale * cut.shape[1] / 2
        place = np.array([[scale, 0, x], [0, scale, SIZE[1] - scale * (cut.shape[0] - 1)]])
        moved = cv2.warpAffine(cut, place, SIZE, flags=cv2.INTER_AREA)
        alpha = moved[..., 3] / 255
        frames.append(np.rint(moved[..., :3] + behind * (1 - alpha[..., np.newaxis])).astype(np.uint8))
        truth.append(alpha)
    return frames, truth


def length(alpha):
    """Returns the length of the edge in pixels."""
    inside = (alpha > 0.5).astype(np.uint8)
    contours, _ = cv2.findContours(inside, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return sum(map(len, contours))


def run(clip, truth, rate, arguments, age=0, seconds=0.0, live=False):
    """Returns the edge's mean error in pixels, the mean age of masks in ms, and the share of frames that came out."""
    masks = [np.rint(255 * cv2.resize(alpha, NETWORK, interpolation=cv2.INTER_AREA)).astype(np.uint8) for alpha in truth]
    made, ages = FOLDER / "made.mkv", []

    def patch(it):
        def mask(tensor):
            time.sleep(seconds)
            return masks[max(round(tensor.pts * rate / Gst.SECOND) - age, 0)]
        it.nets[0].mask = mask
        report = it.masks.report
        it.masks.report = lambda: ages.extend((told := report())[0]) or told
    kept = source.make
    if live:
        uri = clip.as_uri()
        program.source.make = lambda *_: source.Source(
            f'uridecodebin uri="{uri}" caps=video/x-raw ! videoconvert ! identity sync=true', True, "clip")
    try:
        it, _ = run_program(clip, "--output", made, "--bitrate", 0, "--backend", "cpu", "--no-skip-still", *arguments,
                            patch=patch)
    finally:
        source.make = kept
    it.masks.report()
    errors = []
    for sample in samples_of(made, "videoconvert ! video/x-raw,format=I420 !"):
        i = min(round(sample.get_buffer().pts * rate / Gst.SECOND), len(truth) - 1)
        if i < rate // 2:
            continue  # the first masks
        got = np.clip((np.array(gcf.frame(sample).planes[0]) - 16.0) / 219, 0, 1)[:SIZE[1], :SIZE[0]]
        errors.append(np.abs(got - truth[i]).sum() / length(truth[i]))
    return np.mean(errors), 1000 * np.mean(ages[rate // 2:]), len(errors) / (len(truth) - rate // 2)


def main():
    print("| frames/s | age of the mask (ms) | the mask alone (pixels) | the matte (pixels) |\n|---|---|---|---|")
    for rate in 30, 60:
        frames, truth = scene(rate)
        clips.write_y4m(FOLDER / "clip.y4m", frames, rate)
        clip = without_loss(FOLDER / "clip.y4m")
        clip = clip.rename(clip.with_name(f"clip{rate}.mkv"))
        for age in range(0, rate // 10 + 1, rate // 30):
            errors = [run(clip, truth, rate, ["--wait-for-mask", "--background", what], age)[0]
                      for what in ("mask", "matte")]
            print(f"| {rate} | {1000 * age / rate:.0f} | {errors[0]:.1f} | {errors[1]:.1f} |", flush=True)
    print("\n| frames/s | network (ms) | `--delay` | mean age (ms) | frames that came out | the matte (pixels) |\n"
          "|---|---|---|---|---|---|")
    for rate in 30, 60:
        truth = scene(rate)[1]
        for seconds in 0.01, 0.025, 0.06:
            for delay in "0", "auto":
                error, age, share = run(FOLDER / f"clip{rate}.mkv", truth, rate, ["--delay", delay, "--background", "matte"],
                                        0, seconds, True)
                print(f"| {rate} | {1000 * seconds:.0f} | {delay} | {age:.0f} | {100 * share:.0f} % | {error:.1f} |", flush=True)


main()
