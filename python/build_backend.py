"""The PEP 517 build backend of this source tree, by tools/build_wheel.sh."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds a wheel with STOWAGE_WHEEL_OPTIONS into the folder; returns its name."""
    # pip may build in an isolated environment, which has the headers of its Python.
    environment = {**os.environ, "STOWAGE_PYTHON": sys.executable}
    options = os.environ.get("STOWAGE_WHEEL_OPTIONS", "--native").split()
    built = subprocess.run(
        [ROOT / "tools" / "build_wheel.sh", "--out", wheel_directory, *options],
        check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return os.path.basename(built.stdout.strip().split("\n")[-1])


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("Stowage is built from its repository, by Bazel")
