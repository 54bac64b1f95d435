"""Recordings made by the simulator's own models of links."""

from __future__ import annotations

import math
from typing import Any

from anabranch.traces._trace import Step, Trace, check_windows

#: The interval of the small packets that measure delay and loss.
_PING_NS = 5_000_000


def record(plan: dict[str, Any], link: str, *, length_ns: int, step_ns: int) -> Trace:
    """Return the behaviour of an idle and a busy link of a plan.

    The rate is measured on the busy link, and delay and loss with small packets on the idle link. A window in
    which no packet arrives gets the delay of the previous window.

    Parameters
    ----------
    plan
        A scenario's plan.
    link
        The one-way link's name: `wifi.down`.
    length_ns, step_ns
        The length of the recording and of each step, in nanoseconds.

    Raises
    ------
    InputError
        When these are more than two million steps.
    MissingError
        When the simulator is not built.
    """
    from anabranch import plugins
    from anabranch.scenario import plan as plans

    check_windows(length_ns, step_ns)
    rust = plugins.module()
    windows = math.ceil(length_ns / step_ns)
    # The recording needs no film.
    asked = {**plan, "application": {**plan["application"], "kind": "bulk"}, "film": None}
    rates, delays = rust.record_link(plans.encode(asked), link, step_ns, windows, _PING_NS)
    steps = []
    delay_s = next((delay for delay in delays if not math.isnan(delay)), 0.0)
    for window, rate in enumerate(rates):
        first, last = (-(-edge * step_ns // _PING_NS) for edge in (window, window + 1))
        own = delays[first:last]
        heard = [delay for delay in own if not math.isnan(delay)]
        delay_s = sum(heard) / len(heard) if heard else delay_s
        # A packet that is still on the way at the end does not count as lost.
        lost = 1 - len(heard) / len(own) if own and rate > 0 and window < len(rates) - 1 else 0.0
        at = window * step_ns
        steps.append(Step(at_ns=at, rate_bps=round(rate), delay_ns=round(delay_s * 1e9), loss=lost))
    return Trace(form="anabranch", length_ns=windows * step_ns, steps=tuple(steps), has_delays=True)
