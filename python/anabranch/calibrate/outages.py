"""Comparison of the simulator with a kernel in worlds whose paths fall silent and return.

A cell is a world, a mode, a controller and a variant of the rules for outages. Each cell has one kernel run.
The verdict therefore concerns the share of good cells for each variant, not single cells.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from anabranch.calibrate import simulate
from anabranch.calibrate.kernels import DEFAULT, KERNELS
from anabranch.calibrate.read import SHIPPED
from anabranch.calibrate.settings import path_name
from anabranch.errors import Fault, InputError
from anabranch.scenario.shipped import display

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

#: The packaged measurements. The names of their cells begin with `NAME`.
NAME = "returning-paths"
FOLDER = SHIPPED / NAME

#: The keys of `[transport]` for each variant. The kernel's variants `A` and `capA` are missing. The simulator
#: has no rule that refuses to undo a timeout but still uses its RTT sample.
_CAP = {"rto_max": "1 s", "retries": 60}
_COUNTED: dict[str, Any] = {"outage": "timeouts"}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "asis": {},
    "AB": {"stack": _COUNTED},
    "DS": {"stack": {"outage": "dsack"}},
    "cap": _CAP,
    "capAB": {**_CAP, "stack": _COUNTED},
    "capABC": {**_CAP, "stack": {**_COUNTED, "outage_probe": False}},
    "capDS": {**_CAP, "stack": {"outage": "dsack"}},
}

#: The required share of cells near the kernel, and the relative tolerances of goodput and times.
SHARE = 0.85
_GOODPUT = 0.05
_TIME = 0.25
_LEAST_TIME_S = 0.5
#: The shortest time between two reads that counts as standing still, s.
_STILL_S = 0.5
_PACE = "5.24 Mbit/s"
_DURATION = "60 s"
_COLUMNS = ("case", "mode", "cc", "variant", "goodput", "longest", "still")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Values of one run: goodput in Mb/s, the longest read gap and the sum of gaps over 0.5 s, in s."""

    goodput_mbps: float
    longest_s: float
    still_s: float

    def near(self, kernel: Figures) -> tuple[bool, bool, bool]:
        """Return for each value whether it is near the kernel's."""
        return (
            abs(self.goodput_mbps - kernel.goodput_mbps) <= _GOODPUT * kernel.goodput_mbps,
            _near(self.longest_s, kernel.longest_s),
            _near(self.still_s, kernel.still_s),
        )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of the kernel.

    Attributes
    ----------
    case, mode, congestion, variant
        The names that identify the run.
    world
        The paths and events of its world, as in the file.
    kernel
        The kernel's figures.
    """

    case: str
    mode: str
    congestion: str
    variant: str
    world: Mapping[str, Any]
    kernel: Figures

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return f"{NAME}/{self.mode}/{self.case}/{self.congestion}/{self.variant}"

    def scenario(self) -> dict[str, Any]:
        """Return the scenario that repeats it, with the same packets lost."""
        kernel = KERNELS[DEFAULT]
        paced = {"kind": "paced", "rate": _PACE} if self.mode == "paced" else {"kind": "bulk"}
        legs = enumerate(self.world["legs"], start=1)
        return {
            "name": f"{self.mode}-{self.case}",
            "application": {**paced, "duration": _DURATION},
            "transport": {
                "scheduler": kernel.schedulers["default"],
                "congestion": self.congestion,
                "receive_buffer": kernel.receive_buffer,
                **VARIANTS[self.variant],
            },
            "paths": [self._path(number, leg, kernel.jitter) for number, leg in legs],
            "events": [_event(text) for text in self.world["events"]],
        }

    def _path(self, number: int, leg: Mapping[str, Any], jitter: str) -> dict[str, Any]:
        """Return one path."""
        key = f"{self.mode}_{self.case}_{self.congestion}_1"
        drawn = sum(place * ord(letter) for place, letter in enumerate(key, start=1)) * 7919 % 1_000_003
        path = {
            "name": path_name(number),
            "rtt": f"{leg['rtt']} ms",
            "rate": f"{leg['mb']} Mbit/s",
            "queue": f"{leg['q']} packets",
            "jitter": jitter,
            "loss": f"{100 * leg.get('loss', 0):.6f} %",
            "emulator_seed": drawn + number,
        }
        up = leg.get("up", 0)
        return path | ({"up": {"loss": f"{100 * up:.6f} %"}} if up else {})


@dataclass(frozen=True, kw_only=True)
class Row:
    """Shares and means of all cells of a variant and a controller.

    Attributes
    ----------
    variant, congestion
        The variant and the controller.
    cells
        The number of cells.
    near
        The shares of cells that are near, for goodput, the longest gap and the sum of gaps.
    kernel, simulator
        The mean figures.
    """

    variant: str
    congestion: str
    cells: int
    near: tuple[float, float, float]
    kernel: Figures
    simulator: Figures

    @property
    def holds(self) -> bool:
        """Whether every share is large enough."""
        return min(self.near) >= SHARE

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        names = ("goodput_mbps", "longest_s", "still_s")
        return {
            "variant": self.variant,
            "congestion": self.congestion,
            "cells": self.cells,
            "near": dict(zip(names, self.near, strict=True)),
            "kernel": {name: getattr(self.kernel, name) for name in names},
            "simulator": {name: getattr(self.simulator, name) for name in names},
            "holds": self.holds,
        }


def is_here(folder: Path) -> bool:
    """Return whether a folder has measurements of outages."""
    return (folder / "worlds.json").is_file() and (folder / "grid.csv").is_file()


def read(folder: Path = FOLDER) -> list[Cell]:
    """Read the cells of a folder, except those of variants that the simulator does not have.

    Raises
    ------
    InputError
        With every fault found.
    """
    where = display(folder / "grid.csv")
    try:
        worlds = json.loads((folder / "worlds.json").read_text(encoding="utf-8"))
        with (folder / "grid.csv").open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
            rows = [] if missing else list(table)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(
            [Fault(message=f"cannot read the measurements: {error}", where=display(folder))]
        ) from None
    faults = [Fault(message=f"no column `{name}`", where=where, line=1) for name in missing]
    cells = []
    for line, row in enumerate(rows, start=2):
        if row["variant"] not in {*VARIANTS, "A", "capA"}:
            faults.append(Fault(message=f"unknown variant: `{row['variant']}`", where=where, line=line))
        elif not _is_world(worlds, row["case"]):
            faults.append(Fault(message=f"no such world: `{row['case']}`", where=where, line=line))
        elif row["variant"] in VARIANTS:
            try:
                cells.append(_cell(row, worlds[row["case"]]))
            except (TypeError, ValueError):
                faults.append(Fault(message="a figure is not a number", where=where, line=line))
    if faults:
        raise InputError(faults)
    return cells


def figures(cell: Cell) -> Figures:
    """Run a cell in the simulator."""
    from anabranch._run import run_loaded
    from anabranch.scenario.load import load

    tables = run_loaded(load(cell.scenario()), run=0, film=None).tables
    one = tables["connections"]
    gaps = [float(gap) for gap in tables["gaps"]["gap_s"]]
    return Figures(
        goodput_mbps=float(one["bytes_read"][0] * 8e-6 / one["duration_s"][0]),
        longest_s=float(one["max_read_gap_s"][0]),
        still_s=sum(gap for gap in gaps if gap > _STILL_S),
    )


def each(
    cells: Sequence[Cell], *, workers: int, progress: Callable[[float, float], None] | None = None
) -> list[Figures]:
    """Return the simulator's figures of cells, in their order; `progress` gets the number of runs done."""
    found: dict[int, Figures] = {}
    for place, one in simulate.done(figures, cells, workers=workers):
        found[place] = one
        if progress is not None:
            progress(len(found), len(cells))
    return [found[place] for place in sorted(found)]


def rows(cells: Sequence[Cell], found: Sequence[Figures]) -> list[Row]:
    """Return the shares and means of each variant and controller."""
    groups: dict[tuple[str, str], list[tuple[Figures, Figures]]] = {}
    for cell, simulator in zip(cells, found, strict=True):
        groups.setdefault((cell.variant, cell.congestion), []).append((cell.kernel, simulator))
    order = {name: place for place, name in enumerate(VARIANTS)}
    return [
        _row(variant, congestion, groups[variant, congestion])
        for variant, congestion in sorted(groups, key=lambda key: (order[key[0]], key[1]))
    ]


#: The head of `cells_of`.
HEAD = (
    "rules, controller",
    "cells",
    "Mb/s near",
    "longest near",
    "all near",
    "Mb/s",
    "longest, s",
    "all, s",
    "",
)


def cells_of(row: Row) -> tuple[str, ...]:
    """Return the cells of a table row under `HEAD`, with the means of kernel and simulator."""
    pairs = [
        (row.kernel.goodput_mbps, row.simulator.goodput_mbps),
        (row.kernel.longest_s, row.simulator.longest_s),
        (row.kernel.still_s, row.simulator.still_s),
    ]
    means = [f"{kernel:.2f} | {simulator:.2f}" for kernel, simulator in pairs]
    shares = [f"{100 * share:.0f} %" for share in row.near]
    verdict = "ok" if row.holds else "miss"
    return (f"{row.variant}, {row.congestion}", str(row.cells), *shares, *means, verdict)


def _near(simulator: float, kernel: float) -> bool:
    """Return whether a time is near the kernel's."""
    return abs(simulator - kernel) <= max(_TIME * kernel, _LEAST_TIME_S)


def _is_world(worlds: object, name: str) -> bool:
    """Return whether a world of that name exists and has legs and events."""
    world = worlds.get(name) if isinstance(worlds, dict) else None
    return isinstance(world, dict) and {"legs", "events"} <= world.keys()


def _cell(row: Mapping[str, str], world: Mapping[str, Any]) -> Cell:
    """Return the cell of a row."""
    goodput, longest, still = (float(row[name]) for name in ("goodput", "longest", "still"))
    return Cell(
        case=row["case"],
        mode=row["mode"],
        congestion=row["cc"],
        variant=row["variant"],
        world=world,
        kernel=Figures(goodput_mbps=goodput, longest_s=longest, still_s=still),
    )


def _event(text: str) -> dict[str, Any]:
    """Return an event of a world (`26.328:0:down`) as an event of a scenario."""
    at, leg, state = text.split(":")
    return {"at": f"{at} s", "path": path_name(int(leg) + 1), "state": state}


def _row(variant: str, congestion: str, pairs: Sequence[tuple[Figures, Figures]]) -> Row:
    """Return the shares and means of pairs of kernel and simulator."""
    near = [simulator.near(kernel) for kernel, simulator in pairs]
    shares = [sum(column) / len(near) for column in zip(*near, strict=True)]
    return Row(
        variant=variant,
        congestion=congestion,
        cells=len(pairs),
        near=(shares[0], shares[1], shares[2]),
        kernel=_mean([kernel for kernel, _ in pairs]),
        simulator=_mean([simulator for _, simulator in pairs]),
    )


def _mean(of: Sequence[Figures]) -> Figures:
    """Return the means."""
    return Figures(
        goodput_mbps=fmean(one.goodput_mbps for one in of),
        longest_s=fmean(one.longest_s for one in of),
        still_s=fmean(one.still_s for one in of),
    )
