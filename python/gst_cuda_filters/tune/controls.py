"""Describes the properties of an element for the page, from their GParamSpecs, and sets them."""
import math
import re

from gi.repository import GObject, Gst

from .._program import Failure, quoted

PLUGIN = "cudafilters"
INTEGERS = ("gint", "guint", "gint64", "guint64")
NUMBERS = ("gdouble", "gfloat")
# Properties of the filters of regions whose names do not begin with region.
REGIONS = ("areas", "regions", "hold-ms", "hold-follow", "on-missing", "interpolate", "look-ahead-ms")
# These belong to the program that runs the pipeline.
PRIVATE = ("name", "parent")


def factories():
    """Returns the names of this plugin's elements."""
    features = Gst.Registry.get().get_feature_list_by_plugin(PLUGIN)
    return [each.get_name() for each in features if isinstance(each, Gst.ElementFactory)]


def elements(container):
    """Returns this plugin's elements in a bin, in the order in which frames pass them."""
    found = []
    iterator = container.iterate_sorted()
    while True:
        result, element = iterator.next()
        if result == Gst.IteratorResult.RESYNC:
            iterator.resync()
            found = []
        elif result != Gst.IteratorResult.OK:
            break
        elif isinstance(element, Gst.Bin):
            found[:0] = elements(element)
        elif element.get_factory() and element.get_factory().get_plugin_name() == PLUGIN:
            found.insert(0, element)
    return found


def kind_of(about):
    """Returns what sort of control a property needs, or None for one that cannot be set by hand."""
    base, name = about.value_type.fundamental.name, about.value_type.name
    if base == "guint" and about.name.endswith("color"):
        return "color"
    kinds = {"gboolean": "boolean", "GEnum": "enum", "GFlags": "flags", "gchararray": "string"}
    kinds.update({each: "integer" for each in INTEGERS})
    kinds.update({each: "number" for each in NUMBERS})
    return kinds.get(base) or kinds.get(name)


def choices(about, kind):
    if kind == "enum":
        values = about.enum_class.__enum_values__
        return [{"nick": each.value_nick, "about": each.value_name} for each in values.values()]
    if kind == "flags":
        values = about.flags_class.__flags_values__
        return [{"nick": each.first_value_nick, "about": each.first_value_name} for each in values.values()]
    return []


def group_of(about, kind, ready):
    """Returns the heading under which the page shows a property; those without one come first."""
    if ready:
        return "Set at the start"
    if about.owner_type.name in ("GstObject", "GstBaseTransform", "GstCudaVideoFilter"):
        return "More"
    if about.name in REGIONS or about.name.startswith("region-"):
        return "Regions"
    prefix = about.name.partition("-")[0]
    return {"mask": "Mask", "background": "Background"}.get(prefix, "")


def value_of(element, about, kind):
    value = element.get_property(about.name)
    if kind == "enum":
        return value.value_nick
    if kind == "flags":
        return list(value.value_nicks)
    return value


def text_of(value, kind, about):
    """Returns a value as gst-launch-1.0 reads it."""
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "flags":
        return "+".join(value) or "0"
    if kind == "color":
        return f"0x{value:08x}" if about.maximum > 0xFFFFFF else f"0x{value:06x}"
    if kind == "number":
        return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
    if kind == "string" and not re.fullmatch(r"[\w.,:/%+-]+", value):
        return quoted(value)
    return str(value)


def sentence(name, kind, about):
    """Says what a value must be."""
    if kind in ("integer", "number", "color"):
        low, high = about.minimum, about.maximum
        what = "a whole number" if kind != "number" else "a number"
        if high > 1e300:
            return f"{name} must be {what}" + (f" of at least {low:g}" if low > -1e300 else "")
        return f"{name} must be {what} from {low:.12g} to {high:.12g}"
    if kind in ("enum", "flags"):
        nicks = [each["nick"] for each in choices(about, kind)]
        return f"{name} must be {'one' if kind == 'enum' else 'some'} of {', '.join(nicks)}"
    return f"{name} must be {'true or false' if kind == 'boolean' else 'text'}"


def fits(value, kind, about):
    """Returns whether a value from outside is one of the property."""
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str) and "\0" not in value
    if kind in ("enum", "flags"):
        nicks = [each["nick"] for each in choices(about, kind)]
        each = [value] if kind == "enum" else value
        return isinstance(each, list) and all(nick in nicks for nick in each)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    if kind != "number" and not float(value).is_integer():
        return False
    return about.minimum <= value <= about.maximum


class Element:
    """An element's properties for the page."""

    def __init__(self, element, title=None, restart=None):
        """`restart` sets a property that needs the state READY; without it such properties are shown only."""
        self.element, self.restart = element, restart
        self.id = element.get_name()
        self.title = title or self.id
        self.factory = element.get_factory().get_name()
        self.abouts = {}
        for about in element.list_properties():
            kind = kind_of(about)
            if kind and about.flags & GObject.ParamFlags.WRITABLE and about.name not in PRIVATE:
                self.abouts[about.name] = kind, about
        # Elements change the defaults of their base classes, so a new element tells what the defaults are.
        self.defaults = self.values(Gst.ElementFactory.make(self.factory))

    @staticmethod
    def ready_only(about):
        return bool(int(about.flags) & Gst.PARAM_MUTABLE_READY)

    def describe(self):
        properties = []
        for name, (kind, about) in self.abouts.items():
            ready = self.ready_only(about)
            made = {"name": name, "kind": kind, "about": about.blurb, "default": self.defaults[name],
                    "choices": choices(about, kind), "group": group_of(about, kind, ready),
                    "controllable": bool(int(about.flags) & Gst.PARAM_CONTROLLABLE),
                    "restarts": ready, "locked": ready and not self.restart}
            if kind in ("integer", "number", "color"):
                made.update(minimum=about.minimum, maximum=about.maximum)
            properties.append(made)
        # The element's own properties come before those of its base class.
        properties.sort(key=lambda each: ["", "Mask", "Background", "Regions", "Set at the start",
                                          "More"].index(each["group"]))
        presets = []
        if isinstance(self.element, Gst.Preset):
            for name in self.element.get_preset_names():
                presets.append({"name": name, "about": self.element.get_meta(name, "comment")[1] or ""})
        return {"id": self.id, "title": self.title, "factory": self.factory, "presets": presets,
                "about": self.element.get_factory().get_metadata("description") or "", "properties": properties}

    def values(self, element=None):
        element = element or self.element
        return {name: value_of(element, about, kind) for name, (kind, about) in self.abouts.items()}

    def set(self, name, value):
        if name not in self.abouts:
            raise Failure(f"{self.id} has no property {name} that can be set")
        kind, about = self.abouts[name]
        if not fits(value, kind, about):
            raise Failure(sentence(name, kind, about))
        if not self.ready_only(about):
            self.put(name, value)
        elif self.restart:
            before = value_of(self.element, about, kind)
            self.restart(lambda: self.put(name, value), lambda: self.put(name, before))
        else:
            raise Failure(f"{name} can only be set before the program starts")

    def put(self, name, value):
        kind, about = self.abouts[name]
        if kind in ("enum", "flags"):
            Gst.util_set_object_arg(self.element, name, text_of(value, kind, about))
        else:
            self.element.set_property(name, float(value) if kind == "number" else
                                      int(value) if kind in ("integer", "color") else value)

    def load(self, preset):
        if preset not in self.element.get_preset_names():
            raise Failure(f"{self.id} has no preset {preset}")
        if not self.element.load_preset(preset):
            raise Failure(f"the preset {preset} of {self.id} cannot be read")

    def words(self):
        """Returns NAME=VALUE for each property that is not at its default."""
        values = self.values()
        return [f"{name}={text_of(values[name], kind, about)}" for name, (kind, about) in self.abouts.items()
                if values[name] != self.defaults[name]]

    def stats(self):
        if not self.element.find_property("stats"):
            return {}
        stats = self.element.get_property("stats")
        return {stats.nth_field_name(i): stats.get_value(stats.nth_field_name(i)) for i in range(stats.n_fields())}
