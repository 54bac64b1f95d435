"""The price of a choice of paths: gigabytes and money an hour, monthly caps, and paths to avoid."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch._numbers import three_digits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.media.films import Film

#: The hours of use in a month unless `cost.hours_per_month` has others: an hour a day.
HOURS_PER_MONTH = 30.0


@dataclass(frozen=True, kw_only=True)
class Use:
    """The data that a choice of paths carries, and its cost.

    Attributes
    ----------
    gb_per_hour
        Payload in gigabytes per hour, by path.
    per_hour
        Cost of an hour; None if no path has a price.
    burden
        The sum over paths of gigabytes per hour times the path's weight.
    over
        The paths whose monthly cap is exceeded.
    rung
        The mean place of the pictures in the ladder, from 0; None if no ladder is played.
    """

    gb_per_hour: Mapping[str, float]
    per_hour: float | None
    burden: float
    over: tuple[str, ...]
    rung: float | None = None

    @property
    def order(self) -> tuple[bool, float, float]:
        """The sort key among choices of equal quality: within the caps, then least burden, then cheapest."""
        return bool(self.over), round(self.burden, 6), round(self.per_hour or 0.0, 6)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a scenario's paths.

    Attributes
    ----------
    prices
        Price of a gigabyte, by path.
    caps
        Gigabytes a month, by path.
    weights
        The weight of a gigabyte in `Use.burden`, by path.
    currency
        The currency of prices; empty if the scenario has none.
    hours
        Hours of use in a month.
    heights
        The heights of the ladder's renditions, from the lowest; empty if no ladder is played.
    """

    prices: Mapping[str, float]
    caps: Mapping[str, float]
    weights: Mapping[str, float]
    currency: str = ""
    hours: float = HOURS_PER_MONTH
    heights: tuple[int, ...] = ()

    @property
    def has_order(self) -> bool:
        """Whether prices or weights order choices of equal quality. A cap only excludes choices."""
        return bool(self.prices or self.weights)

    def use(self, rows: Sequence[Mapping[str, Any]], paths: Sequence[str]) -> Use:
        """Return the data that some paths carried in runs over them, and its cost.

        Parameters
        ----------
        rows
            Rows of the table `runs`.
        paths
            The paths that are used.
        """
        hours = sum(_wanted_s(row) for row in rows) / 3600
        carried = {name: sum(float(row.get(f"bytes_{name}") or 0.0) for row in rows) / 1e9 for name in paths}
        rates = {name: (size / hours if hours else 0.0) for name, size in carried.items()}
        priced = [self.prices[name] * rate for name, rate in rates.items() if name in self.prices]
        return Use(
            gb_per_hour=rates,
            per_hour=sum(priced) if self.prices else None,
            burden=sum(self.weights.get(name, 0.0) * rate for name, rate in rates.items()),
            over=tuple(
                name for name, rate in rates.items() if rate * self.hours > self.caps.get(name, float("inf"))
            ),
            rung=self._rung(rows),
        )

    def _rung(self, rows: Sequence[Mapping[str, Any]]) -> float | None:
        """Return the mean place of the runs' resolution in the ladder; None if it is unknown."""
        known = [row["resolution_mean"] for row in rows if row.get("resolution_mean") is not None]
        if len(self.heights) < 2 or not known:
            return None
        return sum(place(float(height), self.heights) for height in known) / len(known)

    @property
    def heading(self) -> str:
        """The heading of a column of costs."""
        return f"{self.currency or 'cost'} an hour"

    def money(self, amount: float) -> str:
        """Return an amount an hour in words: `1.20 EUR an hour`."""
        return f"{amount:.2f}{f' {self.currency}' if self.currency else ''} an hour"

    def added(self, with_it: Use, without: Use) -> str:
        """Return the difference in cost between two choices, with that in quality if a ladder is played.

        Returns `it costs 1.20 EUR an hour` or `+0.2 rungs for 1.20 EUR an hour`; empty if no path has a
        price.
        """
        if not self.prices:
            return ""
        more = (with_it.per_hour or 0.0) - (without.per_hour or 0.0)
        if with_it.rung is None or without.rung is None:
            return f"it {'saves' if more < 0 else 'costs'} {self.money(abs(more))}"
        rungs = f"{round(with_it.rung - without.rung, 1) + 0.0:+.1f} rungs"
        return f"{rungs}, and it saves {self.money(-more)}" if more < 0 else f"{rungs} for {self.money(more)}"

    def overrun(self, use: Use) -> list[str]:
        """Return a sentence for each path whose cap is exceeded."""
        return [
            f"{name} would carry {three_digits(use.gb_per_hour[name] * self.hours)} GB in the "
            f"{self.hours:g} hours of a month, of {self.caps[name]:g} GB: the cap lasts "
            f"{three_digits(self.caps[name] / use.gb_per_hour[name])} hours"
            for name in use.over
        ]


#: The terms of a scenario without prices, caps and weights.
NONE = Terms(prices={}, caps={}, weights={})


def _wanted_s(row: Mapping[str, Any]) -> float:
    """Return the seconds of film that a run requests, or the duration of a run without a film."""
    shown, unplayed = row.get("play_time_s"), row.get("unplayed_s")
    if shown is None and unplayed is None:
        return float(row.get("duration_s") or 0.0)
    return float(shown or 0.0) + float(unplayed or 0.0)


def place(height: float, heights: Sequence[int]) -> float:
    """Return the place of a mean height in a ladder, from 0. Between two renditions it is in proportion.

    Parameters
    ----------
    height
        The mean height of pictures.
    heights
        The different heights of the renditions, from the lowest.
    """
    for at, (below, above) in enumerate(pairwise(heights)):
        if height < above:
            return at + max(height - below, 0.0) / (above - below)
    return float(len(heights) - 1)


def heights_of(film: Film | None) -> tuple[int, ...]:
    """Return the different heights of a ladder's renditions, from the lowest; empty without a ladder."""
    from anabranch.media.ladders import resolve

    plan: dict[str, Any] = (film.plan if film else None) or {}
    if not plan:
        return ()
    ladder = plan.get("recorded") or resolve(plan)[0]
    return tuple(sorted({int(one["height"]) for one in ladder["renditions"] if one["height"]}))


def terms(raw: Mapping[str, Any], heights: Sequence[int] = ()) -> Terms:
    """Return the terms of a scenario.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    heights
        The heights of the ladder that is played.
    """

    def of(key: str) -> dict[str, float]:
        return {path["name"]: float(path[key]) for path in raw["paths"] if path.get(key) is not None}

    cost = raw.get("cost", {})
    return Terms(
        prices=of("price_per_gb"),
        caps=of("cap_gb_per_month"),
        weights=of("weight"),
        currency=cost.get("currency", ""),
        hours=float(cost.get("hours_per_month", HOURS_PER_MONTH)),
        heights=tuple(heights),
    )
