"""The hashes that identify a run and the runs of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.results import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded


def of_run(loaded: Loaded, film: Film | None, trace: Mapping[str, Any], run: int, cell: str = "") -> str:
    """Return the hash of a run's inputs; empty for a run over real packets, which cannot be repeated.

    `cell` is the result of `cell_of`; empty if it has to be computed.
    """
    if trace["summary"].get("world") == "live":
        return ""
    return identity.of_run(cell or cell_of(loaded, film), run)


def cell_of(loaded: Loaded, film: Film | None) -> str:
    """Return the hash that is common to all runs of a scenario: that of run 0 without its number."""
    from anabranch.scenario import plan as plans

    return identity.of_cell(plans.build(loaded.scenario, film), loaded.sources())
