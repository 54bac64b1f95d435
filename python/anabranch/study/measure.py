"""Conversion of a run to the rows that are stored."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean
from anabranch.results.tables import HEAD

#: The tables of a trace.
TRACE = (
    "connections",
    "subflows",
    "samples",
    "player",
    "gaps",
    "frames",
    "playback",
    "requests",
    "chunks",
    "renditions",
    "links",
    "events",
    "cross_traffic",
    "cross_samples",
    "departures",
    "arrivals",
    "receivers",
    "wrong_reads",
)
#: The table that is kept with a whole trace: a row of JSON with the inputs of the run and its summary.
RUN = "run"

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anabranch._run import Run
    from anabranch.metrics.score import Score
    from anabranch.results.store import Row, Rows
    from anabranch.study.sweep import Job


@dataclass(frozen=True, kw_only=True)
class Name:
    """The name of a run in a folder of results.

    Attributes
    ----------
    labels
        The labels of its cell.
    identity, cell
        Its identity, and the name of its cell.
    """

    labels: Mapping[str, Any]
    identity: str
    cell: str


def rows(job: Job, run: Run, prices: Mapping[str, float], scored: Score | None = None) -> Rows:
    """Return a run's rows: one of `runs`, one of `subflows` for each subflow.

    Parameters
    ----------
    job
        The run's job.
    run
        The run.
    prices
        Price of a gigabyte on each path that has one.
    scored
        The function that computes a run's score for verdicts; None stores no score.
    """
    name = Name(labels=dict(job.cell.labels), identity=job.identity, cell=job.name)
    return named(name, run, prices, scored)


def named(name: Name, run: Run, prices: Mapping[str, float], scored: Score | None = None) -> Rows:
    """Return the rows of a run under a name; the other parameters are those of `rows`."""
    head: Row = {
        **name.labels,
        "identity": name.identity,
        "cell": name.cell,
        "scenario": run.scenario,
        "scheduler": run.scheduler,
        "congestion": run.congestion,
        "seed": run.seed,
        "run": run.run,
    }
    numbers = dict(_flat(run.qoe or {})) | dict(_flat(run.qos))
    # A path that was never used carried 0 bytes.
    per_path = {path["name"]: 0 for path in run.plan["paths"]} | _bytes_per_path(run.qos["subflows"])
    again = [subflow["retransmissions"] for subflow in run.qos["subflows"]]
    numbers["retransmissions"] = None if None in again else sum(again)
    numbers["unfinished_sessions"] = sum(not row["finished"] for row in run.rows("connections"))
    if run.qoe is not None:
        players = [one["qoe"] for one in run.clients if one["qoe"] is not None]
        numbers["unstarted_sessions"] = sum(one["startup_delay_s"] is None for one in players)
        numbers["unreached_sessions"] = sum(not one["reached_end"] for one in players)
    stands = run.summary.get("standstills", ())
    if stands:
        numbers["standstill_s"] = min(one["at_s"] for one in stands)
        numbers["standstill"] = stands[0]["message"]
    if scored is not None:
        numbers |= scored.columns({**numbers, "duration_s": run.duration_s})
    paths = {f"bytes_{path}": count for path, count in per_path.items()}
    costs = {f"cost_{path}": per_path.get(path, 0) / 1e9 * price for path, price in prices.items()}
    total = {"cost": sum(costs.values())} if costs else {}
    return {
        "runs": [
            {**head, "duration_s": run.duration_s, **numbers, **paths, **costs, **total, "digest": run.digest}
        ],
        "subflows": [
            {**head, "subflow": place, **_rounded(subflow)}
            for place, subflow in enumerate(run.qos["subflows"])
        ],
    }


def renamed(found: Rows, labels: Iterable[str], other: Job) -> Rows:
    """Return the rows of a run as those of a run that differs only in its name.

    Parameters
    ----------
    found
        The rows.
    labels
        The labels of the cell.
    other
        The job that the run is reused for.
    """
    loaded, _ = other.ready()
    head = {"identity": other.identity, "cell": other.name, "scenario": loaded.scenario.name}
    # A label such as `seed` is also in `HEAD`, whose columns every row has.
    own = {*head, *(set(labels) - set(HEAD))}
    return {
        table: [
            {**dict(other.cell.labels), **head, **{key: row[key] for key in row if key not in own}}
            for row in rows
        ]
        for table, rows in found.items()
    }


def traces(job: Job, run: Run) -> dict[str, bytes]:
    """Return the tables of the trace that are kept, as Parquet files by name."""
    return tables(run, job.keep)


def tables(run: Run, keep: Sequence[str], *, with_metrics: bool = False) -> dict[str, bytes]:
    """Return some tables of a run's trace as Parquet files by name.

    Parameters
    ----------
    run
        The run.
    keep
        The tables.
    with_metrics
        Whether the metrics are kept too, because the tables alone do not give them.
    """
    if not keep:
        # A worker that stores no table does not import polars, which takes as long as several short runs.
        return {}
    import io

    import polars

    said = {
        "plan": run.plan,
        "summary": run.summary,
        "plugins": run.plugins,
        "broken": [dataclasses.asdict(one) for one in run.broken],
    }
    if with_metrics:
        said["metrics"] = {"qoe": run.qoe, "qos": run.qos, "clients": list(run.clients)}
    result = {}
    for table in keep:
        buffer = io.BytesIO()
        if table == RUN:
            frame = polars.DataFrame({name: [json.dumps(value)] for name, value in said.items()})
        else:
            frame = polars.DataFrame(run.tables[table])
        frame.write_parquet(buffer, compression="zstd", statistics=False)
        result[table] = buffer.getvalue()
    return result


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return scalars by dotted name, with nested tables one level down. Lists have separate tables."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            found.append((prefix + key, value))
    return found


def _rounded(values: Mapping[str, Any]) -> Row:
    """Return a subflow's scalars."""
    return {key: value for key, value in values.items() if not isinstance(value, dict | list)}


def _bytes_per_path(subflows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the payload acknowledged on each path."""
    result: dict[str, int] = {}
    for subflow in subflows:
        result[subflow["path"]] = result.get(subflow["path"], 0) + round(subflow["bytes"])
    return result


def unknown_tables(keep: Sequence[str]) -> list[Fault]:
    """Return the faults of tables that no trace has."""
    # The results always have one row for each subflow.
    known = [table for table in TRACE if table != "subflows"]
    return [
        Fault(message=f"no such table: `{table}`", where=f"--keep {table}", hint=did_you_mean(table, known))
        for table in keep
        if table not in known
    ]


def kept(keep: Sequence[str], *, whole: bool) -> tuple[str, ...]:
    """Return the tables to keep of every run: those that are named, or all there is."""
    return (RUN, *TRACE) if whole else tuple(keep)
