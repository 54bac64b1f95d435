"""Attribution: what kept data from the player while its buffer ran empty.

A freeze has a time before it in which less arrived than is played: from the last maximum of what had arrived
and was not played. In each tenth of a second of it, and of the freeze itself, the bytes that are missing are
divided among causes. What the paths together can never carry is lack of capacity, and what those that are cut
would have carried is theirs. What subflows had acknowledged while the picture stood still and the application
could not read waits behind a gap. The rest is divided in proportion to what each path carried less than it
could, and has the cause of its state.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import of_each, rows
from anabranch.metrics._viewer import stall_times
from anabranch.why.world import SEGMENT, Paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch._run import Run

#: Every cause, and what it means.
CAUSES: Mapping[str, str] = {
    "capacity": "all paths together carry less than the film takes",
    "path down": "a path was cut",
    "head of line": "data had arrived, and waited for what another path had yet to bring",
    "timeout": "a path waited for its retransmission timer",
    "loss recovery": "a path repaired losses",
    "congestion window": "a path's window was full, and too small for what it could carry",
    "receive window": "the receiver let nothing more be sent",
    "scheduler": "a path could have sent, and was given nothing while others were full",
    "unexplained": "none of these",
}
#: Seconds between two samples.
_STEP_S = 0.1
#: The longest time between a freeze and a discarded picture that is put down to it, in seconds.
_NEAR_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """A freeze and its causes.

    Attributes
    ----------
    client
        Whose.
    short_s, from_s, to_s
        When less began to be read than is played, when the picture stood still, and when it went on.
    causes
        The share of each cause, one in all.
    behind
        Of data that waited: the share that waited behind each path.
    """

    client: int
    short_s: float
    from_s: float
    to_s: float
    causes: Mapping[str, float]
    behind: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Why:
    """The causes of what a viewer saw.

    Attributes
    ----------
    freezes
        Each freeze.
    frozen_s
        Seconds without moving pictures by cause.
    discards
        Discarded pictures by cause, in shares of pictures; those far from any freeze are unexplained.
    """

    freezes: Sequence[Freeze]
    frozen_s: Mapping[str, float] = field(default_factory=dict)
    discards: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can have it."""
        return {
            "frozen_s": _rounded(self.frozen_s),
            "discards": _rounded(self.discards),
            "freezes": [
                {
                    "client": one.client,
                    "short_s": round(one.short_s, 3),
                    "from_s": round(one.from_s, 3),
                    "to_s": round(one.to_s, 3),
                    "causes": _rounded(one.causes),
                    "behind": _rounded(one.behind),
                }
                for one in self.freezes
            ],
        }


def why(run: Run) -> Why:
    """Return why pictures froze and were discarded in a run of the progressive player.

    Parameters
    ----------
    run
        The run, with its trace.
    """
    freezes: list[Freeze] = []
    discards: dict[str, float] = defaultdict(float)
    for client, own in of_each(run.tables):
        if own.get("player") and own.get("frames"):
            found = list(_freezes(client, own, run.plan))
            freezes += found
            for cause, share in _discards(own, found).items():
                discards[cause] += share
    frozen: dict[str, float] = defaultdict(float)
    for one in freezes:
        for cause, share in one.causes.items():
            frozen[cause] += share * (one.to_s - one.from_s)
    return Why(freezes=freezes, frozen_s=_ordered(frozen), discards=_ordered(discards))


def _discards(own: Mapping[str, Any], freezes: Sequence[Freeze]) -> dict[str, float]:
    """Return a client's discarded pictures by cause: those of the freeze that they are next to."""
    found: dict[str, float] = defaultdict(float)
    due = None
    for row in rows(own["frames"]):
        # What the decoder skips never gets a time: that of the picture before it counts.
        due = row["due_s"] if row["due_s"] is not None else due
        if row["fate"] != "discarded":
            continue
        near = [] if due is None else [(_apart(due, one), place) for place, one in enumerate(freezes)]
        distance, place = min(near, default=(_NEAR_S + 1, 0))
        causes = freezes[place].causes if distance <= _NEAR_S else {"unexplained": 1.0}
        for cause, share in causes.items():
            found[cause] += share
    return found


def _apart(at_s: float, freeze: Freeze) -> float:
    """Return how far a moment is from a freeze and the shortage before it, in seconds."""
    return max(freeze.short_s - at_s, at_s - freeze.to_s, 0.0)


def _freezes(client: int, own: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[Freeze]:
    """Yield a client's freezes with their causes."""
    duration = next(rows(own["connections"]))["duration_s"]
    events = sorted(rows(own.get("playback", {})), key=lambda row: row["t_s"])
    steps = _Steps(own, plan)
    last = next((row["t_s"] for row in events if row["event"] == "start"), 0.0)
    for begin, end in stall_times(events, duration):
        short = steps.fullest(last, begin)
        shares, behind = steps.causes(short, begin, end)
        yield Freeze(client=client, short_s=short, from_s=begin, to_s=end, causes=shares, behind=behind)
        last = end


class _Steps:
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
        frames = own["frames"]
        self._need = 8.0 * sum(frames["size"]) / max(*frames["pts_s"], _STEP_S) * _STEP_S
        self._arrived: dict[int, float] = {}
        total = 0.0
        for tick in sorted(self._read):
            total += sum(row["acked"] for row in self._samples.get(tick, ()))
            self._arrived[tick] = total
        self._waiting: dict[int, float] = {}
        # What was acknowledged twice, on two paths, is never read: it stays in the difference for good.
        least = float("inf")
        for tick in sorted(self._read, reverse=True):
            least = min(least, self._arrived[tick] - self._read[tick])
            self._waiting[tick] = self._arrived[tick] - self._read[tick] - least

    def fullest(self, from_s: float, to_s: float) -> float:
        """Return when there was last most that had arrived and was not played, in seconds."""
        found = [
            (arrived - self._need * tick, tick)
            for tick, arrived in self._arrived.items()
            if _tick(from_s) <= tick <= _tick(to_s)
        ]
        return max(found)[1] * _STEP_S if found else from_s

    def causes(
        self, short_s: float, frozen_s: float, to_s: float
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Return the shares of causes over a time, and of the paths that data waited behind.

        Parameters
        ----------
        short_s, frozen_s, to_s
            When too little began to arrive, and from when until when the picture stood still.
        """
        missing: dict[str, float] = defaultdict(float)
        behind: dict[str, float] = defaultdict(float)
        for one, other in pairwise(range(_tick(short_s), _tick(to_s) + 1)):
            if one in self._read and other in self._read:
                self._step(other, missing, behind, is_frozen=other > _tick(frozen_s))
        return _shares(missing) or {"unexplained": 1.0}, _shares(behind)

    def _step(
        self, tick: int, missing: dict[str, float], behind: dict[str, float], *, is_frozen: bool
    ) -> None:
        """Add what is missing in the step that ends with a sample, in bits."""
        at_s = (tick - 1) * _STEP_S
        flows = self._samples.get(tick, [])
        if is_frozen:
            left = self._need - (self._read[tick] - self._read[tick - 1])
        else:
            left = self._need - sum(row["acked"] for row in flows)
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
            "capacity": self._need - whole,
            "path down": min(self._need, whole) - up,
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
    """Tell whether a subflow's congestion window is full."""
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


def _ordered(parts: Mapping[str, float]) -> dict[str, float]:
    """Return parts, the largest first."""
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def _shares(parts: Mapping[str, float]) -> dict[str, float]:
    """Return parts as shares of their sum, the largest first; nothing where the sum is nothing."""
    total = sum(parts.values())
    return {name: part / total for name, part in _ordered(parts).items() if part > 0} if total > 0 else {}


def _rounded(parts: Mapping[str, float]) -> dict[str, float]:
    """Return parts without the noise of fractions."""
    return {name: round(part, 3) for name, part in parts.items()}
