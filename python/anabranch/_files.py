"""Questions about paths that people typed: an impossible name is no file, and no error either."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """Tell whether there is a file; names too long, or with a NUL, or links in a ring are none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Tell whether there is a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def expanded(name: str) -> Path:
    """Return a path with `~` replaced, where that means anything."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def content(file: Path, most: int) -> bytes:
    """Return what is in a file, of which no more than `most` bytes are read.

    Raises
    ------
    OSError
        When it cannot be read.
    ValueError
        When it is larger, or its name an impossible one.
    """
    with file.open("rb") as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        message = f"larger than {most >> 20} MiB"
        raise ValueError(message)
    return data
