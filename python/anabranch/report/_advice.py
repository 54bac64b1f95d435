"""The page of an advice: the recommendation, the ranking as figure and table, and the commands."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.comparison.measures import score_text
from anabranch.report import _draw, _page, _verdict
from anabranch.report._build import Tile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.results.paired import Effect

#: The most candidates that are drawn; the table has all.
_DRAWN = 20
#: The approximate number of ticks of the scale.
_TICKS = 5


class Named(Protocol):
    """A candidate of an advice."""

    @property
    def name(self) -> str:
        """Its name in the ranking."""


class Scored(Protocol):
    """The score of an advice."""

    @property
    def unit(self) -> str:
        """Its unit."""


class Ranked(Protocol):
    """A row of the ranking. Package `advice` imports this one, so that its types cannot be named here."""

    @property
    def candidate(self) -> Named:
        """The candidate."""

    @property
    def trials(self) -> int:
        """Its number of trials."""

    @property
    def score(self) -> Effect:
        """Its mean score with the 95 % interval."""

    @property
    def worst(self) -> float:
        """The mean score of its worst tenth of trials."""

    @property
    def risk(self) -> float | None:
        """The share of trials with a freeze or without an end."""


class Fidelity(Protocol):
    """The distance of the simulator from the kernel."""

    @property
    def sentence(self) -> str:
        """The distance in words."""


class Advice(Protocol):
    """The parts of an advice that its page needs (`anabranch.Advice`)."""

    @property
    def scenario(self) -> str:
        """The scenario's name."""

    @property
    def sentences(self) -> Sequence[str]:
        """The advice in sentences."""

    @property
    def choice(self) -> Ranked:
        """The candidate that is advised."""

    @property
    def ranked(self) -> Sequence[Ranked]:
        """All candidates, the best first."""

    @property
    def known(self) -> str:
        """The results of earlier measurements, in words."""

    @property
    def fidelity(self) -> Fidelity:
        """The distance of the simulator from the kernel."""

    @property
    def missing(self) -> int:
        """The runs that are missing for a recommendation."""

    @property
    def is_recommendation(self) -> bool:
        """Whether the choice is a recommendation."""

    @property
    def score(self) -> Scored:
        """The score of a run."""

    @property
    def runs(self) -> int:
        """The number of runs."""

    @property
    def exhaustive(self) -> int:
        """The number of runs without a selection."""

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads and lines of the ranking."""


def build(advice: Advice) -> str:
    """Return the page of an advice as self-contained HTML."""
    heads, lines = advice.table()
    spent = Counter(one.trials for one in advice.ranked)
    return _page.rendered(
        "advice.html.j2",
        title=advice.scenario,
        advice=advice,
        verdicts=[f"{sentence}." for sentence in advice.sentences],
        tone=_verdict.GOOD if advice.is_recommendation and not advice.choice.risk else _verdict.OPEN,
        tiles=_tiles(advice),
        heads=heads,
        lines=lines,
        ranking=_ranking(advice.ranked[:_DRAWN], advice.score.unit),
        spent=[
            [f"{trials:,}", f"{count:,}", f"{trials * count:,}"]
            for trials, count in sorted(spent.items(), reverse=True)
        ],
    )


def _tiles(advice: Advice) -> list[Tile]:
    """Return the headline numbers."""
    one, unit = advice.choice, advice.score.unit
    found = [
        Tile(value=f"{one.score.value or 0.0:,.2f}", unit=unit, label="score of what is advised"),
        Tile(value=f"{one.worst:,.2f}", unit=unit, label="in the worst tenth of its trials"),
    ]
    if one.risk is not None:
        share = f"{100 * one.risk:.0f}"
        found.append(
            Tile(value=share, unit="%", label="of its trials froze or did not end", bad=one.risk > 0)
        )
    return [
        *found,
        Tile(value=f"{one.trials:,}", unit="", label=f"trial{'s' if one.trials > 1 else ''} of it"),
        Tile(value=f"{advice.runs:,}", unit="", label=f"runs in all, instead of {advice.exhaustive:,}"),
    ]


def _ranking(ranked: Sequence[Ranked], unit: str) -> dict[str, Any]:
    """Return the figure of the ranking, with positions as shares of its width."""
    known = [(one.worst, one.score.value, one.score.low, one.score.high) for one in ranked]
    ends = [end for one in known for end in one if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    room = 0.03 * (high - low) or 1.0
    low, high = low - room, high + room

    def place(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}"

    rows = []
    for one in ranked:
        mean = one.score.value or 0.0
        rows.append(
            {
                "name": one.candidate.name,
                "text": score_text(one.score, unit),
                "trials": one.trials,
                "bad": bool(one.risk),
                "risk": "" if one.risk is None else f"{100 * one.risk:.0f} %",
                "mean": place(mean),
                "low": place(mean if one.score.low is None else one.score.low),
                "high": place(mean if one.score.high is None else one.score.high),
                "worst": place(one.worst),
            }
        )
    step = _draw.nice((high - low) / _TICKS)
    first = int(low // step) + 1
    ticks = [number * step for number in range(first, int(high // step) + 1)]
    return {"rows": rows, "ticks": [(place(at), f"{_draw.tick(at, step)} {unit}") for at in ticks]}
