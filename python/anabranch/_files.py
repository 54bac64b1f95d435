"""Questions about paths that people typed: an impossible name is no file, and no error either."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import MissingError

if TYPE_CHECKING:
    from av.error import FFmpegError


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


def write(file: Path, text: str, what: str) -> None:
    """Write a text.

    Raises
    ------
    MissingError
        When it cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(what, file, error) from None


def unwritable(what: str, file: Path, error: OSError | FFmpegError) -> MissingError:
    """Return the error of what cannot be written."""
    message = f"cannot write {what}: {error.strerror or error}: `{file}`"
    return MissingError(message, hint="is the disk full?" if error.errno == errno.ENOSPC else "")


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
