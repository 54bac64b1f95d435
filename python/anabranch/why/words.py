"""The causes of a run in sentences that name the paths."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from anabranch._numbers import three_digits
from anabranch.why.steps import DOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.why.quality import Held
    from anabranch.why.steps import Rate, Shortage

#: Every cause, with its meaning.
CAUSES: Mapping[str, str] = {
    "capacity": "all paths together carry less than the film takes",
    DOWN: "a path was cut",
    "head of line": "data had arrived, and waited for what another path had yet to bring",
    "timeout": "a path waited for its retransmission timer",
    "loss recovery": "a path repaired losses",
    "congestion window": "a path's window was full, and too small for what it could carry",
    "receive window": "the receiver let nothing more be sent",
    "scheduler": "a path could have sent, and was given nothing while others were full",
    "late join": "a path had not joined the connection yet",
    "rule of the player": "the last chunk came in faster than the next rendition takes; the rule kept it",
    "not measured": "the player had not measured a rate yet",
    "unexplained": "none of these",
}
#: The smallest share of the film, or of the unused rate, that has a sentence.
_LEAST = 0.02
#: The smallest rate that is named, in Mb/s.
_NAMED_MBPS = 0.01
_A_PATH = re.compile(r"\b(?:a|another) path\b")


def meaning(cause: str, paths: Mapping[str, float]) -> str:
    """Return the meaning of a cause with the path that has most of it.

    Parameters
    ----------
    cause
        One of `CAUSES`.
    paths
        The part of each path in it.
    """
    if not paths:
        return CAUSES[cause]
    return _A_PATH.sub(max(paths, key=lambda name: paths[name]), CAUSES[cause])


def paths_of(shortages: Sequence[tuple[Shortage, float]], cause: str) -> dict[str, float]:
    """Return the weight of each path in a cause.

    Parameters
    ----------
    shortages
        Freezes or steps down, each with its weight.
    cause
        The cause.
    """
    weights: dict[str, float] = defaultdict(float)
    for one, weight in shortages:
        for path, share in one.paths.get(cause, {}).items():
            weights[path] += weight * one.causes.get(cause, 0.0) * share
    return weights


def rates(found: Sequence[Rate]) -> list[str]:
    """Return a sentence about the rate of the first client."""
    return [_rate(one, several=len(found) > 1) for one in found[:1]]


def below(held: Sequence[Held], below_s: Mapping[str, float]) -> Iterator[str]:
    """Yield a sentence for each reason against the next higher rendition.

    Parameters
    ----------
    held
        The chunks below the top rendition.
    below_s
        Seconds of film by reason.
    """
    whole = sum(below_s.values())
    if not whole:
        return
    yield f"{three_digits(whole)} s of film were below the top rendition"
    for cause, seconds in below_s.items():
        if seconds < _LEAST * whole:
            continue
        own = [one for one in held if one.causes.get(cause)]
        paths: dict[str, float] = defaultdict(float)
        for one in own:
            for path, share in one.paths.get(cause, {}).items():
                paths[path] += share * one.causes[cause] * one.duration_s
        text = f"{three_digits(seconds)} s: {meaning(cause, paths)}"
        yield f"{text}{_rungs(own) if cause == 'rule of the player' else ''}"


def _rungs(own: list[Held]) -> str:
    """Return the estimator's view of the most frequent step that was not taken."""
    steps: dict[tuple[str, str], list[Held]] = defaultdict(list)
    for one in own:
        steps[one.rendition, one.higher].append(one)
    (lower, higher), most = max(steps.items(), key=lambda item: sum(one.duration_s for one in item[1]))
    seen = [one.measured_mbps for one in most if one.measured_mbps is not None]
    mean, first = sum(seen) / len(seen), most[0]
    declares = "more" if first.declares_mbps > mean else "less"
    return (
        f". Most often {lower} instead of {higher}: chunks came in at {three_digits(mean)} Mb/s, {higher} "
        f"takes {three_digits(first.needs_mbps)} Mb/s on average, and its playlist declares "
        f"{three_digits(first.declares_mbps)} Mb/s, which is {declares}"
    )


def _rate(one: Rate, *, several: bool) -> str:
    """Return the rate that was reached, and the causes of the rest by path."""
    rest = max(one.up_mbps - one.carried_mbps, 0.0)
    whose = f"client {one.client}: " if several else ""
    others = ", of which other clients may take a part," if several else ""
    outages = sorted(one.unused.get(DOWN, {}).items(), key=lambda item: -item[1])
    lost = [f"{path} {three_digits(rate)} Mb/s" for path, rate in outages if rate >= _NAMED_MBPS]
    up = " while up" if lost else ""
    text = (
        f"{whose}{three_digits(one.carried_mbps)} of the {three_digits(one.up_mbps)} Mb/s of payload that "
        f"the paths could carry by their own rates{up}{others} were used while data was wanted"
    )
    text += f"; lost while down: {', '.join(lost)}" if lost else ""
    parts = sorted(
        (
            (rate, cause, path)
            for cause, own in one.unused.items()
            if cause != DOWN
            for path, rate in own.items()
        ),
        reverse=True,
    )
    large = [part for part in parts if part[0] >= max(_LEAST * rest, _NAMED_MBPS)][:4]
    named = ", ".join(f"{path} {three_digits(rate)} Mb/s ({cause})" for rate, cause, path in large)
    return f"{text}; unused: {named}" if named else text
