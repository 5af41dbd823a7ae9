"""Training steps in C, as files."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any, Dict, Literal, Mapping, NamedTuple, Optional, Union

from stowage import _core
from stowage.errors import FileError, InvalidArgument

Path = Union[str, "os.PathLike[str]"]
ArenaPlace = Literal["static", "caller"]


class CompiledStep(NamedTuple):
    """A training step in C, with the memory that it needs on the board."""

    source: str
    """The path of the C file."""
    header: str
    """The path of its header."""
    arena_bytes: int
    """The arena, in RAM."""
    flash_bytes: int
    """Weights in the C file: frozen ones, and initial values."""
    slow_bytes: int
    """A second block for offloaded values."""
    stack_bytes: int
    """The maximum stack of a call, without the functions of math.h."""
    kernels: int
    """Kernels, which are C functions."""
    launches: int
    """Calls of kernels in a step, and in an evaluation."""


def write_texts(texts: Mapping[Path, str]) -> None:
    """Replaces files. If one cannot be written, all of them keep their contents. Devices and pipes
    are written to."""
    written: Dict[str, str] = {}  # by temporary file
    place: Path = ""
    try:
        for place, text in texts.items():
            path = os.path.realpath(place)
            if os.path.exists(path) and not os.path.isfile(path):
                pathlib.Path(path).write_text(text, encoding="utf-8")
                continue
            temporary = f"{path}.new-{os.getpid()}"
            written[temporary] = path
            pathlib.Path(temporary).write_text(text, encoding="utf-8")
            if os.path.exists(path):
                shutil.copymode(path, temporary)
        for temporary in list(written):
            os.replace(temporary, written.pop(temporary))
    except OSError as error:
        raise FileError(f'[file] "{os.fspath(place)}" cannot be written: {error.strerror}'
                        ) from error
    finally:
        for temporary in written:
            pathlib.Path(temporary).unlink(missing_ok=True)


def write_c(plan: _core.Plan, path: Path, prefix: Optional[str], arena: ArenaPlace,
            weights: Mapping[str, Any]) -> CompiledStep:
    """Writes a plan's step to the C file at `path`, and its header to the same folder."""
    source = pathlib.Path(path)
    if source.suffix != ".c":
        raise InvalidArgument(f'[to_c] the path is "{source}"; expected a name that ends in .c, '
                              "beside which the header is written")
    if arena not in ("static", "caller"):
        raise InvalidArgument(f'[to_c] arena is {arena!r}; expected "static" or "caller"')
    header = source.with_suffix(".h")
    files = plan.to_c(source.stem if prefix is None else prefix, header.name, arena == "caller",
                      dict(weights))
    write_texts({header: files.pop("header"), source: files.pop("source")})
    return CompiledStep(str(source), str(header), **files)
