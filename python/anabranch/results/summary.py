"""The means of a sweep's cells, each with its 95 % interval."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from anabranch._distributions import student_quantile
from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.metrics import score
from anabranch.results.read import Reader
from anabranch.results.tables import HEAD, TABLES
from anabranch.results.worlds import WORLD

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars


class StandstillWarning(UserWarning):
    """A warning that some runs stopped sending although data was left."""


#: The metrics to show for each cell, if the runs have them: the score of the application first.
SHOWN = (
    score.WAITING,
    score.RATE,
    "bitrate_mean_mbps",
    "picture_discards",
    "buffer_underflows",
    "recovery_time_s",
    "startup_delay_s",
    "rebuffer_s",
    "still_s",
    "unplayed_s",
    "resolution_mean",
    "resolution_changes",
    "top_share",
    "goodput_mbps",
    "retransmissions",
    "cost",
)
#: Counts of sessions that are shown if they are not zero in some run.
SHORT = ("unfinished_sessions", "unstarted_sessions", "unreached_sessions")
#: The column of row numbers; no label or metric has a space in its name.
_ROW = "row number"
#: The suffix of the column with half the width of a mean's 95 % interval.
INTERVAL = "_ci95"


def means(
    folder: Path, by: Sequence[str], metrics: Sequence[str] = (), *, earlier: bool = False
) -> list[dict[str, Any]]:
    """Return a row for each cell: labels, number of runs, and the mean of each metric with its interval.

    Parameters
    ----------
    folder
        The results.
    by
        The columns that make a cell.
    metrics
        Columns to take the mean of; if empty, those of `SHOWN` that are not zero in every run.
    earlier
        Include runs of earlier sources and other cells; `by` then has the column that distinguishes them.

    Returns
    -------
    list of dict
        `NAME` is the mean over the runs that have the metric, `NAME_ci95` half the width of its 95 %
        interval by Student's t; None if fewer than two have it. Several runs in a drawn world count as one,
        with their mean, unless `by` names the world.

    Raises
    ------
    InputError
        When a column does not exist or is not numeric.
    """
    frame = Reader(folder).current(TABLES[0], earlier=earlier)
    if not frame.width:
        return []
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric() or str(kind) == "Boolean"]
    faults = [_unknown(name, "--by", frame.columns) for name in by if name not in frame.columns]
    measured = [name for name in numbers if name not in HEAD]
    faults += [_unknown(name, "--metric", measured) for name in metrics if name not in numbers]
    if faults:
        raise InputError(faults)
    if not frame.height:
        return []
    chosen = metrics or shown(frame, numbers)
    if not metrics:
        # Means only cover the runs that started.
        chosen = [*chosen, *(name for name in SHORT if _count(frame, name))]
    drawn = WORLD in frame.columns and WORLD not in by
    return [_row(row, by, chosen) for row in _cells(frame, by, chosen, drawn=drawn).iter_rows()]


def shown(frame: polars.DataFrame, numbers: Sequence[str]) -> list[str]:
    """Return the columns of `SHOWN` that some run has another value of than zero.

    If every value of every column is zero, all columns are returned.

    Parameters
    ----------
    frame
        The runs.
    numbers
        The numeric columns.
    """
    known = [name for name in SHOWN if name in numbers]
    return [name for name in known if (frame[name].drop_nulls() != 0).any()] or known


def _cells(
    frame: polars.DataFrame, by: Sequence[str], metrics: Sequence[str], *, drawn: bool
) -> polars.DataFrame:
    """Return a row for each cell, in the order of the runs: labels, number of runs, mean, spread and count.

    Parameters
    ----------
    frame
        The runs.
    by, metrics
        The columns.
    drawn
        Take the mean over each drawn world's runs first. Worlds of equal number and seed are the same world.
    """
    import polars

    # Columns are numbered here, because columns of runs may have any name.
    keys = [f"by{place}" for place in range(len(by))]
    names = [f"metric{place}" for place in range(len(metrics))]
    table = frame.with_row_index(_ROW).select(
        *(polars.col(name).alias(key) for name, key in zip(by, keys, strict=True)),
        *(polars.col(name).cast(polars.Float64).alias(own) for name, own in zip(metrics, names, strict=True)),
        polars.lit(1, dtype=polars.Int64).alias("runs"),
        *([_world().alias("world")] if drawn else []),
    )
    if drawn:
        table = table.group_by([*keys, "world"], maintain_order=True).agg(
            polars.col("runs").sum(), polars.col(names).mean()
        )
    figures = [polars.col("runs").sum()]
    for name in names:
        value = polars.col(name)
        figures += [value.mean(), value.std().alias(f"{name}-spread"), value.count().alias(f"{name}-count")]
    whole = table.group_by(keys, maintain_order=True).agg(*figures) if keys else table.select(*figures)
    return whole.select("runs", *keys, polars.exclude("runs", *keys))


def _world() -> polars.Expr:
    """Return the name of each run's drawn world. Each run without one gets a different name."""
    import polars

    text = polars.String
    drawn = polars.col(WORLD).cast(text) + " " + polars.col("seed").cast(text)
    return polars.coalesce(drawn, "run " + polars.col(_ROW).cast(text))


def unfinished(folder: Path) -> tuple[int, int]:
    """Return the number of runs that the end of the simulation cut off, and the number of all runs."""
    frame = Reader(folder).current(TABLES[0])
    return _count(frame, "unfinished_sessions"), frame.height


def unreached(folder: Path) -> str | None:
    """Return a sentence about runs in which a player did not reach the end; None if all did."""
    frame = Reader(folder).current(TABLES[0])
    short, never = _count(frame, "unreached_sessions"), _count(frame, "unstarted_sessions")
    if not short:
        return None
    started = f"; in {never} one never started" if never else ""
    return f"in {short} of {frame.height} runs a player did not reach the end{started}"


def standstills(folder: Path) -> list[Fault]:
    """Return a warning about runs that stopped sending although data was left; empty if there are none."""
    frame = Reader(folder).current(TABLES[0])
    if "standstill" not in frame.columns:
        return []
    found = frame.filter(frame["standstill"].is_not_null())
    if not found.height:
        return []
    first = found.row(0, named=True)
    message = f"{found.height} of {frame.height} runs stand still, the first one with seed {first['seed']}, "
    message += f"run {first['run']}, of {first['cell']}: {first['standstill']}"
    hint = "unless your own scheduler caused it, this is a defect: please report it with scenario and seed"
    shown = f"`anabranch report {folder} --run {first['identity']}` shows it"
    return [Fault(message=message, hint=f"{hint}; {shown}")]


def warn_standstills(folder: Path, *, stacklevel: int = 2) -> None:
    """Warn about runs that stand still, because the means include them."""
    for fault in standstills(folder):
        warnings.warn(fault.sentence(), StandstillWarning, stacklevel=stacklevel)


def _count(frame: polars.DataFrame, column: str) -> int:
    """Return the number of runs in which a count of sessions is not zero."""
    return int((frame[column] > 0).sum()) if column in frame.columns else 0


def _row(row: Sequence[Any], by: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    """Return one cell."""
    runs, *rest = row
    result: dict[str, Any] = {**dict(zip(by, rest, strict=False)), "runs": runs}
    for place, name in enumerate(metrics):
        mean, spread, count = rest[len(by) + 3 * place : len(by) + 3 * place + 3]
        result[name] = mean
        wide = (
            None if spread is None or count < 2 else student_quantile(0.975, count - 1) * spread / count**0.5
        )
        result[name + INTERVAL] = wide
    return result


def _unknown(name: str, option: str, known: Sequence[str]) -> Fault:
    """Return the fault of a column that does not exist."""
    return Fault(message=f"no such column: `{name}`", where=option, hint=did_you_mean(name, known))
