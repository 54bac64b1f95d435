"""Allocation of runs: one trial of each candidate, then more of the leader and of its closest rival.

All candidates get one trial. The next runs go to the leader or to its closest rival, which has the smallest
difference from it in standard errors. Of the two, the one whose next trial reduces the error more gets it. A
candidate far behind gets no further trial. Of two close candidates, the one with the larger variance gets
more. It is a top-two rule (D. Russo, "Simple Bayesian Algorithms for Best Arm Identification", COLT 2016)
with the allocation of C.-H. Chen, J. Lin, E. Yucesan, S. Chick, "Simulation Budget Allocation for Further
Enhancing the Efficiency of Ordinal Optimization", Discrete Event Dynamic Systems 10, 2000.

Trial 3 has the same random draws for every candidate. The correlation of two candidates is estimated from the
trials that both have. If one has fewer trials, its mean is corrected with the additional trials of the other,
in proportion to the correlation (T. Anderson, "Maximum Likelihood Estimates for a Multivariate Normal
Distribution when some Observations are Missing", JASA 52, 1957).

Two or three trials estimate variances and covariances poorly. Both are shrunk towards those of all
candidates, by a fixed weight, as in G. Smyth, "Linear Models and Empirical Bayes Methods for Assessing
Differential Expression in Microarray Experiments", 2004.

Some runs are reserved for further statements: the effect of each path, and the best candidate that a mainline
kernel can carry out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: The fewest and the most trials that are reserved for a statement about a candidate.
TOLD = (3, 10)
#: The trials of one candidate take at most the budget divided by this.
_TOLD_SHARE = 20
#: The weight, in trials, of the pooled estimate in a candidate's variance and in a correlation.
_WEIGHT = 10
#: The largest correlation of two candidates that is used.
_ALIKE = 0.999
#: With several processes: the finished runs for each run of a batch.
_DONE_PER_RUN = 16
#: Scores of a candidate by the number of the trial.
Scores = dict[int, float]


class Standing:
    """Estimates of the mean and the variance of each candidate that was tried.

    Parameters
    ----------
    scores
        The results of each candidate.
    exact
        The candidates without random draws.

    Attributes
    ----------
    means
        The mean of each, corrected with the additional trials of others; minus infinity without a trial.
    surely
        The means minus their standard errors, so that two lucky trials do not put a candidate first.
    spread
        The variance of the trials of each.
    """

    def __init__(self, scores: Mapping[int, Scores], exact: Sequence[bool]) -> None:
        self._scores = [scores.get(place, {}) for place in range(len(exact))]
        self._exact = exact
        self.spread = self._variances()
        self._most = max(range(len(exact)), key=lambda place: len(self._scores[place]))
        self._common = 0.0
        self._common = self._pooled()
        self.means: list[float] = []
        self.surely: list[float] = []
        for place, own in enumerate(self._scores):
            value, variance = self._estimate(place) if own else (-math.inf, 0.0)
            self.means.append(value)
            self.surely.append(value - math.sqrt(variance))

    def _variances(self) -> list[float]:
        """Return the variance of each candidate's trials, shrunk towards the pooled variance."""
        drawn = [place for place, own in enumerate(self._scores) if own and not self._exact[place]]
        squares = {place: _products(self._scores[place], self._scores[place]) for place in drawn}
        free = {place: len(self._scores[place]) - 1 for place in drawn}
        total = sum(free.values())
        pooled = sum(squares.values()) / total if total else 0.0
        return [
            (_WEIGHT * pooled + squares[place]) / (_WEIGHT + free[place]) if place in squares else 0.0
            for place in range(len(self._scores))
        ]

    def _pooled(self) -> float:
        """Return the correlation of all candidates with the one that has the most trials.

        With few common trials, it is shrunk towards zero.
        """
        both = own = other = free = 0.0
        for place in range(len(self._scores)):
            if place != self._most:
                sums = self._sums(place, self._most)
                both, own, other = both + sums[0], own + sums[1], other + sums[2]
                free += max(0, sums[3] - 1)
        return _share(both, own, other, 0.0) * free / (free + _WEIGHT)

    def _sums(self, one: int, other: int) -> tuple[float, float, float, int]:
        """Return the sums of products and squares over the common trials of two candidates, and the count."""
        shared = self._scores[one].keys() & self._scores[other].keys()
        left, right = ({run: self._scores[place][run] for run in shared} for place in (one, other))
        if not shared:
            return 0.0, 0.0, 0.0, 0
        return _products(left, right), _products(left, left), _products(right, right), len(shared)

    def alike(self, one: int, other: int) -> float:
        """Return the correlation of two candidates, at least 0."""
        if self._exact[one] or self._exact[other]:
            return 0.0
        both, left, right, shared = self._sums(one, other)
        if shared < 2:
            return self._common
        seen = _share(both, left, right, self._common)
        return (_WEIGHT * self._common + (shared - 1) * seen) / (_WEIGHT + shared - 1)

    def slope(self, one: int, other: int, alike: float) -> float:
        """Return the regression slope of one candidate's score on another's."""
        return alike * math.sqrt(self.spread[one] / self.spread[other]) if self.spread[other] else 0.0

    def _estimate(self, place: int) -> tuple[float, float]:
        """Return a candidate's mean, corrected for its missing trials, and the variance of this mean."""
        own, most = self._scores[place], self._scores[self._most]
        plain, spread = mean(own), self.spread[place]
        shared = own.keys() & most.keys()
        if place == self._most or not shared:
            return plain, spread / len(own)
        alike = self.alike(place, self._most)
        luck = mean(most) - mean({run: most[run] for run in shared})
        value = plain + self.slope(place, self._most, alike) * luck
        return value, spread * ((1 - alike**2) / len(own) + alike**2 / max(len(own), len(most)))


def _products(left: Scores, right: Scores) -> float:
    """Return the sum of the products of the deviations from the means, over common trials."""
    one, other = mean(left), mean(right)
    return sum((left[run] - one) * (right[run] - other) for run in left)


def _share(both: float, left: float, right: float, otherwise: float) -> float:
    """Return the correlation, at least 0, for given sums."""
    return min(_ALIKE, max(0.0, both / math.sqrt(left * right))) if left > 0 and right > 0 else otherwise


def steps(
    scores: Mapping[int, Scores],
    exact: Sequence[bool],
    budget: int,
    trials: int,
    kept: Callable[[], int] = lambda: 0,
) -> Iterator[list[tuple[int, int]]]:
    """Yield the runs step by step, as candidate and trial. The caller adds their scores before the next step.

    Parameters
    ----------
    scores
        The results of each candidate; filled by the caller.
    exact
        The candidates without random draws, of which one run is enough.
    budget
        The most runs, at least one per candidate.
    trials
        The most trials of a candidate.
    kept
        A function that returns how many runs of the budget are to be reserved.
    """
    places = range(len(exact))
    yield [(place, 0) for place in places]
    while True:
        have = [1 if exact[place] else count(scores[place]) for place in places]
        left = budget - kept() - sum(len(scores[place]) for place in places)
        step = _next(scores, exact, have, trials, min(max(1, sum(have) // _DONE_PER_RUN), left))
        if not step:
            return
        yield step


def _next(
    scores: Mapping[int, Scores], exact: Sequence[bool], have: Sequence[int], trials: int, size: int
) -> list[tuple[int, int]]:
    """Return the next runs. Within a batch, only the standard errors are updated, not the means."""
    places = range(len(exact))
    stand = Standing(scores, exact)
    most = [1 if is_exact else trials for is_exact in exact]
    given = list(have)
    found: list[tuple[int, int]] = []
    lead = max(places, key=stand.surely.__getitem__)
    alike = [stand.alike(lead, one) for one in places]

    def parts(one: int) -> dict[int, float]:
        """Return the parts of the leader and of another candidate in the variance of their difference."""
        more, fewer = (lead, one) if given[lead] >= given[one] else (one, lead)
        slope = stand.slope(fewer, more, alike[one])
        return {
            more: (1 - slope) ** 2 * stand.spread[more],
            fewer: (1 - alike[one] ** 2) * stand.spread[fewer],
        }

    def distance(one: int) -> tuple[float, float]:
        error = math.sqrt(sum(part / given[place] for place, part in parts(one).items()))
        apart = stand.means[lead] - stand.means[one]
        # Without any variance, the candidate with the smaller difference is the closer one.
        return (apart / error if error > 0 else math.copysign(math.inf, apart), apart)

    while len(found) < size:
        able = [one for one in places if given[one] < most[one]]
        rivals = able if lead not in able else list(places)
        near = min((one for one in rivals if one != lead), key=distance, default=lead)
        pair = parts(near) if near != lead else {lead: 0.0}
        # Each needs two trials before its variance can be estimated.
        to = max(
            (one for one in pair if given[one] < most[one]),
            key=lambda one: (given[one] < 2, pair[one] / (given[one] * (given[one] + 1)), -given[one]),
            default=None,
        )
        if to is None:
            break
        found.append((to, given[to]))
        given[to] += 1
    return found


def ranked(places: Sequence[int], scores: Mapping[int, Scores], exact: Sequence[bool]) -> list[int]:
    """Return candidates by mean minus standard error, the best first.

    Equal ones keep their order.
    """
    surely = Standing(scores, exact).surely
    return sorted(places, key=lambda place: -surely[place])


def champion(
    places: Sequence[int], scores: Mapping[int, Scores], exact: Sequence[bool], suits: Callable[[int], bool]
) -> int | None:
    """Return the best suitable candidate with two trials; if none has two, the best with one."""
    found = [place for place in places if suits(place) and scores.get(place)]
    twice = [place for place in found if exact[place] or len(scores[place]) > 1]
    return ranked(twice or found, scores, exact)[0] if found else None


def told(budget: int) -> int:
    """Return the number of trials that a budget reserves for a statement about a candidate."""
    return min(TOLD[1], max(TOLD[0], budget // _TOLD_SHARE))


def lacking(
    places: Sequence[int],
    scores: Mapping[int, Scores],
    exact: Sequence[bool],
    trials: int,
    told: int = TOLD[0],
) -> list[tuple[int, int]]:
    """Return the runs that the candidates to report on still lack, trial by trial.

    Parameters
    ----------
    places
        The candidates.
    scores, exact
        The results of all candidates, and those without random draws.
    trials
        The most trials of a candidate.
    told
        The number of trials that a candidate needs before a sentence may name it.
    """
    return [
        (place, run)
        for run in range(min(told, trials))
        for place in places
        if run not in scores.get(place, {}) and (run == 0 or not exact[place])
    ]


def count(scores: Scores) -> int:
    """Return the number of consecutive trials, counted from the first."""
    found = 0
    while found in scores:
        found += 1
    return found


def mean(scores: Scores) -> float:
    """Return the mean of all trials; minus infinity if there are none."""
    return sum(scores.values()) / len(scores) if scores else -math.inf
