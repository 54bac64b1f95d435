"""Attribution of freezes: the causes that kept data from the player while its buffer became empty.

A freeze is a time of 150 ms or more without a new picture, or the whole session if no picture was shown. The
shortage before a freeze starts at the last maximum of the data that had arrived and was not played. From then
on, less data arrived than was played. In each tenth of a second of this time and of the freeze, the missing
bytes are divided among causes. The part that all paths together can never carry counts as lack of capacity.
The part that interrupted paths would have carried counts for these paths. Bytes that subflows had
acknowledged but the application could not read during the freeze wait behind a gap. The rest is divided in
proportion to the unused capacity of each path, with the cause of its state. An adaptive player's steps down
are in `quality`.

The same division answers why a run was not better: for a chunk below the top rendition, over the time in
which the chunk before it was loaded, and for the rate that was not reached, while data was wanted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import of_each, rows
from anabranch.metrics._still import standing_times
from anabranch.metrics._viewer import stall_times
from anabranch.why import words
from anabranch.why.quality import Asked, Drop, Held
from anabranch.why.steps import Rate, Shortage, Steps, ordered, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch._run import Run

#: The shortest film, in seconds.
_LEAST_S = 0.1
#: The longest time between a freeze and a discarded picture that is attributed to it, in seconds.
_NEAR_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Freeze(Shortage):
    """A freeze: no new picture was shown.

    Attributes
    ----------
    from_s, to_s
        The start and the end of the freeze.
    """

    from_s: float
    to_s: float

    def to_json(self, **own: object) -> dict[str, Any]:
        """Return it as JSON can have it."""
        return super().to_json(**{"from_s": round(self.from_s, 3), "to_s": round(self.to_s, 3), **own})


@dataclass(frozen=True, kw_only=True)
class Why:
    """The causes of a viewer's freezes, discards and steps down.

    Attributes
    ----------
    freezes
        Each freeze.
    frozen_s
        Seconds without moving pictures by cause.
    discards
        Discarded pictures by cause, in shares of pictures. Those far from any freeze are unexplained.
    drops
        An adaptive player's steps down to a lower rendition.
    steps_down
        The number of these steps by cause, in shares of steps.
    held
        The chunks below the top rendition, with the reasons against the next higher one.
    below_s
        Seconds of film below the top rendition, by reason.
    rates
        The rate of each client, and why its paths did not carry as much as they could.
    """

    freezes: Sequence[Freeze]
    frozen_s: Mapping[str, float] = field(default_factory=dict)
    discards: Mapping[str, float] = field(default_factory=dict)
    drops: Sequence[Drop] = ()
    steps_down: Mapping[str, float] = field(default_factory=dict)
    held: Sequence[Held] = ()
    below_s: Mapping[str, float] = field(default_factory=dict)
    rates: Sequence[Rate] = ()

    @property
    def sentences(self) -> list[str]:
        """The reasons against a higher rendition and a higher rate, in sentences that name the paths."""
        return [*words.below(self.held, self.below_s), *words.rates(self.rates)]

    def meaning(self, cause: str) -> str:
        """Return the meaning of a cause, with the path that has most of it in the freezes and steps down."""
        freezes = [(one, one.to_s - one.from_s) for one in self.freezes]
        return words.meaning(cause, words.paths_of([*freezes, *((one, 1.0) for one in self.drops)], cause))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can have it."""
        return {
            "frozen_s": rounded(self.frozen_s),
            "discards": rounded(self.discards),
            "steps_down": rounded(self.steps_down),
            "freezes": [one.to_json() for one in self.freezes],
            "drops": [one.to_json() for one in self.drops],
            "below_s": rounded(self.below_s),
            "held": [one.to_json() for one in self.held],
            "rates": [one.to_json() for one in self.rates],
        }


def why(run: Run, *, clients: int | None = None) -> Why:
    """Return why pictures froze, were discarded or lost in resolution in a run of a player.

    Parameters
    ----------
    run
        The run, with its trace.
    clients
        The number of clients, from client 0; None for all.
    """
    freezes: list[Freeze] = []
    drops: list[Drop] = []
    held: list[Held] = []
    rates: list[Rate] = []
    discards: dict[str, float] = defaultdict(float)
    for client, own in of_each(run.tables):
        if clients is not None and client >= clients:
            break
        if not own.get("player"):
            continue
        steps, asked = Steps(own, run.plan), Asked(own)
        rate = steps.rate(client, steps.last_read_s(), asked.wanted)
        rates += [] if rate is None else [rate]
        if not (own.get("frames") or own.get("chunks")):
            continue
        held += asked.held(client, steps)
        found = list(_freezes(client, own, steps, asked, _still(own)))
        freezes += found
        drops += asked.drops(client, steps)
        if "discarded" in set(own.get("frames", {}).get("fate", ())):
            underflows = list(_freezes(client, own, steps, asked, _underflows(own)))
            for cause, share in _discards(own, underflows or found).items():
                discards[cause] += share
    frozen: dict[str, float] = defaultdict(float)
    for one in freezes:
        for cause, share in one.causes.items():
            frozen[cause] += share * (one.to_s - one.from_s)
    down: dict[str, float] = defaultdict(float)
    for drop in drops:
        for cause, share in drop.causes.items():
            down[cause] += share
    below: dict[str, float] = defaultdict(float)
    for chunk in held:
        for cause, share in chunk.causes.items():
            below[cause] += share * chunk.duration_s
    return Why(
        held=held,
        below_s=ordered(below),
        rates=rates,
        freezes=freezes,
        frozen_s=ordered(frozen),
        discards=ordered(discards),
        drops=drops,
        steps_down=ordered(down),
    )


def freezes(run: Run, *, clients: int) -> list[Freeze]:
    """Return the freezes of the first clients with their causes.

    This is the part of `why` that is fast to compute.

    Parameters
    ----------
    run
        The run, with its trace.
    clients
        The number of clients, from client 0.
    """
    found: list[Freeze] = []
    for client, own in of_each(run.tables):
        if client >= clients:
            break
        # Processing the samples takes most of the time, so it is done only if necessary.
        times = _still(own) if own.get("player") and (own.get("frames") or own.get("chunks")) else []
        if times:
            found += _freezes(client, own, Steps(own, run.plan), Asked(own), times)
    return found


def _discards(own: Mapping[str, Any], freezes: Sequence[Freeze]) -> dict[str, float]:
    """Return a client's discarded pictures by cause. A picture has the causes of the nearest freeze."""
    found: dict[str, float] = defaultdict(float)
    due = None
    for row in rows(own.get("frames", {})):
        # A picture that the decoder skips has no due time, so that of the picture before it is used.
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


def _freezes(
    client: int, own: Mapping[str, Any], steps: Steps, asked: Asked, times: Sequence[tuple[float, float]]
) -> Iterator[Freeze]:
    """Yield a client's freezes, or other times without film, with their causes."""
    events = sorted(rows(own.get("playback", {})), key=lambda row: row["t_s"])
    last = next((row["t_s"] for row in events if row["event"] == "start"), 0.0)
    for begin, end in times:
        need = _film_bps(own) or asked.need_bps(begin)
        short = steps.fullest(last, begin, need)
        causes = steps.causes(short, begin, end, need)
        yield Freeze(
            client=client,
            short_s=short,
            from_s=begin,
            to_s=end,
            causes=causes.shares,
            behind=causes.behind,
            paths=causes.paths,
        )
        last = end


def _still(own: Mapping[str, Any]) -> Sequence[tuple[float, float]]:
    """Return a client's freezes. A log of VLC shows only the underflows, and pictures that were lost."""
    logged = own.get("frames") and all(at is None for at in own["frames"]["shown_s"])
    lost = logged and set(own["frames"]["fate"]) == {"discarded"}
    return _underflows(own) if lost else standing_times(own)


def _underflows(own: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Return the times at which a client's buffer was empty. They explain its discarded pictures."""
    duration = next(rows(own["connections"]))["duration_s"]
    events = sorted(rows(own.get("playback", {})), key=lambda row: row["t_s"])
    return stall_times(events, duration)


def _film_bps(own: Mapping[str, Any]) -> float:
    """Return a film's mean rate; 0 for a ladder."""
    frames = own.get("frames")
    if not frames or not len(frames["size"]) or frames["size"][0] is None:
        return 0.0
    return float(8.0 * sum(frames["size"]) / max(*frames["pts_s"], _LEAST_S))
