"""Puts the package's files into a wheel.

    make_wheel.py --version 0.1.0 --module _core.so [--command stowage] [--machine aarch64]
        [--out DIR] FILE...

FILEs are the package's sources. The module gets the name that this Python, which it must
have been built for, looks for, on a MACHINE as `uname -m` calls it: this one's, or another's
that qemu-MACHINE emulates. Libraries of the system that module and command need go
with them, into stowage/libs/, where both look, and so do their licenses; save those of glibc and
g++, which every Linux has that is no older than the wheel's tag says. Equal files give equal
wheels. Prints the wheel's path.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sysconfig
import sys
import zipfile

from wheel_platform import needed_versions, platform_tag

EARLIEST_PYTHON = "3.9"
# Libraries that a Linux wheel may assume (PEP 600).
OF_THE_SYSTEM = re.compile(
    r"(ld-linux-x86-64|ld-linux-aarch64|libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+)"
    r"\.so\.\d+$")
# Tools that list the libraries of files for other machines.
LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip can tell

METADATA = """\
Metadata-Version: 2.1
Name: stowage
Version: {version}
Summary: Trains neural nets inside a memory budget that is fixed before the first step
License: Apache-2.0
Requires-Python: >={python}
Requires-Dist: numpy>=1.20
Provides-Extra: torch
Requires-Dist: torch; extra == "torch"
Description-Content-Type: text/markdown

{readme}"""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def libraries_of(file, machine):
    """The paths of the libraries to bundle, by their names."""
    listed = run("ldd", file) if machine == platform.machine() else run(
        "qemu-" + machine, LOADERS[machine], "--list", file)
    found = {}
    for name, path in re.findall(r"(\S+) => (/\S+|not found)", listed):
        if path == "not found":
            raise ValueError(f"{file} asks for {name}, which this system does not have")
        if not OF_THE_SYSTEM.search(name):
            found[name] = path
    return found


def licenses_of(libraries):
    """What Debian has of the licenses of libraries, by the names of their packages; of a
    library that no package has, nothing."""
    found = {}
    for path in libraries if shutil.which("dpkg-query") else []:
        # If /lib is a link to /usr/lib, a package may use either path.
        for name in (os.path.realpath(path), re.sub("^/usr", "", os.path.realpath(path))):
            asked = subprocess.run(["dpkg-query", "--search", name], check=False,
                                   capture_output=True, text=True)
            package = asked.stdout.split(":")[0]
            license_file = pathlib.Path("/usr/share/doc", package, "copyright")
            if asked.returncode == 0 and license_file.exists():
                found[package] = license_file
    return found


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"{name},sha256={digest.decode()},{len(content)}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--command")
    parser.add_argument("--readme")
    parser.add_argument("--license")
    parser.add_argument("--machine", default=platform.machine(), choices=sorted(LOADERS))
    parser.add_argument("--out", default=".")
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()

    contents = {}  # name in the wheel -> (bytes, mode)

    def put(name, path, mode=0o644):
        contents[name] = (pathlib.Path(path).read_bytes(), mode)

    binaries = [given.module] + ([given.command] if given.command else [])
    suffix = sysconfig.get_config_var("EXT_SUFFIX").replace(platform.machine(), given.machine)
    put("stowage/_core" + suffix, given.module, 0o755)
    if given.command:
        put("stowage/bin/stowage", given.command, 0o755)
    for path in given.files:
        put("stowage/" + path.rpartition("stowage/")[2], path)
    libraries = {}
    for binary in binaries:
        libraries.update(libraries_of(binary, given.machine))
    for name, path in sorted(libraries.items()):
        put("stowage/libs/" + name, path, 0o755)

    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    # "cpython-313-x86_64-linux-gnu", or "cpython-313t-..." of a Python without the GIL.
    abi = "cp" + sysconfig.get_config_var("SOABI").split("-")[1]
    system = platform_tag(needed_versions([*binaries, *libraries.values()]), given.machine)
    tag = f"{python}-{abi}-{system}"
    info = f"stowage-{given.version}.dist-info/"
    readme = pathlib.Path(given.readme).read_text("utf-8") if given.readme else ""
    texts = {
        info + "METADATA": METADATA.format(
            version=given.version, readme=readme, python=EARLIEST_PYTHON),
        info + "WHEEL": f"Wheel-Version: 1.0\nGenerator: stowage {given.version}\n"
                        f"Root-Is-Purelib: false\nTag: {tag}\n",
    }
    for name, text in texts.items():
        contents[name] = (text.encode(), 0o644)
    if given.license:
        put(info + "licenses/LICENSE", given.license)
    for package, path in licenses_of(libraries.values()).items():
        put(f"{info}licenses/{package}", path)
    record = "".join(record_line(n, c) for n, (c, _) in sorted(contents.items()))
    record += info + "RECORD,,\n"
    contents[info + "RECORD"] = (record.encode(), 0o644)

    wheel = pathlib.Path(given.out) / f"stowage-{given.version}-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (content, mode) in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(wheel)


if __name__ == "__main__":
    main()
