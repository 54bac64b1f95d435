"""Spending runs where they decide: sequential halving on common random numbers.

All candidates get a few trials, the better half of them some more, and so on until two are left. It is
sequential halving (Z. Karnin, T. Koren, O. Somekh, "Almost Optimal Exploration in Multi-Armed Bandits", ICML
2013; T. Lattimore, C. Szepesvari, "Bandit Algorithms", 2020, algorithm 21), with two changes. Trials are
kept from round to round. And trial 3 has the same random draws for every candidate, so that candidates are
compared on the same trials, whose common luck cancels out.

A share of the runs is kept for what follows: what each path that is advised or left out does, and the best
that a mainline kernel can carry out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: The share of all runs that is kept for the questions behind the choice.
KEPT = 0.2
#: Scores of a candidate by the number of the trial.
Scores = dict[int, float]


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round.

    Attributes
    ----------
    candidates
        How many are left.
    trials
        How many trials each of them has when the round is over.
    """

    candidates: int
    trials: int


def rounds(number: int, budget: int, trials: int) -> list[Round]:
    """Return the rounds that a number of candidates goes through.

    Parameters
    ----------
    number
        How many candidates there are.
    budget
        The most runs, at least one a candidate.
    trials
        The most trials of a candidate.
    """
    if number == 1:
        return [Round(candidates=1, trials=min(budget, trials))]
    sizes = [number]
    while sizes[-1] > 2:
        sizes.append(math.ceil(sizes[-1] / 2))
    spend = max(number, int(budget * (1 - KEPT)))
    # A single trial would send half of the candidates away on one draw of luck.
    first = max(spend // (len(sizes) * number), 2 if spend >= 4 * number else 1)
    found = [Round(candidates=number, trials=min(first, trials))]
    left = spend - first * number
    for place, size in enumerate(sizes[1:], start=1):
        more = left // ((len(sizes) - place) * size)
        left -= more * size
        found.append(Round(candidates=size, trials=min(found[-1].trials + more, trials)))
    return found


def asked(
    plan: Sequence[Round],
    scores: Mapping[int, Scores],
    exact: Sequence[bool],
) -> Iterator[list[tuple[int, int]]]:
    """Yield the runs of one round after the other, as candidate and trial; scores are there when asked again.

    Parameters
    ----------
    plan
        The rounds.
    scores
        What came of each candidate; filled by whoever runs.
    exact
        The candidates that draw nothing: one run is all of them.
    """
    left = list(range(len(exact)))
    before = 0
    for one in plan:
        left = better(left, scores, exact, before)[: one.candidates]
        before = one.trials
        yield [(place, run) for run in range(one.trials) for place in left if run == 0 or not exact[place]]


def better(
    left: Sequence[int], scores: Mapping[int, Scores], exact: Sequence[bool], trials: int | None = None
) -> list[int]:
    """Return candidates by their means over the trials that all of them have, the best first.

    Those that are alike stay in their order.

    Parameters
    ----------
    left
        The candidates.
    scores, exact
        Of all candidates: what came of them, and which draw nothing.
    trials
        How many trials to look at, from the first; None is as many as all of them have.
    """
    shared = common(left, scores, exact) if trials is None else trials
    return sorted(left, key=lambda place: -mean(scores.get(place, {}), shared, exact=exact[place]))


def told(
    places: Sequence[int], have: Mapping[int, Scores], exact: Sequence[bool], left: int, trials: int
) -> int:
    """Return how many trials each of some candidates can have with what is left of the runs.

    Parameters
    ----------
    places
        The candidates.
    have, exact
        Of all candidates: what came of them, and which draw nothing.
    left
        The runs that are left.
    trials
        The most trials of a candidate.
    """
    drawn = [place for place in places if not exact[place]]
    found = common(drawn, have, exact)
    while found < trials and sum(max(0, found + 1 - count(have.get(one, {}))) for one in drawn) <= left:
        found += 1
    return found


def common(left: Sequence[int], scores: Mapping[int, Scores], exact: Sequence[bool]) -> int:
    """Return how many trials, from the first, all candidates have that draw anything."""
    counts = [count(scores.get(place, {})) for place in left if not exact[place]]
    return min(counts, default=1)


def count(scores: Scores) -> int:
    """Return how many trials from the first there are."""
    found = 0
    while found in scores:
        found += 1
    return found


def mean(scores: Scores, trials: int | None = None, *, exact: bool = False) -> float:
    """Return the mean of the first trials, or of all; without any it is less than everything."""
    if exact:
        return scores.get(0, -math.inf)
    values = [score for run, score in scores.items() if trials is None or run < trials]
    return sum(values) / len(values) if values else -math.inf


def champion(
    places: Sequence[int], scores: Mapping[int, Scores], exact: Sequence[bool], suits: Callable[[int], bool]
) -> int | None:
    """Return the best of the candidates that suit: of those that stayed longest, by the mean."""
    found = [place for place in places if suits(place) and scores.get(place)]
    if not found:
        return None
    longest = max(count(scores[place]) for place in found)
    stayed = [place for place in found if exact[place] or count(scores[place]) == longest]
    return better(stayed, scores, exact)[0]
