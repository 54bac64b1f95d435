"""Recordings and models that links follow: finds and reads them, and converts them for the plan."""

from __future__ import annotations

import copy
import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files, traces
from anabranch.errors import Fault, InputError
from anabranch.media import films
from anabranch.plugins import module
from anabranch.scenario.link_models import MODELS, Recording
from anabranch.traces._facts import FILE_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath
    from anabranch.scenario.models import Link
    from anabranch.scenario.models import Path as ScenarioPath

_WAYS = ("down", "up")


def places(raw: dict[str, Any]) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Yield every table of a raw scenario that may have a `trace`, with its key path."""
    for kind in ("paths", "links"):
        tables = raw.get(kind)
        for index, table in enumerate(tables if isinstance(tables, list) else []):
            if isinstance(table, dict):
                yield (kind, index), table
                for way in _WAYS:
                    if isinstance(table.get(way), dict):
                        yield (kind, index, way), table[way]


def locate(
    source: Source, folders: Sequence[Path], warnings: list[Fault]
) -> tuple[dict[str, Any], list[Fault]]:
    """Return the raw scenario with the full paths of all recordings, and the faults of the recordings.

    Warnings about a recording are added to `warnings`, once for each file.
    """
    if not any("trace" in table for _, table in places(source.raw)):
        return source.raw, []
    raw = copy.deepcopy(source.raw)
    faults: list[Fault] = []
    for path, table in places(raw):
        given = table.get("trace")
        for key in FILE_KEYS if isinstance(given, dict) else FILE_KEYS[:1]:
            name = given.get(key) if isinstance(given, dict) else given
            if not isinstance(name, str):
                continue
            here: KeyPath = (*path, "trace")
            found = films.locate(name, folders)
            if found is None:
                faults.append(source.fault(here, f"no such trace: `{name}`"))
                continue
            full = str(found.resolve())
            now = table["trace"]
            table["trace"] = {**now, key: full} if isinstance(now, dict) else full
            try:
                facts = _facts(given)
                trace = _read(full, name, facts, _files.state(found))
            except InputError as error:
                faults += error.faults
                continue
            warnings += [doubt for doubt in traces.doubts(trace, name, facts) if doubt not in warnings]
            parent = raw[path[0]][path[1]]  # type: ignore[index]
            if path[0] == "paths" and not trace.has_delays and not _has_delay(parent):
                hint = 'for example rtt = "50 ms": the trace has no delays'
                fault = source.fault((*path[:2], "rtt"), "missing key: `rtt`", hint=hint)
                faults += [fault] if fault not in faults else []
    return raw, faults


def _has_delay(path: dict[str, Any]) -> bool:
    """Return whether a path has a delay."""
    ways = [path[way] for way in _WAYS if isinstance(path.get(way), dict)]
    return "rtt" in path or any("delay" in way for way in ways)


def _facts(given: object) -> traces.RecordingFacts:
    """Return the facts in a raw table of a recording; without values that the scenario's check refuses."""
    if not isinstance(given, dict):
        return traces.RecordingFacts()
    known = {"rate_unit": traces.RATES, "time_unit": traces.TIMES, "gaps": traces.GAPS}
    facts = {
        key: given[key]
        for key, values in known.items()
        if isinstance(given.get(key), str) and given[key] in values
    }
    return traces.RecordingFacts(**facts)


@lru_cache(maxsize=64)
def _read(file: str, shown: str, facts: traces.RecordingFacts, state: _files.State) -> traces.Trace:
    """Return a recording. It is read again if the file has changed."""
    del state
    return traces.read(Path(file), where=shown, facts=facts)


def model(table: ScenarioPath | Link, way: str, *, seed: int, run: int) -> dict[str, Any] | None:
    """Return the plan's description of the model or recording that one direction of a path or link follows.

    Parameters
    ----------
    table
        The path or link.
    way
        `down` or `up`.
    seed, run
        The seed and number of the run, from which a random start in a recording is drawn.
    """
    own = table.down if way == "down" else table.up
    recording = own.trace or table.trace
    if recording is not None:
        share = place(table.name, seed=seed, run=run) if recording.start == "random" else 0.0
        heavy = _recorded(recording, recording.file, share)
        if recording.light is None:
            return heavy
        return {
            "load": {
                "light": _recorded(recording, recording.light, share),
                "heavy": heavy,
                "light_bytes": recording.light_bytes,
                "idle_ns": recording.light_after or 0,
            }
        }
    given = table.model
    return None if given is None else {given.name: given.plan(way, table.name)}


def place(name: str, *, seed: int, run: int) -> float:
    """Return where a path or link begins in its recordings, as a fraction of their length below 1.

    Both directions have the same start, because they were recorded together. Each path has a separate draw,
    so an additional path does not change another path's start.
    """
    text = f"{seed} {run} traces.{name}"
    # 53 bits are used, because a larger whole number would be rounded and could become 1.
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11) / 2**53


def random_starts(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a scenario with random starts for recordings without a given start.

    Recordings with a start, and those that do not repeat, are not changed.
    """
    found = copy.deepcopy(dict(raw))
    for _, table in places(found):
        given = table.get("trace")
        if isinstance(given, str):
            table["trace"] = {"file": given, "start": "random"}
        elif isinstance(given, dict) and given.get("repeat", True):
            table["trace"] = {"start": "random", **given}
    return found


def _recorded(recording: Recording, file: str, share: float) -> dict[str, Any]:
    """Return the plan's description of a file of a recording that begins at a share of its length."""
    trace = _read(file, file, recording.facts, _files.state(Path(file)))
    return (trace.begun_at(share) if share else trace).plan(repeat=recording.repeat)


def likely_bps(link: dict[str, Any]) -> float:
    """Return a cautious estimate of the rate that TCP gets on a link of the plan."""
    cap = link["rate_bps"] or 1e9
    kind, settings = next(iter((link.get("model") or {"fixed": {}}).items()))
    if kind == "load":
        parts = (likely_bps({**link, "model": settings[part]}) for part in ("light", "heavy"))
        return min(parts)
    expected: float = cap
    if kind in MODELS:
        expected = module().likely_bps(json.dumps({kind: settings}))
    elif kind == "opportunities":
        times = settings["opportunities_ns"]
        expected = len(times) * settings["opportunity_bytes"] * 8e9 / times[-1] / 2
    elif kind == "steps":
        expected = _mean(settings) / 2
    return float(min(cap, expected))


def _mean(steps: dict[str, Any]) -> float:
    """Return the mean rate of recorded steps. If the last step holds for ever, return its rate."""
    begins, rates, end = steps["begin_ns"], steps["rates_bps"], steps["repeat_ns"]
    if end is None:
        return float(max(rates[-1], 1000))
    lengths = [after - at for at, after in zip(begins, [*begins[1:], end], strict=True)]
    return float(sum(rate * length for rate, length in zip(rates, lengths, strict=True)) / end)
