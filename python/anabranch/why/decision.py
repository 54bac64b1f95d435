"""The effect of choosing another path: a stored run is repeated with one scheduler decision changed.

Random draws are the same: every source of chance has a separate stream. A decision counts if it gives new
data to one subflow and another subflow could have had it on the same condition. Usually that means space in
the congestion window. If neither subflow had such space, it means space in the send buffer, where the data
then waits. A scheduler in Rust is called through a Python scheduler that builds on it. The digest of the
unchanged run proves that nothing else differs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from anabranch._run import Classes, Run
    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded

    #: Makes a scheduler from its parameters and its seed.
    Maker = Callable[[Mapping[str, Any], int], Any]

#: The name in a plan of a scheduler that agrees with one in Rust.
_AGREEING = "why.py:Agreeing"
#: The compared metrics, if a run has them.
COMPARED = (
    "picture_discards",
    "buffer_underflows",
    "rebuffer_s",
    "still_s",
    "unplayed_s",
    "startup_delay_s",
    "resolution_mean",
    "goodput_mbps",
)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A decision of the scheduler.

    Attributes
    ----------
    number
        Its number among the decisions with a choice, from 0.
    at_s
        When, from the start of the simulation.
    first_byte
        The position of its data in the data stream of its connection.
    taken, other
        The chosen subflow, and the alternative. If there are several alternatives, it is the one with the
        smallest RTT.
    queues
        Whether neither had window space, so that the data waited in the chosen subflow.
    """

    number: int
    at_s: float
    first_byte: int
    taken: int
    other: int
    queues: bool


@dataclass(frozen=True, kw_only=True)
class Other:
    """A decision, with its result and that of the opposite decision.

    Attributes
    ----------
    chosen
        The decision.
    acked_ms
        The time until its data was acknowledged at data level, with the original choice and with the other
        subflow; None if it never was.
    metrics
        For each metric, the original value and the value with the changed decision.
    """

    chosen: Chosen
    acked_ms: tuple[float | None, float | None]
    metrics: Mapping[str, tuple[float | None, float | None]]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can have it."""
        both = {"acked_ms": self.acked_ms, **self.metrics}
        return {
            "decision": {**vars(self.chosen), "at_s": round(self.chosen.at_s, 6)},
            **{name: {"was": was, "would_be": would} for name, (was, would) in both.items()},
        }


def other(folder: Path, run: str | None, wanted: Callable[[Chosen], bool]) -> Other:
    """Return the result of a stored run if one decision had chosen the other path.

    Parameters
    ----------
    folder, run
        The results, and the beginning of the run's identity; None selects the first run.
    wanted
        Returns whether a decision is the wanted one. The first such decision counts.

    Raises
    ------
    InputError
        When there is no such run or decision.
    """
    from anabranch.study import stored

    row, _ = stored.find(folder, run)
    loaded, film = stored.scenario_of(folder, row)
    was, would = _Watch(wanted, change=False), _Watch(wanted, change=True)
    before = _run(loaded, film, row["run"], was)
    stored.prove(folder, row, before)
    if was.chosen is None:
        message = f"no such decision: {was.count} of this run had a choice"
        raise InputError([Fault(message=message, where=str(folder))])
    after = _run(loaded, film, row["run"], would)
    pairs = {name: (_metric(before, name), _metric(after, name)) for name in COMPARED}
    metrics = {name: pair for name, pair in pairs.items() if pair != (None, None)}
    return Other(chosen=was.chosen, acked_ms=(was.acked_ms, would.acked_ms), metrics=metrics)


def _metric(run: Run, name: str) -> float | None:
    """Return a metric of a run; None if it has no such metric."""
    found = {**run.qos, **(run.qoe or {})}.get(name)
    return None if found is None else float(found)


def _run(loaded: Loaded, film: Film | None, number: int, watch: _Watch) -> Run:
    """Run a scenario with its scheduler's decisions watched."""
    from anabranch._run import finished, simulated
    from anabranch.scenario import plan as plans

    plan = plans.build(loaded.scenario, film, run=number)

    def watched(classes: Classes) -> Classes:
        makers: dict[str, Maker] = {name: one.build for name, one in classes.get("scheduler", {}).items()}
        if not makers:
            scheduler = plan["transport"]["scheduler"]
            makers[_AGREEING] = lambda _parameters, _seed: _Agreeing(scheduler)
            plan["transport"]["scheduler"] = json.dumps({"name": _AGREEING})
        return {**classes, "scheduler": {name: _Watched(make, watch) for name, make in makers.items()}}

    return finished(loaded, film, plan, simulated(loaded, plan, watched=watched), run=number)


class _Agreeing:
    """A scheduler that agrees with the one it builds on.

    Parameters
    ----------
    builds_on
        The scheduler on which it builds, in the plan's notation.
    """

    def __init__(self, builds_on: str) -> None:
        self.builds_on = builds_on

    def schedule(self, request: Any, subflows: Sequence[Any], proposal: Any) -> Any:  # noqa: ANN401, ARG002 - the module's
        """Return the proposed answer."""
        return proposal


class _Watch:
    """State that all schedulers of a run share: the wanted decision and its result.

    Parameters
    ----------
    wanted
        Recognises the decision.
    change
        Whether to change the decision.
    """

    def __init__(self, wanted: Callable[[Chosen], bool], *, change: bool) -> None:
        self._wanted = wanted
        self.change = change
        self.count = 0
        self.chosen: Chosen | None = None
        self.acked_ms: float | None = None

    @property
    def is_over(self) -> bool:
        """The decision was found."""
        return self.chosen is not None

    def is_it(self, **about: Any) -> bool:  # noqa: ANN401 - of a decision but its number
        """Count a decision, and return whether it is the wanted one."""
        one = Chosen(number=self.count, **about)
        self.count += 1
        if self._wanted(one):
            self.chosen = one
        return self.is_over


class _Watched:
    """A plug-in whose schedulers are watched."""

    def __init__(self, make: Maker, watch: _Watch) -> None:
        self._make = make
        self._watch = watch

    def build(self, parameters: Mapping[str, Any], seed: int) -> _Scheduler:
        """Return a watched scheduler."""
        return _Scheduler(self._make(parameters, seed), self._watch)


class _Scheduler:
    """A scheduler in which one decision may be changed."""

    def __init__(self, base: Any, watch: _Watch) -> None:  # noqa: ANN401 - anybody's
        self._base = base
        self._watch = watch
        self._mine = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else it has
        return getattr(self._base, name)

    def schedule(self, request: Any, subflows: Sequence[Any], *proposal: Any) -> Any:  # noqa: ANN401 - the module's
        """Return the answer of the scheduler, or its opposite."""
        from anabranch.plugins import Send, candidates

        answer = self._base.schedule(request, subflows, *proposal)
        sent = answer if isinstance(answer, Send) else None
        on = sent.on if sent is not None else answer
        if isinstance(on, tuple | list) and len(on) == 1:
            (on,) = on
        taken = getattr(on, "id", on)
        # An answer with two subflows, a penalty or a waiting time has no opposite.
        if not isinstance(taken, int) or isinstance(taken, bool) or request.ask != "new-data":
            return answer
        if self._watch.is_over:
            return answer
        others = [one for one in candidates(subflows) if one.id != taken]
        queues = not any(one.can_send for one in subflows if one.id == taken)
        free = [one for one in others if (one.can_queue if queues else one.can_send)]
        first = sent.from_byte if sent is not None and sent.from_byte is not None else request.data_next
        other = min(free, key=lambda one: one.srtt_ms, default=None)
        if other is None:
            return answer
        at_s = request.now_ms / 1e3
        found = {"at_s": at_s, "first_byte": first, "taken": taken, "other": other.id, "queues": queues}
        if not self._watch.is_it(**found):
            return answer
        self._mine = True
        if not self._watch.change:
            return answer
        burst = None if sent is None else sent.burst_bytes
        return Send(other, burst_bytes=burst, from_byte=None if sent is None else sent.from_byte)

    def on_data_ack(self, now_ms: float, data_una: int) -> None:
        """Notice when the data of the decision was acknowledged."""
        watch = self._watch
        if self._mine and watch.chosen is not None and data_una > watch.chosen.first_byte:
            watch.acked_ms = now_ms - 1e3 * watch.chosen.at_s
            self._mine = False
        heard = getattr(self._base, "on_data_ack", None)
        if heard is not None:
            heard(now_ms, data_una)
