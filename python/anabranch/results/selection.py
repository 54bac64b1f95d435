"""Selects the runs of a folder that have the present inputs. A summary uses only these.

A run is selected if it belongs to a cell of the folder's last sweep and its identity matches the present
inputs. The inputs are the scenario, plug-ins, films, recordings and the program's build. All other runs are
left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anabranch.results import identity, inputs, sealed
from anabranch.results import manifest as manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import polars

    from anabranch.results.manifest import Table

#: The column that distinguishes runs of the present inputs from earlier ones if both are shown.
SOURCES = "sources"
#: The value of that column for runs with the present inputs.
CURRENT = "current"

_LENGTH = 8


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The cells of a folder with their present inputs.

    Attributes
    ----------
    found
        The manifest.
    chosen
        The entries whose runs are selected, in the order of the last sweep's cells.
    changed
        The files that have changed since the last sweep.
    gone
        The files that no longer exist. They count as unchanged.
    """

    found: Table
    chosen: tuple[Table, ...]
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    _known: dict[str, list[Table]] = field(default_factory=dict, repr=False)

    @property
    def cells(self) -> list[str]:
        """The names of the selected cells, in order."""
        return [entry["cell"] for entry in self.chosen]

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns that distinguish the selected cells."""
        return manifests.labels(self.chosen or self.found["cells"])

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The columns that distinguish all cells that the folder ever had."""
        return manifests.labels(manifests.entries(self.found))

    @property
    def exact(self) -> tuple[str, ...]:
        """The cells without random draws. Each has one run, whatever the number of trials."""
        return tuple(entry["cell"] for entry in self.chosen if entry.get("exact") is True)

    def of(self, cell: str, name: str, run: int) -> str:
        """Return the sources of a run: `current`, a few digits that identify earlier sources, or `unknown`.

        Parameters
        ----------
        cell, name, run
            The run's cell, identity and number.
        """
        entry = self._chosen.get(cell)
        if entry is not None and _is_of(entry, name, run):
            return CURRENT
        for entry in self._known.get(cell, ()):
            if _is_of(entry, name, run):
                return sealed.digest(f"{entry.get('hash')} {entry['code']}".encode())[:_LENGTH]
        return sealed.digest(self.found["code"].encode())[:_LENGTH] if cell in self._known else "unknown"

    @cached_property
    def _chosen(self) -> dict[str, Table]:
        """The entries whose runs are selected, by cell."""
        return {entry["cell"]: entry for entry in self.chosen}

    def column(self, frame: polars.DataFrame) -> list[str]:
        """Return the sources of each row of a table."""
        return [self.of(*row) for row in frame.select("cell", "identity", "run").iter_rows()]

    def left_out(self, frame: polars.DataFrame) -> tuple[int, int]:
        """Return the number of runs of the same cells from earlier sources, and that of other cells."""
        own = {_asked(entry) for entry in self.found["cells"]}
        earlier = others = 0
        for cell, name, run in frame.select("cell", "identity", "run").iter_rows():
            if self.of(cell, name, run) != CURRENT:
                known = self._known.get(cell)
                is_other = known is not None and not any(_asked(entry) in own for entry in known)
                earlier, others = earlier + (not is_other), others + is_other
        return earlier, others


def _is_of(entry: Mapping[str, Any], name: str, run: int) -> bool:
    """Return whether an identity belongs to a run of an entry."""
    shared = entry.get("hash")
    # An entry without a hash of its plan is matched by its cell alone.
    return shared is None or identity.of_run(shared, run, entry["code"]) == name


def _asked(entry: Mapping[str, Any]) -> str:
    """Return a hash that identifies a cell independently of the contents of its inputs."""
    return inputs.of_tables([entry["scenario"], entry["labels"]])


def select(found: Table) -> Selection:
    """Select the runs of a folder that have the present inputs.

    Parameters
    ----------
    found
        The manifest of the folder.
    """
    state: dict[str, str | None] = {}
    known: dict[str, list[Table]] = {}
    asked: dict[str, list[Table]] = {}
    for entry in manifests.entries(found):
        known.setdefault(entry["cell"], []).append(entry)
        asked.setdefault(_setting(entry), []).append(entry)
    chosen = []
    changed: dict[str, None] = {}
    gone: dict[str, None] = {}
    for cell in found["cells"]:
        own = {"code": found["code"], **cell}
        # The cell's own entry comes first, then entries of earlier inputs, which may have been restored.
        fitting = [one for one in asked[_setting(own)] if _is_current(one, found["code"], state)]
        chosen += fitting[:1]
        for one in own.get("inputs", ()) if not fitting or fitting[0].get("hash") == own.get("hash") else ():
            now = _now(one, state)
            if now is None:
                gone[one["path"]] = None
            elif now != one["sha256"]:
                changed[one["path"] + (" or what it imports" if one["kind"] == "plugin" else "")] = None
    return Selection(
        found=found, chosen=tuple(chosen), changed=tuple(changed), gone=tuple(gone), _known=known
    )


def recorded(found: Table) -> Selection:
    """Return the selection of the last sweep, even if inputs have changed since."""
    known: dict[str, list[Table]] = {}
    for entry in manifests.entries(found):
        known.setdefault(entry["cell"], []).append(entry)
    own = tuple({"code": found["code"], **cell} for cell in found["cells"])
    return Selection(found=found, chosen=own, _known=known)


def _setting(entry: Mapping[str, Any]) -> str:
    """Return a hash of a cell's labels and settings, without the contents of its files."""
    return inputs.of_tables([entry["scenario"], entry["labels"], entry["settings"], entry["folder"]])


def _is_current(entry: Mapping[str, Any], code: str, state: dict[str, str | None]) -> bool:
    """Return whether an entry's build and inputs are the present ones."""
    if entry.get("hash") is None:
        return True
    # Runs over real packets do not depend on the build.
    if code and entry["code"] != identity.code():
        return False
    return bool(entry["hash"] or not code) and all(
        _now(one, state) in (None, one["sha256"]) for one in entry.get("inputs", ())
    )


def _now(one: Mapping[str, Any], state: dict[str, str | None]) -> str | None:
    """Return the present checksum of an input, computed once."""
    # All except the checksum that it had: a plug-in may read other data files in another cell.
    name = inputs.of_tables({key: value for key, value in one.items() if key != "sha256"})
    if name not in state:
        state[name] = inputs.checksum(one)
    return state[name]


def sentences(selection: Selection, frame: polars.DataFrame, shown_by: str) -> Iterator[str]:
    """Yield sentences about the runs that a summary leaves out, and why.

    Parameters
    ----------
    selection, frame
        The selection, and the runs of all sources.
    shown_by
        The option or command that shows what is left out.
    """
    earlier, others = selection.left_out(frame)
    if earlier:
        yield f"{_runs(earlier)} of earlier sources left out ({shown_by} shows them)"
    if others:
        yield f"{_runs(others)} of other cells left out ({shown_by} shows them)"
    yield from _reasons(selection)


def _reasons(selection: Selection) -> Iterator[str]:
    """Yield the reasons why runs of the last sweep count as runs of earlier or of present inputs."""
    repeat = "repeat the command that made the folder to run what is missing"
    code = selection.found["code"]
    if (
        code
        and code != identity.code()
        and any(cell.get("hash") is not None for cell in selection.found["cells"])
    ):
        yield f"the last sweep was of another build of this program: {code}"
    if selection.changed:
        yield f"changed since the last sweep: {', '.join(_few(selection.changed))}: {repeat}"
    if selection.gone:
        yield f"gone since the last sweep, and taken as unchanged: {', '.join(_few(selection.gone))}"


def _few(names: Iterable[str]) -> list[str]:
    """Return the first three names, and the number of further ones."""
    found = list(names)
    return found if len(found) <= 3 else [*found[:3], f"{len(found) - 3} more"]


def _runs(count: int) -> str:
    """Return a number of runs as text."""
    return f"{count:,} run{'s' if count != 1 else ''}"
