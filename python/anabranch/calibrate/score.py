"""Shares of values within their targets over many settings, by kind of value and by any other property.

The denominator is the number of values with a target. A value that could not be compared counts as a miss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anabranch.calibrate.compare import Comparison
    from anabranch.calibrate.model import Measured, Setting


class Judged(NamedTuple):
    """A setting, and its figures."""

    setting: Setting
    comparisons: Sequence[Comparison]


class Share(NamedTuple):
    """How many of some values are within their targets."""

    inside: int
    of: int

    def __str__(self) -> str:
        """Return the share for a person: `8 of 10`."""
        return f"{self.inside} of {self.of}"

    @property
    def percent(self) -> float | None:
        """The share in percent; None if there are no values."""
        return 100 * self.inside / self.of if self.of else None


@dataclass(frozen=True, kw_only=True)
class Score:
    """Shares of some settings.

    Attributes
    ----------
    goodput, retransmissions, everything
        The shares for values with a target, by kind.
    worst_goodput
        The setting whose goodput deviates most, and its error in percent; None without goodput.
    """

    goodput: Share
    retransmissions: Share
    everything: Share
    worst_goodput: tuple[str, float] | None


def judged(measured: Sequence[Measured], compared: Sequence[Sequence[Comparison]]) -> list[Judged]:
    """Return settings with their figures."""
    return [Judged(one.setting, found) for one, found in zip(measured, compared, strict=True)]


def score(found: Iterable[Judged]) -> Score:
    """Return the shares of some settings."""
    of = [
        (one.setting, figure) for one in found for figure in one.comparisons if figure.verdict != "not judged"
    ]

    def share(belongs: Callable[[str], bool]) -> Share:
        kept = [figure for _, figure in of if belongs(figure.figure)]
        return Share(sum(figure.verdict == "ok" for figure in kept), len(kept))

    distances = [
        (setting.name, 100 * (figure.error or 0.0) / figure.kernel)
        for setting, figure in of
        if figure.figure == "goodput_mbps" and figure.kernel and figure.error is not None
    ]
    return Score(
        goodput=share(lambda name: name == "goodput_mbps"),
        retransmissions=share(lambda name: name.endswith("_retrans_segs")),
        everything=share(lambda _: True),
        worst_goodput=max(distances, key=lambda one: abs(one[1]), default=None),
    )


def by(found: Sequence[Judged], key: Callable[[Setting], str]) -> Mapping[str, Score]:
    """Return the scores of groups of settings with the same key, in the order of first occurrence."""
    groups: dict[str, list[Judged]] = {}
    for one in found:
        groups.setdefault(key(one.setting), []).append(one)
    return {name: score(members) for name, members in groups.items()}


def excess(figure: Comparison) -> float:
    """Return the error as a multiple of the permitted one; infinity if no error is permitted."""
    if not figure.allowed or figure.error is None:
        return math.inf
    return abs(figure.error) / figure.allowed


def worst(found: Iterable[Judged]) -> list[tuple[Setting, Comparison]]:
    """Return the values that miss their targets, the largest excess first."""
    missed = [
        (one.setting, figure) for one in found for figure in one.comparisons if figure.verdict == "miss"
    ]
    return sorted(missed, key=lambda one: excess(one[1]), reverse=True)


#: The head of `row`.
HEAD = ("", "goodput", "retransmissions", "all figures", "worst goodput")


def row(name: str, found: Score) -> tuple[str, ...]:
    """Return a score as cells under `HEAD`."""
    worst = found.worst_goodput
    return (
        name,
        str(found.goodput),
        str(found.retransmissions),
        str(found.everything),
        "" if worst is None else f"{worst[1]:+.1f} % ({worst[0]})",
    )


def sentence(found: Score) -> str:
    """Return a score as a sentence's part."""
    parts = [
        f"goodput {found.goodput}",
        f"all figures {found.everything}",
        f"retransmissions {found.retransmissions}",
    ]
    if found.worst_goodput is not None:
        name, percent = found.worst_goodput
        parts.append(f"worst goodput {percent:+.1f} % (`{name}`)")
    return ", ".join(parts)
