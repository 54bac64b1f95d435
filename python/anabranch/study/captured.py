"""Stores captured sessions in a folder of results, as trials of cells that the user names by labels."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.results import manifest as manifests
from anabranch.results.read import rows
from anabranch.results.store import Store
from anabranch.study import measure

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from pathlib import Path

    from anabranch._run import Run

#: The name of a folder of captured sessions in its manifest.
NAME = "captured sessions"
#: The length of an identity, as that of simulated runs.
_LENGTH = 20
#: Columns of a run that a capture does not have.
_UNKNOWN = ("unfinished_sessions",)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The place of a captured session in a folder of results.

    Attributes
    ----------
    cell
        The cell: its labels in words.
    trial
        The session's number among those of its cell, from 1.
    is_new
        Whether it was stored now; otherwise it was there already.
    """

    cell: str
    trial: int
    is_new: bool


def store(run: Run, folder: Path, labels: Mapping[str, str]) -> Stored:
    """Store a captured session as the next trial of a cell.

    Parameters
    ----------
    run
        The session.
    folder
        The folder of results, which is made if necessary.
    labels
        The settings that distinguish sessions, for example `{"scheduler": "linux", "place": "home"}`.

    Raises
    ------
    InputError
        If the folder has runs that were not captured, or cannot be used, or a label is a column of results.
    MissingError
        If the disk is full.
    """
    identity = _identity(run)
    cell = ", ".join(f"{key}={_quoted(value)}" for key, value in sorted(labels.items())) or "captured"
    before = _before(folder)
    known = {one["cell"]: one for one in before}
    known.setdefault(cell, _entry(cell, dict(labels)))
    stored = rows(folder).to_dicts() if before else []
    for row in stored:
        if row["identity"] == identity:
            return Stored(cell=row["cell"], trial=row["run"] + 1, is_new=False)
    trial = sum(row["cell"] == cell for row in stored)
    named = replace(
        run,
        run=trial,
        scheduler=labels.get("scheduler", run.scheduler),
        congestion=labels.get("congestion", run.congestion),
    )
    found = measure.named(measure.Name(labels={}, identity=identity, cell=cell), named, {})
    _refuse_columns(found["runs"][0], labels)
    keep = (measure.RUN, *(table for table in measure.TRACE if table in run.tables))
    manifest = {
        "name": NAME,
        # Captured sessions do not depend on the build.
        "code": "",
        "trials": trial + 1,
        "keep": list(keep),
        "notes": {},
        "scenarios": {"captured": {}},
        "cells": list(known.values()),
    }
    results = Store(folder, manifest)
    for name in _UNKNOWN:
        found["runs"][0].pop(name, None)
    found = {table: [{**labels, **row} for row in own] for table, own in found.items()}
    with results.writing() as journal:
        journal.add(found, measure.tables(named, keep, with_metrics=True))
    results.finish()
    return Stored(cell=cell, trial=trial + 1, is_new=True)


def _identity(run: Run) -> str:
    """Return a hash of a session, which does not depend on a log of its player."""
    what = [run.summary["sessions"], run.summary["begin_unix_s"], run.duration_s, run.qos]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:_LENGTH]


def _quoted(value: str) -> str:
    """Return a label's value, in quotes if it has signs that separate labels."""
    return json.dumps(value) if any(sign in value for sign in ',="') else value


def _refuse_columns(columns: Container[str], labels: Mapping[str, str]) -> None:
    """Refuse labels whose keys are columns of results, which would replace them.

    Raises
    ------
    InputError
        With a fault for each.
    """
    taken = [key for key in labels if key in columns and key not in ("scheduler", "congestion")]
    if taken:
        message = "`{}` is a column of all results: use another key"
        raise InputError([Fault(message=message.format(key), where=f"--label {key}") for key in taken])


def _entry(cell: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the manifest's entry of a cell."""
    return {
        "cell": cell,
        "scenario": "captured",
        "text": "captured",
        "folder": "",
        "file": "",
        "settings": {},
        "labels": labels,
    }


def _before(folder: Path) -> list[dict[str, Any]]:
    """Return the cells of a folder of captured sessions; none if there is no folder yet."""
    if not (folder / manifests.MANIFEST).exists():
        return []
    found = manifests.read(folder)
    if found.get("name") != NAME:
        hint = "give a folder of its own for captured sessions"
        raise InputError([Fault(message="the folder has simulated runs", where=str(folder), hint=hint)])
    return [{**one} for one in found["cells"]]
