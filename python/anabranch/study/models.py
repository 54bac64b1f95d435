"""The tables of study.toml."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from anabranch.study import ranges


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
        Values may be drawn from ranges (`ranges`).
    range
        The reason for these values: a verdict "over the range" covers them and no others.
    scenarios
        The scenarios that the assumption applies to; an empty list is all.
    at
        By key of the grid the value or values that the assumption applies to: `{ "transport.multipath" =
        true }` is MPTCP only.
    like
        An assumption with as many other values or more. Random worlds have the value at the same place of
        both, or this assumption's own if it has fewer.
    contradicts
        The printed statement of the source that the other values contradict. Such worlds are inferred from
        the testbed.
    chosen_by
        The claims that were used to choose the other values. They never count as reproduced there.
    """

    what: str
    why: str
    set: dict[str, Any] = {}
    sweep: list[dict[str, Any]] = []
    range: str = ""
    scenarios: list[str] = []
    at: dict[str, Any] = {}
    like: str | None = None
    contradicts: str = ""
    chosen_by: list[str] = []

    @property
    def others(self) -> list[dict[str, Any]]:
        """Return the other values for single runs: of a range its two ends."""
        return [value for one in self.sweep for value in ranges.ends(one)]


class Joint(Table):
    """Values of several assumptions that change together.

    Attributes
    ----------
    what
        The world that they describe.
    why
        The reason for it.
    values
        By assumption a part of the text of one of its other values, as for `--assume`.
    chosen_by
        The claims that were used to choose it. They never count as reproduced there.
    """

    what: str
    why: str
    values: Annotated[dict[str, str], Field(min_length=1)]
    chosen_by: list[str] = []


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
    joint: dict[str, Joint] = {}
    quick: Quick = Quick()

    def inferred(self, name: str) -> list[str]:
        """Return the printed statements that an assumption or a joint assumption contradicts."""
        used = [name, *(self.joint[name].values if name in self.joint else ())]
        found = (self.assumptions[one].contradicts for one in used if one in self.assumptions)
        return list(dict.fromkeys(filter(None, found)))

    def chosen_by(self, name: str) -> list[str]:
        """Return the claims that were used to choose an assumption's other values or a joint assumption."""
        own = self.joint[name].chosen_by if name in self.joint else []
        used = [name, *(self.joint[name].values if name in self.joint else ())]
        found = [
            claim for one in used if one in self.assumptions for claim in self.assumptions[one].chosen_by
        ]
        return list(dict.fromkeys([*own, *found]))

    def rows(self) -> list[str]:
        """Return the names of the rows, in the study's order."""
        names = [name for part in self.parts for name in part.scenarios]
        return list(dict.fromkeys([*names, *(drawn.row for drawn in self.worlds)]))
