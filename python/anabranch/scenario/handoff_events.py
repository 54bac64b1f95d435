"""Handoffs, in which a client loses a path and may get it back. They are translated into events.

The time of a handoff may be drawn from a range, separately for each run.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from anabranch.scenario.models import Event, GilbertElliott

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.scenario.models import Handoff, Path, Scenario

#: The number of steps of a fade.
_STEPS = 10
#: The share of the rate at the last step of a fade, and the loss added by then. A station at the edge of its
#: cell sends at its lowest rate, and retries do not always succeed.
_LEAST_RATE = 0.1
_MOST_LOSS = 0.2


def with_events(scenario: Scenario, *, run: int) -> Scenario:
    """Return a scenario whose handoffs have become events.

    Parameters
    ----------
    scenario
        The validated scenario.
    run
        The run number, which selects another draw of the moments.
    """
    if not scenario.handoffs:
        return scenario
    found = [
        event for index in range(len(scenario.handoffs)) for event in events_of(scenario, index, run=run)
    ]
    return scenario.model_copy(update={"events": (*scenario.events, *found)})


def events_of(scenario: Scenario, index: int, *, run: int) -> list[Event]:
    """Return the events that a handoff becomes in a run."""
    return list(_events(scenario, scenario.handoffs[index], moment(scenario, index, run=run)))


def moment(scenario: Scenario, index: int, *, run: int) -> int:
    """Return when a handoff begins, in nanoseconds from the start of the simulation."""
    first, last = scenario.handoffs[index].at
    text = f"{scenario.seed} {run} handoffs.{index}"
    draw = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
    return first + int((last - first) * draw)


def _events(scenario: Scenario, handoff: Handoff, at: int) -> Iterator[Event]:
    """Yield the events of one handoff."""
    path = next(path for path in scenario.paths if path.name == handoff.path)
    if handoff.kind == "ping-pong":
        for turn in range(handoff.times):
            now = at + turn * handoff.every
            here, there = (handoff.path, handoff.to) if turn % 2 == 0 else (handoff.to, handoff.path)
            if turn > 0:
                yield _event(now, there=there, state="up")
            yield _event(now, there=here, state="down")
        last = at + handoff.times * handoff.every
        yield _event(last, there=handoff.path if handoff.times % 2 else handoff.to, state="up")
        return
    # The model's defaults are those of a ping-pong: a loss is repeated only if the keys are given.
    times = handoff.times if "times" in handoff.model_fields_set else 1
    for turn in range(times):
        yield from _loss(path, handoff, at + turn * handoff.every)


def _loss(path: Path, handoff: Handoff, at: int) -> Iterator[Event]:
    """Yield the events of one loss of a path, and of its return."""
    gone = at
    if handoff.kind == "fade":
        for step in range(_STEPS):
            yield from _faded(path, at + step * handoff.over // _STEPS, (step + 1) / _STEPS)
        gone = at + handoff.over
    state = {"silent": "down", "fade": "down"}.get(handoff.kind, handoff.kind)
    yield _event(gone, there=path.name, state=state)
    if handoff.lasting is not None:
        back = gone + handoff.lasting
        yield _event(back, there=path.name, state="up")
        if handoff.kind == "fade":
            for step in range(_STEPS):
                yield from _faded(path, back + step * handoff.over // _STEPS, (_STEPS - 1 - step) / _STEPS)


def _faded(path: Path, at: int, depth: float) -> Iterator[Event]:
    """Yield the events of a fade to a depth: 0 is the path itself, 1 the edge of its cell."""
    for way in ("down", "up"):
        own = getattr(path, way)
        rate = path.rate if own.rate is None else own.rate
        changes: dict[str, Any] = {}
        if rate is not None:
            changes["rate"] = max(round(rate * (1 - depth * (1 - _LEAST_RATE))), 1)
        loss = own.loss if own.loss is not None else path.loss if way == "down" else None
        if not isinstance(loss, GilbertElliott):
            changes["loss"] = min((loss or 0.0) + depth * _MOST_LOSS, 1.0) or None
        yield _event(at, there=path.name, direction=way, **changes)


def _event(at: int, *, there: str | None, **changes: Any) -> Event:  # noqa: ANN401 - an event's keys
    """Return an event of a path; its values are validated already."""
    return Event.model_construct(at=at, path=there, **changes)
