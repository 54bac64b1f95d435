"""The runs over real packets that are in a folder of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.results.manifest import MANIFEST
from anabranch.results.read import rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from anabranch.results.store import Row
    from anabranch.viewed.read import Case


def runs(at: Path) -> list[Row]:
    """Return the runs of a folder; none if it has no results."""
    return rows(at).to_dicts() if (at / MANIFEST).exists() else []


def first(stored: Iterable[Row], case: Case) -> Row | None:
    """Return the first trial of a case, if it is there and not void."""
    return next((one for one in stored if case.owns(one) and one["run"] == 0 and not one["void"]), None)
