"""The stored runs of a folder of results, with access by cell, metric and run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.metrics import SUBFLOW_METRICS
from anabranch.results import store
from anabranch.results.read import present_runs
from anabranch.results.read import rows as all_rows
from anabranch.results.worlds import Pair, by_pair, is_exact, number, of_cells, pair_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from anabranch.claims.cells import Cell
    from anabranch.claims.measure import Metric

#: Values that are added up if a path had several subflows, one for each connection of the player. Other
#: values are those of the subflow that carried most, because the player's first connections only read the
#: film's structure.
_SUMS = (
    "bytes",
    "throughput_mbps",
    "retransmissions",
    "retransmissions_before_change",
    "retransmissions_after_change",
    "recovery_s",
    "loss_s",
    "awaited_share",
    "out_of_order_bytes_mean",
)


#: Metrics of the viewer that need a session that reaches the end. A session that ends early has smaller
#: values.
_SEEN = (
    "picture_discards",
    "buffer_underflows",
    "recovery_time_s",
    "rebuffer_s",
    "rebuffer_longest_s",
    "rebuffer_total_s",
    "still_s",
    "still_longest_s",
    "resolution_changes",
    "resolution_mean",
    "top_share",
    "bitrate_mean_mbps",
)


@dataclass(frozen=True, kw_only=True)
class Endings:
    """How many runs of a cell ended too early.

    Attributes
    ----------
    runs
        The number of all its runs.
    stalled
        The runs that stand still.
    unstarted, unreached
        The runs with a player that never started, and that did not reach the end.
    """

    runs: int
    stalled: int
    unstarted: int
    unreached: int


class Runs:
    """Runs by cell and number.

    Parameters
    ----------
    rows
        The rows of `runs`, with the columns of subflows as `subflows.PATH.NAME`.
    labels
        The columns that distinguish cells.
    exact
        The names of the cells without random draws, each of which has one run.
    varied
        The changed value of an assumption; None for the unchanged study.
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        labels: Iterable[str],
        exact: Iterable[str] = (),
        varied: str | None = None,
    ) -> None:
        self._labels = tuple(of_cells(labels))
        self._cells: dict[tuple[tuple[str, str], ...], dict[Pair, Mapping[str, Any]]] = {}
        self._exact = set()
        names = set(exact)
        for row in rows:
            # Rows with another value of an assumption are not results of the unchanged study.
            if row.get("varied") == varied:
                place = _place({name: row.get(name) for name in self._labels})
                self._cells.setdefault(place, {})[pair_of(row)] = row
                if is_exact(row, names):
                    self._exact.add(place)

    def __contains__(self, cell: Cell) -> bool:
        """Return whether some run of a cell is there."""
        return _place(dict(cell.labels)) in self._cells

    def is_exact(self, cell: Cell) -> bool:
        """Return whether a cell has no random draws, so that its one run is exact."""
        return _place(dict(cell.labels)) in self._exact

    def values(self, cell: Cell, metric: Metric) -> dict[int, float]:
        """Return a metric by the number of the run, for the runs that have it.

        For drawn worlds: the mean over a world's runs, by the number of the world. A run that did not reach
        the end has no values of the viewer's metrics, because a small number of underflows would look good.
        """
        rows = self._cells.get(_place(dict(cell.labels)), {})
        seen = is_seen(metric)
        found = {pair: metric.value(row) for pair, row in rows.items() if not (seen and _is_short(row))}
        return by_pair({pair: value for pair, value in found.items() if value is not None})

    def each(self, cell: Cell, metric: Metric) -> dict[int, float]:
        """Return the same as `values`."""
        return self.values(cell, metric)

    def alike(self, left: Cell, right: Cell) -> bool:
        """Return whether two cells have the same runs, because their settings are equal."""
        ours, theirs = (
            {row.get("identity") for row in self._cells.get(_place(dict(cell.labels)), {}).values()}
            for cell in (left, right)
        )
        return bool(ours & theirs - {None})

    def endings(self, cell: Cell) -> Endings:
        """Return how many runs of a cell ended too early."""
        rows = self._cells.get(_place(dict(cell.labels)), {}).values()
        return Endings(
            runs=len(rows),
            stalled=sum(row.get("standstill_s") is not None for row in rows),
            unstarted=sum(map(_never_started, rows)),
            unreached=sum(map(_is_short, rows)),
        )

    def trials(self) -> tuple[int, int]:
        """Return the fewest and the most runs, or drawn worlds, of the cells that draw something.

        Both are zero if none does.
        """
        counts = [
            len(set(map(number, runs))) for place, runs in self._cells.items() if place not in self._exact
        ]
        return (min(counts), max(counts)) if counts else (0, 0)

    def fewest(self) -> dict[str, int]:
        """Return the fewest runs, or drawn worlds, of the cells of each row that draw something."""
        found: dict[str, int] = {}
        for place, runs in self._cells.items():
            if place not in self._exact:
                row, count = dict(place).get("row", ""), len(set(map(number, runs)))
                found[row] = min(count, found.get(row, count))
        return found

    def seeds(self) -> list[int]:
        """Return the seeds of the runs."""
        return sorted({row["seed"] for runs in self._cells.values() for row in runs.values()})

    def numbers(self) -> set[int]:
        """Return the numbers of the runs, or of the drawn worlds."""
        return {number(pair) for runs in self._cells.values() for pair in runs}

    def count(self) -> int:
        """Return how many runs there are."""
        return sum(map(len, self._cells.values()))


def read(folder: Path) -> Runs:
    """Return the runs of a folder of results, for the unchanged study.

    Raises
    ------
    InputError
        When the folder holds no results.
    """
    present_runs(folder)
    return _read(folder, [None])[None]


def read_around(folder: Path, varied: Iterable[str]) -> dict[str, Runs]:
    """Return the runs of each of some other values of an assumption; those without a run are left out.

    Raises
    ------
    InputError
        When the folder holds no results.
    """
    found = _read(folder, list(varied))
    return {name: runs for name, runs in found.items() if name is not None and runs.count()}


def _read(folder: Path, varied: Sequence[str | None]) -> dict[str | None, Runs]:
    """Return the runs of each of some values of an assumption."""
    made = store.made(folder)
    rows = {(row["cell"], row["run"]): dict(row) for row in all_rows(folder).iter_rows(named=True)}
    # The subflows that carried most come first.
    subflows = all_rows(folder, "subflows").sort("bytes", descending=True, maintain_order=True)
    for subflow in subflows.iter_rows(named=True):
        row = rows.get((subflow["cell"], subflow["run"]))
        if row is not None:
            _add(row, subflow)
    labels = [name for name in made.labels if name != "varied"]
    return {one: Runs(rows.values(), labels, made.exact, one) for one in varied}


def is_seen(metric: Metric) -> bool:
    """Return whether a metric concerns the viewer and needs a session that reaches the end."""
    return any(name in _SEEN or name.startswith(("frames.", "time_at.")) for name in metric.columns())


def _is_short(row: Mapping[str, Any]) -> bool:
    """Return whether a player of a run never started or did not reach the end."""
    return _never_started(row) or bool(row.get("unreached_sessions"))


def _never_started(row: Mapping[str, Any]) -> bool:
    """Return whether a player of a run never started.

    Results of an earlier build do not have counts of sessions.
    """
    if row.get("unstarted_sessions") is not None:
        return bool(row["unstarted_sessions"])
    return (
        "startup_delay_s" in row
        and row["startup_delay_s"] is None
        and row.get("buffer_underflows") is not None
    )


def _add(row: dict[str, Any], subflow: Mapping[str, Any]) -> None:
    """Add a subflow's numbers to its run's."""
    for name in SUBFLOW_METRICS:
        column, value = f"subflows.{subflow['path']}.{name}", subflow.get(name)
        before = row.get(column)
        if before is None:
            row[column] = value
        elif name in _SUMS and value is not None:
            row[column] = before + value


def _place(labels: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return labels as a sorted key, without missing ones."""
    return tuple(sorted((key, str(value).lower()) for key, value in labels.items() if value is not None))
