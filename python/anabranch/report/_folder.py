"""The verdicts of a folder of results: the best cell, and its lead."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.comparison import measures, paths
from anabranch.results import judging, notes, paired, store
from anabranch.results.read import present_runs
from anabranch.results.worlds import by_pair, is_exact, of_cells, pair_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.comparison.measures import Measure
    from anabranch.results.paired import Effect

#: Keys whose values a person chooses; a verdict is given for each setting of all others.
_CHOSEN = ("transport.", "application.abr", "application.player", "application.adaptive.", "gateway.")
#: The most settings that have a sentence.
_SENTENCES = 8
#: The largest number of cells for which measures are drawn. More would not be readable.
_DRAWN = 40


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of the results: its labels, and each measure by run or drawn world."""

    setting: str
    name: str
    runs: int
    exact: bool
    values: Mapping[str, Mapping[int, float]]
    _effects: dict[str, Effect] = field(default_factory=dict)

    def value(self, column: str) -> float:
        """Return the mean of a measure; None if it has none."""
        known = self.values.get(column)
        return fmean(known.values()) if known else 0.0

    def mean(self, column: str) -> Effect:
        """Return the mean of a measure with its interval, which is resampled at the first call."""
        import numpy as np

        if column not in self._effects:
            known = np.array(list(self.values[column].values()), dtype=float)
            self._effects[column] = paired.difference(known, None)
        return self._effects[column]


def verdicts(folder: Path) -> tuple[list[str], list[tuple[str, list[dict[str, Any]]]]]:
    """Return the verdicts of a folder of results, and each measure as it is drawn.

    The first part has a sentence for each setting: its best cell, and how far the others are. For a
    comparison, it has the sentences about its paths. Cells are compared run by run, or world by world, by the
    application's score. The intervals are corrected for the number of comparisons. The second part has a row
    for each cell. A measure that is zero in every cell is left out. If there are many cells, none is drawn.

    Raises
    ------
    InputError
        When the folder holds no results.
    """
    found, shown = cells(folder)
    return _verdicts(folder, found, shown), _measured(found, shown)


def _measured(found: Sequence[Cell], shown: Sequence[Measure]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return each measure that a verdict may use, with a row for each cell."""
    if len(found) > _DRAWN:
        return []
    seen = {column for cell in found for column in cell.values if cell.value(column)}
    return [(one.heading, list(_forest(found, one))) for one in shown if one.better and one.column in seen]


def _verdicts(folder: Path, found: Sequence[Cell], shown: Sequence[Measure]) -> list[str]:
    """Return the sentences."""
    from anabranch import comparison

    if store.made(folder).labels == (paths.COLUMN,):
        found_paths = comparison.read(folder)
        return [*found_paths.sentences, found_paths.fidelity.sentence]
    settings = list(dict.fromkeys(cell.setting for cell in found))
    # The best cell is chosen by its mean, so every pair of cells counts as a comparison.
    count = sum(pairs(sum(cell.setting == setting for cell in found)) for setting in settings)
    sentences = []
    for setting in settings[:_SENTENCES]:
        own = [cell for cell in found if cell.setting == setting]
        where = f"With {setting}: " if setting else ""
        if len(own) > 1:
            text = best(own, shown, count)
            sentences.append(where + text if where else text[0].upper() + text[1:])
    if len(settings) > _SENTENCES:
        sentences.append(f"{len(settings) - _SENTENCES} more settings are in the table")
    found_same = notes.same(present_runs(folder), store.made(folder).labels)
    same = [f"Equal digests: {sentence}" for sentence in found_same]
    return [*sentences, *same, *_fidelity(folder)] if sentences else []


def _fidelity(folder: Path) -> list[str]:
    """Return the distance of the simulator from the kernel, by the first cell that was run."""
    from anabranch.comparison import fidelity
    from anabranch.results.manifest import tables_of
    from anabranch.scenario import _overrides

    found, frame = store.manifest(folder), present_runs(folder)
    for cell in found.get("cells", ()):
        rows = frame.filter(frame["cell"] == cell["cell"])
        if rows.height and (raw := tables_of(found, cell)):
            given = [
                _overrides.Override(key=key, value=value, origin=key)
                for key, value in cell["settings"].items()
            ]
            text = fidelity.of(_overrides.apply(raw, given).raw, str(rows["congestion"][0])).sentence
            where = f" for the cell with {which}" if (which := _varying(found["cells"], cell)) else ""
            return [text.replace("fidelity:", f"Fidelity{where}:", 1)]
    return []


def _varying(every: Sequence[Mapping[str, Any]], cell: Mapping[str, Any]) -> str:
    """Return the settings of a cell in which it differs from others."""
    own = cell["settings"].items()
    return ", ".join(
        f"{key} {value}" for key, value in own if any(one["settings"].get(key) != value for one in every)
    )


def cells(folder: Path) -> tuple[list[Cell], tuple[Measure, ...]]:
    """Return the cells of a folder in the study's order, and the measures that they have."""
    made, frame = store.made(folder), present_runs(folder)
    # Sessions that never start also do not reach the end, so they are already counted.
    shown = tuple(one for one in measures.of(frame.columns) if one is not measures.UNSTARTED)
    own_labels = (name for name in of_cells(made.labels) if name in frame.columns)
    labels = [name for name in own_labels if frame[name].n_unique() > 1]
    chosen = [name for name in labels if name.startswith(_CHOSEN)] or [
        name for name in labels if name not in ("row", "varied")
    ]
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    short = plugins.short(one for name in labels for one in frame[name].unique() if isinstance(one, str))
    for row in frame.iter_rows(named=True):
        if row.get("varied") is None:
            said = {name: _said(name, short.get(row[name], row[name])) for name in labels}
            setting = ", ".join(said[name] for name in labels if name not in chosen)
            name = ", ".join(said[name] for name in chosen) or row["scenario"]
            rows.setdefault((setting, name), []).append(row)
    result = []
    settings = list(dict.fromkeys(setting for setting, _ in rows))
    for (setting, name), own in sorted(rows.items(), key=lambda item: settings.index(item[0][0])):
        values: dict[str, dict[int, float]] = {}
        for one in shown:
            known = {pair_of(row): float(row[one.column]) for row in own if row.get(one.column) is not None}
            if known:
                values[one.column] = by_pair(known)
        result.append(
            Cell(
                setting=setting,
                name=name,
                runs=len(own),
                exact=is_exact(own[0], made.exact),
                values=values,
            )
        )
    return result, shown


def _said(name: str, value: object) -> str:
    """Return a label in words. A number gets the name of its key."""
    if isinstance(value, str) and (name in ("row", paths.COLUMN) or name.startswith("transport.")):
        return value
    short = name.removeprefix("paths.").replace(".", " ")
    return f"{short} {str(value).lower() if isinstance(value, bool) else value}"


def best(own: Sequence[Cell], wanted: Sequence[Measure], comparisons: int | None = None) -> str:
    """Return a sentence on the best cell, those that are not distinguishable from it, and the worst other.

    Cells are compared by one measure only, the score. Trying measure after measure until one differs finds a
    difference between equal cells far more often than in one of twenty folders.

    Parameters
    ----------
    own
        The cells.
    wanted
        The measures of the application.
    comparisons
        How many pairs of cells are compared, in all settings together; None is all pairs of these.
    """
    one = measures.primary(wanted, {column for cell in own for column in cell.values})
    known = [cell for cell in own if one is not None and one.column in cell.values]
    if one is None or len(known) < 2:
        return "fewer than two cells have a value to compare"
    ranked = sorted(known, key=lambda cell: -one.better * cell.value(one.column))
    first = ranked[0]
    count = comparisons or pairs(len(known))
    found = {cell.name: _against(cell, first, one, count) for cell in ranked[1:]}
    worse = [cell for cell in ranked[1:] if found[cell.name].verdict == judging.HURTS]
    # The cell with the worst mean may vary too much for a verdict.
    worst = worse[-1] if worse else ranked[-1]
    last = found[worst.name]
    if not worse:
        near = f"{first.name} {_shown(first, one)}{_unit(one)}, {worst.name} {_shown(worst, one)}{_unit(one)}"
        more = f"; {last.advice}" if last.advice else ""
        return f"no cell can be told from another by {one.name}: {near}{more}"
    alike = [cell.name for cell in ranked[1:] if found[cell.name].verdict != judging.HURTS]
    text = f"best by {one.name} is {first.name}: {_shown(first, one)}{_unit(one)}"
    far = f"({one.with_interval(last.effect, signed=True, level=last.level)})"
    same = f", and {' and '.join(alike)} cannot be told from it" if alike else ""
    corrected = f"; intervals are corrected for {count} comparisons" if count > 1 else ""
    return f"{text}{same}; {worst.name} has {_shown(worst, one)}{_unit(one)} {far}{corrected}"


def pairs(count: int) -> int:
    """Return the number of pairs of some cells."""
    return count * (count - 1) // 2


def _against(cell: Cell, other: Cell, one: Measure, comparisons: int) -> judging.Judgement:
    """Return the verdict on a cell against another, run by run."""
    exact = (cell.exact, other.exact)
    return one.judge(cell.values[one.column], other.values[one.column], exact=exact, comparisons=comparisons)


def _shown(cell: Cell, one: Measure) -> str:
    """Return a mean with its interval."""
    return one.with_interval(cell.mean(one.column)) if one.column in cell.values else "-"


def _unit(one: Measure) -> str:
    """Return a measure's unit, to be put after a number."""
    return f" {one.unit}" if one.unit else ""


def _forest(found: Sequence[Cell], one: Measure) -> Iterator[dict[str, Any]]:
    """Yield a row for each cell: its mean and the ends of its interval, as shares of the largest."""
    known = [(cell, cell.mean(one.column)) for cell in found if one.column in cell.values]
    ends = [effect.high if effect.high is not None else effect.value or 0.0 for _, effect in known]
    top = max(ends, default=0.0) or 1.0
    before = None
    for cell, effect in known:
        value = effect.value or 0.0
        low = value if effect.low is None else max(effect.low, 0.0)
        high = value if effect.high is None else effect.high
        yield {
            "setting": cell.setting if cell.setting != before else "",
            "name": cell.name,
            "text": _shown(cell, one) + _unit(one),
            "at": f"{100 * value / top:.2f}",
            "low": f"{100 * low / top:.2f}",
            "wide": f"{100 * (high - low) / top:.2f}",
        }
        before = cell.setting
