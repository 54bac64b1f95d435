"""The capacity budget of a study's worlds: the bulk goodput of each cell, and the rate of its film."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.study.sweep import Cell, Sweep, afresh, stored_cell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded

_ORIGIN = "the budget"


def place(results: Path) -> Path:
    """Return the folder for the bulk runs of a folder of results."""
    results = results.resolve()
    return results.with_name(f"{results.name}-budget")


def sweep(results: Path, *, trials: int) -> Sweep:
    """Return the study with bulk data in place of the film, with the same duration of a session.

    Parameters
    ----------
    results
        The study's folder of results.
    trials
        Runs of each cell.

    Raises
    ------
    InputError
        If no cell streams a film.
    """
    cells = tuple(_bulk(cell, lasted) for cell, _, _, lasted in _streamed(results))
    if not cells:
        raise InputError(
            [Fault(message="no run streams a film, whose rate could be met", where=str(results))]
        )
    return Sweep(name=place(results).name, cells=cells, trials=trials, once=True)


def taken(results: Path) -> dict[str, dict[str, float]]:
    """Return the rates of the films in each row of a study: Mb/s by name.

    A ladder has the rates of its lowest and highest rendition, sound included. If the cells of a row have
    several films, the names of all but the first contain their rates.
    """
    found: dict[str, dict[str, float]] = {}
    for cell, loaded, film, _ in _streamed(results):
        rates: dict[str, float] = {}
        if film is not None:
            rates = {"film": film.size_bytes * 8e3 / film.duration_ns}
            if loaded.scenario.application.kind == "adaptive" and film.plan is not None:
                rates = _rungs(film.plan)
        own = found.setdefault(str(dict(cell.labels).get("row", cell.scenario)), {})
        for name, rate in rates.items():
            own[name if own.get(name, rate) == rate else f"{name} of {rate:.2f}"] = rate
    return found


def _streamed(results: Path) -> Iterator[tuple[Cell, Loaded, Film | None, float]]:
    """Yield the cells of the study as it stands that stream: scenario, film, seconds a session lasted."""
    from anabranch.results import store
    from anabranch.results.read import present_runs

    found = store.manifest(results)
    lasted: dict[str, float] = {}
    for row in present_runs(results).iter_rows(named=True):
        lasted[row["cell"]] = max(row["duration_s"], lasted.get(row["cell"], 0.0))
    for one in found["cells"]:
        if one["labels"].get("varied") is None and one["cell"] in lasted:
            cell = stored_cell(found, one)
            loaded, film = afresh(cell.text())
            if loaded.scenario.application.kind in ("progressive", "adaptive"):
                yield cell, loaded, film, lasted[one["cell"]]


def _bulk(cell: Cell, lasted_s: float) -> Cell:
    """Return a cell with bulk data in the place of its film."""
    raw: dict[str, Any] = json.loads(cell.raw)
    # The expectations concern the film.
    raw.pop("expect", None)
    raw["application"] = {"kind": "bulk"}
    others = tuple(one for one in cell.settings if one[0].partition(".")[0] not in ("application", "expect"))
    length = ("application.duration", f"{max(math.ceil(lasted_s), 1)} s", _ORIGIN)
    return dataclasses.replace(cell, raw=json.dumps(raw), file="", settings=(*others, length))


def _rungs(plan: dict[str, Any]) -> dict[str, float]:
    """Return the mean rates of a ladder's lowest and highest rendition, Mb/s."""
    from anabranch.media.ladders import resolve

    ladder = plan.get("recorded") or resolve(plan)[0]
    sound = [ladder["audio"]] if ladder["audio"] else []

    def rate(rendition: dict[str, Any]) -> float:
        heard = [rendition, *sound]
        size = sum(chunk["bytes"] for track in heard for chunk in track["chunks"])
        return float(size * 8e3 / sum(chunk["duration_ns"] for chunk in rendition["chunks"]))

    return {
        f"{one['height']}p" if one["height"] else name: rate(one)
        for name, one in (("lowest", ladder["renditions"][0]), ("highest", ladder["renditions"][-1]))
    }
