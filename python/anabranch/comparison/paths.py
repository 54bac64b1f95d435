"""Sets of a scenario's paths, and the scenario reduced to a set."""

from __future__ import annotations

import copy
import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError
from anabranch.study.sweep import Cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The column with the paths of a run.
COLUMN = "paths"

#: A path's lists of shared links.
_LINKS = ("links", "links_down", "links_up")


def sets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sets of paths to compare, the smallest first.

    Raises
    ------
    InputError
        If there is only one path.
    """
    if len(names) < 2:
        message = "one path: there is nothing to compare it with"
        raise InputError([Fault(message=message, key="paths", hint="add another [[paths]]")])
    sizes = sorted({1, 2, len(names) - 1, len(names)})
    return [chosen for size in sizes for chosen in combinations(names, size)]


def only(raw: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the tables of a scenario reduced to some of its paths.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    names
        The paths to keep. A single path carries plain TCP.

    Returns
    -------
    dict
        The tables without the other paths' shared links, events, hand-offs and cross traffic. Expectations
        are removed too, because they concern all paths together.
    """
    found = copy.deepcopy(dict(raw))
    found["paths"] = [path for path in found["paths"] if path["name"] in names]
    used = {link for path in found["paths"] for key in _LINKS for link in path.get(key) or ()}
    gone_links = {link["name"] for link in found.get("links", ())} - used
    gone_paths = {path["name"] for path in raw["paths"]} - set(names)

    def stays(row: Mapping[str, Any]) -> bool:
        links = {row.get("link"), *(row.get("links") or ())}
        return not ({row.get("path"), row.get("to")} & gone_paths or links & gone_links)

    for table in ("events", "handoffs", "cross_traffic"):
        if table in found:
            found[table] = [row for row in found[table] if stays(row)]
    if "links" in found:
        found["links"] = [link for link in found["links"] if link["name"] in used]
    found.pop("expect", None)
    if len(names) == 1:
        found["transport"] = {**found.get("transport", {}), "multipath": False}
    return found


def cells(raw: Mapping[str, Any], folder: Path) -> tuple[Cell, ...]:
    """Return a cell for each set of a scenario's paths.

    Parameters
    ----------
    raw
        The tables of a valid scenario.
    folder
        The folder of the films, ladders and plug-ins that the scenario names.
    """
    return tuple(
        Cell(
            # Each set of paths is stored under a separate name.
            scenario=label(names),
            raw=json.dumps(only(raw, names), default=str),
            folder=str(folder.resolve()),
            settings=(),
            labels=((COLUMN, label(names)),),
        )
        for names in sets([path["name"] for path in raw["paths"]])
    )


def label(names: Sequence[str]) -> str:
    """Return the name of a set of paths."""
    return " + ".join(names)
