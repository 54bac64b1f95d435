"""Every cell compared with another one, with the same random draws: `--versus linux`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch._numbers import argument
from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.results import paired, store, summary
from anabranch.results.read import present_runs
from anabranch.results.store import HEAD
from anabranch.results.worlds import Pair, by_pair, is_exact, of_cells, pair_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars

#: The suffixes of the columns with a difference's interval, its pairs, and its detectable effect.
LOW, HIGH, PAIRS, DETECTABLE = "_low", "_high", "_pairs", "_detectable"

#: The most columns of a short table.
_SHORT = 10

#: A cell's runs by number, and by world for drawn worlds.
_Runs = dict[Pair, dict[str, Any]]


def differences(
    folder: Path, value: str, metrics: Sequence[str] = (), *, relative: bool = False
) -> list[dict[str, Any]]:
    """Return a row for each cell and its counterpart: mean paired differences with their intervals.

    Parameters
    ----------
    folder
        The results.
    value
        A value of one of the grid's keys, `linux`, or key and value, `transport.scheduler=linux`. A cell is
        compared with the one that has this value and is the same in all other keys.
    metrics
        Columns to take differences of; if empty, those of `SHOWN` that are not zero in every run.
    relative
        Changes of the mean in percent instead of differences.

    Returns
    -------
    list of dict
        The labels of the cell; `NAME` is the mean difference, cell less counterpart, over runs of the same
        number, or over drawn worlds of the same number. `NAME_low` and `NAME_high` are its 95 % interval,
        `NAME_pairs` is the number of pairs, and `NAME_detectable` the smallest difference that this number of
        pairs shows with a power of 80 %. None if no pair has the metric.

    Raises
    ------
    InputError
        If no key of the grid has this value, or a column does not exist or is not numeric.
    """
    made = store.made(folder)
    frame = present_runs(folder)
    labels = [name for name in of_cells(made.labels) if name in frame.columns]
    key, wanted = _found(frame, labels, value)
    chosen = _metrics(frame, metrics)
    cells: dict[tuple[Any, ...], _Runs] = {}
    exact = set()
    for row in frame.iter_rows(named=True):
        place = tuple(row[name] for name in labels)
        cells.setdefault(place, {})[pair_of(row)] = row
        if is_exact(row, made.exact):
            exact.add(place)
    result = []
    at = labels.index(key)
    for place, runs in cells.items():
        base = next(
            (other for other in cells if _same_but(place, other, at) and argument(other[at]) == wanted), None
        )
        if argument(place[at]) == wanted or base is None:
            continue
        one: dict[str, Any] = dict(zip(labels, place, strict=True))
        for name in chosen:
            left, right = paired.matched(
                _values(runs, name),
                _values(cells[base], name),
                exact=(place in exact, base in exact),
            )
            effect = _change(left, right) if relative else paired.difference(left, right)
            one |= {name: effect.value, name + LOW: effect.low, name + HIGH: effect.high}
            one |= {name + PAIRS: effect.pairs, name + DETECTABLE: effect.detectable}
        result.append(one)
    if not result:
        message = f"no cell differs from another one in `{key}` alone"
        raise InputError([Fault(message=message, where=f"--versus {value}")])
    return result


def short(folder: Path, value: str, *, relative: bool = False) -> list[dict[str, Any]]:
    """Return differences in at most `_SHORT` columns: labels, `pairs`, and some metrics with intervals.

    The columns are those of `SHOWN` that are not zero in every run. The score of the application comes first.

    Parameters
    ----------
    folder, value, relative
        As of `differences`.
    """
    frame = present_runs(folder)
    labels = [name for name in of_cells(store.made(folder).labels) if name in frame.columns]
    chosen = _metrics(frame, ())[: max(1, (_SHORT - len(labels) - 1) // 3)]
    result = []
    for row in differences(folder, value, chosen, relative=relative):
        one = {name: row[name] for name in labels}
        one["pairs"] = max(row[name + PAIRS] for name in chosen)
        for name in chosen:
            one |= {name + end: row[name + end] for end in ("", LOW, HIGH)}
        result.append(one)
    return result


def is_comparable(folder: Path, key: str, value: str) -> bool:
    """Return whether any cell differs from one with this value only in this key.

    Parameters
    ----------
    folder
        The results.
    key, value
        A label of the cells and its value.
    """
    frame = present_runs(folder)
    labels = [name for name in of_cells(store.made(folder).labels) if name in frame.columns]
    if key not in labels:
        return False
    groups: dict[tuple[Any, ...], set[str]] = {}
    for row in frame.select(labels).unique().iter_rows(named=True):
        place = tuple(row[name] for name in labels if name != key)
        groups.setdefault(place, set()).add(argument(row[key]))
    return any(value in values and len(values) > 1 for values in groups.values())


def _found(frame: polars.DataFrame, labels: Sequence[str], value: str) -> tuple[str, str]:
    """Find a value in the grid; return its key and the value."""
    where = f"--versus {value}"
    given, equals, text = value.partition("=")
    keys = [name for name in labels if given in (name, name.rpartition(".")[2])] if equals else []
    wanted = text if keys else value
    known = {name: {argument(one) for one in frame[name].unique().to_list()} for name in keys or labels}
    having = [name for name, values in known.items() if wanted in values]
    if len(having) == 1:
        return having[0], wanted
    if having:
        message = f"several keys have this value: {', '.join(having)}"
        raise InputError([Fault(message=message, where=where, hint=f"--versus {having[0]}={wanted}")])
    every = {one for values in known.values() for one in values}
    message = f"no key of the grid has this value: `{wanted}`"
    hint = did_you_mean(wanted, every) if every else "the results have no grid"
    raise InputError([Fault(message=message, where=where, hint=hint)])


def _metrics(frame: polars.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Return the columns to compare."""
    numbers = [
        name
        for name, kind in frame.schema.items()
        if (kind.is_numeric() or str(kind) == "Boolean") and name not in HEAD and "." not in name
    ]
    numbers += [name for name in frame.columns if name.startswith("frames.")]
    faults = [
        Fault(message=f"no such column: `{name}`", where="--metric", hint=did_you_mean(name, numbers))
        for name in metrics
        if name not in numbers
    ]
    if faults:
        raise InputError(faults)
    return list(metrics) or summary.shown(frame, numbers)


def _same_but(one: Sequence[Any], other: Sequence[Any], at: int) -> bool:
    """Return whether two cells are equal in all labels except one."""
    return all(a == b for place, (a, b) in enumerate(zip(one, other, strict=True)) if place != at)


def _change(left: paired.Values, right: paired.Values) -> paired.Effect:
    """Return the change of the mean in percent."""
    found = paired.quotient(left, right) if left.size else paired.difference(left, right)

    def percent(quotient: float | None) -> float | None:
        return None if quotient is None else 100 * (quotient - 1)

    detectable = None if found.detectable is None else 100 * found.detectable
    return replace(
        found,
        value=percent(found.value),
        low=percent(found.low),
        high=percent(found.high),
        detectable=detectable,
    )


def _values(runs: Mapping[Pair, Mapping[str, Any]], name: str) -> dict[int, float]:
    """Return a metric by run or drawn world, of the runs that have it."""
    return by_pair({pair: float(row[name]) for pair, row in runs.items() if row[name] is not None})
