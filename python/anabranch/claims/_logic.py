"""Chances of statements made of others: all of them, or at least so many.

Each statement has two p-values: of the data if it is false, which is small when they speak for it, and of
the data if it is true. For "at least k of m" they are those of partial conjunction (Benjamini and Heller,
2008, in Bonferroni's form).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Chance:
    """How well the data fit a statement.

    Attributes
    ----------
    false_if_holds
        The largest chance of such data if the statement is false: that saying "it holds" errs.
    false_if_fails
        The same if it is true: that saying "it fails" errs.
    """

    false_if_holds: float
    false_if_fails: float

    def turned(self) -> Chance:
        """Return the chance of the opposite."""
        return Chance(false_if_holds=self.false_if_fails, false_if_fails=self.false_if_holds)


#: The chance without evidence.
UNKNOWN = Chance(false_if_holds=1.0, false_if_fails=1.0)


def every(chances: Sequence[Chance]) -> Chance:
    """Return the chance that all of some statements hold."""
    return at_least(len(chances), chances)


def at_least(needed: int, chances: Sequence[Chance]) -> Chance:
    """Return the chance that at least so many of some statements hold."""
    count = len(chances)
    holds = sorted(chance.false_if_holds for chance in chances)
    fails = sorted(chance.false_if_fails for chance in chances)
    # It fails when at least `count - needed + 1` of them do.
    return Chance(
        false_if_holds=min(1.0, (count - needed + 1) * holds[needed - 1]),
        false_if_fails=min(1.0, needed * fails[count - needed]),
    )
