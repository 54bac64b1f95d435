"""The effect of adding a path, as a sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.comparison.measures import COUNTED, UNSTARTED
from anabranch.results import paired

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.comparison.measures import Measure
    from anabranch.comparison.used import Used
    from anabranch.results.paired import Effect

#: The effect of adding a path: better, worse, better in one thing and worse in another, or none that is seen.
HELPS, HURTS, BOTH, NOTHING = "helps", "hurts", "helps and hurts", "changes nothing"


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
        Difference of each measure by its column, with the path less without it, over pairs of runs of the
        same luck.
    verdict
        `HELPS`, `HURTS`, `BOTH` or `NOTHING`.
    sentence
        The same in words, with the measures that it hangs on.
    """

    path: str
    to: tuple[str, ...]
    effects: Mapping[str, Effect]
    verdict: str
    sentence: str


def added(used: Sequence[Used], measures: Sequence[Measure]) -> Iterator[Added]:
    """Yield what adding each path to all others changed; the last of `used` has all paths."""
    *fewer, whole = used
    for path in whole.paths:
        others = tuple(name for name in whole.paths if name != path)
        base = next(one for one in fewer if one.paths == others)
        effects = {
            one.column: _difference(whole, base, one.column)
            for one in measures
            if one.column in whole.values and one.column in base.values
        }
        signs = {
            one.column: one.judged(effects[one.column], base.means[one.column].value or 0.0)
            for one in measures
            if one.column in effects
        }
        better, worse = (sign in signs.values() for sign in (1, -1))
        # The viewer's means are over the runs that started. A path with which fewer runs start is
        # not better in anything else, and is worse even if chance may have done it.
        with_it, without = (one.unstarted / max(one.runs, 1) for one in (whole, base))
        better = better and signs.get(UNSTARTED.column) != -1
        worse = worse or with_it > without
        verdict = BOTH if better and worse else HELPS if better else HURTS if worse else NOTHING
        yield Added(
            path=path,
            to=others,
            effects=effects,
            verdict=verdict,
            sentence=_sentence(path, base, whole, verdict, _told(measures, effects, signs, base, whole)),
        )


def _difference(whole: Used, base: Used, column: str) -> Effect:
    """Return the difference of a measure over pairs of runs."""
    exact = (whole.exact, base.exact)
    effect = paired.difference(*paired.matched(whole.values[column], base.values[column], exact=exact))
    # If nothing is drawn, one pair is enough.
    return replace(effect, low=effect.value, high=effect.value) if all(exact) else effect


def _told(
    measures: Sequence[Measure],
    effects: Mapping[str, Effect],
    signs: Mapping[str, int],
    base: Used,
    whole: Used,
) -> list[str]:
    """Return the measures that a verdict hangs on, in words; without any the first that could have."""
    judged = [one for one in measures if one.better and one.column in effects]
    seen = [one for one in judged if signs[one.column] and one is not UNSTARTED]
    seen = seen or [one for one in judged if one not in COUNTED][:1]
    words = []
    for one in seen:
        effect, unit = effects[one.column], f" {one.unit}" if one.unit else ""
        before, after = base.means[one.column].value, whole.means[one.column].value
        if before is None or after is None:
            continue
        change = one.with_interval(effect, signed=True)
        words.append(f"{one.name} from {one.number(before)} to {one.number(after)}{unit} ({change})")
    return words


def _sentence(path: str, base: Used, whole: Used, verdict: str, words: Sequence[str]) -> str:
    """Return a verdict as a sentence."""
    to = " and ".join(base.paths)
    runs = min(whole.runs, base.runs)
    # One run of a world that draws nothing is all of them.
    seen = f" that {runs} run{'s' if runs > 1 else ''} can tell"
    sure = " that matters" if whole.exact and base.exact else seen
    what = verdict + (sure if verdict == NOTHING else "")
    never = []
    if whole.unstarted or base.unstarted:
        counts = f"{whole.unstarted} of {whole.runs} runs never start with it"
        never = [f"{counts}, {base.unstarted} of {base.runs} without it"]
    carried = f"{100 * whole.shares[path]:.0f} % of the bytes go over {path}"
    cost = "" if whole.cost is None else f", at a cost of {whole.cost:.2f} instead of {base.cost or 0:.2f}"
    return f"adding {path} to {to} {what}: {', '.join([*never, *words])}; {carried}{cost}"
