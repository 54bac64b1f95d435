"""The outermost boxes of an MP4 (ISO/IEC 14496-12 section 4.2)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def outermost(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield the names of the outermost boxes and their sizes, which may extend beyond a file that is cut."""
    at, size = 0, path.stat().st_size
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            head = file.read(16)
            # Fewer bytes than a header are not a box.
            if len(head) < 8:
                return
            length, name = struct.unpack(">I4s", head[:8])
            if length == 1 and len(head) == 16:
                length = int.from_bytes(head[8:], "big")
            # A box of size 0 extends to the end of the file.
            length = size - at if length == 0 else length
            if length < 8:
                return
            yield name, length
            at += length
