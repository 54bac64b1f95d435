"""The table and the verdicts of a comparison, computed from its results."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.comparison import fidelity, measures, paths, price, verdict
from anabranch.comparison.used import Used, Values
from anabranch.errors import AnabranchError
from anabranch.results import paired, store
from anabranch.results import read as results
from anabranch.results.manifest import tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import polars

    from anabranch.comparison.measures import Measure
    from anabranch.results.paired import Effect


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of several sets of a scenario's paths.

    Attributes
    ----------
    scenario
        The scenario's name.
    used
        The results of each set, in the order of the table; the last is that of all paths.
    measures
        The measures to compare.
    added
        The effect of adding each path to all others.
    terms
        Prices, caps and weights of the paths.
    fidelity
        The distance of the simulator from the kernel on the nearest measured setting.
    settings
        The scheduler and the congestion control of all runs, in words.
    """

    scenario: str
    used: tuple[Used, ...]
    measures: tuple[Measure, ...]
    added: tuple[verdict.Added, ...]
    terms: price.Terms
    fidelity: fidelity.Fidelity
    settings: str = ""

    @property
    def sentences(self) -> list[str]:
        """A sentence with the verdict on each path, and one for each monthly cap that a set exceeds."""
        found = [one.sentence for one in self.added]
        for used in self.used:
            # A single path has no scheduler.
            is_one = len(used.paths) == 1
            settings = self.settings.rpartition(" and ")[2] if is_one else self.settings
            name = f"{paths.label(used.paths)}{' alone' if is_one else ''}"
            name += f" with {settings}" if settings else ""
            found += [f"{name}: {text}" for text in self.terms.overrun(used.use)]
        return found

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the rows."""
        shown = [
            one
            for one in self.measures
            if one not in measures.COUNTED and any(one.column in used.means for used in self.used)
        ]
        has_cost = bool(self.terms.prices)
        has_short = any(used.unreached for used in self.used)
        head = ["paths", *(one.heading for one in shown), *(["not to the end"] if has_short else [])]
        head += ["bytes on each", *([self.terms.heading] if has_cost else [])]
        lines = []
        for used in self.used:
            shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in used.shares.items())
            cells = [_cell(one, used.means.get(one.column)) for one in shown]
            cost = [f"{used.use.per_hour or 0:.2f}"] if has_cost else []
            cells += [f"{used.unreached} of {used.runs}"] if has_short else []
            lines.append([paths.label(used.paths), *cells, shares if len(used.paths) > 1 else "", *cost])
        return head, lines

    def to_json(self) -> dict[str, Any]:
        """Return the whole comparison as an object for JSON; numbers are in the results' units."""
        return {
            "scenario": self.scenario,
            "sets": [
                {
                    "paths": list(used.paths),
                    "runs": used.runs,
                    "unfinished": used.unfinished,
                    "unstarted": used.unstarted,
                    "unreached": used.unreached,
                    "bytes_share": dict(used.shares),
                    "cost": used.cost,
                    "cost_per_hour": used.use.per_hour,
                    "gb_per_hour": dict(used.use.gb_per_hour),
                    "over_cap": list(used.use.over),
                    "means": {name: _interval(effect) for name, effect in used.means.items()},
                }
                for used in self.used
            ],
            "fidelity": self.fidelity.to_json(),
            "added": [
                {
                    "path": one.path,
                    "to": list(one.to),
                    "verdict": one.verdict,
                    "needed_trials": None if one.judgement is None else one.judgement.needed,
                    "score": None
                    if one.judgement is None
                    else {**_interval(one.judgement.effect), "level": one.judgement.level},
                    "sentence": one.sentence,
                    "differences": {name: _interval(effect) for name, effect in one.effects.items()},
                }
                for one in self.added
            ],
        }

    def _repr_html_(self) -> str:
        """Return the notebook's view: the table, the bytes of each path, and the verdicts."""
        from anabranch import _html
        from anabranch.figures import glance

        head, lines = self.table()
        shares = self.used[-1].shares
        return _html.block(
            _html.heading(self.scenario, "which paths"),
            _html.table(head, lines),
            glance.shares(shares),
            *map(_html.paragraph, [*self.sentences, self.fidelity.sentence]),
        )


def read(folder: Path) -> Comparison:
    """Return the verdicts of a folder of results, made by `anabranch compare`.

    Raises
    ------
    InputError
        If the folder has no such results.
    """
    made, found = store.made(folder), store.manifest(folder)
    scenarios = {cell["scenario"]: tables_of(found, cell) for cell in found["cells"]}
    frame = results.present_runs(folder)
    chosen = measures.of(frame.columns)
    most = max(len(one["paths"]) for one in scenarios.values())
    used = []
    whole = next(one for one in scenarios.values() if len(one["paths"]) == most)
    terms = price.terms(whole, _heights(whole))
    for (label,), rows in frame.group_by(paths.COLUMN, maintain_order=True):
        names = tuple(path["name"] for path in scenarios[label]["paths"])
        values: dict[str, Values] = {}
        for one in chosen:
            kept = rows.select("run", one.column).drop_nulls() if one.column in rows.columns else None
            if kept is not None and kept.height:
                values[one.column] = {run: float(value) for run, value in kept.iter_rows()}
        used.append(
            Used(
                paths=names,
                runs=rows.height,
                exact=rows["cell"][0] in made.exact,
                means={name: _mean(own) for name, own in values.items()},
                shares=_shares(rows.to_dicts(), names),
                cost=_cost(rows),
                use=terms.use(rows.to_dicts(), names),
                unfinished=_count(rows, "unfinished_sessions"),
                unstarted=_count(rows, "unstarted_sessions"),
                unreached=_count(rows, "unreached_sessions"),
                values=values,
            )
        )
    return Comparison(
        scenario=frame["scenario"][0],
        used=tuple(used),
        measures=chosen,
        added=tuple(verdict.added(used, chosen, _settings(frame), terms)),
        terms=terms,
        fidelity=fidelity.of_scenario(whole),
        settings=_settings(frame),
    )


def _heights(raw: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the heights of a priced scenario's ladder; none if it is not in its folder any longer.

    Nothing is fetched or made for it.
    """
    from anabranch.media import ladders, numbers
    from anabranch.scenario.load import load

    if not price.terms(raw).prices:
        return ()
    with suppress(AnabranchError):
        loaded = load(dict(raw))
        ladder = loaded.scenario.application.ladder
        is_far = isinstance(ladder, str) and (ladder in ladders.MADE or numbers.is_url(ladder))
        if loaded.scenario.application.kind == "adaptive" and not is_far:
            return price.heights_of(ladders.open_ladder(ladder, loaded.folders))
    return ()


def _settings(frame: polars.DataFrame) -> str:
    """Return the scheduler and the congestion control of a comparison, in words."""
    names = [str(frame[column][-1]) for column in ("scheduler", "congestion")]
    short = plugins.short(names)
    return " and ".join(short.get(name, name) for name in names)


def _count(rows: polars.DataFrame, column: str) -> int:
    """Return the number of runs in which a count is not zero."""
    return int((rows[column] > 0).sum()) if column in rows.columns else 0


def _mean(values: Values) -> Effect:
    """Return a mean with its interval."""
    import numpy as np

    return paired.difference(np.array(list(values.values()), dtype=float), None)


def _cost(rows: polars.DataFrame) -> float | None:
    """Return the mean cost; None if no path has a price."""
    costs = rows["cost"].to_list() if "cost" in rows.columns else []
    known = [cost for cost in costs if cost is not None]
    return sum(known) / len(known) if known else None


def _shares(rows: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, float]:
    """Return the share of all payload that each path carried."""
    carried = {name: sum(row.get(f"bytes_{name}") or 0 for row in rows) for name in names}
    whole = sum(carried.values())
    return {name: count / whole if whole else 0.0 for name, count in carried.items()}


def _cell(measure: Measure, mean: Effect | None) -> str:
    """Return a mean and half the width of its interval."""
    return "-" if mean is None else measure.with_interval(mean)


def _interval(effect: Effect) -> dict[str, float | int | None]:
    """Return a mean or a difference with its interval."""
    return {"value": effect.value, "low": effect.low, "high": effect.high, "runs": effect.pairs}
