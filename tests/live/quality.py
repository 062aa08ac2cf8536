"""Compares the mattes of live-matte with the true alpha of clips."""
import os

import numpy as np
from common import FOLDER, MISSING, ROOT, Gst, grays, live_matte, without_loss
from harness import Skip, case
from gst_cuda_filters.live_matte import fetch, network, plain

CACHE = ROOT / ".cache"
# Each name has a subject and a background, and the maximum ratio of the matte's error to the error
# of the bare mask, which is the network's mask enlarged bilinearly.
QUALITY = {
    "collins, city": 0.8, "collins, street": 0.8, "collins, green": 0.3,
    "hopper, city": 0.8, "hopper, street": 0.8, "hopper, green": 0.3,
}


def material(name):
    """Returns the file of a clip and its true alpha."""
    try:
        import clips
        import cv2
    except ImportError as why:
        raise Skip(str(why)) from None
    subject, background = name.split(", ")
    needed = [clips.PORTRAITS[subject][0]] + {"city": [clips.CITY], "street": [clips.STREET], "green": []}[background]
    for file in needed:
        if not (CACHE / file).exists():
            raise Skip(f"{file} could not be fetched")
    if not hasattr(cv2, "alphamat"):
        raise Skip("OpenCV without its alphamat module")
    if not Gst.ElementFactory.find("avdec_h264"):
        raise Skip("only FFmpeg decodes H.264 without loss (gstreamer1.0-libav)")
    frames, truth = zip(*clips.compose(CACHE, subject, background))
    clips.write_y4m(FOLDER / "clip.y4m", frames)
    return without_loss(FOLDER / "clip.y4m"), np.array(truth)


def measure(name, way, made, truth, base=None):
    """Prints how far a matte is from the truth. Returns the mean squared error and the means inside
    and outside."""
    matte = np.clip(made, 0, 1).reshape((-1,) + made.shape[1:3])
    assert matte.shape == truth.shape, (matte.shape, truth.shape)
    mse = np.mean((matte - truth) ** 2)
    sad = np.mean(np.abs(matte - truth).sum(axis=(1, 2))) / 1000
    inside, outside = matte[truth > 0.99].mean(), matte[truth < 0.01].mean()
    print(f"# {name}: {way:9} MSE {1000 * mse:6.3f} ({mse / (base or mse):.2f})  SAD {sad:6.3f}  "
          f"alpha inside {inside:.4f}, outside {outside:.4f}", flush=True)
    return mse, inside, outside


BARE = ("--background", "mask", "--no-model-mirror")


@case(*QUALITY)
def matte_against_the_truth(name):
    """Compares the matte with the bare mask. With LIVE_WAYS=all, it also prints the errors of what is between the two."""
    clip, truth = material(name)
    made, base = FOLDER / "matte.mkv", None
    ways = {"bare mask": BARE, "colors": ("--background", "matte")}
    if os.environ.get("LIVE_WAYS"):
        ways = {"bare mask": BARE, "mask": ("--background", "mask"),
                "guided": ("--background", "matte", "--matte", "refine=guided"), **ways}
    for way, arguments in ways.items():
        live_matte(clip, "--output", made, "--bitrate", "0", "--backend", "cpu", *arguments)
        mse, inside, outside = measure(name, way, grays(made), truth, base)
        base = base or mse
    assert inside > 0.98 and outside < 0.02, (inside, outside)
    assert mse <= QUALITY[name] * base, f"more than {QUALITY[name]} of the bare mask's error"


@case()
def a_model_that_mirrors_frames_itself():
    """The network of --engine gst must make the masks that the program makes from two runs."""
    if MISSING:
        raise Skip(MISSING)
    file = fetch.network_file("selfie_segmentation_landscape.tflite")
    kept, fetch.cache = fetch.cache, lambda: FOLDER
    try:
        made = plain.plain(file, True)
    finally:
        fetch.cache = kept
    twice = network.load(file, network.Description(), None, 1)
    itself = network.load(made, network.Description(mirror=False), None, 1)
    tensor = np.random.default_rng(1).random(twice.shape, np.float32)
    tensor[:, 40:, 100:180] = 0.8
    wanted, got = twice.mask(tensor), itself.mask(tensor)
    assert wanted.max() > wanted.min() and np.abs(wanted.astype(int) - got).max() <= 1, (wanted, got)
    assert network.load(file, network.Description(mirror=False), None, 1).mask(tensor).tolist() != got.tolist()


@case(*QUALITY)
def network_in_the_pipeline(name):
    """Needs GStreamer's tfliteinference, which exists from 1.28 on."""
    if not Gst.ElementFactory.find("tfliteinference"):
        raise Skip("GStreamer has no tfliteinference")
    clip, truth = material(name)
    made = FOLDER / "matte.mkv"
    live_matte(clip, "--output", made, "--bitrate", "0", *BARE)
    base, *_ = measure(name, "bare mask", grays(made), truth)
    live_matte(clip, "--output", made, "--bitrate", "0", "--background", "matte", "--backend", "cpu", "--engine", "gst")
    mse, inside, outside = measure(name, "in GStreamer", grays(made), truth, base)
    assert inside > 0.98 and outside < 0.02, (inside, outside)
    assert mse <= QUALITY[name] * base, f"more than {QUALITY[name]} of the bare mask's error"
