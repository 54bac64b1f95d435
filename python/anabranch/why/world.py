"""The capacity of each path over time, from a run's plan."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from anabranch._unfinished import DOWN, UP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Bytes of payload of a full segment, with the usual options.
SEGMENT = 1424
#: The share of a link's rate that is payload, of packets of 1,500 bytes.
_PAYLOAD = SEGMENT / 1500


class Paths:
    """The capacity of paths.

    Parameters
    ----------
    plan
        The run's plan.
    seen_bps
        For each path the fastest that it was seen to carry: of a path whose links have no rate of their own,
        as those of models, this stands for it.
    changes
        The changes of links and interfaces in the trace.
    """

    def __init__(
        self, plan: Mapping[str, Any], seen_bps: Mapping[str, float], changes: Sequence[Mapping[str, Any]]
    ) -> None:
        links = {link["name"]: link.get("rate_bps") for link in plan["links"]}
        # Plain TCP runs over one path, usually the first.
        multipath = plan.get("transport", {}).get("multipath", True)
        paths = [path for path in plan["paths"] if multipath or seen_bps.get(path["name"])] or plan["paths"][
            :1
        ]
        self._ways = {path["name"]: tuple(path["down"]) for path in paths}
        self._both = {path["name"]: (*path["down"], *path["up"]) for path in paths}
        self._seen = seen_bps
        self._rates: dict[str, list[tuple[float, float | None]]] = {
            name: [(0.0, rate)] for name, rate in links.items()
        }
        for event in plan["events"]:
            change = event.get("change")
            if isinstance(change, dict) and "rate_bps" in change and event.get("link") in self._rates:
                self._rates[event["link"]].append((event["at_ns"] / 1e9, change["rate_bps"]))
        self._states: dict[str, list[tuple[float, bool]]] = {}
        for row in sorted(changes, key=lambda row: row["t_s"]):
            what = row["what"]
            if what in DOWN or what in UP:
                self._states.setdefault(row["link"], []).append((row["t_s"], what in DOWN))

    @property
    def names(self) -> list[str]:
        """The paths."""
        return list(self._ways)

    def is_down(self, path: str, at_s: float) -> bool:
        """Return whether a path is cut: a link of it either way, or the client's interface."""
        return any(
            _at(self._states[name], at_s, otherwise=False)
            for name in (path, *self._both[path])
            if name in self._states
        )

    def bps(self, path: str, at_s: float) -> float:
        """Return what a path could carry while it is up, in bits of payload a second."""
        rates = [_at(self._rates[link], at_s, otherwise=None) for link in self._ways[path]]
        known = [rate * _PAYLOAD for rate in rates if rate is not None]
        return min(known) if known else self._seen.get(path, 0.0)


def _at(steps: Sequence[tuple[float, Any]], at_s: float, *, otherwise: Any) -> Any:  # noqa: ANN401
    """Return the last value that began by a time."""
    place = bisect_right([begun for begun, _ in steps], at_s)
    return steps[place - 1][1] if place else otherwise
