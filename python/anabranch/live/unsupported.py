"""Parts of a scenario that are not possible with real packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.errors import Fault
    from anabranch.scenario.load import Loaded
    from anabranch.scenario.models import Direction, Link, Path


def check(loaded: Loaded, *, kernel_client: bool = False) -> None:
    """Make sure that a scenario can run over real packets.

    Parameters
    ----------
    loaded
        The scenario.
    kernel_client
        Whether the client is a kernel, which opens its connections by its own rules.

    Raises
    ------
    ScenarioError
        If a link delivers corrupted packets, whose TCP checksum would be wrong, or if a kernel client is to
        race.
    """
    faults = list(_passing(loaded))
    if kernel_client and loaded.scenario.transport.first_path == "race":
        message = "a kernel's client opens a connection over one path: it does not race"
        hint = "our client races: --server kernel --client anabranch, or anabranch run"
        faults.append(loaded.source.fault(("transport", "first_path"), message, hint=hint))
    if faults:
        raise ScenarioError(sorted(faults, key=loaded.source.order))


def _passing(loaded: Loaded) -> Iterator[Fault]:
    """Return a fault for each link that lets corrupted packets through."""
    # Imported late: a gateway has no scenario, and importing the models takes half of the start-up time.
    from anabranch.scenario.models import Corrupt

    groups: dict[str, Sequence[Path | Link]] = {
        "paths": loaded.scenario.paths,
        "links": loaded.scenario.links,
    }
    for kind, tables in groups.items():
        for index, table in enumerate(tables):
            parts: dict[tuple[str, ...], Path | Link | Direction] = {(): table}
            parts |= {("down",): table.down, ("up",): table.up}
            for where, part in parts.items():
                if isinstance(part.corrupt, Corrupt) and part.corrupt.passes:
                    message = "real packets cannot be given a changed payload: corrupted ones are discarded"
                    hint = "leave out `passes`, or run it in the simulator: anabranch run"
                    path: tuple[str | int, ...] = (kind, index, *where, "corrupt", "passes")
                    yield loaded.source.fault(path, message, hint=hint)
