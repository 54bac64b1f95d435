"""The identity of a run: a hash of its plan, its number, the program, and the user's own plug-ins."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The parts of the package that a run's numbers depend on, besides the Rust module.
_ROOMS = ("_run.py", "plugins", "scenario", "media", "metrics", "traces", "study/measure.py")
_LENGTH = 20


@cache
def code() -> str:
    """Return the identity of this program: its version, and a hash of all code that results depend on."""
    import anabranch
    from anabranch import plugins

    root = Path(anabranch.__file__).parent
    sources = [root / room for room in _ROOMS]
    files = [
        path
        for source in sources
        for path in (sorted(source.rglob("*.py")) if source.is_dir() else [source] if source.exists() else [])
    ]
    digest = hashlib.sha256()
    for path in [*files, Path(str(plugins.module().__file__))]:
        inside = path.is_relative_to(root)
        digest.update((path.relative_to(root).as_posix() if inside else path.name).encode())
        # Not read whole: the module has many megabytes.
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{anabranch.__version__}+{digest.hexdigest()[:12]}"


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
    text = json.dumps([rest, dict(plugins)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def of_run(cell: str, run: int) -> str:
    """Return a run's identity.

    Parameters
    ----------
    cell
        What `of_cell` returned.
    run
        Number of the run under its seed.
    """
    return hashlib.sha256(f"{cell} {run} {code()}".encode()).hexdigest()[:_LENGTH]
