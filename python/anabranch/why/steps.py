"""A client's samples, step by step: what was missing in each, and what kept it back."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import rows
from anabranch.why.world import SEGMENT, Paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """

    client: int
    short_s: float
    causes: Mapping[str, float]
    behind: Mapping[str, float]

    def to_json(self, **own: object) -> dict[str, Any]:
        """Return it as an object for JSON, with its `own` part."""
        return {
            "client": self.client,
            "short_s": round(self.short_s, 3),
            **own,
            "causes": rounded(self.causes),
            "behind": rounded(self.behind),
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
        self._read = {_tick(row["t_s"]): 8.0 * row["bytes_read"] for row in rows(own["player"])}
        self._samples: dict[int, list[dict[str, Any]]] = {}
        before: dict[int, int] = {}
        fastest: dict[str, float] = defaultdict(float)
        for row in sorted(rows(own["samples"]), key=lambda row: row["t_s"]):
            row["acked"] = 8.0 * (row["bytes_acked"] - before.get(row["subflow"], 0))
            before[row["subflow"]] = row["bytes_acked"]
            fastest[row["path"]] = max(fastest[row["path"]], row["delivery_rate_mbps"] or 0.0)
            self._samples.setdefault(_tick(row["t_s"]), []).append(row)
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
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return the shares of causes over a time, and of the paths that data waited behind.

        Parameters
        ----------
        short_s, frozen_s, to_s
            When too little began to arrive, and from when until when all that came in order was wanted.
        need_bps
            The needed rate.
        wanted
            The times with an open request: from and to, seconds; None is always.
        """
        missing: dict[str, float] = defaultdict(float)
        behind: dict[str, float] = defaultdict(float)
        for one, other in pairwise(range(_tick(short_s), _tick(to_s) + 1)):
            is_wanted = wanted is None or any(
                _tick(begin) <= one and other <= _tick(end) for begin, end in wanted
            )
            if is_wanted and one in self._read and other in self._read:
                self._step(other, missing, behind, need_bps * _STEP_S, is_frozen=other > _tick(frozen_s))
        return _shares(missing) or {"unexplained": 1.0}, _shares(behind)

    def _step(
        self,
        tick: int,
        missing: dict[str, float],
        behind: dict[str, float],
        need: float,
        *,
        is_frozen: bool,
    ) -> None:
        """Add what is missing in the step that ends with a sample, of so many bits that it needs."""
        at_s = (tick - 1) * _STEP_S
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
        could = {path: self._paths.bps(path, at_s) * _STEP_S for path in self._paths.names}
        down = {path for path in could if self._paths.is_down(path, at_s)}
        up = sum(bits for path, bits in could.items() if path not in down)
        whole = sum(could.values())
        parts = {
            "head of line": held if is_frozen else 0.0,
            "capacity": need - whole,
            "path down": min(need, whole) - up,
        }
        for cause, bits in parts.items():
            part = min(max(bits, 0.0), left)
            missing[cause] += part
            left -= part
            if cause == "head of line" and part > 0:
                behind[_behind(flows, down)] += part
        gaps: dict[str, float] = defaultdict(float)
        for path, bits in could.items():
            own = [row for row in flows if row["path"] == path]
            gap = bits - sum(row["acked"] for row in own)
            if path not in down and gap > 0:
                gaps[_state(own, flows, down, holds=held > 0)] += gap
        total = sum(gaps.values())
        for cause, gap in gaps.items():
            missing[cause] += left * gap / total
            if cause == "head of line":
                behind[_behind(flows, down)] += left * gap / total
        if not total:
            missing["unexplained"] += left


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


def _in_flight(flows: Sequence[Mapping[str, Any]]) -> float:
    """Return about how many bits are in flight: acknowledgements may lag behind reads by as much."""
    return 8.0 * SEGMENT * sum(int(row["in_flight_segments"]) for row in flows)


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
