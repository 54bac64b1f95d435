"""The cells of a study, as claims name them: `{ row = "eq50", congestion = "cubic" }`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

from anabranch.errors import did_you_mean
from anabranch.results.worlds import WORLD
from anabranch.study import drawn
from anabranch.study import values as meant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.study.models import Study

#: A condition of a claim on a cell: short name of a key, and its value.
Choice = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell of the study's own grid.

    Attributes
    ----------
    labels
        Its labels in the results: column and value, `transport.congestion` and "cubic".
    said
        The labels with short names, such as `congestion`. Keys with a single value in the cell's part are
        left out, because a claim need not name them.
    shown
        The short labels, including keys that have another value in another part of the row.
    paths
        The scenario's paths.
    """

    labels: tuple[tuple[str, Any], ...]
    said: tuple[tuple[str, Any], ...]
    shown: tuple[tuple[str, Any], ...]
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        """The cell in a few words: `eq50, cubic`."""
        return ", ".join(
            str(value) if isinstance(value, str) else f"{key} {str(value).lower()}"
            for key, value in self.shown
        )


def of_study(folder: Path, study: Study) -> list[Cell]:
    """Return the cells of a study's grid, with unchanged assumptions."""
    result: dict[Cell, None] = {}
    known: dict[tuple[str, str], set[Any]] = {}
    for part in study.parts:
        for row, (key, values) in product(part.scenarios, part.grid.items()):
            known.setdefault((row, key), set()).update(meant.axis_of(key, values).labels)
    for part in study.parts:
        axes = {key: meant.axis_of(key, values).labels for key, values in part.grid.items()}
        alone = {key for key, values in axes.items() if len(values) == 1}
        for row in part.scenarios:
            paths = tuple(meant.paths_of(folder / f"{row}.toml"))
            for values in product(*axes.values()):
                labels = (("row", row), *zip(axes, values, strict=True))
                said = tuple((short(key), value) for key, value in labels if key not in alone)
                several = {key for key, _ in labels if key not in alone or len(known[row, key]) > 1}
                shown = tuple((short(key), value) for key, value in labels if key in several)
                result[Cell(labels=labels, said=said, shown=shown, paths=paths)] = None
    for row in study.worlds:
        paths = tuple(drawn.distribution(folder, row).path_names())
        for arm in row.arms or study.arms:
            of_row = (("row", row.row), (drawn.ARM, arm))
            result[Cell(labels=of_row, said=of_row, shown=of_row, paths=paths)] = None
    return list(result)


def stated(labels: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the labels with which claims name a cell of the results. All worlds of an arm are one cell."""
    return {key: value for key, value in labels if key != WORLD}


@lru_cache
def short(key: str) -> str:
    """Return the last part of a key, which claims use as its name."""
    return key.rpartition(".")[2]


def spread(choice: Mapping[str, Any]) -> Iterator[Choice]:
    """Yield a choice for each combination of its lists' values."""
    lists = [value if isinstance(value, list) else [value] for value in choice.values()]
    for values in product(*lists):
        yield dict(zip(choice, values, strict=True))


def pick(cells: Sequence[Cell], choice: Choice) -> Cell | tuple[str, str, str]:
    """Return the one cell that a choice names; otherwise the key with the fault, a message and a hint."""
    found = [
        cell
        for cell in cells
        if {key for key, _ in cell.said} <= choice.keys()
        and all(_has(cell, key, value) for key, value in choice.items())
    ]
    if len(found) == 1:
        return found[0]
    keys = {short(key): None for cell in cells for key, _ in cell.labels}
    for key in choice:
        if key not in keys:
            return key, f"no such key of the study's grid: `{key}`", did_you_mean(key, keys)
    for key, value in choice.items():
        values = {str(other): None for cell in cells for name, other in cell.labels if short(name) == key}
        if str(value) not in values or not any(_has(cell, key, value) for cell in cells):
            return key, f"no cell of the study has this {key}: `{value}`", did_you_mean(str(value), values)
    near = [cell for cell in cells if all(_has(cell, key, value) for key, value in choice.items())]
    text = ", ".join(f"{key} = {value}" for key, value in choice.items())
    if not near:
        return "", f"no cell of the study has all of this: {text}", "`study.toml` has the grid of each row"
    unsaid = sorted({key for cell in near for key, _ in cell.said} - choice.keys())
    return "", f"{len(near)} cells have this: {text}", f"say also: {', '.join(unsaid)}"


def _has(cell: Cell, key: str, value: object) -> bool:
    """Return whether a cell has a value of a key."""
    return any(
        short(name) == key and type(other) is type(value) and other == value for name, other in cell.labels
    )
