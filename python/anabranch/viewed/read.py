"""What a study runs over real packets: `live.toml` beside its `study.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.live.viewers import VIEWERS
from anabranch.scenario import shipped
from anabranch.study import study as studies
from anabranch.study.sweep import Sweep, cells

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.scenario._lines import KeyPath

#: The file.
FILE = "live.toml"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Arm(_Table):
    """One of the things that are compared.

    Attributes
    ----------
    name
        What results call it.
    row
        The study's scenario.
    server
        Who serves: our endpoint, or the kernel.
    set
        Keys of the scenario and their values.
    """

    name: Annotated[str, Field(min_length=1)]
    row: str
    server: Literal["gateway", "kernel"] = "gateway"
    set: dict[str, Any] = {}


class LiveStudy(_Table):
    """A study over real packets as its file has it.

    Attributes
    ----------
    question
        What it is to answer.
    viewer
        The program that plays.
    trials
        Runs of each arm in each world.
    set
        Keys of every arm, over what the study's assumptions set.
    arms
        What is compared, run by turns.
    causes
        Why simulator and viewer differ, by the metric, or by `ARM: METRIC` where it is about one arm.
    """

    question: str
    viewer: str
    trials: Annotated[int, Field(ge=1)] = 5
    set: dict[str, Any] = {}
    arms: Annotated[list[Arm], Field(min_length=1)]
    causes: dict[str, str] = {}


def read(folder: Path) -> LiveStudy:
    """Return what a study runs over real packets.

    Parameters
    ----------
    folder
        The study's.

    Raises
    ------
    InputError
        When it has nothing of the kind, or with every fault of its file.
    """
    path = folder / FILE
    where = shipped.display(path)
    if not path.exists():
        with_one = [name for name, one in studies.folders().items() if (one / FILE).exists()]
        hint = f"these have: {', '.join(with_one)}" if with_one else ""
        message = f"the study has nothing to run over real packets: no {FILE}"
        raise InputError([Fault(message=message, where=shipped.display(folder), hint=hint)])
    found = studies.validated(path, LiveStudy, _keys)
    faults = []
    if found.viewer not in VIEWERS:
        hint = did_you_mean(found.viewer, VIEWERS)
        faults.append(
            Fault(message=f"no such viewer: `{found.viewer}`", where=where, key="viewer", hint=hint)
        )
    rows = studies.rows_of(folder)
    seen: set[str] = set()
    for place, arm in enumerate(found.arms):
        if arm.row not in rows:
            hint = did_you_mean(arm.row, rows)
            message = f"no such scenario: `{arm.row}`"
            faults.append(Fault(message=message, where=where, key=f"arms.{place}.row", hint=hint))
        if arm.name in seen:
            message = f"another arm has this name: `{arm.name}`"
            faults.append(Fault(message=message, where=where, key=f"arms.{place}.name"))
        seen.add(arm.name)
    if faults:
        raise InputError(faults)
    return found


def _keys(path: KeyPath) -> list[str]:
    """Return the keys of the table that a path is in."""
    return list((Arm if len(path) > 1 and path[0] == "arms" else LiveStudy).model_fields)


def sweep(folder: Path, found: LiveStudy, *, trials: int | None = None, only: Sequence[str] = ()) -> Sweep:
    """Return what is to be run: a cell an arm.

    Parameters
    ----------
    folder, found
        The study, and what it runs over real packets.
    trials
        Instead of its own number.
    only
        The arms to run; none is all.

    Raises
    ------
    InputError
        When there is no such arm, or a scenario cannot be read.
    """
    names = [arm.name for arm in found.arms]
    faults = [
        Fault(message=f"no such arm: `{name}`", where=f"--only {name}", hint=did_you_mean(name, names))
        for name in only
        if name not in names
    ]
    if faults:
        raise InputError(faults)
    study = studies.read(folder)
    points = (
        studies.world_of(
            folder, study, arm.row, found.set | arm.set, origin=FILE, labels=(("arm", arm.name),)
        )
        for arm in found.arms
        if not only or arm.name in only
    )
    notes = {"question": found.question, "viewer": found.viewer}
    name = f"{folder.name}-live" + "".join(f"-{names.index(one)}" for one in only)
    return Sweep(name=name, cells=cells(points), trials=trials or found.trials, notes=notes, keep=_KEEP)


#: The tables that are kept of each run: all that a report is drawn from.
_KEEP = (
    "run",
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
)
