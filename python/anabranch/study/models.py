"""The tables of study.toml."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Table(BaseModel):
    """A table of the file; a key that it does not have is a fault."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Assumption(Table):
    """A value that no source gives.

    Attributes
    ----------
    what
        The missing fact.
    why
        The reason for the value.
    set
        Keys of the scenarios and their values; `paths.*.queue` sets the queue of every path. If the key is an
        axis of the grid, the value is a pattern for each value of the axis, `penalising({})`, or a table that
        replaces some of them, `{ spdx = "spdx(hold=1)" }`. Values that are not in the table stay.
    sweep
        Other values for the sensitivity sweep. Each replaces a part of `set`.
    range
        The reason for these values: a verdict "over the range" covers them and no others.
    scenarios
        The scenarios that the assumption applies to; an empty list is all.
    """

    what: str
    why: str
    set: dict[str, Any] = {}
    sweep: list[dict[str, Any]] = []
    range: str = ""
    scenarios: list[str] = []


class Part(Table):
    """Some scenarios and the grid over them."""

    scenarios: Annotated[list[str], Field(min_length=1)]
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}


class Arm(Table):
    """Keys that are set in every drawn world, to be compared with other keys.

    Attributes
    ----------
    what
        A description of the arm.
    set
        Keys and their values; `paths.*.queue` sets the queue of every path.
    """

    what: str
    set: dict[str, Any] = {}


class Drawn(Table):
    """Worlds that are drawn from a distribution; every arm runs in each of them.

    Attributes
    ----------
    row
        The row's name in results.
    file
        The file with the distribution, in the study's folder.
    count
        The number of worlds. With a larger one, the first worlds stay the same.
    seed
        The seed of the draws.
    without
        Lists of the file that are left out, for example `["handoffs"]`; all else stays the same.
    arms
        The arms that run there; an empty list is all.
    """

    row: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")]
    file: str = "worlds.toml"
    count: Annotated[int, Field(ge=1, le=100_000)] = 40
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    without: list[str] = []
    arms: list[str] = []


class Quick(Table):
    """Changes by `--quick`: fewer trials or drawn worlds, and keys that make a run short."""

    trials: Annotated[int, Field(ge=1)] = 2
    worlds: Annotated[int, Field(ge=1)] = 2
    set: dict[str, Any] = {}


class Study(Table):
    """The content of study.toml: a grid over scenarios in `parts`, or arms in drawn `worlds`.

    Attributes
    ----------
    base
        The arm with which results compare the others.
    """

    title: str
    source: str
    question: str
    trials: Annotated[int, Field(ge=1)] = 30
    parts: list[Part] = []
    worlds: list[Drawn] = []
    arms: dict[str, Arm] = {}
    base: str | None = None
    assumptions: dict[str, Assumption] = {}
    quick: Quick = Quick()

    def rows(self) -> list[str]:
        """Return the names of the rows, in the study's order."""
        names = [name for part in self.parts for name in part.scenarios]
        return list(dict.fromkeys([*names, *(drawn.row for drawn in self.worlds)]))
