"""The choice, the ranking and the sentences of an advice, computed from its runs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.advice import carry, known, of_path, outages, spending
from anabranch.comparison import fidelity, measures
from anabranch.metrics.score import RATE, WAITING, worst
from anabranch.results.judging import FEWEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.advice.candidates import Candidate
    from anabranch.advice.evidence import Evidence
    from anabranch.advice.of_path import OfPath
    from anabranch.comparison import price
    from anabranch.comparison.measures import Measure
    from anabranch.metrics.score import Score
    from anabranch.results.paired import Effect
    from anabranch.study.sweep import Sweep

#: The number of candidates in a short table.
SHOWN = 10
#: The most equal candidates that a sentence names.
_EQUAL = 4


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One candidate with its results.

    Attributes
    ----------
    candidate
        The candidate.
    trials
        The number of its trials.
    score
        Its mean score with its 95 % interval.
    worst
        The mean score of its worst tenth of trials, at least of one.
    risk
        The share of trials in which the picture froze or the session did not end; None for a transfer.
    means
        Mean of each measure that matters, by its column.
    use
        The data that it carries, and its cost.
    doubt
        The difference from the choice, and the trials that would decide, if these trials do not.
    """

    candidate: Candidate
    trials: int
    score: Effect
    worst: float
    risk: float | None
    means: Mapping[str, float]
    use: price.Use
    doubt: str = ""

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
            "gb_per_hour": dict(self.use.gb_per_hour),
            "cost_per_hour": self.use.per_hour,
            "over_cap": list(self.use.over),
        }


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
        The best candidate that a mainline kernel can carry out; None if no candidate can be.
    behind
        The difference in score between the choice and `kernel`; None if they are the same.
    ranked
        All candidates: the choice first, then the others by mean minus standard error.
    equal
        The candidates with at least three trials that are not distinguishable from the choice. Their order is
        that of `anabranch.advice.evidence.Evidence.choose`. Those of `undecided` are excluded.
    undecided
        The candidates that are cheaper or change the host less, and whose trials do not decide whether they
        are as good as the choice.
    of_paths
        The verdict on each path.
    terms
        Prices, caps and weights of the scenario's paths.
    missing
        The number of runs that a recommendation still needs; 0 if the choice is one.
    fidelity
        The distance of the simulator from the kernel on the measured setting that is nearest to the scenario
        with all its paths and its own settings. It is the one that a comparison has.
    plain
        The best candidate without rules for outages; None if the choice has none.
    gain
        The difference in score between the choice and `plain`.
    measures
        The measures whose means are given.
    score
        How a run becomes a number.
    runs, exhaustive
        The number of runs made, and the number if every candidate had every trial.
    toml
        A scenario with the advised settings, for `anabranch run`.
    settings
        The commands for the hosts' own kernels that carry out `kernel`, with comments.
    gateway
        The gateway's command, for a choice that mainline kernels cannot carry out; otherwise empty.
    may_fall_silent
        Whether a path of the choice may go down and return.
    """

    scenario: str
    choice: Ranked
    kernel: Ranked | None
    behind: Effect | None
    ranked: tuple[Ranked, ...]
    equal: tuple[Ranked, ...]
    undecided: tuple[Ranked, ...]
    of_paths: tuple[OfPath, ...]
    terms: price.Terms
    missing: int
    fidelity: fidelity.Fidelity
    plain: Ranked | None
    gain: Effect | None
    measures: tuple[Measure, ...]
    score: Score
    runs: int
    exhaustive: int
    toml: str
    settings: str
    gateway: str
    may_fall_silent: bool = False

    @property
    def sentences(self) -> list[str]:
        """The advice, a sentence for each path, and a sentence on rules for outages."""
        one = self.choice
        risk = "" if one.risk is None else f"; {100 * one.risk:.0f} % of its trials froze or did not end"
        value = self._quality(one.score)
        trials = f"{one.trials} trial{'s' if one.trials > 1 else ''}"
        cost = "" if one.use.per_hour is None else f"; {self.terms.money(one.use.per_hour)}"
        found = [f"{self._lead}: {value} over {trials}{risk}{cost}"]
        found += [f"exceeds the cap: {text}" for text in self.terms.overrun(one.use)]
        if self.equal:
            found.append(self._equal())
        if self.undecided:
            found.append(
                f"{self._preferable}, but undecided whether as good: {self._named(self.undecided)} "
                "(--budget, --trials)"
            )
        for path in self.of_paths:
            found += [path.sentence, *([path.own_sentence] if path.own_sentence else [])]
        found += self._beyond_cap()
        if self.plain is not None and self.gain is not None:
            change = measures.score_text(self.gain, self.score.unit, signed=True)
            over = f"{self.gain.pairs} trial{'s' if self.gain.pairs > 1 else ''}"
            rules = one.candidate.outages.word
            found.append(
                f"{rules} beside the best without, {self.plain.candidate.name}: {change} over {over}"
            )
        return found

    @property
    def known(self) -> str:
        """The results of earlier measurements on films over paths that fall silent; otherwise empty."""
        has_paths = len(self.choice.candidate.paths) > 1
        is_known = self.score.kind != "transfer" and has_paths and self.may_fall_silent
        return known.SENTENCE if is_known else ""

    @property
    def is_recommendation(self) -> bool:
        """Whether the choice is a recommendation: it has enough trials, and all verdicts are decided."""
        used = set(self.choice.candidate.paths)
        undecided = {one.path for one in self.of_paths if one.verdict == of_path.UNDECIDED}
        return self.missing == 0 and not used & undecided

    @property
    def _lead(self) -> str:
        """The beginning of the sentence with the choice's score."""
        name = self.choice.candidate.name
        if self.missing:
            are = "run is" if self.missing == 1 else "runs are"
            needed = f"{self.missing} more {are} needed (--budget, --trials)"
            return f"no recommendation yet, {needed}; {name} leads"
        return f"use {name}" if self.is_recommendation else f"{name} leads, but not all paths are decided"

    def _quality(self, effect: Effect) -> str:
        """Return a score in words; for a progressive film its waiting, which is minus the score."""
        if self.score.kind != "progressive":
            return measures.score_text(effect, self.score.unit)
        value, low, high = (None if one is None else -one for one in (effect.value, effect.high, effect.low))
        waited = replace(effect, value=value, low=low, high=high)
        return f"the viewer waits {measures.score_text(waited, self.score.unit)}"

    def _equal(self) -> str:
        """Return a sentence that lists the candidates that are not distinguishable from the choice."""
        # The order of `anabranch.advice.evidence.Evidence.choose`.
        terms = self.terms
        steps = ["the one within its caps"] if any(one.use.over for one in self.equal) else []
        steps += ["the least data on paths to avoid"] if terms.weights else []
        steps += [] if terms.has_order else ["the lowest number of paths"]
        steps += ["the least change of the host's defaults", *(["the lowest cost"] if terms.prices else [])]
        rule = f"of equal ones, {steps[0]} comes first" + "".join(f", then {one}" for one in steps[1:])
        return f"not distinguishable from it: {self._named(self.equal)}; {rule}"

    @property
    def _preferable(self) -> str:
        """The advantage of the undecided candidates over the choice, in words."""
        own, less = self.choice, "with less change of the host"
        cheaper = [(one.use.per_hour or 0.0) < (own.use.per_hour or 0.0) for one in self.undecided]
        if any(cheaper):
            return "cheaper" if all(cheaper) else f"cheaper or {less}"
        has_less = any(one.candidate.changes < own.candidate.changes for one in self.undecided)
        return less if has_less else "with less data on paths to avoid"

    def _named(self, found: Sequence[Ranked]) -> str:
        """Return the names of some candidates with their costs."""
        names = []
        for one in found[:_EQUAL]:
            cost = [] if one.use.per_hour is None else [self.terms.money(one.use.per_hour)]
            own = [] if one.candidate.in_kernel else ["not in mainline Linux"]
            words = "; ".join([*cost, *own, *([one.doubt] if one.doubt else [])])
            names.append(f"{one.candidate.name} ({words})" if words else one.candidate.name)
        more = len(found) - _EQUAL
        names += [f"{more} more"] if more > 0 else []
        return "; ".join(names)

    def _beyond_cap(self) -> list[str]:
        """Return a sentence about the best candidate that a monthly cap excludes."""
        excluded = [one for one in self.ranked if one.use.over and one is not self.choice]
        if self.choice.use.over or not excluded:
            return []
        best = excluded[0]
        reasons = " and ".join(self.terms.overrun(best.use))
        return [f"{best.candidate.name} ({self._quality(best.score)}) is not advised: {reasons}"]

    @property
    def left(self) -> int:
        """The number of columns that name a candidate: one more if rules for outages were ranked."""
        return 4 if any(one.candidate.outages.keys for one in self.ranked) else 3

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings, and one row for each candidate."""
        unit, has_risk = self.score.unit, self.choice.risk is not None
        head = ["paths", "scheduler", "congestion", "outages"][: self.left]
        head += [f"score, {unit}", f"worst tenth, {unit}"]
        head += [*(["risk"] if has_risk else []), "trials", *(one.heading for one in self.measures)]
        head += [self.terms.heading] if self.terms.prices else []
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
            lines[-1] += [] if one.use.per_hour is None else [f"{one.use.per_hour:.2f}"]
        return head, lines

    def short_table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings, and the rows of the first candidates and of those that a sentence names."""
        head, lines = self.table()
        text = "\n".join(self.sentences)
        # A name may end a longer one: `a + b + c, linux, bbr` ends with `b + c, linux, bbr`.
        names = (rf"(?<!\+ )\b{re.escape(one.candidate.name)}" for one in self.ranked)
        named = (place for place, name in enumerate(names) if re.search(name, text))
        return head, [lines[place] for place in sorted({*range(min(SHOWN, len(lines))), *named})]

    def steps(self) -> list[tuple[str, str]]:
        """Return the ways to carry out the advice, each with a heading: a scenario, commands or settings.

        The list is empty if the choice is no recommendation because it lacks runs.
        """
        if self.missing:
            return []
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
        """Return the notebook's view: the sentences, and the best candidates."""
        from anabranch import _html

        head, lines = self.short_table()
        parts = [_html.heading(self.scenario, "what to use"), *map(_html.paragraph, self.sentences)]
        parts.append(_html.table(head, lines, left=self.left))
        if len(self.ranked) > len(lines):
            count = f"{len(lines)} of {len(self.ranked)} candidates"
            parts.append(_html.paragraph(f"{count}: .table() has all"))
        return _html.block(*parts)

    def to_json(self) -> dict[str, Any]:
        """Return the whole advice as an object for JSON."""
        return {
            "scenario": self.scenario,
            "score": {"unit": self.score.unit, "meaning": self.score.meaning},
            "known": self.known,
            "fidelity": self.fidelity.to_json(),
            "runs": self.runs,
            "exhaustive_runs": self.exhaustive,
            "is_recommendation": self.is_recommendation,
            "missing_runs": self.missing,
            "choice": self.choice.to_json(),
            "equal": [one.candidate.name for one in self.equal],
            "undecided": [one.candidate.name for one in self.undecided],
            "kernel": None if self.kernel is None else self.kernel.to_json(),
            "behind_choice": None if self.behind is None else _effect(self.behind),
            "paths": [
                {
                    "path": one.path,
                    "verdict": one.verdict,
                    "sentence": one.sentence,
                    "difference": None if one.effect is None else {**_effect(one.effect), "level": one.level},
                    "needed_trials": one.needed,
                    "own_settings": one.own,
                    "own_settings_sentence": one.own_sentence,
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
    """Return the advice that follows from the runs.

    Parameters
    ----------
    sweep
        The cells of the candidates.
    candidates
        The ranked candidates.
    evidence
        The runs.
    """
    asked = evidence.questions(candidates)
    places = [*asked, *(one for one in evidence.rows if evidence.is_told(one) and one not in asked)]
    chosen = evidence.choose(candidates, places)
    in_kernel = [one for one in places if candidates[one].in_kernel]
    kernel = evidence.choose(candidates, in_kernel) if in_kernel else None
    kernel = chosen if candidates[chosen].in_kernel else kernel
    plain = _plain(candidates, evidence, places, chosen)
    equal, undecided = evidence.rivals(candidates, chosen)
    columns = evidence.rows[chosen][0]
    judging = tuple(
        one
        for one in measures.of(columns)
        if one.better and one not in measures.COUNTED and not (one.is_score and _is_film(columns))
    )
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
        equal=tuple(ranked[place] for place in equal),
        undecided=tuple(
            replace(ranked[place], doubt=evidence.doubt(candidates, place, chosen)) for place in undecided
        ),
        of_paths=of_path.verdicts(candidates, evidence, chosen),
        terms=evidence.terms,
        missing=_missing(sweep, evidence, asked, chosen),
        fidelity=fidelity.of_scenario(_whole(sweep)),
        plain=None if plain is None else ranked[plain],
        gain=None if plain is None else evidence.less(chosen, plain),
        measures=judging,
        score=evidence.score,
        runs=evidence.runs,
        exhaustive=len(candidates) * sweep.trials,
        toml=carry.toml(sweep.cells[chosen]),
        settings="" if kernel is None else carry.kernel(candidates[kernel], sweep.cells[kernel]),
        gateway="" if own.in_kernel else carry.gateway(own),
        may_fall_silent=outages.may_fall_silent(json.loads(sweep.cells[chosen].raw)),
    )


def _whole(sweep: Sweep) -> dict[str, Any]:
    """Return the scenario's own tables with all ranked paths."""
    tables: list[dict[str, Any]] = [json.loads(cell.raw) for cell in sweep.cells]
    return max(tables, key=lambda raw: len(raw["paths"]))


def _plain(
    candidates: Sequence[Candidate], evidence: Evidence, places: Sequence[int], chosen: int
) -> int | None:
    """Return the best candidate without rules for outages; None if the choice has none itself."""
    if not candidates[chosen].outages.keys:
        return None
    return spending.champion(
        places, evidence.scores, evidence.exact, lambda one: not candidates[one].outages.keys
    )


def _is_film(columns: Mapping[str, object]) -> bool:
    """Return whether runs have a film's score, which is a separate column of the table."""
    return WAITING in columns or RATE in columns


def _missing(sweep: Sweep, evidence: Evidence, places: Sequence[int], chosen: int) -> int:
    """Return the number of runs that a recommendation still needs. It needs at least three trials."""
    if evidence.is_told(chosen):
        return 0
    return len(spending.lacking(places, evidence.scores, evidence.exact, max(sweep.trials, FEWEST)))


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
        use=evidence.use(place, candidate.paths),
    )
