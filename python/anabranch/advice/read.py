"""From the runs of an advice to its choice, its ranking, and its sentences about paths."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.advice import carry, spending
from anabranch.comparison import measures, paths
from anabranch.metrics.score import worst

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.advice.candidates import Candidate
    from anabranch.comparison.measures import Measure
    from anabranch.metrics.score import Score
    from anabranch.results.paired import Effect
    from anabranch.results.store import Row
    from anabranch.study.sweep import Sweep

#: How many candidates a table shows where there is little room.
SHOWN = 10
#: The verdicts on a path.
USE, LEAVE, UNDECIDED = "use", "do not add", "undecided"


@dataclass(kw_only=True)
class Evidence:
    """The results so far, of the runs of this advice.

    Attributes
    ----------
    score
        How a run becomes a number.
    exact
        Which candidates draw nothing: one run of them is all.
    scores, rows
        The results of each candidate, by the number of the trial.
    """

    score: Score
    exact: tuple[bool, ...]
    scores: dict[int, spending.Scores] = field(default_factory=dict)
    rows: dict[int, dict[int, Row]] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return sum(len(one) for one in self.rows.values())

    def has(self, place: int, run: int) -> bool:
        """Return whether a run is there."""
        return run in self.rows.get(place, {})

    def add(self, place: int, run: int, row: Row) -> None:
        """Take a run."""
        self.rows.setdefault(place, {})[run] = row
        self.scores.setdefault(place, {})[run] = self.score.of(row)

    def less(self, place: int, other: int) -> Effect:
        """Return what one candidate scores more than another, over pairs of trials with the same luck."""
        from dataclasses import replace

        from anabranch.results import paired

        exact = (self.exact[place], self.exact[other])
        found = paired.difference(*paired.matched(self.scores[place], self.scores[other], exact=exact))
        # If nothing is drawn, one pair is enough.
        return replace(found, low=found.value, high=found.value) if all(exact) else found

    def champion(self, candidates: Sequence[Candidate], names: set[str] | frozenset[str]) -> int | None:
        """Return the best candidate over exactly these paths."""
        places = range(len(candidates))
        return spending.champion(
            places, self.scores, self.exact, lambda one: set(candidates[one].paths) == names
        )

    def questions(self, candidates: Sequence[Candidate]) -> list[int]:
        """Return the candidates that matter behind the rounds.

        These are the best one and its last rival, the best with one path more or less, the best that a
        mainline kernel can carry out, with rules for outages and without, and the best without rules.
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
        found = [best, best_of(lambda one: one != best), best_of(in_kernel)]
        found += [self.champion(candidates, one) for one in _neighbours(candidates, candidates[best])]
        if any(map(has_rules, range(len(candidates)))):
            # One that had a single trial would lose to any that had two.
            found += [
                best_of(lambda one: in_kernel(one) and has_rules(one)),
                best_of(lambda one: in_kernel(one) and not has_rules(one)),
                best_of(lambda one: not has_rules(one)),
            ]
        return list(dict.fromkeys(one for one in found if one is not None))

    def choose(self, candidates: Sequence[Candidate], places: Sequence[int]) -> int:
        """Return what is advised: the best mean, or what is simpler and no worse by anything that matters.

        Simpler is to use fewer paths, then to need nothing but a mainline kernel, then to set no rules for
        outages. No worse is it when the 95 % interval of the paired difference ends below what matters.
        """
        best = spending.ranked(places, self.scores, self.exact)[0]
        matters = self.score.matters(spending.mean(self.scores[best]))

        def as_good(one: int) -> bool:
            effect = self.less(best, one)
            return one == best or (effect.high is not None and effect.high <= matters)

        ranks = {place: rank for rank, place in enumerate(spending.ranked(places, self.scores, self.exact))}

        def complexity(one: int) -> tuple[int, bool, bool, int]:
            which = candidates[one]
            return len(which.paths), not which.in_kernel, bool(which.outages.keys), ranks[one]

        return min(filter(as_good, places), key=complexity)


def _neighbours(candidates: Sequence[Candidate], chosen: Candidate) -> list[frozenset[str]]:
    """Return the sets of paths that have one more or one less than a candidate's."""
    own = frozenset(chosen.paths)
    known = dict.fromkeys(frozenset(one.paths) for one in candidates)
    return [names for names in known if len(names ^ own) == 1]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One candidate with its results.

    Attributes
    ----------
    candidate
        The candidate.
    trials
        How often; the best have the most.
    score
        Its mean score with its 95 % interval.
    worst
        The mean score of its worst tenth of trials, at least of one.
    risk
        The share of trials in which the picture froze or the session did not end; None of a transfer.
    means
        Mean of each measure that matters, by its column.
    """

    candidate: Candidate
    trials: int
    score: Effect
    worst: float
    risk: float | None
    means: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return it as an object for JSON."""
        one = self.candidate
        return {
            "paths": list(one.paths),
            "scheduler": one.scheduler,
            "congestion": one.congestion,
            "outages": one.outages.name,
            "in_mainline_kernel": one.in_kernel,
            "trials": self.trials,
            "score": {"mean": self.score.value, "low": self.score.low, "high": self.score.high},
            "worst_tenth": self.worst,
            "risk": self.risk,
            "means": dict(self.means),
        }


@dataclass(frozen=True, kw_only=True)
class OfPath:
    """The verdict on one path.

    Attributes
    ----------
    path
        The path.
    verdict
        `USE`, `LEAVE` (do not add it) or `UNDECIDED`.
    effect
        Difference in score between the best candidate with the path and the best without it; None if not
        compared.
    sentence
        The same in words.
    """

    path: str
    verdict: str
    effect: Effect | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The advice for a scenario.

    Attributes
    ----------
    scenario
        The scenario's name.
    choice
        The recommended candidate.
    kernel
        The best that a mainline kernel can carry out; None if no candidate can be.
    behind
        Difference in score between the choice and that; None if they are the same.
    ranked
        All candidates: the choice, then the others by their means less the standard error.
    of_paths
        The verdict on each path.
    plain
        The best without rules for outages, if the choice has some.
    gain
        Difference in score between the choice and that.
    measures
        The measures whose means are given.
    score
        How a run becomes a number.
    runs, exhaustive
        The runs that it took, and those of every candidate with every trial.
    toml
        The scenario that carries the advice out, for `anabranch run`.
    settings
        The commands for the hosts' own kernels that carry out `kernel`, with comments.
    gateway
        The command that carries out a choice that no mainline kernel can; empty otherwise.
    """

    scenario: str
    choice: Ranked
    kernel: Ranked | None
    behind: Effect | None
    ranked: tuple[Ranked, ...]
    of_paths: tuple[OfPath, ...]
    plain: Ranked | None
    gain: Effect | None
    measures: tuple[Measure, ...]
    score: Score
    runs: int
    exhaustive: int
    toml: str
    settings: str
    gateway: str

    @property
    def sentences(self) -> list[str]:
        """The advice, then a sentence for each path, and one for rules for outages."""
        one = self.choice
        risk = "" if one.risk is None else f"; {100 * one.risk:.0f} % of its trials froze or did not end"
        value = measures.score_text(one.score, self.score.unit)
        trials = f"{one.trials} trial{'s' if one.trials > 1 else ''}"
        first = f"use {one.candidate.name}: {value} over {trials}{risk}"
        found = [first, *(path.sentence for path in self.of_paths)]
        if self.plain is not None and self.gain is not None:
            change = measures.score_text(self.gain, self.score.unit, signed=True)
            over = f"{self.gain.pairs} trial{'s' if self.gain.pairs > 1 else ''}"
            rules = one.candidate.outages.word
            found.append(
                f"{rules} beside the best without, {self.plain.candidate.name}: {change} over {over}"
            )
        return found

    @property
    def left(self) -> int:
        """The columns of the table that name a candidate: one more if rules for outages were ranked."""
        return 4 if any(one.candidate.outages.keys for one in self.ranked) else 3

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and a line a candidate, as people read them."""
        unit, has_risk = self.score.unit, self.choice.risk is not None
        head = ["paths", "scheduler", "congestion", "outages"][: self.left]
        head += [f"score, {unit}", f"worst tenth, {unit}"]
        head += [*(["risk"] if has_risk else []), "trials", *(one.heading for one in self.measures)]
        lines = []
        for one in self.ranked:
            called, scheduler, congestion, outages = one.candidate.words
            means = [
                measure.number(one.means[measure.column]) if measure.column in one.means else "-"
                for measure in self.measures
            ]
            value = measures.score_text(one.score, unit).removesuffix(f" {unit}")
            risk = [f"{100 * (one.risk or 0):.0f} %"] if has_risk else []
            words = [called, scheduler or "-", congestion, outages or "-"][: self.left]
            lines.append([*words, value, f"{one.worst:,.2f}", *risk, str(one.trials), *means])
        return head, lines

    def steps(self) -> list[tuple[str, str]]:
        """Return what carries it out: each with a heading, a scenario, commands, or settings."""
        own = self.choice.candidate
        found = [("scenario, for `anabranch run`", self.toml)]
        if self.gateway:
            found.append((f"no mainline kernel has {carry.lacking(own)}: the gateway does", self.gateway))
        if self.kernel is not None:
            name = self.kernel.candidate.name
            cost = (
                ""
                if self.behind is None
                else f", {measures.score_text(self.behind, self.score.unit)} behind the choice"
            )
            which = "the choice" if self.behind is None else f"the best that it can do: {name}{cost}"
            found.append((f"with the kernel's own Multipath TCP, {which}", self.settings))
        return found

    def report(self, path: str | Path) -> Path:
        """Write the report, one HTML file that loads nothing, and return its path.

        Raises
        ------
        MissingError
            When it cannot be written.
        """
        from anabranch import report

        report.write_advice(Path(path), self)
        return Path(path)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the advice in sentences, and the best of the ranking."""
        from anabranch import _html

        head, lines = self.table()
        parts = [_html.heading(self.scenario, "what to use"), *map(_html.paragraph, self.sentences)]
        parts.append(_html.table(head, lines[:SHOWN], left=self.left))
        if len(lines) > SHOWN:
            parts.append(_html.paragraph(f"and {len(lines) - SHOWN} more candidates: .table() has all"))
        return _html.block(*parts)

    def to_json(self) -> dict[str, Any]:
        """Return all of it as an object for JSON."""
        return {
            "scenario": self.scenario,
            "score": {"unit": self.score.unit, "meaning": self.score.meaning},
            "runs": self.runs,
            "exhaustive_runs": self.exhaustive,
            "choice": self.choice.to_json(),
            "kernel": None if self.kernel is None else self.kernel.to_json(),
            "behind_choice": None if self.behind is None else _effect(self.behind),
            "paths": [
                {
                    "path": one.path,
                    "verdict": one.verdict,
                    "sentence": one.sentence,
                    "difference": None if one.effect is None else _effect(one.effect),
                }
                for one in self.of_paths
            ],
            "without_outage_rules": None if self.plain is None else self.plain.to_json(),
            "outage_rules_gain": None if self.gain is None else _effect(self.gain),
            "ranked": [one.to_json() for one in self.ranked],
            "toml": self.toml,
            "settings": self.settings,
            "gateway": self.gateway,
        }


def _effect(effect: Effect) -> dict[str, float | int | None]:
    """Return a difference with its interval."""
    return {"value": effect.value, "low": effect.low, "high": effect.high, "trials": effect.pairs}


def judged(sweep: Sweep, candidates: Sequence[Candidate], evidence: Evidence) -> Advice:
    """Return the advice that the runs give.

    Parameters
    ----------
    sweep
        The cells of the candidates.
    candidates
        The ranked candidates.
    evidence
        The runs.
    """
    places = evidence.questions(candidates)
    chosen = evidence.choose(candidates, places)
    kernel = spending.champion(places, evidence.scores, evidence.exact, lambda one: candidates[one].in_kernel)
    kernel = chosen if candidates[chosen].in_kernel else kernel
    plain = _plain(candidates, evidence, places, chosen)
    columns = evidence.rows[chosen][0]
    judging = tuple(one for one in measures.of(columns) if one.better and one not in measures.COUNTED)
    ranked = {place: _ranked(candidates[place], evidence, place, judging) for place in sorted(evidence.rows)}
    order = spending.ranked(list(ranked), evidence.scores, evidence.exact)
    others = [place for place in order if place != chosen]
    own = candidates[chosen]
    return Advice(
        scenario=columns["scenario"],
        choice=ranked[chosen],
        kernel=None if kernel is None else ranked[kernel],
        behind=None if kernel in (None, chosen) else evidence.less(chosen, kernel),
        ranked=tuple(ranked[place] for place in (chosen, *others)),
        of_paths=tuple(_of_path(name, candidates, evidence, chosen) for name in _names(candidates)),
        plain=None if plain is None else ranked[plain],
        gain=None if plain is None else evidence.less(chosen, plain),
        measures=judging,
        score=evidence.score,
        runs=evidence.runs,
        exhaustive=len(candidates) * sweep.trials,
        toml=carry.toml(sweep.cells[chosen]),
        settings="" if kernel is None else carry.kernel(candidates[kernel], sweep.cells[kernel]),
        gateway="" if own.in_kernel else carry.gateway(own),
    )


def _plain(
    candidates: Sequence[Candidate], evidence: Evidence, places: Sequence[int], chosen: int
) -> int | None:
    """Return the best candidate without rules for outages; None if the choice has none itself."""
    if not candidates[chosen].outages.keys:
        return None
    return spending.champion(
        places, evidence.scores, evidence.exact, lambda one: not candidates[one].outages.keys
    )


def _names(candidates: Sequence[Candidate]) -> list[str]:
    """Return all paths, in the scenario's order."""
    return list(dict.fromkeys(name for one in candidates for name in one.paths))


def _ranked(candidate: Candidate, evidence: Evidence, place: int, judging: Sequence[Measure]) -> Ranked:
    """Return a candidate with its results."""
    import numpy as np

    from anabranch.results import paired

    rows = [evidence.rows[place][run] for run in sorted(evidence.rows[place])]
    values = [evidence.score.of(row) for row in rows]
    means = {}
    for one in judging:
        found = [float(row[one.column]) for row in rows if row.get(one.column) is not None]
        if found:
            means[one.column] = sum(found) / len(found)
    wrong = sum(evidence.score.went_wrong(row) for row in rows)
    return Ranked(
        candidate=candidate,
        trials=len(rows),
        score=paired.difference(np.array(values)),
        worst=worst(values),
        risk=None if evidence.score.kind == "transfer" else wrong / len(rows),
        means=means,
    )


def _of_path(name: str, candidates: Sequence[Candidate], evidence: Evidence, chosen: int) -> OfPath:
    """Return the verdict on a path: the best with it compared with the best without it, else as advised."""
    own = frozenset(candidates[chosen].paths)
    is_used = name in own
    other = evidence.champion(candidates, own ^ {name})
    beside = paths.label([one for one in candidates[chosen].paths if one != name])
    if other is None:
        alone = is_used and len(own) == 1
        verdict = USE if alone else UNDECIDED
        text = f"use {name}" if alone else f"{name}: no set of paths tells whether it helps"
        return OfPath(path=name, verdict=verdict, effect=None, sentence=text)
    effect = evidence.less(chosen, other) if is_used else evidence.less(other, chosen)
    matters = evidence.score.matters(spending.mean(evidence.scores[chosen]))
    change = measures.score_text(effect, evidence.score.unit, signed=True)
    trials = f"{effect.pairs} trial{'s' if effect.pairs > 1 else ''}"
    if effect.low is not None and effect.low > 0:
        verdict, text = USE, f"use {name} beside {beside}: {change} over {trials}"
    elif effect.high is not None and effect.high < 0:
        verdict, text = LEAVE, f"do not add {name} to {beside}: it hurts, {change} over {trials}"
    elif effect.high is not None and effect.high <= matters:
        verdict, text = LEAVE, f"do not add {name} to {beside}: nothing is gained, {change} over {trials}"
    else:
        verdict = UNDECIDED
        text = f"{name} beside {beside} is undecided: {change} over {trials}; more --budget may tell"
    return OfPath(path=name, verdict=verdict, effect=effect, sentence=text)
