"""What of a scenario real packets are not given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import ScenarioError
from anabranch.scenario.models import Corrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.errors import Fault
    from anabranch.scenario.load import Loaded


def check(loaded: Loaded) -> None:
    """Make sure that real packets can have all that a scenario's links do to packets.

    Raises
    ------
    ScenarioError
        Where a link lets corrupted packets through: their TCP checksum would not fit.
    """
    faults = list(_passing(loaded))
    if faults:
        raise ScenarioError(sorted(faults, key=loaded.source.order))


def _passing(loaded: Loaded) -> Iterator[Fault]:
    """Return a fault for each link that lets corrupted packets through."""
    for kind, tables in (("paths", loaded.scenario.paths), ("links", loaded.scenario.links)):
        for index, table in enumerate(tables):
            for where, part in (((), table), (("down",), table.down), (("up",), table.up)):
                if isinstance(part.corrupt, Corrupt) and part.corrupt.passes:
                    message = "real packets cannot be given a changed payload: corrupted ones are discarded"
                    hint = "leave out `passes`, or run it in the simulator: anabranch run"
                    path = (kind, index, *where, "corrupt", "passes")
                    yield loaded.source.fault(path, message, hint=hint)
