"""The figures of a session, those of UQ18 by name, and the differences between arms."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import TYPE_CHECKING, Any

from anabranch._intervals import half_width
from anabranch.results import paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.measure._captured import Captured
    from anabranch.measure._paths import Path
    from anabranch.measure._session import Chunk, Session
    from anabranch.results.paired import Effect

#: The arm over all paths.
ALL = "MPTCP"
#: The figures that are compared: its name, unit, and whether more is better.
COMPARED = {
    "goodput_mbps": ("goodput", "Mb/s", True),
    "stalled_s": ("time in stalls", "s", False),
    "startup_s": ("time to the first picture", "s", False),
    "height": ("mean height", "pixels", True),
}


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean of a figure over trials, half the width of its 95 % interval, and the number of trials."""

    mean: float
    half: float | None
    trials: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The effect of all paths together, compared with one path alone: a mean of differences within trials."""

    figure: str
    beside: str
    change: Effect

    @property
    def is_decided(self) -> bool:
        """Whether the interval leaves out zero."""
        low, high = self.change.low, self.change.high
        return low is not None and high is not None and not low <= 0 <= high


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm: the means of its figures, its paths' shares of the bytes, and notes."""

    name: str
    figures: Mapping[str, Mean]
    shares: Mapping[str, float]
    errors: Sequence[str] = field(default=())


def of_session(session: Session, paths: Sequence[Path]) -> dict[str, Any]:
    """Return the figures of a session. Those that it does not have are None.

    `goodput_mbps` of an HLS stream counts the time in which chunks were loaded, not the pauses in between.
    `uq18` has the paper's figures by name.
    """
    loading = _loading(session.chunks) or session.duration_s
    size = sum(one.bytes for one in session.chunks) or session.bytes
    viewed = session.playback
    found: dict[str, Any] = {
        "arm": session.arm,
        "trial": session.trial,
        "error": session.error or None,
        "player": session.player or None,
        "bytes": session.bytes,
        "duration_s": session.duration_s,
        "goodput_mbps": 8e-6 * size / loading if loading else None,
        "startup_s": viewed.started_s if viewed else None,
        "stalls": len(viewed.stalls) if viewed else None,
        "stalled_s": viewed.stalled_s if viewed else None,
        "dropped_pictures": session.dropped,
        "shares": shares(session, paths),
        "fell_back": session.fell_back,
    }
    heights = [one.height for one in session.chunks if one.height]
    found["height"] = fmean(heights) if heights else None
    found["uq18"] = _uq18(session, paths)
    found["uq18_from"] = "tcp_info" if _seen(session) is None else "capture"
    found["tcp_info"] = _counted(session, paths)
    found["capture"] = None if session.captured is None else asdict(session.captured)
    return found


def _loading(chunks: Sequence[Chunk]) -> float:
    """Return the time in which at least one chunk was being loaded, in seconds."""
    total = until = 0.0
    for one in sorted(chunks, key=lambda chunk: chunk.asked_s):
        total += max(0.0, one.came_s - max(one.asked_s, until))
        until = max(until, one.came_s)
    return total


def _seen(session: Session) -> Captured | None:
    """Return the session's capture, if its figures can come from it."""
    return session.captured if session.captured is not None and session.captured.is_whole else None


def received(session: Session) -> dict[str, int]:
    """Return the payload that arrived at each address of this host, over the whole session."""
    most: dict[tuple[str, int], int] = {}
    for sample in session.samples:
        for subflow in sample.subflows:
            most[subflow.local] = max(most.get(subflow.local, 0), subflow.received)
    found: dict[str, int] = {}
    for (address, _), count in most.items():
        found[address] = found.get(address, 0) + count
    return found


def shares(session: Session, paths: Sequence[Path]) -> dict[str, float]:
    """Return each path's share of the payload that arrived."""
    counts = _bytes(session, paths)
    whole = sum(counts.values())
    return {path.name: counts.get(path.name, 0) / whole for path in paths} if whole else {}


def _counted(session: Session, paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Return each used path's bytes, and mean and least round-trip time, by the kernel's counters."""
    counts = received(session)
    result = {}
    for path in paths:
        seen = [
            subflow
            for sample in session.samples
            for subflow in sample.subflows
            if subflow.local[0] == path.address and subflow.rtt_ms
        ]
        if path.address in counts:
            result[path.name] = {
                "bytes": counts[path.address],
                "rtt_ms": fmean(one.rtt_ms for one in seen) if seen else None,
                "min_rtt_ms": min((one.min_rtt_ms for one in seen), default=None),
            }
    return result


def _bytes(session: Session, paths: Sequence[Path]) -> dict[str, int]:
    """Return the payload that arrived over each path: by the capture, or by the kernel's counters."""
    seen = _seen(session)
    if seen is not None:
        return {name: path.bytes for name, path in seen.paths.items()}
    return {name: path["bytes"] for name, path in _counted(session, paths).items()}


def _throughput(session: Session) -> tuple[float | None, float | None]:
    """Return the mean and the standard deviation of the throughput of whole seconds, Mb/s."""
    seen = _seen(session)
    if seen is not None:
        return seen.throughput
    rates = _rates(session)
    return (fmean(rates), pstdev(rates)) if rates else (None, None)


def _uq18(session: Session, paths: Sequence[Path]) -> dict[str, Any]:
    """Return the paper's figures: Mb/s, ms, bytes, s and pixels."""
    mean_mbps, deviation_mbps = _throughput(session)
    trips = _round_trips(session, paths)
    viewed, heights = session.playback, [one.height for one in session.chunks if one.height]
    started = viewed.started_s if viewed else None
    total = session.ended_s
    # Chunks of sound have no rate.
    pictures = [one for one in session.chunks if one.rate_bps] or session.chunks
    return {
        "Th_avg": mean_mbps,
        "Th_std": deviation_mbps,
        "RTT_avg": trips or None,
        "RTT_diff": max(trips.values()) - min(trips.values()) if len(trips) > 1 else None,
        "DB_total": sum(_bytes(session, paths).values()),
        "S_o": started,
        "P_total": total,
        "R_total": None
        if total is None or started is None or session.film_s is None
        else total - started - session.film_s,
        "Res_avg": fmean(heights) if heights else None,
        "Res_ch": sum(one.rate_bps != other.rate_bps for one, other in pairwise(pictures))
        if pictures
        else None,
    }


def _rates(session: Session) -> list[float]:
    """Return the received bytes of each whole second, in Mb/s."""
    seconds = [0] * int(session.duration_s)
    before = 0
    for at_s, count in session.marks:
        if int(at_s) < len(seconds):
            seconds[int(at_s)] += count - before
        before = count
    return [8e-6 * count for count in seconds]


def _round_trips(session: Session, paths: Sequence[Path]) -> dict[str, float]:
    """Return the mean round-trip time of each path, ms: the capture's, or of the kernel's smoothed ones."""
    seen = _seen(session)
    means = (
        {name: path["rtt_ms"] for name, path in _counted(session, paths).items()}
        if seen is None
        else {name: path.rtt_ms for name, path in seen.paths.items()}
    )
    return {name: mean for name, mean in means.items() if mean is not None}


def arms(rows: Sequence[Mapping[str, Any]]) -> list[Arm]:
    """Return the means of each arm, in the order of the rows."""
    result = []
    for name in dict.fromkeys(row["arm"] for row in rows):
        own = [row for row in rows if row["arm"] == name]
        whole = [row for row in own if not row["error"]]
        figures = {key: [row[key] for row in whole if row[key] is not None] for key in COMPARED}
        means = {key: mean(values) for key, values in figures.items() if values}
        parts = [row["shares"] for row in whole if row["shares"]]
        shared = {path: fmean(part[path] for part in parts) for path in parts[0]} if parts else {}
        result.append(
            Arm(name=name, figures=means, shares=shared, errors=[row["error"] for row in own if row["error"]])
        )
    return result


def mean(values: Sequence[float]) -> Mean:
    """Return the mean of values with its interval."""
    return Mean(mean=fmean(values), half=half_width(values), trials=len(values))


def differences(rows: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Return the differences between all paths together and the best path alone, figure by figure.

    The best path is that with the largest median goodput.
    """
    alone = [arm for arm in arms(rows) if arm.name != ALL and "goodput_mbps" in arm.figures]
    if not alone:
        return []
    best = max(alone, key=lambda arm: median(_values(rows, arm.name, "goodput_mbps").values())).name
    result = []
    for figure in COMPARED:
        with_all, without = _values(rows, ALL, figure), _values(rows, best, figure)
        pairs = paired.matched(with_all, without)
        # A figure that is zero in all sessions, as stalls often are, is not compared.
        if any(values.any() for values in pairs):
            result.append(Difference(figure=figure, beside=best, change=paired.difference(*pairs)))
    return result


def _values(rows: Sequence[Mapping[str, Any]], arm: str, figure: str) -> dict[int, float]:
    """Return a figure of the arm's complete sessions by trial, without those that fell back to TCP."""
    whole = [row for row in rows if row["arm"] == arm and not row["error"] and not row["fell_back"]]
    return {row["trial"]: row[figure] for row in whole if row[figure] is not None}


def sentence(difference: Difference) -> str:
    """Return a difference in words."""
    name, unit, more_is_better = COMPARED[difference.figure]
    change = difference.change
    value = change.value or 0.0
    if change.low is None or change.high is None:
        return f"The {name} changes by {value:+.3g} {unit}. One trial decides nothing."
    interval = f"[{change.low:+.3g}, {change.high:+.3g}]"
    if not difference.is_decided:
        return (
            f"{change.pairs} trials do not decide the {name}: it changes by {value:+.3g} {unit} {interval}."
        )
    better = "better" if (value > 0) == more_is_better else "worse"
    return (
        f"All paths together are {better} than {difference.beside}: "
        f"the {name} changes by {value:+.3g} {unit} {interval}."
    )
