"""Makes a film from the table of its packets, which replaces the file that a player streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.calibrate import _cells
from anabranch.errors import Fault
from anabranch.media.films import Film

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = ("stream", "pos", "size", "pts_s", "dts_s", "key")
_CONTAINERS = {".ts": "mpegts", ".mp4": "mp4"}
_NS = 1e9


def read(path: Path, where: str, name: str, *, bytes_read: int, faults: list[Fault]) -> Film | None:
    """Return a film of a packet table, or None and the faults.

    Parameters
    ----------
    path, where
        The table, and its name for a person.
    name
        The film's file name; its extension gives the container.
    bytes_read
        The largest number of bytes that a player read. The table does not have the file's length after its
        last packet, but a player that reached the end read the whole file.
    faults
        Receives the faults.
    """
    container = next((short for end, short in _CONTAINERS.items() if name.endswith(end)), None)
    if container is None:
        hint = "its name ends in .ts or .mp4"
        faults.append(Fault(message=f"film of an unknown container: `{name}`", where=where, hint=hint))
        return None
    before = len(faults)
    packets = _packets(path, where, faults)
    if len(faults) > before:
        return None
    pictures = [
        pts for stream, pts in zip(packets["stream"], packets["pts_ns"], strict=True) if stream == "video"
    ]
    if len(pictures) < 2:
        faults.append(Fault(message="a film needs two pictures or more", where=where))
        return None
    first, last = min(pictures), max(pictures)
    if last == first:
        faults.append(Fault(message="all pictures are shown at the same time", where=where))
        return None
    step = (last - first) / (len(pictures) - 1)
    for column in ("pts_ns", "dts_ns"):
        packets[column] = [time - first for time in packets[column]]
    placed = zip(packets["position"], packets["size"], strict=True)
    ends = [position + length for position, length in placed if position is not None]
    size = max([bytes_read, *ends])
    duration = round(last - first + step)
    recorded = {
        "name": name,
        "container": container,
        "size_bytes": size,
        "duration_ns": duration,
        "frame_rate": round(_NS / step, 3),
        # The table does not have these values, and the player does not need them.
        "width": 0,
        "height": 0,
        "packets": packets,
    }
    return Film(name=name, size_bytes=size, duration_ns=duration, plan={"recorded": recorded})


def _packets(path: Path, where: str, faults: list[Fault]) -> dict[str, list[Any]]:
    """Return the columns of the plan, in the order of the file."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("stream", "position", "size", "pts_ns", "dts_ns", "kind", "reference")
    }
    shown = float("-inf")
    for row in _cells.rows(path, where, _COLUMNS, faults):
        stream = row.word("stream", ("video", "audio"), "stream")
        place = None if row.text("pos") == "N/A" else row.number("pos")
        size = row.number("size")
        pts, dts = row.number("pts_s", least=-1e6), row.number("dts_s", least=-1e6)
        if stream is None or size is None or pts is None or dts is None:
            continue
        kind, reference = "A", False
        if stream == "video":
            # The table has no picture headers. A key frame counts as I. A picture that is shown before an
            # earlier decoded one counts as a B to which no other refers. All others count as P (as for any
            # film that is not H.264, see anabranch.media.probe).
            earlier = pts < shown
            shown = max(shown, pts)
            kind = "I" if row.text("key") == "1" else "B" if earlier else "P"
            reference = kind != "B"
        values = (
            stream, None if place is None else int(place), int(size),
            round(pts * _NS), round(dts * _NS), kind, reference,
        )  # fmt: skip
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns
