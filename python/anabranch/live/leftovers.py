"""Temporary folders of runs over real packets, and the removal of folders of killed runs.

Their names contain the process ID and start time, so that a later run recognises unused ones.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The name of such a folder: its purpose, its process, the start of the process.
_OURS = re.compile(r"anabranch-(?:origin|viewer)-(\d+)-(\d+)-\w+")


def began(process: int) -> str | None:
    """Return the start time of a process in clock ticks since boot; None if the process does not exist."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The process name may contain any character, so the text is split at the last parenthesis.
    return stat.rpartition(")")[2].split()[19]


def owner() -> str:
    """Return the text that identifies this process."""
    return f"{os.getpid()}-{began(os.getpid())}"


def lives(process: str, its_begin: str) -> bool:
    """Return whether the process that such a text identifies still runs."""
    return began(int(process)) == its_begin


@contextmanager
def folder(kind: str) -> Iterator[Path]:
    """Make a folder for an `origin` or a `viewer`, and remove it after the block."""
    with tempfile.TemporaryDirectory(
        prefix=f"anabranch-{kind}-{owner()}-", ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


def sweep() -> None:
    """Remove the folders of processes that were killed."""
    for place in Path(tempfile.gettempdir()).glob("anabranch-*"):
        found = _OURS.fullmatch(place.name)
        if found and not lives(*found.groups()):
            # Folders that cannot be removed, and other files, stay.
            shutil.rmtree(place, ignore_errors=True)
