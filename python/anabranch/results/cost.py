"""The processor time of runs. It is stored separately, because results must not depend on it."""

from __future__ import annotations

import json
import resource
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from anabranch.errors import InputError
from anabranch.results import sealed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The file in a folder of results, to which each call adds.
FILE = "cost.json"


def read(folder: Path) -> float | None:
    """Return the processor time of a folder's runs in seconds; None if it was not counted."""
    try:
        found = json.loads(sealed.opened((folder / FILE).read_bytes()) or b"")["cpu_s"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return float(found) if isinstance(found, int | float) else None


@contextmanager
def counting(folder: Path) -> Iterator[None]:
    """Add the processor time of the block, including ended child processes, to a folder of results."""
    before = _spent()
    try:
        yield
    except InputError:  # nothing was run, and the folder may contain something else
        raise
    except BaseException:
        _add(folder, _spent() - before)
        raise
    _add(folder, _spent() - before)


def _add(folder: Path, spent_s: float) -> None:
    """Add to the processor time of a folder's runs. A full disk is ignored: it was reported before."""
    content = json.dumps({"cpu_s": round((read(folder) or 0.0) + spent_s, 1)})
    with suppress(OSError):
        sealed.whole(folder / FILE, sealed.line(content.encode()))


def _spent() -> float:
    """Return the processor time of this process and of its children that have ended, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
