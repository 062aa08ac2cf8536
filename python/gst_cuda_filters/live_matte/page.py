"""The tuning page of a program that runs: its background, and the properties of cudaguidedmatte."""
import shlex

from gi.repository import Gst

from .._program import Failure
from ..tune import controls, pictures, server
from . import behind, output

# --background sets these properties of cudaguidedmatte, so the page has no other controls for them.
OF_BACKGROUND = "output", "background", "background-sigma", "background-color"
SUGGESTIONS = {"blur": "The background of the picture, blurred", "blur:40": "Blurred more",
               "color:00b140": "A green screen", "matte": "The matte in gray"}


class Matte(controls.Element):
    """The properties of cudaguidedmatte. Their defaults are what the program has set at the start.

    The presets are left out, because they set the background, too.
    """

    def __init__(self, element):
        super().__init__(element, "Matte")
        for name in OF_BACKGROUND:
            del self.abouts[name]
        self.defaults = self.values()

    def describe(self):
        return {**super().describe(), "presets": []}

    def load(self, preset):
        raise Failure(f"the matte has no preset {preset}")

    def fitted(self):
        """Notes that the program has fitted mask-error to the frames."""
        self.defaults["mask-error"] = self.values()["mask-error"]


class Background:
    id = "background"

    def __init__(self, program, matte):
        self.program, self.matte = program, matte
        self.text = program.chosen.background

    def describe(self):
        about = "blur[:SIGMA], color:RRGGBB, matte, or the path of a picture or a video on this machine"
        return {"id": self.id, "title": "Background", "factory": "", "presets": [], "about": "What is behind the person",
                "properties": [{"name": "background", "kind": "string", "about": about, "group": "",
                                "default": self.program.chosen.background, "restarts": False, "locked": False,
                                "choices": [{"nick": nick, "about": words} for nick, words in SUGGESTIONS.items()]}]}

    def values(self):
        return {"background": self.text}

    def stats(self):
        return {}

    def load(self, preset):
        raise Failure(f"the background has no preset {preset}")

    def set(self, name, text):
        if name != "background" or not isinstance(text, str):
            raise Failure("background must be text")
        if text == "mask":
            raise Failure("the network's mask can only be shown from the start on (--background mask)")
        wanted = output.background(text)
        place = self.program.behind
        if wanted.behind:
            if not place.caps:
                raise Failure("the video has not begun yet")
            film = behind.Film(text, wanted.behind, self.program.wait)
            film.open(place.size)
            try:
                film.prepare()
            except Failure:
                film.stop()
                raise
            place.show(film)
        else:
            place.leave()
        # The file is behind an opaque picture until the first frame with alpha comes.
        element = self.matte.element
        for setting in wanted.matte.split():
            name, _, value = setting.partition("=")
            Gst.util_set_object_arg(element, name, value)
        self.text = text


def serve(program):
    matte = Matte(program.parts["matte"])
    background = Background(program, matte)

    def line():
        words, skip = [], False
        for word, after in zip(program.chosen.typed, [*program.chosen.typed[1:], ""]):
            if skip:
                skip = False
            elif word in ("--page", "--background"):
                skip = word == "--background" or after.isdigit()
            elif not word.startswith(("--page=", "--background=")):
                words.append(word)
        words += ["--background", background.text] if background.text != "blur" else []
        words += [each for setting in matte.words() for each in ("--matte", setting)]
        return " ".join(map(shlex.quote, ["gst-cuda-live-matte", *words]))

    shown = pictures.Pictures(program.parts["frames"].get_static_pad("sink"),
                              program.parts["rate"].get_static_pad("src"))
    board = server.Board("gst-cuda-live-matte", [background, matte], shown, line)
    return server.Server(board, "127.0.0.1", program.chosen.page)
