"""``python -m stowage``: runs the ``stowage`` command (``stowage --help``)."""

import os
import pathlib
import sys


def main() -> None:
    command = pathlib.Path(__file__).parent / "bin" / "stowage"
    if not command.exists():
        sys.exit(f"stowage: [command] there is no {command}; install the wheel that "
                 "tools/build_wheel.sh makes")
    # Its libraries are those that came with it.
    paths = [str(command.parent.parent / "libs"), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
    os.execv(command, ["stowage", *sys.argv[1:]])


if __name__ == "__main__":
    main()
