#!/usr/bin/env python3
"""Tests the package as in a wheel, with plugins inside: which build is chosen, and where it is
installed."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

from harness import Skip, case, equal, load_gst, run

load_gst()

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE, WHEEL = ROOT / "python" / "gst_cuda_filters", ROOT / "packaging" / "wheel.py"
PLUGIN = pathlib.Path(os.environ["GST_PLUGIN_PATH_1_0"]) / "libgstcudafilters.so"
GET_ELEMENT = """
registry = Gst.Registry.get()
feature = registry.find_feature("cudagaussian", Gst.ElementFactory.__gtype__)
print(feature.get_plugin().get_filename() if feature else None)
"""
GST = "import gi; gi.require_version('Gst', '1.0'); from gi.repository import Gst\n"


class Site:
    """Makes a folder with the package and builds of the plugin for some release lines of GStreamer.
    """

    def __init__(self, *lines):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        shutil.copytree(PACKAGE, self.folder / "gst_cuda_filters",
                        ignore=shutil.ignore_patterns("__pycache__"))
        self.plugins = self.folder / "gst_cuda_filters" / "plugins"
        for line in lines:
            (self.plugins / line).mkdir(parents=True)
            (self.plugins / line / PLUGIN.name).symlink_to(PLUGIN)
        self.data = self.folder / "data"

    def python(self, *arguments, **environment):
        base = {k: v for k, v in os.environ.items() if not k.startswith("GST_PLUGIN_PATH")}
        base.update({"PYTHONPATH": str(self.folder), "XDG_DATA_HOME": str(self.data),
                     "GST_REGISTRY_1_0": str(self.folder / "registry"), **environment})
        return subprocess.run([sys.executable, *arguments], env=base, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


def choice(site, version):
    program = f"from gst_cuda_filters import _plugin as p; p._missing = lambda line: None; " \
              f"print(p.choose({version})[0].name)"
    done = site.python("-c", program)
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@case()
def the_newest_line_no_newer_than_gstreamer_is_chosen():
    with Site("1.22", "1.24", "1.26", "1.28", "cpu") as site:
        got = [choice(site, (1, n)) for n in (22, 23, 24, 26, 27, 28, 30)]
        equal(got, ["1.22", "1.22", "1.24", "1.26", "1.26", "1.28", "1.28"])
        equal("GStreamer 1.20 is too old" in choice(site, (1, 20)), True)


@case()
def without_gst_plugins_bad_the_cpu_build_is_chosen():
    with Site("1.22", "cpu") as site:
        program = "import ctypes; load = ctypes.CDLL\n" \
                  "def refuse(name, *a, **k):\n" \
                  "    if name and 'gstcuda' in name: raise OSError(name)\n" \
                  "    return load(name, *a, **k)\n" \
                  "ctypes.CDLL = refuse\n" \
                  "from gst_cuda_filters import _plugin as p; f, why = p.choose((1, 22))\n" \
                  "print(f.name, why)"
        done = site.python("-c", program)
        equal(done.stdout.split()[:3], ["cpu", "libgstcuda-1.0.so.0", "is"])


@case()
def import_before_init_has_gstreamer_find_the_plugin():
    with Site("1.22", "cpu") as site:
        done = site.python("-c", GST + "import gst_cuda_filters\nGst.init(None)" + GET_ELEMENT)
        equal(done.stderr, "")
        equal(done.stdout.startswith(str(site.plugins)), True)


@case()
def import_after_init_registers_the_plugin():
    with Site("1.22", "cpu") as site:
        done = site.python("-c", GST + "Gst.init(None)\nimport gst_cuda_filters" + GET_ELEMENT)
        equal(done.stderr, "")
        equal(done.stdout.startswith(str(site.plugins)), True)


@case()
def a_plugin_on_the_path_comes_first():
    with Site("1.22", "cpu") as site:
        done = site.python("-c", GST + "import gst_cuda_filters\nGst.init(None)" + GET_ELEMENT,
                           GST_PLUGIN_PATH_1_0=str(PLUGIN.parent))
        equal(done.stdout.strip(), str(PLUGIN))


@case()
def install_links_and_uninstall_leaves_nothing():
    with Site("1.22", "cpu") as site:
        for _ in range(2):
            done = site.python("-m", "gst_cuda_filters", "--install")
            equal((done.returncode, done.stderr), (0, ""))
        find = GST + "Gst.init(None)" + GET_ELEMENT
        done = site.python("-c", find)
        equal(done.stdout.startswith(str(site.data)), True)
        done = site.python("-m", "gst_cuda_filters", "--uninstall")
        equal((done.returncode, site.data.exists() and list(site.data.iterdir())), (0, []))
        equal(site.python("-c", find).stdout.strip(), "None")
        equal(site.python("-m", "gst_cuda_filters", "--uninstall").stdout, "nothing is installed\n")


@case()
def install_removes_nothing_that_is_not_its_own():
    with Site("1.22", "cpu") as site:
        there = site.data / "gstreamer-1.0" / "plugins" / "gst-cuda-filters"
        there.mkdir(parents=True)
        done = site.python("-m", "gst_cuda_filters", "--install")
        equal((done.returncode, "is no link" in done.stderr, there.is_dir()), (1, True, True))


@case()
def the_wheel_has_its_commands():
    """Each entry point is a function that prints how its command is used."""
    if not shutil.which("objdump"):
        raise Skip("objdump is missing, which packaging/wheel.py runs")
    with Site("1.22") as site:
        subprocess.run([sys.executable, WHEEL, site.folder, site.folder], check=True, stdout=subprocess.DEVNULL)
        installed = site.folder / "installed"
        with zipfile.ZipFile(next(site.folder.glob("*.whl"))) as wheel:
            about = next(file for file in wheel.namelist() if file.endswith("entry_points.txt"))
            points = dict(line.split(" = ") for line in wheel.read(about).decode().splitlines()[1:])
            wheel.extractall(installed, [file for file in wheel.namelist() if file.endswith(".py")])
        equal(sorted(points), ["gst-cuda-filters-batch", "gst-cuda-filters-tune", "gst-cuda-live-matte"])
        for name, point in points.items():
            module, function = point.split(":")
            done = site.python("-c", f"import sys; from {module} import {function}; sys.argv = ['{name}', '--help']; "
                               f"{function}()", PYTHONPATH=str(installed))
            equal((done.returncode, done.stdout.startswith(f"usage: {name} ")), (0, True))


@case()
def path_prints_a_folder_or_that_there_is_no_plugin():
    with Site("1.22", "cpu") as site:
        done = site.python("-m", "gst_cuda_filters", "--path")
        equal(pathlib.Path(done.stdout.strip()).parent, site.plugins)
    with Site() as site:
        done = site.python("-m", "gst_cuda_filters", "--path")
        equal((done.returncode, "no plugin in it" in done.stderr), (1, True))


run()
