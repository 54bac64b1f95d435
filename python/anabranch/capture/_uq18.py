"""The figures of UQ18 by the paper's names, from a captured run."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

from anabranch.metrics._adaptive import chunks
from anabranch.metrics._rows import of_one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch._run import Run
    from anabranch.capture._paths import Session

#: The figures, with their meanings.
FIGURES = {
    "Th_avg": "mean of the throughput of whole seconds, Mb/s",
    "Th_std": "standard deviation of the same",
    "RTT_avg": "mean round-trip time of each path, ms",
    "RTT_diff": "largest less smallest of these, ms",
    "DB_total": "payload that the subflows delivered, bytes",
    "S_o": "from the first HTTP request to the start of playback, s",
    "P_total": "from the first HTTP request to the end of playback, s",
    "R_total": "P_total less S_o less the film's duration, s",
    "Res_avg": "mean height of the chunks, pixels",
    "Res_ch": "changes of rendition",
}

_NO_PLAYBACK = "the start and the end of playback are in the player's log"
_NO_CHUNKS = "no HLS playlist and chunks were seen in clear text"
_NO_RTT = "the capture shows no round-trip times"


def uq18(run: Run, session: Sequence[Session]) -> dict[str, Any]:
    """Return the figures by name. `missing` has the reason for each that is None."""
    qoe = run.qoe or {}
    rates = _rates(run)
    times = _round_trips(session)
    known = [time for time in times.values() if time is not None]
    seen = chunks(of_one(run.tables, 0))
    heights = [row["height"] for row in seen if row["height"]]
    found: dict[str, Any] = {
        "Th_avg": round(fmean(rates), 6) if rates else None,
        "Th_std": round(pstdev(rates), 6) if rates else None,
        "RTT_avg": times if known else None,
        "RTT_diff": round(max(known) - min(known), 3) if len(known) > 1 else None,
        "DB_total": sum(path.bytes for one in session for path in one.paths) if session else None,
        "S_o": qoe.get("startup_s"),
        "P_total": qoe.get("total_s"),
        "R_total": qoe.get("rebuffer_total_s"),
        "Res_avg": fmean(heights) if heights else None,
        "Res_ch": sum(one["rendition"] != other["rendition"] for one, other in pairwise(seen))
        if seen
        else None,
    }
    reasons = {
        **dict.fromkeys(("Th_avg", "Th_std"), "the session is shorter than a second"),
        **dict.fromkeys(("S_o", "P_total", "R_total"), _NO_PLAYBACK),
        **dict.fromkeys(("Res_avg", "Res_ch"), _NO_CHUNKS),
        "DB_total": "a capture shows it",
        "RTT_avg": _NO_RTT,
        "RTT_diff": "it needs the round-trip times of two paths",
    }
    missing = {name: reasons[name] for name, value in found.items() if value is None}
    return {**found, "missing": missing}


def figures(run: Run) -> list[dict[str, str]]:
    """Return the figures in words: `name`, `value` (a dash if it cannot be computed) and `meaning`.

    A figure of each path has a line for each, with the client's address.
    """
    found = run.summary["uq18"]
    result = []
    for name, meaning in FIGURES.items():
        value, why = found[name], found["missing"].get(name)
        if isinstance(value, dict):
            text = "\n".join(_lines(value))
        else:
            text = "–" if value is None else f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
        result.append({"name": name, "value": text, "meaning": f"{meaning}: {why}" if why else meaning})
    return result


def _lines(times: Mapping[str, float | None]) -> Iterator[str]:
    """Yield each path's client with its time. The port is left out if no other path has the address."""
    clients = [path.partition(" ")[0] for path in times]
    addresses = [client.rpartition(":")[0] for client in clients]
    for client, address, time in zip(clients, addresses, times.values(), strict=True):
        if time is not None:
            yield f"{address.strip('[]') if addresses.count(address) == 1 else client}: {time:.1f} ms"


def _rates(run: Run) -> list[float]:
    """Return the bytes of each whole second from the first request or byte to the last byte, in Mb/s."""
    marks: dict[int, int] = {}
    table = run.tables["player"]
    for at_s, count in zip(table["t_s"], table["bytes_read"], strict=True):
        marks.setdefault(int(at_s + 1e-6), count)
    asked = [time for time in run.tables["requests"]["t_s"] if time is not None]
    first = next((at_s for at_s, count in zip(table["t_s"], table["bytes_read"], strict=True) if count), 0.0)
    begin = int(min(asked, default=first))
    until = int(run.tables["connections"]["duration_s"][0])
    seconds = ((marks.get(at), marks.get(at + 1)) for at in range(begin, until))
    return [8e-6 * (after - before) for before, after in seconds if before is not None and after is not None]


def _round_trips(session: Sequence[Session]) -> dict[str, float | None]:
    """Return the mean round-trip time of each path by its two ends, in milliseconds."""
    return {f"{path.client} {path.server}": path.rtt_mean_ms for one in session for path in one.paths}
