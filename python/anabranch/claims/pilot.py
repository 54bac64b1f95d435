"""A pilot estimates from a few runs with another seed how many trials a study's claims need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch.claims import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.claims.statement import Stated
    from anabranch.claims.stored import Runs

#: The largest number of trials that is considered. A claim that needs more concerns a tiny difference.
MOST = 1_000


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How many trials a claim needs.

    Attributes
    ----------
    claim
        Its name.
    trials
        The smallest number of trials that decides the claim in four cases of five, at 5 % and before p-values
        are adjusted, if means and spreads are the pilot's. It is 1 if nothing is drawn, and None if more than
        `MOST` are needed or no estimate is possible.
    outcome
        The outcome by the pilot's means.
    """

    claim: str
    trials: int | None
    outcome: Literal["holds", "fails", "unknown"]


def needed(stated: Sequence[Stated], runs: Runs) -> list[Needed]:
    """Return the number of trials for each claim that these runs can test."""
    testable = (one for one in stated if one.claim.missing is None)
    return [_needed(one, runs) for one in testable if all(cell in runs for cell in one.cells())]


def _needed(one: Stated, runs: Runs) -> Needed:
    def decides(trials: int) -> Literal["holds", "fails", "unknown"]:
        _, chance = judge.weighed(one, runs, trials=trials)
        if chance.false_if_holds <= judge.ALPHA:
            return "holds"
        return "fails" if chance.false_if_fails <= judge.ALPHA else "unknown"

    if all(runs.is_exact(cell) for cell in one.cells()):
        return Needed(claim=one.claim.id, trials=1, outcome=decides(judge.FEWEST))
    outcome = decides(MOST)
    if outcome == "unknown":
        return Needed(claim=one.claim.id, trials=None, outcome=outcome)
    # If a number of trials decides a claim, every larger number does too.
    few, enough = judge.FEWEST - 1, MOST
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if decides(middle) == outcome else (middle, enough)
    return Needed(claim=one.claim.id, trials=enough, outcome=outcome)
