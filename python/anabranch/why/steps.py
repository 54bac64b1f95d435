"""A client's samples step by step: the missing data of each step, and its causes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import rows
from anabranch.why.world import SEGMENT, Paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    #: Missing bits by cause and path; the path is empty if the cause lies with none.
    Missing = dict[tuple[str, str], float]

#: The cause of data that is missing because a path is cut.
DOWN = "path down"
#: Seconds between two samples.
_STEP_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """A time in which less came than was needed, and its causes.

    Attributes
    ----------
    client
        Whose.
    short_s
        When less began to come.
    causes
        The share of each cause, one in all.
    behind
        Of data that waited: the share that waited behind each path.
    paths
        The share of each cause that lies with each path, by cause and path.
    """

    client: int
    short_s: float
    causes: Mapping[str, float]
    behind: Mapping[str, float]
    paths: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def to_json(self, **own: object) -> dict[str, Any]:
        """Return it as an object for JSON, with its `own` part."""
        return {
            "client": self.client,
            "short_s": round(self.short_s, 3),
            **own,
            "causes": rounded(self.causes),
            "behind": rounded(self.behind),
            "paths": {cause: rounded(parts) for cause, parts in self.paths.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Causes:
    """The causes of missing data.

    Attributes
    ----------
    shares
        The share of each cause, one in all.
    behind
        Of data that waited: the share that waited behind each path.
    paths
        The share of each cause that lies with each path, by cause and path.
    """

    shares: Mapping[str, float]
    behind: Mapping[str, float] = field(default_factory=dict)
    paths: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A client's rate, compared with the rate that its paths could carry.

    Attributes
    ----------
    client
        The client.
    carried_mbps, could_mbps
        Payload acknowledged, and payload that all paths could carry by their own rates, while data was
        wanted. A path that is down counts with its rate, and its part of `unused` has the cause "path
        down". The rates of shared links are not considered.
    unused
        The unused rate in Mb/s by cause and path.
    """

    client: int
    carried_mbps: float
    could_mbps: float
    unused: Mapping[str, Mapping[str, float]]

    @property
    def up_mbps(self) -> float:
        """The part of `could_mbps` in which the paths were not down."""
        return self.could_mbps - sum(self.unused.get(DOWN, {}).values())

    def to_json(self) -> dict[str, Any]:
        """Return it as an object for JSON."""
        return {
            "client": self.client,
            "carried_mbps": round(self.carried_mbps, 3),
            "could_mbps": round(self.could_mbps, 3),
            "up_mbps": round(self.up_mbps, 3),
            "unused_mbps": {cause: rounded(parts) for cause, parts in self.unused.items()},
        }


class Steps:
    """A client's samples, step by step.

    Parameters
    ----------
    own
        Its tables.
    plan
        The run's plan.
    """

    def __init__(self, own: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        # A player's log alone does not show the bytes that were read.
        known = (row for row in rows(own["player"]) if row["bytes_read"] is not None)
        self._read = {_tick(row["t_s"]): 8.0 * row["bytes_read"] for row in known}
        self._samples: dict[int, list[dict[str, Any]]] = {}
        self._joined: dict[str, int] = {}
        before: dict[int, int] = {}
        fastest: dict[str, float] = defaultdict(float)
        for row in sorted(rows(own["samples"]), key=lambda row: row["t_s"]):
            row["acked"] = 8.0 * (row["bytes_acked"] - before.get(row["subflow"], 0))
            before[row["subflow"]] = row["bytes_acked"]
            fastest[row["path"]] = max(fastest[row["path"]], row["delivery_rate_mbps"] or 0.0)
            self._samples.setdefault(_tick(row["t_s"]), []).append(row)
            self._joined.setdefault(row["path"], _tick(row["t_s"]))
        seen = {path: 1e6 * rate for path, rate in fastest.items()}
        self._paths = Paths(plan, seen, list(rows(own.get("events", {}))))
        self._arrived: dict[int, float] = {}
        total = 0.0
        for tick in sorted(self._read):
            total += sum(row["acked"] for row in self._samples.get(tick, ()))
            self._arrived[tick] = total
        self._waiting: dict[int, float] = {}
        # Bytes that were acknowledged twice, on two paths, are never read: they stay in the difference.
        least = float("inf")
        for tick in sorted(self._read, reverse=True):
            least = min(least, self._arrived[tick] - self._read[tick])
            self._waiting[tick] = self._arrived[tick] - self._read[tick] - least

    def fullest(self, from_s: float, to_s: float, need_bps: float) -> float:
        """Return when there was last most that had arrived and was not played, in seconds."""
        found = [
            (arrived - need_bps * _STEP_S * tick, tick)
            for tick, arrived in self._arrived.items()
            if _tick(from_s) <= tick <= _tick(to_s)
        ]
        return max(found)[1] * _STEP_S if found else from_s

    def causes(
        self,
        short_s: float,
        frozen_s: float,
        to_s: float,
        need_bps: float,
        wanted: Sequence[tuple[float, float]] | None = None,
    ) -> Causes:
        """Return the causes of missing data over a time.

        Parameters
        ----------
        short_s, frozen_s, to_s
            When too little began to arrive, and from when until when all that came in order was wanted.
        need_bps
            The needed rate.
        wanted
            The times with an open request: from and to, seconds; None is always.
        """
        missing: Missing = defaultdict(float)
        behind: dict[str, float] = defaultdict(float)
        for tick in self._wanted(short_s, to_s, wanted):
            self._step(tick, missing, behind, need_bps * _STEP_S, is_frozen=tick > _tick(frozen_s))
        return Causes(
            shares=_shares(_by_cause(missing)) or {"unexplained": 1.0},
            behind=_shares(behind),
            paths=_by_path(missing),
        )

    def rate(
        self, client: int, to_s: float, wanted: Sequence[tuple[float, float]] | None = None
    ) -> Rate | None:
        """Return the rate that was reached until a time, and the causes of the rest; None without a sample.

        Parameters
        ----------
        client
            The client.
        to_s
            The end.
        wanted
            The times with an open request: from and to, seconds; None is always.
        """
        unused: Missing = defaultdict(float)
        net: dict[str, float] = defaultdict(float)
        carried = could = 0.0
        ticks = list(self._wanted(0.0, to_s, wanted))
        for tick in ticks:
            flows = self._samples.get(tick, [])
            able = self._able(tick)
            down = self._down(tick)
            carried += sum(row["acked"] for row in flows)
            could += sum(able.values())
            for path, bits in able.items():
                own = [row for row in flows if row["path"] == path]
                gap = bits - sum(row["acked"] for row in own)
                net[path] += gap
                if gap > 0:
                    cause = DOWN if path in down else self._state_of(path, own, flows, down, tick)
                    unused[cause, path] += gap
        # Without the capacity of a path, nothing can be missing from it.
        if not ticks or could <= 0:
            return None
        per_mbps = 1e6 * _STEP_S * len(ticks)
        # After a loss is repaired, one acknowledgement covers the data of several steps.
        gross: dict[str, float] = defaultdict(float)
        for (_, path), bits in unused.items():
            gross[path] += bits
        parts: dict[str, dict[str, float]] = {}
        for (cause, path), bits in sorted(unused.items(), key=lambda item: -item[1]):
            parts.setdefault(cause, {})[path] = bits * max(net[path], 0.0) / gross[path] / per_mbps
        return Rate(client=client, carried_mbps=carried / per_mbps, could_mbps=could / per_mbps, unused=parts)

    def could_bps(self, from_s: float, to_s: float) -> float | None:
        """Return the mean rate that all paths could carry over a time, in bit/s; None without a sample."""
        ticks = list(self._wanted(from_s, to_s, None))
        down = {tick: self._down(tick) for tick in ticks}
        bits = sum(
            part for tick in ticks for path, part in self._able(tick).items() if path not in down[tick]
        )
        return bits / (_STEP_S * len(ticks)) if ticks else None

    def last_read_s(self) -> float:
        """Return when the application read the last byte, in seconds."""
        ticks = sorted(self._read)
        last = max(self._read.values(), default=0.0)
        return next((tick for tick in ticks if self._read[tick] >= last), 0) * _STEP_S

    def _wanted(
        self, from_s: float, to_s: float, wanted: Sequence[tuple[float, float]] | None
    ) -> Iterator[int]:
        """Yield the samples that end the steps of a time in which data was wanted."""
        for one, other in pairwise(range(_tick(from_s), _tick(to_s) + 1)):
            is_wanted = wanted is None or any(
                _tick(begin) <= one and other <= _tick(min(end, to_s)) for begin, end in wanted
            )
            if is_wanted and one in self._read and other in self._read:
                yield other

    def _able(self, tick: int) -> dict[str, float]:
        """Return the bits that each path could carry in a step."""
        at_s = (tick - 1) * _STEP_S
        return {path: self._paths.bps(path, at_s) * _STEP_S for path in self._paths.names}

    def _down(self, tick: int) -> set[str]:
        """Return the paths that are cut in a step."""
        at_s = (tick - 1) * _STEP_S
        return {path for path in self._paths.names if self._paths.is_down(path, at_s)}

    def _state_of(
        self,
        path: str,
        own: Sequence[Mapping[str, Any]],
        flows: Sequence[Mapping[str, Any]],
        down: set[str],
        tick: int,
        *,
        holds: bool = False,
    ) -> str:
        """Return why a path carried less than it could in a step."""
        if tick < self._joined.get(path, tick + 1):
            return "late join"
        return _state(own, flows, down, holds=holds)

    def _step(
        self,
        tick: int,
        missing: Missing,
        behind: dict[str, float],
        need: float,
        *,
        is_frozen: bool,
    ) -> None:
        """Add what is missing in the step that ends with a sample, of so many bits that it needs."""
        flows = self._samples.get(tick, [])
        if is_frozen:
            left = need - (self._read[tick] - self._read[tick - 1])
        else:
            left = need - sum(row["acked"] for row in flows)
        if left <= 0:
            return
        # On one path alone data comes in order: what differs there is how late acknowledgements are.
        several = len({row["path"] for row in flows if row["bytes_acked"]}) > 1
        held = max(self._waiting[tick] - _in_flight(flows), 0.0) if several else 0.0
        could, down = self._able(tick), self._down(tick)
        up = sum(bits for path, bits in could.items() if path not in down)
        whole = sum(could.values())
        parts = {
            "head of line": held if is_frozen else 0.0,
            "capacity": need - whole,
            DOWN: min(need, whole) - up,
        }
        for cause, bits in parts.items():
            part = min(max(bits, 0.0), left)
            left -= part
            if cause == "head of line" and part > 0:
                behind[_behind(flows, down)] += part
                missing[cause, _behind(flows, down)] += part
            elif cause == DOWN and part > 0:
                cut = sum(could[path] for path in down)
                for path in down:
                    missing[cause, path] += part * could[path] / cut
            else:
                missing[cause, ""] += part
        gaps: Missing = defaultdict(float)
        for path, bits in could.items():
            own = [row for row in flows if row["path"] == path]
            gap = bits - sum(row["acked"] for row in own)
            if path not in down and gap > 0:
                gaps[self._state_of(path, own, flows, down, tick, holds=held > 0), path] += gap
        total = sum(gaps.values())
        for (cause, path), gap in gaps.items():
            missing[cause, path] += left * gap / total
            if cause == "head of line":
                behind[_behind(flows, down)] += left * gap / total
        if not total:
            missing["unexplained", ""] += left


def _state(
    own: Sequence[Mapping[str, Any]], flows: Sequence[Mapping[str, Any]], down: set[str], *, holds: bool
) -> str:
    """Return why a path carried less than it could.

    Parameters
    ----------
    own, flows, down
        Samples of the path's subflows and of all, and the paths that are cut.
    holds
        The receiver holds data that cannot be read yet, which takes up its window.
    """
    states = {row["state"] for row in own}
    if "Loss" in states:
        return "timeout"
    if "Recovery" in states:
        return "loss recovery"
    if any(map(_is_full, own)):
        return "congestion window"
    others = [row for row in flows if row not in own]
    if holds or any(row["state"] in ("Loss", "Recovery") or row["path"] in down for row in others):
        return "head of line"
    if any(row["unsent_bytes"] for row in own):
        return "receive window"
    return "scheduler" if any(map(_is_full, others)) else "receive window"


def _by_cause(missing: Missing) -> dict[str, float]:
    """Return missing bits by cause."""
    found: dict[str, float] = defaultdict(float)
    for (cause, _), bits in missing.items():
        found[cause] += bits
    return found


def _by_path(missing: Missing) -> dict[str, dict[str, float]]:
    """Return the share of each cause that lies with each path, of causes that lie with paths."""
    found: dict[str, dict[str, float]] = {}
    for (cause, path), bits in missing.items():
        if path and bits > 0:
            found.setdefault(cause, {})[path] = bits
    return {cause: _shares(parts) for cause, parts in found.items()}


def _in_flight(flows: Sequence[Mapping[str, Any]]) -> float:
    """Return about how many bits are in flight: acknowledgements may lag behind reads by as much.

    A capture at the client does not show them. It has the acknowledgements as the client sends them.
    """
    return 8.0 * SEGMENT * sum(int(row["in_flight_segments"] or 0) for row in flows)


def _is_full(row: Mapping[str, Any]) -> bool:
    """Return whether a subflow's congestion window is full."""
    return row["cwnd_segments"] is not None and row["in_flight_segments"] >= row["cwnd_segments"]


def _behind(flows: Sequence[Mapping[str, Any]], down: set[str]) -> str:
    """Return the path that data most likely waits for: cut, or repairing, else the longest in use."""
    used = [row for row in flows if row["in_flight_segments"]] or list(flows)
    order = {"Loss": 2, "Recovery": 1}
    worst = max(
        used,
        key=lambda row: (row["path"] in down, order.get(row["state"], 0), row["srtt_ms"] or 0.0),
        default=None,
    )
    return "" if worst is None else str(worst["path"])


def _tick(at_s: float) -> int:
    """Return the number of the sample at a time."""
    return round(at_s / _STEP_S)


def rounded(parts: Mapping[str, float]) -> dict[str, float]:
    """Return parts without the noise of fractions."""
    return {name: round(part, 3) for name, part in parts.items()}


def ordered(parts: Mapping[str, float]) -> dict[str, float]:
    """Return parts, the largest first."""
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Return parts as shares of their sum, the largest first; nothing where the sum is nothing."""
    total = sum(parts.values())
    return {name: part / total for name, part in ordered(parts).items() if part > 0} if total > 0 else {}
