"""The capacity of each path over time, as far as the plan contains it."""

from __future__ import annotations

from bisect import bisect_right
from math import ceil
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import rows
from anabranch.why.world import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._run import Run

#: When a rate begins, in seconds, and the rate in Mb/s.
Step = tuple[float, float]
_Rates = list[tuple[float, float | None]]

#: The parameters of a recording of rates that begins at its first step. Further parameters mean another,
#: unknown start.
_STEPS = {"begin_ns", "rates_bps", "delays_ns", "losses", "repeat_ns"}
#: The parameters of a recording of opportunities whose start is known.
_OPPORTUNITIES = {"opportunities_ns", "opportunity_bytes"}
#: The largest number of steps that are drawn for a path. More would not be readable.
_MOST = 2000
_SECOND_NS = 10**9


def of_paths(run: Run) -> dict[str, list[Step]]:
    """Return the rate of each path's slowest link toward the client, step by step, in Mb/s on the wire.

    A path that is cut carries nothing. For recorded delivery opportunities, the rate of each second is used.
    A path is left out if none of its links has a rate, or if one follows a model that draws its rate during
    the run.
    """
    until = run.duration_s
    down = Paths(run.plan, {}, list(rows(run.tables.get("events", {}))))
    changed = [row["t_s"] for row in rows(run.tables.get("events", {}))]
    links = {link["name"]: _of_link(link, run.plan, until) for link in run.plan["links"]}
    found = {}
    for path in run.plan["paths"]:
        own = [links[name] for name in path["down"]]
        known = [steps for steps in own if steps is not None and any(rate is not None for _, rate in steps)]
        if not known or None in own:
            continue
        moments = sorted({0.0, *changed, *(begun for steps in known for begun, _ in steps)})
        steps: list[Step] = []
        for now in (moment for moment in moments if 0 <= moment < until):
            rates = [rate for rate in (_at(one, now) for one in known) if rate is not None]
            if not rates:
                # The link has no limit for some time, so no correct curve can be drawn.
                break
            mbps = 0.0 if down.is_down(path["name"], now) else min(rates) / 1e6
            if not steps or steps[-1][1] != mbps:
                steps.append((now, mbps))
        else:
            if len(steps) <= _MOST:
                found[path["name"]] = steps
    return found


def _of_link(link: Mapping[str, Any], plan: Mapping[str, Any], until_s: float) -> _Rates | None:
    """Return a link's rates in bits a second by when they begin; None of a link that draws its own."""
    steps: _Rates = [(0.0, link["rate_bps"])]
    for event in plan["events"]:
        change = event.get("change")
        if isinstance(change, dict) and "rate_bps" in change and event.get("link") == link["name"]:
            steps.append((event["at_ns"] / 1e9, change["rate_bps"]))
    steps.sort(key=lambda step: step[0])
    model = link.get("model")
    if not model:
        return steps
    if len(steps) > 1:
        return None
    if "opportunities" in model:
        return _of_opportunities(model["opportunities"], link["rate_bps"], until_s)
    recorded = model.get("steps")
    if recorded is None or set(recorded) - _STEPS:
        return None
    cap, result = link["rate_bps"], []
    length = (recorded.get("repeat_ns") or 0) / 1e9
    for turn in range(int(until_s / length) + 1 if length else 1):
        for begin, rate in zip(recorded["begin_ns"], recorded["rates_bps"], strict=True):
            limit = rate if cap is None else cap if rate is None else min(cap, rate)
            result.append((turn * length + begin / 1e9, limit))
        if len(result) > 10 * _MOST:
            return None
    return result


def _of_opportunities(recorded: Mapping[str, Any], cap: int | None, until_s: float) -> _Rates | None:
    """Return the rates of delivery opportunities second by second, or in longer windows for long runs.

    A window has the opportunities after its start, up to and including its end, because a recording repeats
    from its last opportunity.
    """
    if set(recorded) - _OPPORTUNITIES:
        return None
    times: list[int] = recorded["opportunities_ns"]
    bits: int = 8 * recorded["opportunity_bytes"]

    def offered(until_ns: int) -> int:
        turns, rest = divmod(until_ns, times[-1])
        return turns * len(times) + bisect_right(times, rest)

    seconds = ceil(until_s / _MOST) or 1
    result: _Rates = []
    before = 0
    for begin in range(0, ceil(until_s), seconds):
        by_now = offered((begin + seconds) * _SECOND_NS)
        rate = (by_now - before) * bits / seconds
        result.append((float(begin), rate if cap is None else min(cap, rate)))
        before = by_now
    return result


def _at(steps: _Rates, at_s: float) -> float | None:
    """Return the last rate that began by a time."""
    place = bisect_right([begun for begun, _ in steps], at_s)
    return steps[place - 1][1] if place else None
