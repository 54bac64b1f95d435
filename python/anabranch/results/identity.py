"""The identity of a run: a hash of its plan, its number, the program, and the user's own plug-ins."""

from __future__ import annotations

import hashlib
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _cache, _json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The packages that results depend on, in addition to the Rust module.
_ROOMS = (
    "_run.py",
    "_rust.py",
    "plugins",
    "scenario",
    "media",
    "metrics",
    "traces",
    "study/measure.py",
)
_LENGTH = 20
#: The file in the cache folder with the program's hash, and with the state of the hashed files.
_KEPT = "program.txt"
#: If the last change is at least this old, an equal state of the files proves equal contents.
_SETTLED_NS = 2_000_000_000


@cache
def code() -> str:
    """Return the identity of this program: its version, and a hash of all code that results depend on.

    The module has many megabytes, so the hash is cached, and reused while the state of the files is the same.
    """
    import anabranch
    from anabranch import plugins

    root = Path(anabranch.__file__).parent
    sources = [root / room for room in _ROOMS]
    files = [
        path
        for source in sources
        for path in (sorted(source.rglob("*.py")) if source.is_dir() else [source] if source.exists() else [])
    ]
    files.append(Path(str(plugins.module().__file__)))
    return f"{anabranch.__version__}+{_kept(files, root)}"


def _kept(files: Sequence[Path], root: Path) -> str:
    """Return the hash of files, from the cache if their state is the same."""
    state, newest = _state(files)
    kept = (_cache.recall(_KEPT) or "").split(" ")
    if kept[0] == state:
        return kept[-1]
    found = _hashed(files, root)
    # A file that is written twice within one tick of the file system's clock keeps its state.
    if time.time_ns() - newest > _SETTLED_NS and _state(files)[0] == state:
        _cache.keep(_KEPT, f"{state} {found}")
    return found


def _state(files: Sequence[Path]) -> tuple[str, int]:
    """Return a hash of the files' state, and the time of the last change in nanoseconds.

    No program can set a file's time of change (`st_ctime_ns`), unlike that of its content.
    """
    rows = []
    newest = 0
    for path in files:
        found = path.stat()
        newest = max(newest, found.st_ctime_ns)
        rows.append((str(path), found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns))
    return hashlib.sha256(repr(rows).encode()).hexdigest(), newest


def _hashed(files: Sequence[Path], root: Path) -> str:
    """Return the hash of files with their names."""
    digest = hashlib.sha256()
    for path in files:
        inside = path.is_relative_to(root)
        digest.update((path.relative_to(root).as_posix() if inside else path.name).encode())
        # The file is read in parts, because the module has many megabytes.
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def of_cell(plan: Mapping[str, Any], plugins: Mapping[str, str]) -> str:
    """Return the hash of a plan without its run, which all trials of a cell share.

    Parameters
    ----------
    plan
        The plan of a run.
    plugins
        The hash of the source of each plug-in that does not come with the program, by name.
    """
    rest = {key: value for key, value in plan.items() if key != "run"}
    text = f"[{_json.of_plan(rest)},{_json.text(dict(plugins))}]"
    return hashlib.sha256(text.encode()).hexdigest()


def of_run(cell: str, run: int, build: str | None = None) -> str:
    """Return a run's identity.

    Parameters
    ----------
    cell
        The result of `of_cell`.
    run
        Number of the run under its seed.
    build
        The build that ran it; None is this one. For runs over real packets, a text that stands for their
        world.
    """
    text = f"{cell} {run} {code() if build is None else build}"
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
