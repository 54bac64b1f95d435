"""The data files, for example weights, that a plug-in reads while it is imported or constructed.

An audit hook reports every file that is opened. A file counts if the plug-in's own code opens it, even
through a library, for reading only, and if it is in or below the plug-in's folder. Modules and files of this
Python installation do not count.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

_IMPORTS = "<frozen importlib"
_MODULES = (".py", ".pyc", ".so")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class _Watch(threading.local):
    """The plug-in that this thread is importing or constructing, and the files it has opened."""

    own: frozenset[str] | None = None
    read: set[str]
    written: set[str]


_WATCH = _Watch()
_INSTALL = threading.Lock()
_installed = False


@contextmanager
def watched(root: Path, files: Iterable[str], below: str | None, found: dict[str, str]) -> Iterator[None]:
    """Add the hashes of the files that a plug-in reads inside the block to `found`, by path from the root.

    Parameters
    ----------
    root, files, below
        As in the plug-in's `Sources`.
    found
        Receives the hashes.
    """
    # A hook cannot be removed, so it is installed once.
    global _installed
    with _INSTALL:
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True
    _WATCH.own = frozenset(str(root / file) for file in files)
    _WATCH.read, _WATCH.written = set(), set()
    try:
        yield
    finally:
        _WATCH.own = None
        for name in sorted(_WATCH.read - _WATCH.written):
            if (place := _place(root.resolve(), below, Path(name))) is not None:
                found[place] = digest(root / place)


def digest(file: Path) -> str:
    """Return the hash of a file's content, in hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _hook(event: str, given: tuple[object, ...]) -> None:
    if event != "open" or _WATCH.own is None:
        return
    path, _, flags = given
    if isinstance(path, str | bytes) and isinstance(flags, int) and _by_plugin(_WATCH.own):
        names = _WATCH.written if flags & _WRITING else _WATCH.read
        names.add(os.path.realpath(os.fsdecode(path)))


def _by_plugin(own: frozenset[str]) -> bool:
    """Return whether the plug-in's code opens a file, and not an import that this code causes."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name in own:
            return True
        if name.startswith(_IMPORTS):
            return False
        frame = frame.f_back
    return False


def _place(root: Path, below: str | None, path: Path) -> str | None:
    """Return a file's path from the root; None if the file does not count."""
    installed = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    around = {prefix for prefix in installed if prefix not in root.parents and prefix != root}
    if not path.is_relative_to(root / (below or "")) or path.suffix in _MODULES or not path.is_file():
        return None
    if any(path.is_relative_to(prefix) for prefix in around):
        return None
    return path.relative_to(root).as_posix()
