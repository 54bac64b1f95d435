"""The results of an advice's runs, the verdicts between candidates, and the choice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.advice import spending
from anabranch.comparison import measures, price
from anabranch.results import judging
from anabranch.results.judging import HELPS, HURTS, NO_GAIN, NOTHING, UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.advice.candidates import Candidate
    from anabranch.metrics.score import Score
    from anabranch.results.paired import Effect
    from anabranch.results.store import Row


@dataclass(kw_only=True)
class Evidence:
    """The results so far.

    Attributes
    ----------
    score
        The measure that ranks runs.
    exact
        The candidates without random draws: all their runs are equal, so each runs once.
    terms
        Prices, caps and weights of the scenario's paths.
    own
        The candidates with the scenario's own scheduler and congestion control, by their paths.
    scores, rows
        The results of each candidate, by the number of the trial.
    """

    score: Score
    exact: tuple[bool, ...]
    terms: price.Terms = price.NONE
    own: Mapping[frozenset[str], int] = field(default_factory=dict)
    scores: dict[int, spending.Scores] = field(default_factory=dict)
    rows: dict[int, dict[int, Row]] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """The number of runs so far."""
        return sum(len(one) for one in self.rows.values())

    def has(self, place: int, run: int) -> bool:
        """Return whether a run has a result."""
        return run in self.rows.get(place, {})

    def add(self, place: int, run: int, row: Row) -> None:
        """Add the result of a run."""
        self.rows.setdefault(place, {})[run] = row
        self.scores.setdefault(place, {})[run] = self.score.of(row)

    def judge(self, place: int, other: int, comparisons: int = 1) -> judging.Judgement:
        """Return the verdict on one candidate instead of another, over trials with the same random draws."""
        left, right = self.scores.get(place, {}), self.scores.get(other, {})
        before = sum(right.values()) / len(right) if right else 0.0
        return judging.judge(
            left,
            right,
            better=1,
            matters=self.score.matters(before),
            exact=(self.exact[place], self.exact[other]),
            comparisons=comparisons,
        )

    def less(self, place: int, other: int) -> Effect:
        """Return the difference in score between two candidates, with its 95 % interval."""
        return self.judge(place, other).effect

    def use(self, place: int, names: Sequence[str]) -> price.Use:
        """Return the data that a candidate carries, and its cost."""
        return self.terms.use(list(self.rows[place].values()), names)

    def is_told(self, place: int) -> bool:
        """Return whether a candidate has enough trials for a statement about it."""
        return bool(self.scores.get(place)) and (
            self.exact[place] or len(self.scores[place]) >= judging.FEWEST
        )

    def champion(self, candidates: Sequence[Candidate], names: set[str] | frozenset[str]) -> int | None:
        """Return the best candidate that uses exactly these paths."""
        places = range(len(candidates))
        return spending.champion(
            places, self.scores, self.exact, lambda one: set(candidates[one].paths) == names
        )

    def questions(self, candidates: Sequence[Candidate]) -> list[int]:
        """Return the candidates that need more trials after the rounds of selection.

        These are: the best candidate and the last one compared with it; the best with one path more or one
        less than the best candidate and than the choice; the kernel's defaults over the former sets of paths;
        the best that a mainline kernel can carry out, with and without rules for outages; and the best of all
        without such rules.
        """

        def best_of(suits: Callable[[int], bool]) -> int | None:
            return spending.champion(range(len(candidates)), self.scores, self.exact, suits)

        def in_kernel(one: int) -> bool:
            return candidates[one].in_kernel

        def has_rules(one: int) -> bool:
            return bool(candidates[one].outages.keys)

        best = best_of(lambda _: True)
        if best is None:
            return []
        found = [best, best_of(lambda one: one != best), *self.least_changed(candidates), best_of(in_kernel)]
        about = dict.fromkeys((best, self._choice(candidates, best)))
        for one in about:
            found += [self.champion(candidates, names) for names in neighbours(candidates, candidates[one])]
        if any(map(has_rules, range(len(candidates)))):
            # A candidate with a single trial would lose to any with two.
            found += [
                best_of(lambda one: in_kernel(one) and has_rules(one)),
                best_of(lambda one: in_kernel(one) and not has_rules(one)),
                best_of(lambda one: not has_rules(one)),
            ]
        return list(dict.fromkeys(one for one in found if one is not None))

    def _choice(self, candidates: Sequence[Candidate], best: int) -> int:
        """Return the choice among the candidates with enough trials; if these exceed caps, among all."""
        told = [one for one in self.rows if self.is_told(one)]
        has_within = any(not self.use(one, candidates[one].paths).over for one in told)
        places = told if has_within else list(self.rows)
        return self.choose(candidates, places) if places else best

    def least_changed(self, candidates: Sequence[Candidate]) -> list[int]:
        """Return the candidates with the least change: over the leader's paths, and one path more or less."""
        best = spending.champion(range(len(candidates)), self.scores, self.exact, lambda _: True)
        if best is None:
            return []
        own = frozenset(candidates[best].paths)
        found = []
        for names in (own, *neighbours(candidates, candidates[best])):
            same = (one for one in self.rows if set(candidates[one].paths) == names)
            found.append(min(same, key=lambda one: candidates[one].changes, default=best))
        return list(dict.fromkeys(found))

    def lacking_own(self, trials: int, told: int) -> list[tuple[int, int]]:
        """Return the missing runs of the scenario's own settings that a verdict on each path needs."""
        if not self.own:
            return []
        whole = max(self.own, key=len)
        places = [place for names, place in self.own.items() if len(names) >= len(whole) - 1]
        return spending.lacking(places, self.scores, self.exact, trials, told)

    def choose(self, candidates: Sequence[Candidate], places: Sequence[int]) -> int:
        """Return the advised candidate.

        Candidates that exceed a monthly cap are excluded, unless all do. The leader is the remaining
        candidate with the best mean. Candidates that are not relevantly worse are equal to the leader. So are
        candidates over the same paths that are close to it (`_is_close`). Of these, the one that needs the
        least change of the host is advised (`_order`). Fewer paths are advised only if the trials show that
        they are as good. At last, paths that the choice does not need are dropped (`_without_idle`).
        """
        ranks = {place: rank for rank, place in enumerate(spending.ranked(places, self.scores, self.exact))}
        within = [one for one in ranks if not self.use(one, candidates[one].paths).over]
        able = within or list(ranks)
        best = able[0]
        count = _comparisons(candidates, able)
        equal = [best]
        for one in able[1:]:
            verdict = self.judge(best, one, count).verdict
            is_no_worse = verdict in (NOTHING, NO_GAIN, HURTS)
            if is_no_worse or (verdict == UNDECIDED and self._is_close(candidates, best, one)):
                equal.append(one)
        chosen = min(equal, key=lambda one: (self._order(candidates, one), ranks[one]))
        return self._without_idle(candidates, able, chosen)

    def _without_idle(self, candidates: Sequence[Candidate], able: Sequence[int], chosen: int) -> int:
        """Return the choice without the paths that bring no gain by their own verdict.

        The choice may only be close to the leader, and so no better than a candidate with fewer paths. The
        verdict has the level of `anabranch.advice.of_path.verdicts`. A path stays if the candidates without
        it come later (`is_preferable`), or if the best one with it is better than they are.
        """
        paths = {name for one in candidates for name in one.paths}

        def compare(one: int, other: int) -> str:
            return self.judge(one, other, len(paths)).verdict

        dropped: int | None = chosen
        while dropped is not None:
            chosen, dropped = dropped, None
            own = frozenset(candidates[chosen].paths)
            best = next(one for one in able if set(candidates[one].paths) == own)
            for name in candidates[chosen].paths:
                fewer = [one for one in able if set(candidates[one].paths) == own - {name}]
                as_good = [
                    one
                    for one in fewer
                    if compare(chosen, one) in (NOTHING, NO_GAIN, HURTS)
                    and compare(best, one) != HELPS
                    and (compare(chosen, one) == HURTS or self.is_preferable(candidates, one, chosen))
                ]
                if as_good:
                    dropped = min(as_good, key=lambda one: (self._order(candidates, one), able.index(one)))
                    break
        return chosen

    def is_preferable(self, candidates: Sequence[Candidate], one: int, other: int) -> bool:
        """Return whether one candidate comes before another of equal quality."""
        return self._order(candidates, one) < self._order(candidates, other)

    def rivals(self, candidates: Sequence[Candidate], chosen: int) -> tuple[list[int], list[int]]:
        """Return two lists of candidates that are not distinguishable from the choice.

        The second list has the preferable candidates that need more trials to be judged as good or worse. The
        first list has all others. Both begin with the most preferable one (`_order`).
        """
        order = spending.ranked(list(self.rows), self.scores, self.exact)
        told = [one for one in order if one != chosen and self.is_told(one)]
        count = _comparisons(candidates, [chosen, *told])
        verdicts = {one: self.judge(chosen, one, count).verdict for one in told}
        found = [one for one in told if verdicts[one] not in (HELPS, HURTS)]
        found.sort(key=lambda one: self._order(candidates, one))
        own, same = self._order(candidates, chosen), set(candidates[chosen].paths)
        undecided = [
            one
            for one in found
            if verdicts[one] == UNDECIDED
            # Without prices and weights, no other paths are preferable.
            and (self.terms.has_order or set(candidates[one].paths) == same)
            and not self._is_close(candidates, chosen, one)
            and self._order(candidates, one) < own
        ]
        return [one for one in found if one not in undecided], undecided

    def doubt(self, candidates: Sequence[Candidate], place: int, chosen: int) -> str:
        """Return how much better the choice is than an undecided candidate, and the trials that decide."""
        told = [one for one in self.rows if self.is_told(one)]
        found = self.judge(chosen, place, _comparisons(candidates, told))
        change = measures.score_text(found.effect, self.score.unit, signed=True, level=found.level)
        return f"the choice has {change} over {found.effect.pairs} trials, {found.advice}"

    def _is_close(self, candidates: Sequence[Candidate], best: int, one: int) -> bool:
        """Return whether a candidate over the same paths is close to a better one.

        It is close if the mean difference is at most one standard error, or less than what matters. The first
        is after the rule of Breiman et al. for the choice of the simplest of several models (Classification
        and Regression Trees, 1984, 3.4.3). They use the standard error of the best one's estimate. Here it is
        that of the paired difference, because trials share random draws. With three trials this error is
        itself uncertain: a candidate that is far behind in one of them may count as close.
        """
        from anabranch.results import paired

        if set(candidates[one].paths) != set(candidates[best].paths) or not self.is_told(one):
            return False
        exact = (self.exact[best], self.exact[one])
        left, right = paired.matched(self.scores[best], self.scores[one], exact=exact)
        if left.size < judging.FEWEST:
            return False
        values = left - right
        error = values.std(ddof=1) / values.size**0.5
        return bool(values.mean() <= max(error, self.score.matters(float(right.mean()))))

    def _order(
        self, candidates: Sequence[Candidate], place: int
    ) -> tuple[bool, float, int, tuple[bool, int], float]:
        """Return the sort key of a candidate among those of equal quality.

        Candidates within their monthly caps come first, and then the least data on paths to avoid. Without
        prices and weights, fewer paths come next, then the least change of the host, and the lowest cost.
        """
        which = candidates[place]
        over, burden, cost = self.use(place, which.paths).order
        paths = 0 if self.terms.has_order else len(which.paths)
        return over, burden, paths, which.changes, cost


def _comparisons(candidates: Sequence[Candidate], places: Sequence[int]) -> int:
    """Return the comparisons of a choice: one for each rival, and at least one for each path."""
    return max(len({name for one in candidates for name in one.paths}), len(places) - 1)


def neighbours(candidates: Sequence[Candidate], chosen: Candidate) -> list[frozenset[str]]:
    """Return the sets of paths that differ from a candidate's by one path."""
    own = frozenset(chosen.paths)
    known = dict.fromkeys(frozenset(one.paths) for one in candidates)
    return [names for names in known if len(names ^ own) == 1]
