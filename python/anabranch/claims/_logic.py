"""Combines the p-values of statements: all of them must hold, or at least a number of them.

Each statement has two p-values: one for the data if the statement is false, and one if it is true. A small
first value speaks for the statement. For "at least k of m", the p-values are those of partial conjunction
(Benjamini and Heller, 2008, in Bonferroni's form).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Chance:
    """The p-values of a statement.

    Attributes
    ----------
    false_if_holds
        The largest probability of such data if the statement is false, that is, of the error of calling it
        true.
    false_if_fails
        The largest probability of such data if the statement is true, that is, of the error of calling it
        false.
    """

    false_if_holds: float
    false_if_fails: float

    def turned(self) -> Chance:
        """Return the p-values of the opposite statement."""
        return Chance(false_if_holds=self.false_if_fails, false_if_fails=self.false_if_holds)


#: The p-values without evidence.
UNKNOWN = Chance(false_if_holds=1.0, false_if_fails=1.0)


def every(chances: Sequence[Chance]) -> Chance:
    """Return the p-values of the statement that all of some statements hold."""
    return at_least(len(chances), chances)


def at_least(needed: int, chances: Sequence[Chance]) -> Chance:
    """Return the p-values of the statement that at least `needed` of some statements hold."""
    count = len(chances)
    holds = sorted(chance.false_if_holds for chance in chances)
    fails = sorted(chance.false_if_fails for chance in chances)
    # It fails if at least `count - needed + 1` of the statements fail.
    return Chance(
        false_if_holds=min(1.0, (count - needed + 1) * holds[needed - 1]),
        false_if_fails=min(1.0, needed * fails[count - needed]),
    )
