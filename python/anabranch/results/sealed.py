"""Checksums (SHA-256) of a file, of a line of JSON, and of all files of a folder (`SHA256SUMS`).

A sealed line is one JSON object that contains its content and the checksum of it. If any byte of the line
changes, the line cannot be read.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: The file with the checksums of a folder's files, in the format of `sha256sum --check`.
SUMS = "SHA256SUMS"

_SUM = re.compile(rb"[0-9a-f]{64}")


def digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def line(content: bytes) -> bytes:
    """Return a line of JSON with its checksum.

    Parameters
    ----------
    content
        A JSON value without a line break.
    """
    return b'{"sha256":"%b","content":%b}\n' % (digest(content).encode(), content)


def opened(sealed: bytes) -> bytes | None:
    """Return the content of a sealed line; None if any byte has changed."""
    content = sealed[len(line(b"")) - 2 : -2]
    return content if line(content) == sealed else None


def sums(folder: Path) -> dict[str, str]:
    """Return the checksums in `SHA256SUMS` by file name; empty if the file is missing."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parts = (one.partition("  ") for one in lines)
    return {name: value for value, _, name in parts}


def write_sums(folder: Path, found: Mapping[str, str]) -> None:
    """Write the checksums of a folder's files."""
    text = "".join(f"{value}  {name}\n" for name, value in sorted(found.items()))
    whole(folder / SUMS, text.encode())


def checksums_in(content: bytes) -> set[str]:
    """Return all parts of some bytes that look like a SHA-256, for example in a damaged file."""
    return {found.decode() for found in _SUM.findall(content)}


def whole(path: Path, content: bytes) -> None:
    """Write a file atomically: all of it or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        settle(part)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def settle(path: Path) -> None:
    """Flush a file to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
