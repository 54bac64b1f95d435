"""Times in which a path was down, as a capture shows them.

At the server, segments were sent again without an answer, and the round-trip time after that is short.
Otherwise the segments only waited in a long queue. At the client, segments that were sent before a silence
never arrived: the first one after it leaves a hole of several segments. An idle path shows neither.

A sender doubles the time between its attempts. The path may have returned at any time after the last attempt
without an answer, which was about in the middle of the silence.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The shortest silence that may be an outage, in tenths of a second.
_LEAST_TICKS = 10
#: The least hole after a silence, in segments. A single lost segment is no sign of an outage.
_LEAST_HOLE = 3
#: The answer after an outage has a round-trip time below this share of the silence.
_ANSWERED = 0.3
#: The share of a silence in which the sender's attempts had no answer, if the attempts cannot be seen.
_SURE = 0.5


@dataclass(frozen=True, kw_only=True)
class Outage:
    """A time in which a path was down, in seconds since the session began.

    Attributes
    ----------
    begin_s, end_s
        The path was down from one to the other.
    until_s
        The first sign that it was up again.
    """

    begin_s: float
    end_s: float
    until_s: float


def outages(
    down: Sequence[Mapping[str, Any]], size: float, begin_s: float, *, at_server: bool
) -> list[Outage]:
    """Return the outages of a path.

    Parameters
    ----------
    down
        The samples of the path's connections toward the client.
    size
        The payload of a full segment, in bytes.
    begin_s
        The time of the session's begin in the capture.
    at_server
        Whether the capture was taken at the server.
    """
    alive, attempts, holes, times = _signs(down, at_server=at_server)
    found = []
    for last, first in pairwise(sorted(alive)):
        if first - last <= _LEAST_TICKS:
            continue
        if at_server:
            tried = [tick for tick in attempts if last < tick < first]
            # The answer to a segment that was sent again may give no time, but the next ones do.
            answered_ms = min(times.get(tick, inf) for tick in range(first, first + 3))
            if not tried or answered_ms > _ANSWERED * 100 * (first - last):
                continue
            end = max(tried) + 1.0
        else:
            if holes.get(first, 0.0) < _LEAST_HOLE * size:
                continue
            end = last + 1 + _SURE * (first - last - 1)
        found.append(
            Outage(
                begin_s=(last + 1) / 10 - begin_s,
                end_s=round(end, 1) / 10 - begin_s,
                until_s=first / 10 - begin_s,
            )
        )
    return found


def _signs(
    down: Sequence[Mapping[str, Any]], *, at_server: bool
) -> tuple[set[int], set[int], dict[int, float], dict[int, float]]:
    """Return the signs of life and of trouble of a path.

    Returns
    -------
    tuple
        The tenths of a second in which it worked, and in which it sent again. By tenth, the bytes that were
        missing, and the least round-trip time in milliseconds.
    """
    alive: set[int] = set()
    attempts: set[int] = set()
    holes: dict[int, float] = {}
    times: dict[int, float] = {}
    acked: dict[int, int] = {}
    for row in down:
        tick, stream = round(row["t_s"] * 10), row["stream"]
        if at_server:
            grew = row["acked_bytes"] > acked.get(stream, 0)
            acked[stream] = row["acked_bytes"]
        else:
            grew = row["throughput_mbps"] > 0
        if grew:
            alive.add(tick)
        if row["resent_mbps"] > 0:
            attempts.add(tick)
        holes[tick] = holes.get(tick, 0.0) + row["skipped_bytes"]
        for name in ("ack_rtt_ms", "echo_rtt_ms"):
            if row[name] is not None:
                times[tick] = min(times.get(tick, inf), row[name])
    return alive, attempts, holes, times
