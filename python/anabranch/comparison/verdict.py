"""The effect of adding a path, as a sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.comparison import measures as of_application
from anabranch.comparison import price
from anabranch.comparison.measures import COUNTED
from anabranch.results import judging, paired
from anabranch.results.judging import HELPS, HURTS, NO_GAIN, NOTHING, UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from anabranch.comparison.measures import Measure
    from anabranch.comparison.used import Used
    from anabranch.results.paired import Effect

#: The score improves, but fewer sessions start or reach the end.
BOTH = "helps and hurts"

__all__ = ["BOTH", "HELPS", "HURTS", "NOTHING", "NO_GAIN", "UNDECIDED", "Added", "added"]


@dataclass(frozen=True, kw_only=True)
class Added:
    """The effect of adding a path to others.

    Attributes
    ----------
    path
        The path.
    to
        The others.
    effects
        The difference of each measure (with the path minus without it), by its column, over pairs of runs
        with the same random draws.
    verdict
        That of `anabranch.results.judging` on the score, or `BOTH`.
    judgement
        The judged difference in score; None if no run has a score.
    sentence
        The same in words.
    """

    path: str
    to: tuple[str, ...]
    effects: Mapping[str, Effect]
    verdict: str
    judgement: judging.Judgement | None
    sentence: str


def added(
    used: Sequence[Used],
    measures: Sequence[Measure],
    settings: str = "",
    terms: price.Terms = price.NONE,
) -> Iterator[Added]:
    """Yield the effect of adding each path to all others.

    Parameters
    ----------
    used
        The results of each set of paths; the last one has all paths.
    measures
        The measures of the application.
    settings
        The scheduler and the congestion control, in words.
    terms
        Prices, caps and weights of the paths.
    """
    *fewer, whole = used
    with_settings = f"with {settings}" if settings else ""
    for path in whole.paths:
        others = tuple(name for name in whole.paths if name != path)
        base = next(one for one in fewer if one.paths == others)
        effects = {
            one.column: _difference(whole, base, one.column)
            for one in measures
            if one.column in whole.values and one.column in base.values
        }
        primary = of_application.primary(measures, set(effects))
        judgement = None if primary is None else _judged(whole, base, primary, len(whole.paths))
        verdict = UNDECIDED if judgement is None else judgement.verdict
        verdict = _with_endings(verdict, whole, base)
        if judgement is not None and verdict != UNDECIDED and not judgement.is_decided:
            # The number of finished sessions decides, so no more trials are needed.
            judgement = replace(judgement, verdict=verdict, needed=None)
        words, kinds = _words(measures, primary, effects, judgement, verdict, base, whole)
        yield Added(
            path=path,
            to=others,
            effects=effects,
            verdict=verdict,
            judgement=judgement,
            sentence=_sentence(
                path,
                base,
                whole,
                verdict,
                words,
                [_level(kinds, judgement), with_settings, terms.added(whole.use, base.use)],
            ),
        )


def _judged(whole: Used, base: Used, one: Measure, comparisons: int) -> judging.Judgement:
    """Return the verdict on the score of one set of paths against another."""
    exact = (whole.exact, base.exact)
    left, right = whole.values[one.column], base.values[one.column]
    return one.judge(left, right, exact=exact, comparisons=comparisons)


def _with_endings(verdict: str, whole: Used, base: Used) -> str:
    """Correct a verdict for sessions that do not start or do not reach the end.

    If fewer runs start with a path, the path hurts, even if that may be chance. If fewer runs reach the end,
    `helps` becomes `BOTH`.
    """
    if whole.unstarted / max(whole.runs, 1) > base.unstarted / max(base.runs, 1):
        return BOTH if verdict == HELPS else HURTS
    fewer_end = whole.unreached / max(whole.runs, 1) > base.unreached / max(base.runs, 1)
    return BOTH if verdict == HELPS and fewer_end else verdict


def _difference(whole: Used, base: Used, column: str) -> Effect:
    """Return the difference of a measure over pairs of runs."""
    exact = (whole.exact, base.exact)
    effect = paired.difference(*paired.matched(whole.values[column], base.values[column], exact=exact))
    # If nothing is drawn, one pair is enough.
    return replace(effect, low=effect.value, high=effect.value) if all(exact) else effect


def _words(
    measures: Sequence[Measure],
    primary: Measure | None,
    effects: Mapping[str, Effect],
    judgement: judging.Judgement | None,
    verdict: str,
    base: Used,
    whole: Used,
) -> tuple[list[str], set[str]]:
    """Return the difference in score in words, and the kinds of all shown differences.

    If the verdict is decided, the words include the parts that differ.
    """
    if primary is None or judgement is None:
        return [], set()
    shown = [(primary, judgement.effect)]
    if verdict in (HELPS, HURTS, BOTH):
        others = (one for one in measures if one.better and one.column in effects and one is not primary)
        # All intervals of a sentence have the level of the verdict.
        shown += [
            (one, _judged(whole, base, one, len(whole.paths)).effect)
            for one in others
            if one not in COUNTED and one.judged(effects[one.column], base.means[one.column].value or 0.0)
        ]
    words, kinds = [], set()
    for one, effect in shown:
        unit = f" {one.unit}" if one.unit else ""
        before, after = base.means[one.column].value, whole.means[one.column].value
        if before is None or after is None:
            continue
        change = one.shown(effect, signed=True)
        kinds.add(change.kind)
        words.append(f"{one.name} from {one.number(before)} to {one.number(after)}{unit} ({change.text})")
    return ([*words, judgement.advice] if judgement.advice else words), kinds


def _level(kinds: Collection[str], judgement: judging.Judgement | None) -> str:
    """Return the level of a sentence's intervals in words; empty for 95 % or without intervals."""
    if judgement is None or judgement.level == paired.LEVEL:
        return ""
    level = f"{100 * judgement.level:.3g} %"
    if of_application.PLUS_MINUS in kinds:
        return f"± is the {level} interval"
    return f"the interval has {level}" if of_application.INTERVAL in kinds else ""


def _sentence(
    path: str, base: Used, whole: Used, verdict: str, words: Sequence[str], more: Sequence[str]
) -> str:
    """Return a verdict as a sentence."""
    to = " and ".join(base.paths)
    runs = min(whole.runs, base.runs)
    # Without random draws, one run represents all.
    seen = f" that {runs} run{'s' if runs > 1 else ''} can tell"
    sure = " that matters" if whole.exact and base.exact else seen
    what = f"is {verdict}" if verdict == UNDECIDED else verdict + (sure if verdict == NOTHING else "")
    never = []
    if whole.unstarted or base.unstarted:
        counts = f"{whole.unstarted} of {whole.runs} runs never start with it"
        never = [f"{counts}, {base.unstarted} of {base.runs} without it"]
    carried = f"{100 * whole.shares[path]:.0f} % of the bytes go over {path}"
    by = "".join(f"; {one}" for one in more if one)
    return f"adding {path} to {to} {what}: {', '.join([*never, *words])}; {carried}{by}"
