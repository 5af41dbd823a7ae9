"""What pip asks for a wheel of this source tree (PEP 517): tools/build_wheel.sh's."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds it into the folder, by the options in STOWAGE_WHEEL_OPTIONS; its name."""
    # pip may build in an environment of its own, whose headers are those of the Python
    # that it is of.
    environment = {**os.environ, "STOWAGE_PYTHON": sys.executable}
    options = os.environ.get("STOWAGE_WHEEL_OPTIONS", "--native").split()
    built = subprocess.run(
        [ROOT / "tools" / "build_wheel.sh", "--out", wheel_directory, *options],
        check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return os.path.basename(built.stdout.strip().split("\n")[-1])


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("Stowage is built from its repository, by Bazel")
