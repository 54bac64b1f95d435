"""Verdicts on the difference between two sides that ran with the same random draws.

`anabranch compare`, `anabranch advise` and the pages of sweeps share this one rule. The rule judges one
measure. The interval is Student's t over pairs of runs, at a level that is corrected for the number of
comparisons (Bonferroni). Between equal arms, the differences of pairs are symmetric. For these, the interval
is wide enough even with few runs.

| verdict | condition |
|---|---|
| helps, hurts | the interval excludes zero, and the difference matters |
| changes nothing | the whole interval is smaller than what matters |
| does not help | the interval ends below a gain that matters |
| undecided | any other |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch._distributions import student_quantile
from anabranch.results import paired

if TYPE_CHECKING:
    from collections.abc import Mapping

HELPS, HURTS, NOTHING, NO_GAIN = "helps", "hurts", "changes nothing", "does not help"
UNDECIDED = "undecided"

#: The permitted probability of a false verdict over all comparisons together.
ALPHA = 0.05
#: The fewest pairs that can give a verdict.
FEWEST = 3
#: The largest number of needed trials that is reported.
MOST = 1_000


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict on a difference.

    Attributes
    ----------
    verdict
        `HELPS`, `HURTS`, `NOTHING`, `NO_GAIN` or `UNDECIDED`.
    effect
        The difference with the interval that the verdict rests on.
    level
        The level of that interval: 0.95 for one comparison, higher for several.
    needed
        The trials that decide with a chance of 80 %, if mean and spread stay as they are; `FEWEST` if fewer
        than two pairs show no spread. None if the verdict is decided, or if more than `MOST` are needed.
    """

    verdict: str
    effect: paired.Effect
    level: float
    needed: int | None = None

    @property
    def is_decided(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict != UNDECIDED

    @property
    def advice(self) -> str:
        """The trials that an undecided verdict needs, in words; empty if there is a verdict."""
        if self.is_decided:
            return ""
        if self.needed is None:
            return f"more than {MOST:,} trials would be needed"
        if self.effect.pairs < 2:
            return f"at least {FEWEST} trials are needed"
        return f"about {self.needed:,} trials would decide"


def judge(
    left: Mapping[int, float],
    right: Mapping[int, float],
    *,
    better: int,
    matters: float,
    exact: tuple[bool, bool] = (False, False),
    comparisons: int = 1,
) -> Judgement:
    """Return the verdict on having `left` instead of `right`.

    Parameters
    ----------
    left, right
        A value by the number of the run.
    better
        1 if a higher value is better, -1 if a lower one is.
    matters
        The smallest difference that matters.
    exact
        Whether each side has no random draws. Such a side has one run, which is paired with all runs.
    comparisons
        How many comparisons are judged together.
    """
    alpha = ALPHA / max(1, comparisons)
    one, other = paired.matched(left, right, exact=exact)
    values = one - other
    count = int(values.size)
    if count == 0:
        nothing = paired.Effect(value=None, low=None, high=None, pairs=0, detectable=None)
        return Judgement(verdict=UNDECIDED, effect=nothing, level=1 - alpha, needed=FEWEST)
    value = float(values.mean())
    if all(exact) or (count >= FEWEST and paired.same(values)):
        spread, low, high = 0.0, value, value
    elif count < 2:
        effect = paired.Effect(value=value, low=None, high=None, pairs=count, detectable=None)
        return Judgement(verdict=UNDECIDED, effect=effect, level=1 - alpha, needed=FEWEST)
    else:
        spread = float(values.std(ddof=1))
        half = student_quantile(1 - alpha / 2, count - 1) * spread / count**0.5
        low, high = value - half, value + half
    effect = paired.Effect(value=value, low=low, high=high, pairs=count, detectable=paired.detectable(values))
    gains = (low, high) if better > 0 else (-high, -low)
    enough = all(exact) or count >= FEWEST
    verdict = _verdict(better * value, *gains, matters) if enough else UNDECIDED
    needed = _needed(better * value, spread, matters, alpha, count) if verdict == UNDECIDED else None
    return Judgement(verdict=verdict, effect=effect, level=1 - alpha, needed=needed)


def _verdict(gain: float, low: float, high: float, matters: float) -> str:
    """Return the verdict on a gain with its interval."""
    if low > 0 and gain >= matters:
        return HELPS
    if high < 0 and gain <= -matters:
        return HURTS
    if high > matters:
        return UNDECIDED
    return NOTHING if low >= -matters else NO_GAIN


def _needed(gain: float, spread: float, matters: float, alpha: float, count: int) -> int | None:
    """Return the trials that decide with a chance of `paired.POWER`; None for more than `MOST`.

    A gain that matters is decided when the interval excludes zero. Any other is decided when the interval
    ends below a gain that matters: a harm is at least known not to help.
    """
    margin = gain if gain >= matters else matters - gain

    def decides(trials: int) -> bool:
        points = (student_quantile(share, trials - 1) for share in (1 - alpha / 2, paired.POWER))
        return bool(sum(points) * spread <= margin * trials**0.5)

    few, enough = max(count, FEWEST - 1), MOST
    if not decides(MOST):
        return None
    # More trials decide what fewer do.
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if decides(middle) else (middle, enough)
    return enough
