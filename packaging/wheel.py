#!/usr/bin/env python3
"""Packs a folder into a wheel: packaging/wheel.py STAGED FOLDER

STAGED holds the package gst_cuda_filters as it is to be installed. The wheel's platform is the
oldest that has all symbols that the libraries need. Two runs on equal files give equal wheels.
"""
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# All files get this time, the earliest that a zip archive can store.
TIME = (1980, 1, 1, 0, 0, 0)


def version() -> str:
    """Returns the project's version, which only meson.build states."""
    return re.search(r"version: '([0-9.]+)'", (ROOT / "meson.build").read_text())[1]


def newest(libraries: list[pathlib.Path], name: str) -> tuple[int, ...]:
    """Returns the newest version of the interface `name` that the libraries need."""
    found = set()
    for library in libraries:
        symbols = subprocess.check_output(["objdump", "-T", library], text=True)
        found |= {
            tuple(map(int, v.split("."))) for v in re.findall(rf"\b{name}_([0-9.]+)", symbols)
        }
    return max(found)


def metadata() -> str:
    readme = (ROOT / "docs" / "install.md").read_text()
    return f"""Metadata-Version: 2.1
Name: gst-cuda-filters
Version: {version()}
Summary: CUDA video filters for GStreamer, with a CPU fallback, and frames as arrays for Python
License: LGPL-2.1-or-later
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Multimedia :: Video
Requires-Python: >=3.9
Description-Content-Type: text/markdown
License-File: LICENSE
Provides-Extra: batch
Requires-Dist: distributed; extra == "batch"

{readme}"""


def main() -> None:
    staged, folder = map(pathlib.Path, sys.argv[1:])
    libraries = sorted(staged.rglob("*.so*"))
    glibc = newest(libraries, "GLIBC")
    print("needs glibc", ".".join(map(str, glibc[:2])), "and libstdc++'s GLIBCXX",
          ".".join(map(str, newest(libraries, "GLIBCXX"))))
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_x86_64"
    info = f"gst_cuda_filters-{version()}.dist-info"
    files = {str(path.relative_to(staged)): path.read_bytes()
             for path in sorted(staged.rglob("*")) if path.is_file()}
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/entry_points.txt"] = (
        b"[console_scripts]\n"
        b"gst-cuda-filters-batch = gst_cuda_filters.batch.program:main\n"
        b"gst-cuda-filters-tune = gst_cuda_filters.tune.program:main\n"
        b"gst-cuda-live-matte = gst_cuda_filters.live_matte.program:main\n"
    )
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: packaging/wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    wheel = folder / f"gst_cuda_filters-{version()}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            archive.writestr(entry, data)


main()
