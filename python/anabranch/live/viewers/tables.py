"""The tables of the trace that a program's own words fill."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from anabranch.live import _tables
from anabranch.metrics._rows import SAMPLE_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The shortest silence that is in the trace.
_GAP_S = 0.1

#: The columns of each table, with their kinds: numbers that may be missing are floats.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "connections": {
        "client": "int", "connect_s": "float", "duration_s": "float", "bytes_read": "int",
        "reinjected_bytes": "int", "max_read_gap_s": "float", "refused_packets": "int", "fallback": "bool",
        "finished": "bool", "planned_s": "float",
    },
    "player": {
        "t_s": "float", "client": "int", "bytes_read": "int", "buffer_s": "float", "buffer_bytes": "int",
    },
    "gaps": {"client": "int", "t_s": "float", "gap_s": "float"},
    "frames": {
        "client": "int", "index": "int", "pts_s": "float", "kind": "text", "size": "int", "fate": "text",
        "why": "text", "due_s": "float", "shown_s": "float",
    },
    "playback": {
        "client": "int", "t_s": "float", "event": "text", "pts_s": "float", "delay_ms": "float",
    },
    "requests": {
        "client": "int", "id": "int", "t_s": "float", "resource": "text", "first_byte_s": "float",
        "done_s": "float", "bytes": "int",
    },
    "chunks": {
        "client": "int", "track": "text", "index": "int", "rendition": "int", "duration_s": "float",
        "bytes": "int", "t_s": "float", "first_byte_s": "float", "done_s": "float",
        "throughput_mbps": "float", "buffer_before_s": "float", "buffer_after_s": "float",
        "abandoned": "bool",
    },
}  # fmt: skip


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401
    """Return rows as the trace's table of that name. A missing value becomes an empty text or None."""
    return _tables.made(COLUMNS[name], [{"client": 0, **row} for row in rows])


def connection(
    sent: Mapping[str, Any],
    silences: Sequence[Mapping[str, float]],
    *,
    duration_s: float,
    bytes_read: int,
    finished: bool,
) -> Any:  # noqa: ANN401
    """Return the table `connections`: the sender's values, with the program's additions."""
    longest_s = max((gap["gap_s"] for gap in silences), default=0.0)
    row = {**sent, "duration_s": duration_s, "bytes_read": bytes_read, "max_read_gap_s": longest_s}
    return table("connections", [{**row, "finished": finished}])


def gaps(busy: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    """Return the silences between the given intervals of reading, `(begin, end)` sorted by begin."""
    found = []
    until = busy[0][1] if busy else 0.0
    for begin, end in busy:
        if begin - until >= _GAP_S:
            found.append({"t_s": until, "gap_s": begin - until})
        until = max(until, end)
    return found


def grid(until_s: float) -> list[float]:
    """Return the times of samples, as the trace has them."""
    return [round(SAMPLE_S * tick, 1) for tick in range(1, int(until_s / SAMPLE_S) + 1)]


class Steps:
    """A value that changes at times, in order."""

    def __init__(self, changes: Sequence[tuple[float, Any]], before: Any) -> None:  # noqa: ANN401
        self._times = [time for time, _ in changes]
        self._values = [before, *(value for _, value in changes)]

    def at(self, t_s: float) -> Any:  # noqa: ANN401
        """Return the value at a time."""
        return self._values[bisect_right(self._times, t_s)]
