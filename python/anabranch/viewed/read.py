"""The live part of a study: `live.toml` next to its `study.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.live.viewers import VIEWERS
from anabranch.scenario import shipped
from anabranch.study import study as studies
from anabranch.study.sweep import Sweep, cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.scenario._lines import KeyPath

#: The file.
FILE = "live.toml"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class World(_Table):
    """A scenario in which every arm runs.

    Attributes
    ----------
    row
        The study's scenario.
    viewer
        The program that plays there; None is the study's.
    """

    row: str
    viewer: str | None = None


class Arm(_Table):
    """One of the compared arms.

    Attributes
    ----------
    name
        Its label in the results.
    row
        The study's scenario; None if the study has worlds, in all of which the arm runs.
    server
        The server: our endpoint, or the kernel.
    tcp_nopush
        Whether nginx runs with `tcp_nopush on`, as Debian configures it. It then sets `TCP_CORK`.
    set
        Keys of the scenario and their values.
    """

    name: Annotated[str, Field(min_length=1)]
    row: str | None = None
    server: Literal["gateway", "kernel"] = "gateway"
    tcp_nopush: bool = False
    set: dict[str, Any] = {}


class LiveStudy(_Table):
    """A study over real packets, as its file describes it.

    Attributes
    ----------
    question
        The question.
    viewer
        The program that plays.
    trials
        Runs of each arm in each world.
    set
        Keys of every arm, over what the study's assumptions set.
    client
        The timeouts and retries of the client's kernel: `set`, as in the scenario, or `stock`, its own.
    worlds
        The scenarios in which every arm runs; none if each arm names its own.
    arms
        The arms, run by turns.
    causes
        Why simulator and viewer differ, by the metric, or by `ARM: METRIC` where it is about one arm.
    """

    question: str
    viewer: str
    trials: Annotated[int, Field(ge=1)] = 5
    set: dict[str, Any] = {}
    client: Literal["set", "stock"] = "set"
    worlds: list[World] = []
    arms: Annotated[list[Arm], Field(min_length=1)]
    causes: dict[str, str] = {}

    def cases(self) -> list[Case]:
        """Return every arm in its scenario or in every world, in the order of a round."""
        return [self._case(world, arm) for world in self.worlds or (None,) for arm in self.arms]

    def case_of(self, labels: Mapping[str, object]) -> Case:
        """Return the case of a cell with these labels."""
        return next(case for case in self.cases() if case.owns(labels))

    def _case(self, world: World | None, arm: Arm) -> Case:
        """Return an arm in a world, or in its own scenario."""
        viewer = self.viewer if world is None else world.viewer or self.viewer
        return Case(
            arm=arm.name,
            row=(arm.row or "") if world is None else world.row,
            in_world=world is not None,
            viewer=viewer,
            server=arm.server,
            client=self.client,
            tcp_nopush=arm.tcp_nopush,
            set=self.set | arm.set,
        )


@dataclass(frozen=True, kw_only=True)
class Case:
    """An arm in a scenario.

    Attributes
    ----------
    arm, row
        Their names.
    in_world
        Whether other arms run in the same scenario.
    viewer, server, client
        The program that plays, who serves, and the timeouts of the client's kernel.
    tcp_nopush
        Whether nginx sets `TCP_CORK`.
    set
        All keys that are set.
    """

    arm: str
    row: str
    in_world: bool
    viewer: str
    server: Literal["gateway", "kernel"]
    client: Literal["set", "stock"]
    tcp_nopush: bool
    set: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The arm, after the scenario's name if several arms run there."""
        return f"{self.row}: {self.arm}" if self.in_world else self.arm

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        """The labels of its results."""
        return (*((("row", self.row),) if self.in_world else ()), ("arm", self.arm))

    def owns(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row of results is of this case."""
        return all(row.get(key) == value for key, value in self.labels)


def read(folder: Path) -> LiveStudy:
    """Return the live part of a study.

    Parameters
    ----------
    folder
        The study's.

    Raises
    ------
    InputError
        If it has no live part, or with every fault of its file.
    """
    path = folder / FILE
    where = shipped.display(path)
    if not path.exists():
        with_one = [name for name, one in studies.folders().items() if (one / FILE).exists()]
        hint = f"these have: {', '.join(with_one)}" if with_one else ""
        message = f"the study has nothing to run over real packets: no {FILE}"
        raise InputError([Fault(message=message, where=shipped.display(folder), hint=hint)])
    found = studies.validated(path, LiveStudy, _keys)
    faults = [*_viewers(found, where), *_rows(found, studies.rows_of(folder), where), *_twice(found, where)]
    if faults:
        raise InputError(faults)
    return found


def _viewers(found: LiveStudy, where: str) -> Iterator[Fault]:
    """Yield a fault for each program that is not known."""
    given = [("viewer", found.viewer)]
    given += [(f"worlds.{n}.viewer", one.viewer) for n, one in enumerate(found.worlds) if one.viewer]
    for key, name in given:
        if name not in VIEWERS:
            hint = did_you_mean(name, VIEWERS)
            yield Fault(message=f"no such viewer: `{name}`", where=where, key=key, hint=hint)


def _rows(found: LiveStudy, rows: set[str], where: str) -> Iterator[Fault]:
    """Yield a fault for each scenario that is not known, missing, or given beside worlds."""
    given = [(f"worlds.{n}.row", one.row) for n, one in enumerate(found.worlds)]
    given += [(f"arms.{n}.row", one.row) for n, one in enumerate(found.arms) if one.row is not None]
    for key, name in given:
        if name not in rows:
            hint = did_you_mean(name, rows)
            yield Fault(message=f"no such scenario: `{name}`", where=where, key=key, hint=hint)
    for n, arm in enumerate(found.arms):
        if arm.row is None and not found.worlds:
            hint = "`row`, or a table [[worlds]] for all arms"
            yield Fault(message=f"no scenario: `{arm.name}`", where=where, key=f"arms.{n}", hint=hint)
        elif arm.row is not None and found.worlds:
            message = f"every arm runs in the worlds: `{arm.row}`"
            yield Fault(message=message, where=where, key=f"arms.{n}.row")


def _twice(found: LiveStudy, where: str) -> Iterator[Fault]:
    """Yield a fault for each arm or world that has the name of another one."""
    names = {"arms": [one.name for one in found.arms], "worlds": [one.row for one in found.worlds]}
    for key, given in names.items():
        for place, name in enumerate(given):
            if name in given[:place]:
                what, last = ("arm", "name") if key == "arms" else ("world", "row")
                message = f"another {what} has this name: `{name}`"
                yield Fault(message=message, where=where, key=f"{key}.{place}.{last}")


def _keys(path: KeyPath) -> list[str]:
    """Return the keys of the table that a path is in."""
    models: dict[object, type[_Table]] = {"arms": Arm, "worlds": World}
    return list((models.get(path[0], LiveStudy) if len(path) > 1 else LiveStudy).model_fields)


def sweep(folder: Path, found: LiveStudy, *, trials: int | None = None, only: Sequence[str] = ()) -> Sweep:
    """Return the sweep of a live study: a cell for each arm in each of its scenarios.

    Parameters
    ----------
    folder, found
        The study, and its live part.
    trials
        Replaces its own number.
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
        studies.world_of(folder, study, case.row, case.set, origin=FILE, labels=case.labels)
        for case in found.cases()
        if not only or case.arm in only
    )
    notes = {"question": found.question, "viewer": found.viewer}
    name = f"{folder.name}-live" + "".join(f"-{names.index(one)}" for one in only)
    return Sweep(name=name, cells=cells(points), trials=trials or found.trials, notes=notes, keep=_KEEP)


#: The stored tables of each run: all that a report needs.
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
