"""Verdicts on the claims of a paper by stored results.

A comparison claims that a mean, a difference of means or a quotient of means lies in a region: a difference
larger than the smallest one that matters (`less`, `more`), one smaller than that (`equal`: two one-sided
tests), or a value within bounds. It holds if its 95 % interval lies in that region, and fails if the interval
lies outside. Either has a p-value, by Student's t over pairs. `_logic` combines comparisons to claims.
Benjamini and Hochberg's procedure bounds the share of false verdicts within a paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from anabranch._distributions import discoveries, student_below, student_quantile
from anabranch.claims import _logic, _tests, measure
from anabranch.claims._logic import Chance
from anabranch.claims.cells import Cell
from anabranch.claims.statement import STILL, VIEWER
from anabranch.claims.stored import is_seen
from anabranch.results import paired

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from anabranch.claims.statement import Comparison, Stated
    from anabranch.claims.stored import Endings
    from anabranch.results.paired import Values

Verdict = Literal["reproduced", "not reproduced", "undecided", "not testable", "inferred"]
#: The verdicts, in the order in which they are counted.
VERDICTS: tuple[Verdict, ...] = ("reproduced", "not reproduced", "undecided", "not testable", "inferred")

#: The share of verdicts of a paper that may be false: Benjamini and Hochberg's level.
ALPHA = 0.05
#: A claim is void if at least this share of a cell's runs never start, or do not reach the end.
VOID = 0.05
#: The smallest number of pairs on which a verdict can be based.
FEWEST = 3
#: The frequency of outcomes that equal pairs must exclude: one in five, because the papers had five trials.
#: Without a spread no test is possible. p is then the probability that an outcome of this frequency did not
#: occur.
_RARE = 0.2
#: The number of equal pairs from which such a p-value is below the level: 14.
EQUAL = math.ceil(math.log(ALPHA) / math.log(1 - _RARE))


class Evidence(Protocol):
    """The evidence for a claim: runs of cells, or their means."""

    def __contains__(self, cell: Cell) -> bool:
        """Return whether some run of a cell is there."""
        ...

    def is_exact(self, cell: Cell) -> bool:
        """Return whether a cell's values do not depend on random draws."""
        ...

    def values(self, cell: Cell, metric: measure.Metric) -> dict[int, float]:
        """Return a metric by the number of the run."""
        ...

    def each(self, cell: Cell, metric: measure.Metric) -> dict[int, float]:
        """Return a metric by the number of the run, also if the evidence is means."""
        ...

    def alike(self, left: Cell, right: Cell) -> bool:
        """Return whether two cells have the same runs, because their settings are equal."""
        ...

    def endings(self, cell: Cell) -> Endings:
        """Return how many runs of a cell ended early."""
        ...


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one comparison in one metric.

    Attributes
    ----------
    what
        A line with the compared cells, the metric and the claimed relation.
    effect
        The difference, quotient or mean.
    chance
        The p-values for the claim's being false and for its being true.
    exact
        Whether the cells have no random draws, so that no test is needed.
    note
        The reason if no verdict is possible.
    """

    what: str
    effect: paired.Effect
    chance: Chance
    exact: bool = False
    note: str = ""

    @property
    def state(self) -> str:
        """Return the verdict of the comparison alone."""
        if self.chance.false_if_holds <= ALPHA:
            return "holds"
        return "fails" if self.chance.false_if_fails <= ALPHA else "open"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A claim with its verdict.

    Attributes
    ----------
    stated
        The claim.
    verdict
        The verdict of the results. If a setting was inferred from the claim, the best verdict is `inferred`.
    findings
        The result of each comparison.
    q
        The adjusted p-value of the verdict; None if nothing was tested.
    note
        The reason if no verdict is possible.
    """

    stated: Stated
    verdict: Verdict
    findings: tuple[Finding, ...] = field(default=())
    q: float | None = None
    note: str = ""


def judge(claims: Sequence[Stated], runs: Evidence) -> list[Judged]:
    """Return the verdict on each claim of a paper.

    Parameters
    ----------
    claims
        All claims of the paper, because the share of false verdicts is bounded over all of them.
    runs
        The results.
    """
    ready: list[tuple[Stated, tuple[Finding, ...], Chance]] = []
    result: dict[str, Judged] = {}
    for one in claims:
        lacking = [cell for cell in one.cells() if cell not in runs]
        if one.claim.missing is not None:
            result[one.claim.id] = Judged(stated=one, verdict="not testable", note=one.claim.missing)
        elif lacking:
            note = f"{len(lacking)} of {len(one.cells())} cells were not run: {lacking[0].name}"
            result[one.claim.id] = Judged(stated=one, verdict="undecided", note=note)
        elif void := _void(one, runs):
            result[one.claim.id] = Judged(stated=one, verdict="undecided", note=void)
        else:
            findings, chance = weighed(one, runs)
            ready.append((one, findings, chance))
    levels = [level for *_, chance in ready for level in (chance.false_if_holds, chance.false_if_fails)]
    adjusted = discoveries(levels)
    for place, (one, findings, _) in enumerate(ready):
        holds, fails = adjusted[2 * place], adjusted[2 * place + 1]
        verdict: Verdict = "undecided"
        if holds <= ALPHA:
            verdict = "inferred" if one.claim.inferred is not None else "reproduced"
        elif fails <= ALPHA:
            verdict = "not reproduced"
        result[one.claim.id] = Judged(
            stated=one, verdict=verdict, findings=findings, q=min(holds, fails), note=one.claim.inferred or ""
        )
    return [result[one.claim.id] for one in claims]


def inferred(judged: Sequence[Judged], claims: Collection[str], why: str) -> list[Judged]:
    """Return verdicts in which some claims do not count as reproduced.

    Parameters
    ----------
    judged
        The verdicts.
    claims
        The claims that were used to choose the world.
    why
        The reason, for the page.
    """
    return [
        replace(one, verdict="inferred", note=why)
        if one.verdict == "reproduced" and one.stated.claim.id in claims
        else one
        for one in judged
    ]


def _void(one: Stated, runs: Evidence) -> str:
    """Return why a claim is void; empty if it is not.

    A claim is void if too many runs of a cell stand still or never started. A claim about the viewer is also
    void if too many runs did not reach the end.
    """
    seen = any(part.metric is None or is_seen(part.metric) for part in one.comparisons)
    for cell in one.cells():
        found = runs.endings(cell)
        counts = [(found.stalled, "stand still"), (found.unstarted, "never started")]
        counts += [(found.unreached, "did not reach the end")] if seen else []
        for short, what in counts:
            if short and short >= VOID * found.runs:
                return f"void: {short} of {found.runs} runs of {cell.name} {what}"
    return ""


def weighed(one: Stated, runs: Evidence, *, trials: int | None = None) -> tuple[tuple[Finding, ...], Chance]:
    """Return the results of a claim's comparisons, and their combination.

    With a number of trials, return the results that so many trials would have in four of five cases, if means
    and spreads are those of these runs. A void claim has no results.
    """
    if _void(one, runs):
        return (), _logic.UNKNOWN
    found = [_comparison(comparison, runs, trials) for comparison in one.comparisons]
    whole = _logic.at_least(one.needed, [chance for _, chance in found])
    return tuple(finding for findings, _ in found for finding in findings), whole


def _comparison(one: Comparison, runs: Evidence, trials: int | None) -> tuple[list[Finding], Chance]:
    """Return the results of a comparison in each of its metrics, and their combination."""
    if one.metric is not None:
        finding = _tested(one, one.metric, one.test, runs, trials)
        return [finding], finding.chance
    parsed = map(measure.parse, (*VIEWER, *STILL))
    # Results of an earlier build may lack some metrics.
    sides = [side for side in (one.of, one.than) if isinstance(side, Cell)]
    metrics = [
        metric
        for metric in parsed
        if isinstance(metric, measure.Metric)
        and (
            metric.text in VIEWER
            or (metric.text in one.by and all(runs.values(side, metric) for side in sides))
        )
    ]
    if one.test == "alike":
        found = [_tested(one, metric, "equal", runs, trials) for metric in metrics]
        return found, _logic.every([finding.chance for finding in found])
    # One of the metrics must be better, and the other not worse.
    wanted, feared = ("less", "more") if one.test == "better" else ("more", "less")
    gains = [_tested(one, metric, wanted, runs, trials) for metric in metrics]
    losses = [_tested(one, metric, feared, runs, trials) for metric in metrics]
    some = _logic.at_least(1, [finding.chance for finding in gains])
    return gains, _logic.every([some, *(finding.chance.turned() for finding in losses)])


@dataclass(frozen=True, kw_only=True)
class _Series:
    """The two sides of a comparison, run by run."""

    left: Values
    right: Values | None
    exact: bool


def _tested(
    one: Comparison, metric: measure.Metric, test: str, runs: Evidence, trials: int | None
) -> Finding:
    """Return the result of a comparison in one metric."""
    what = f"{_sides(one)}: {metric.text} {_wanted(one, metric, test)}"
    if isinstance(one.than, Cell) and runs.alike(one.of, one.than):
        effect = paired.Effect(value=None, low=None, high=None, pairs=0, detectable=None)
        note = "both sides are the same runs, because their settings are equal"
        return Finding(what=what, effect=effect, chance=_logic.UNKNOWN, note=note)
    if test == "share":
        return _share(one, metric, what, runs, trials)
    series = _series(one, metric, runs) if one.against is None else _quotients(one, metric, runs)
    if one.against is not None:
        effect = _tests.quotient(series.left)
    elif test == "ratio":
        effect = paired.quotient(series.left, series.left if series.right is None else series.right)
    else:
        effect = paired.difference(series.left, series.right)
    note = ""
    if effect.pairs == 0:
        note = "no run has this metric"
    elif effect.value is None:
        note = "nothing to divide by: the mean of what is compared with is zero"
    elif effect.pairs < FEWEST and not series.exact:
        note = f"too few pairs of runs: {effect.pairs}"
    if note:
        return Finding(what=what, effect=effect, chance=_logic.UNKNOWN, note=note)
    margins = list(_margins(one, metric, test, series))
    chances = [_one_sided(margin, exact=series.exact, trials=trials) for margin in margins]
    chance = _logic.every(chances)
    if trials is not None and not series.exact:
        # For the interval to agree, half as much must lie outside on either side.
        chance = Chance(
            false_if_holds=min(1.0, 2 * chance.false_if_holds),
            false_if_fails=min(1.0, 2 * chance.false_if_fails),
        )
    elif not series.exact:
        low, high = _region(one, metric, test)
        inside = (
            effect.low is not None and effect.high is not None and low <= effect.low <= effect.high <= high
        )
        outside = (
            effect.low is not None and effect.high is not None and (effect.high < low or high < effect.low)
        )
        # Both must agree: a test that assumes a normal mean, and an interval that does not.
        chance = Chance(
            false_if_holds=chance.false_if_holds if inside else 1.0,
            false_if_fails=chance.false_if_fails if outside else 1.0,
        )
    return Finding(what=what, effect=effect, chance=chance, exact=series.exact)


def _share(one: Comparison, metric: measure.Metric, what: str, runs: Evidence, trials: int | None) -> Finding:
    """Return the result of a comparison about a share of runs."""
    left, exact = runs.each(one.of, metric), runs.is_exact(one.of)
    if isinstance(one.than, Cell):
        ours, theirs = paired.matched(
            left, runs.each(one.than, metric), exact=(exact, runs.is_exact(one.than))
        )
        values, exact = ours - theirs, exact and runs.is_exact(one.than)
    else:
        values = _arranged(left)
    least, within = one.least or 0.0, one.within or (-math.inf, math.inf)
    counted, count = int((values >= least).sum()), values.size
    if count == 0:
        effect = paired.Effect(value=None, low=None, high=None, pairs=0, detectable=None)
        return Finding(what=what, effect=effect, chance=_logic.UNKNOWN, note="no run has this metric")
    effect = _tests.share(counted, count)
    if exact:
        holds = within[0] <= counted / count <= within[1]
        chance = Chance(false_if_holds=0.0 if holds else 1.0, false_if_fails=1.0 if holds else 0.0)
    elif count < FEWEST:
        note = f"too few pairs of runs: {count}"
        return Finding(what=what, effect=effect, chance=_logic.UNKNOWN, note=note)
    else:
        chance = _tests.share_within(counted, count, within, trials=trials)
    return Finding(what=what, effect=effect, chance=chance, exact=exact)


def _arranged(values: Mapping[int, float]) -> Values:
    """Return values in the order of their runs."""
    import numpy as np

    return np.array([value for _, value in sorted(values.items())], dtype=float)


def _quotients(one: Comparison, metric: measure.Metric, runs: Evidence) -> _Series:
    """Return the logarithm of a quotient of quotients, run by run."""
    import numpy as np

    sides = [runs.values(cell, metric) for cell in one.sides()]
    exact = [runs.is_exact(cell) for cell in one.sides()]
    drawn = [set(side) for side, same in zip(sides, exact, strict=True) if not same]
    numbers = sorted(set.intersection(*drawn)) if drawn else [0]
    filled = [
        dict.fromkeys(numbers, next(iter(side.values()))) if same and side else side
        for side, same in zip(sides, exact, strict=True)
    ]
    arrays = [np.array([side[number] for number in numbers if number in side]) for side in filled]
    whole = all(array.size == len(numbers) > 0 for array in arrays)
    values = _tests.logarithms(arrays) if whole else None
    return _Series(left=np.array([]) if values is None else values, right=None, exact=not drawn)


def _series(one: Comparison, metric: measure.Metric, runs: Evidence) -> _Series:
    """Return the two sides of a comparison over the runs that have the metric on both."""
    left = runs.values(one.of, metric)
    exact = runs.is_exact(one.of)
    if not isinstance(one.than, Cell):
        values = _arranged(left)
        than = 0.0 if one.than is None else one.than
        return _Series(left=values - than, right=None, exact=exact)
    right = runs.values(one.than, metric)
    other = runs.is_exact(one.than)
    ours, theirs = paired.matched(left, right, exact=(exact, other))
    return _Series(left=ours, right=theirs, exact=exact and other)


def _region(one: Comparison, metric: measure.Metric, test: str) -> tuple[float, float]:
    """Return the region in which the effect must lie."""
    if one.within is not None:
        return one.within
    by = one.by[metric.text]
    if test == "equal":
        return -by, by
    return (-math.inf, -by) if test == "less" else (by, math.inf)


def _margins(one: Comparison, metric: measure.Metric, test: str, series: _Series) -> Iterator[Values]:
    """For each bound, yield the distance of each pair from the bound, positive on the right side."""
    low, high = _region(one, metric, test)
    left, right = series.left, series.right
    if one.against is not None:
        low, high = (math.log(bound) if bound > 0 else -math.inf for bound in (low, high))
    if test == "ratio" and right is not None:
        sides = [left - low * right if math.isfinite(low) else None]
        sides += [high * right - left if math.isfinite(high) else None]
    else:
        values = left if right is None else left - right
        sides = [values - low if math.isfinite(low) else None, high - values if math.isfinite(high) else None]
    yield from (side for side in sides if side is not None)


def _one_sided(margin: Values, *, exact: bool, trials: int | None) -> Chance:
    """Return the p-values for and against a mean margin of at least zero."""
    count, mean = trials or margin.size, float(margin.mean())
    if exact:
        return Chance(false_if_holds=0.0 if mean >= 0 else 1.0, false_if_fails=1.0 if mean >= 0 else 0.0)
    if paired.same(margin):
        missed = (1 - _RARE) ** count
        return Chance(
            false_if_holds=missed if mean >= 0 else 1.0, false_if_fails=1.0 if mean >= 0 else missed
        )
    score = mean / (float(margin.std(ddof=1)) / count**0.5)
    if trials is not None:
        # In four of five cases, the score is at least this far from zero.
        away = student_quantile(paired.POWER, count - 1)
        score = math.copysign(max(0.0, abs(score) - away), score)
    return Chance(
        false_if_holds=student_below(-score, count - 1), false_if_fails=student_below(score, count - 1)
    )


def _sides(one: Comparison) -> str:
    """Return the cells of a comparison."""
    if isinstance(one.than, Cell):
        return f"{one.of.name} against {one.than.name}"
    return one.of.name


def _wanted(one: Comparison, metric: measure.Metric, test: str) -> str:
    """Return the claimed relation of a metric."""
    if one.against is not None and one.within is not None:
        other = f"{one.against[0].name} against {one.against[1].name}"
        return f"ratio, divided by that of {other}, within {one.within[0]:g} and {one.within[1]:g}"
    if test == "share" and one.within is not None:
        return f"at least {one.least:g} in a share of runs within {one.within[0]:g} and {one.within[1]:g}"
    if one.within is not None:
        kind = "ratio within" if test == "ratio" else "within"
        return f"{kind} {one.within[0]:g} and {one.within[1]:g}"
    than = f" than {one.than:g}" if isinstance(one.than, float) else ""
    return (
        f"{test}{than} by {one.by[metric.text]:g}" if test != "equal" else f"equal to {one.by[metric.text]:g}"
    )


def counted(judged: Sequence[Judged]) -> Mapping[Verdict, int]:
    """Return how many claims have each verdict."""
    return {verdict: sum(one.verdict == verdict for one in judged) for verdict in VERDICTS}
