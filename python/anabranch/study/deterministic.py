"""Whether anything in a plan is left to chance: what draws nothing has the same numbers in every run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Parts that never draw. Any other part may draw: a model of a link, a queue that manages itself, an
#: impairment, a congestion control with a random stream, a plug-in of the user's.
_LINK = {"name", "rate_bps", "queue", "delay_ns", "jitter_ns", "loss", "loss_at"}
_QUEUE = {"packets", "bytes"}
_EVENT = {"at_ns", "path", "link", "interface", "state", "rate_bps", "delay_ns", "queue"}
_CONTROLS = {"balia", "ccp", "ccpd", "compound", "cubic", "lia", "olia", "reno", "wvegas"}


def draws_nothing(plan: Mapping[str, Any], again: Mapping[str, Any], sources: Mapping[str, str]) -> bool:
    """Return whether all runs of a plan come out the same; False when that is not certain.

    Parameters
    ----------
    plan, again
        The plans of two runs: what the plan itself draws, as the moment of a handoff, differs between them.
    sources
        The plug-ins that do not come with the program.
    """
    return (
        not sources
        # Where in a tick of the hosts' clocks a run begins is drawn unless it is given.
        and plan["host"].get("clock_phase_ns") is not None
        and {**plan, "run": None} == {**again, "run": None}
        and plan["clients"] == 1
        and not plan["cross_traffic"]
        and all(map(_is_plain, plan["links"]))
        and all(event.keys() <= _EVENT for event in plan["events"])
        and json.loads(plan["transport"]["congestion"])["name"] in _CONTROLS
    )


def _is_plain(link: Mapping[str, Any]) -> bool:
    """Return whether a link has a rate, a delay and a queue that drops at its end, and nothing else."""
    queue = link.get("queue")
    return (
        link.keys() <= _LINK
        and not link.get("jitter_ns")
        and not link.get("loss")
        and (queue is None or queue.keys() <= _QUEUE)
    )
