"""The expectations of a scenario (`[expect]`), and those that a run did not meet."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch import metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.scenario.models import Bounds


@dataclass(frozen=True, kw_only=True)
class Broken:
    """An expectation of a scenario (`[expect]`) that did not hold.

    Attributes
    ----------
    metric
        The metric's name in the scenario.
    expected
        The violated bound: `>= 5`.
    found
        The actual value; None if the run does not have this metric.
    """

    metric: str
    expected: str
    found: Any

    def __str__(self) -> str:
        """Return the expectation with the actual value."""
        return f"expected {self.metric} {self.expected}, found {self.found}"


def broken(
    expect: Mapping[str, Bounds],
    qoe: Mapping[str, Any] | None,
    qos: Mapping[str, Any],
    duration: float | None,
) -> list[Broken]:
    """Return the expectations that are not met.

    An expectation about a metric that the run lacks is not met.
    """
    result = []
    for name, bounds in expect.items():
        found = metrics.lookup(name, qoe=qoe, qos=qos, duration=duration)
        checks = (
            (bounds.min, ">=", found is not None and bounds.min is not None and found >= bounds.min),
            (bounds.max, "<=", found is not None and bounds.max is not None and found <= bounds.max),
            (bounds.equals, "=", found == bounds.equals),
        )
        for bound, sign, holds in checks:
            if bound is not None and not holds:
                result.append(Broken(metric=name, expected=f"{sign} {_plain(bound)}", found=found))
    return result


def _plain(bound: float | bool) -> str:  # noqa: FBT001 - a value to show
    """Return a bound in the scenario's notation."""
    return json.dumps(bound) if isinstance(bound, bool) else f"{bound:g}"
