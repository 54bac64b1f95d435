"""An advice's verdict on each path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.comparison import measures, paths
from anabranch.results.judging import HELPS, HURTS, NO_GAIN, NOTHING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.advice.candidates import Candidate
    from anabranch.advice.evidence import Evidence
    from anabranch.results.judging import Judgement
    from anabranch.results.paired import Effect

#: The verdicts on a path.
USE, LEAVE, UNDECIDED = "use", "do not add", "undecided"
#: The verdict on a path for each decided verdict on adding it.
_ON_ADDING = {HELPS: USE, HURTS: LEAVE, NOTHING: LEAVE, NO_GAIN: LEAVE}


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
    level
        The level of that difference's interval; None if not compared.
    needed
        The trials that would decide; None if the verdict is decided or needs too many.
    own
        The verdict with the scenario's own scheduler and congestion control, on adding the path to all
        others; None if these runs are missing. It equals the verdict of `anabranch compare` on the same runs,
        except where sessions never start or do not reach the end. Here, only the score of these counts.
    own_sentence
        The same in words, if it differs from `verdict`.
    """

    path: str
    verdict: str
    effect: Effect | None
    sentence: str
    level: float | None = None
    needed: int | None = None
    own: str | None = None
    own_sentence: str | None = None


def verdicts(candidates: Sequence[Candidate], evidence: Evidence, chosen: int) -> tuple[OfPath, ...]:
    """Return the verdict on each path, in the scenario's order."""
    names = list(dict.fromkeys(name for one in candidates for name in one.paths))
    return tuple(_of(name, candidates, evidence, chosen, len(names)) for name in names)


def _of(
    name: str, candidates: Sequence[Candidate], evidence: Evidence, chosen: int, comparisons: int
) -> OfPath:
    """Compare the best candidate with a path and the best without it; if one is missing, follow advice."""
    own = frozenset(candidates[chosen].paths)
    is_used = name in own
    other = evidence.champion(candidates, own ^ {name})
    if other is None:
        alone = is_used and len(own) == 1 and evidence.is_told(chosen)
        verdict = USE if alone else UNDECIDED
        text = f"use {name}" if alone else f"{name} is undecided: too few sets of paths were run"
        return OfPath(path=name, verdict=verdict, effect=None, sentence=text)
    pair = (chosen, other) if is_used else (other, chosen)
    found = evidence.judge(*pair, comparisons)
    best = evidence.champion(candidates, own)
    if is_used and _ON_ADDING.get(found.verdict) == LEAVE and best is not None:
        # The choice may only be close to the best one over its paths.
        better = evidence.judge(best, other, comparisons)
        pair, found = ((best, other), better) if better.verdict == HELPS else (pair, found)
    beside = paths.label([one for one in candidates[chosen].paths if one != name])
    verdict = _ON_ADDING.get(found.verdict, UNDECIDED)
    uses = (evidence.use(place, candidates[place].paths) for place in pair)
    change = _change(evidence, found)
    price = evidence.terms.added(*uses)
    change += f"; {price}" if price else ""
    change += " ({} instead of {})".format(*(candidates[place].name for place in pair))
    quality = verdict
    if verdict == USE and is_used:
        text = f"use {name} beside {beside}: {change}"
    elif verdict == USE:
        verdict = LEAVE
        text = (
            f"do not add {name} to {beside}: it helps, {change}, but {_reason(evidence, candidates, *pair)}"
        )
    elif verdict == LEAVE and is_used:
        verdict = USE
        why = _reason(evidence, candidates, other, chosen)
        text = f"use {name} beside {beside}: without it, {why}; quality: {change}"
    elif verdict == LEAVE:
        why = "it hurts" if found.verdict == HURTS else "nothing is gained"
        text = f"do not add {name} to {beside}: {why}, {change}"
    else:
        text = f"{name} beside {beside} is undecided: {change}; {found.advice}"
        text += "" if found.needed is None else " (--budget, --trials)"
    own_verdict, own_text = _own(name, candidates, evidence, quality, comparisons)
    return OfPath(
        path=name,
        verdict=verdict,
        effect=found.effect,
        sentence=text,
        level=found.level,
        needed=found.needed,
        own=own_verdict,
        own_sentence=own_text,
    )


def _reason(evidence: Evidence, candidates: Sequence[Candidate], one: int, instead: int) -> str:
    """Return why a candidate is not advised instead of another one that is not better."""
    terms = evidence.terms
    use, other = (evidence.use(place, candidates[place].paths) for place in (one, instead))
    if use.over and not other.over:
        return " and ".join(terms.overrun(use))
    if use.burden > other.burden:
        return f"more data would be on paths to avoid ({', '.join(terms.weights)})"
    if candidates[one].changes > candidates[instead].changes:
        return "more of the host would have to change"
    if (use.per_hour or 0.0) > (other.per_hour or 0.0):
        more = (use.per_hour or 0.0) - (other.per_hour or 0.0)
        return f"an hour would cost {terms.money(more).removesuffix(' an hour')} more"
    return "another choice is as good"


def _change(evidence: Evidence, found: Judgement) -> str:
    """Return a difference in score in words, with its number of trials."""
    if found.effect.value is None:
        return "no trial of both"
    change = measures.score_text(found.effect, evidence.score.unit, signed=True, level=found.level)
    trials = found.effect.pairs
    return f"{change} over {trials} trial{'s' if trials > 1 else ''}"


def _own(
    name: str, candidates: Sequence[Candidate], evidence: Evidence, verdict: str, comparisons: int
) -> tuple[str | None, str | None]:
    """Return the verdict with the scenario's own settings, and a sentence if the two verdicts differ."""
    if not evidence.own:
        return None, None
    whole = max(evidence.own, key=len)
    place, other = evidence.own[whole], evidence.own.get(whole - {name})
    if other is None or not (evidence.is_told(place) and evidence.is_told(other)):
        return None, None
    found = evidence.judge(place, other, comparisons)
    if not found.is_decided or _ON_ADDING[found.verdict] == verdict:
        return found.verdict, None
    _, scheduler, congestion, _ = candidates[place].words
    own = f"with {scheduler} and {congestion}, which the scenario has"
    text = f"{own}, adding {name} to {paths.label(candidates[other].paths)} {found.verdict}"
    return found.verdict, f"{text}: {_change(evidence, found)}"
