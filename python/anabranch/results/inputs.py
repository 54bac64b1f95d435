"""The files that runs depend on, and whether they have changed.

An input is a kind, a path and a checksum. The checksum of a scenario covers its tables, but not its comments.
That of a film or ladder covers the properties that the simulator uses: packets, chunks, sizes and times.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch import _files
from anabranch.errors import InputError
from anabranch.results import sealed

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["scenario", "plugin", "film", "ladder", "recording"]
#: An input in the manifest: `kind`, `path` and `sha256`; a plug-in also has `root`, `below` and `data`.
Input = dict[str, Any]

#: The checksum of a file that exists but cannot be read.
UNREADABLE = ""


def with_checksum(kind: Kind, path: Path, **more: str | list[str] | None) -> Input:
    """Return an input with its present checksum.

    Parameters
    ----------
    kind, path
        The kind of input, and its file.
    more
        For a plug-in: the folder from which local modules are imported (`root`), the only package that is
        local (`below`), and the data files that it reads (`data`).
    """
    found: Input = {"kind": kind, "path": str(path), **{name: one for name, one in more.items() if one}}
    return {**found, "sha256": checksum(found)}


def checksum(one: Mapping[str, Any]) -> str | None:
    """Return the present checksum of an input; None if its file is gone, `UNREADABLE` if it is broken."""
    path = Path(one["path"])
    if not path.exists():
        return None
    try:
        return _checksum(str(one["kind"]), path, one)
    except (InputError, OSError, ValueError, SyntaxError):
        return UNREADABLE


def _checksum(kind: str, path: Path, one: Mapping[str, Any]) -> str:
    """Return the checksum of an input whose file exists."""
    if kind == "plugin":
        from anabranch.plugins import sources

        return sources.read(Path(one["root"]), path, below=one.get("below"), data=one.get("data", ())).digest
    if kind == "ladder":
        from anabranch.media.playlists import read

        return of_tables(read(path))
    return _of_file(kind, path, _files.state(path))


@lru_cache(maxsize=256)
def _of_file(kind: str, path: Path, state: _files.State) -> str:
    """Return the checksum of an input that is one file. Cached, because a summary needs it several times."""
    del state
    if kind == "scenario":
        from anabranch.scenario.load import tables

        return of_tables(tables(path))
    if kind == "film":
        from anabranch.media.probe import probe

        return of_tables(probe(path).plan())
    return sealed.digest(path.read_bytes())


def of_tables(found: Any) -> str:  # noqa: ANN401 - whatever JSON can have
    """Return the checksum of a value that is written as JSON."""
    return sealed.digest(json.dumps(found, default=str).encode())
