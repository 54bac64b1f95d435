"""The smallest scheduler: the rule of `min-rtt` in Python.

anabranch run two-paths --scheduler examples/python/lowest_rtt.py:LowestRtt
"""

from anabranch.plugins import candidates


class LowestRtt:
    """The smallest smoothed RTT among the subflows with window space."""

    def schedule(self, request, subflows):
        free = [subflow for subflow in candidates(subflows) if subflow.can_send]
        return min(free, key=lambda subflow: subflow.srtt_ms, default=None)
