"""Finds out whether a plan draws anything at random.

A plan without draws has the same results in every run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Parts of a link that never draw. Any other part may draw: a model of a link, a queue that manages itself,
#: an impairment, a congestion control with a random stream, a plug-in of the user's.
_LINK = {"name", "rate_bps", "queue", "delay_ns", "jitter_ns", "loss", "loss_at"}
_QUEUE = {"packets", "bytes"}
_EVENT = {"at_ns", "path", "link", "interface", "state", "rate_bps", "delay_ns", "queue"}
_CONTROLS = {"balia", "ccp", "ccpd", "compound", "cubic", "lia", "olia", "reno", "wvegas"}


def draws_nothing(plan: Mapping[str, Any], again: Mapping[str, Any], sources: Mapping[str, str]) -> bool:
    """Return whether all runs of a plan are the same; False if this is not certain.

    Parameters
    ----------
    plan, again
        The plans of two runs. Values that the plan itself draws, such as the moment of a handoff, differ
            between them.
    sources
        The plug-ins that do not come with the program.
    """
    return (
        not sources
        # The phase of the hosts' clocks is drawn at random unless it is given.
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
