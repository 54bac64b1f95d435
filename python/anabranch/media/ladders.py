"""Ladders by name, or read from the playlists of a folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.errors import Fault, MediaError, did_you_mean
from anabranch.media.films import Film, locate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.scenario._faults import Source

#: The ladders that have names.
NAMED = {
    "uq18-jp": "UQ18's server in Japan: 7 renditions from 240p, 246 kb/s, to 720p, 3.318 Mb/s; 10 min",
    "uq18-va": "UQ18's server in Virginia: 5 renditions from 288p, 544 kb/s, to 1080p, 12.064 Mb/s; 5 min",
}


def check_ladder(source: Source, folders: Sequence[Path]) -> list[Fault]:
    """Return what is wrong with a scenario's ladder; faults of a playlist name its own file and line."""
    here = ("application", "ladder")
    application = source.raw.get("application")
    ladder = application.get("ladder") if isinstance(application, dict) else None
    if not isinstance(ladder, str) or ladder in NAMED:
        return []
    path = locate(ladder, folders)
    if path is None:
        return [source.fault(here, f"no such ladder: `{ladder}`", hint=_hint(ladder))]
    from anabranch.media.playlists import read

    try:
        read(path)
    except MediaError as error:
        return list(error.faults)
    return []


def open_ladder(ladder: str | None, folders: Sequence[Path]) -> Film | None:
    """Return a ladder as the plan needs it; its size is that of its highest rendition and its sound.

    Raises
    ------
    MediaError
        When it is missing, or a playlist of it is broken.
    """
    if ladder is None:
        return None
    if ladder in NAMED:
        plan: dict[str, Any] = {"synthetic": {"name": ladder}}
        recorded, _ = resolve(plan)
    else:
        from anabranch.media.playlists import read

        path = locate(ladder, folders)
        if path is None:
            raise MediaError([Fault(message=f"no such ladder: `{ladder}`", hint=_hint(ladder))])
        recorded = read(path)
        plan = {"recorded": recorded}
    heard = [recorded["renditions"][-1], *filter(None, [recorded["audio"]])]
    return Film(
        name=ladder,
        size_bytes=sum(chunk["bytes"] for rendition in heard for chunk in rendition["chunks"]),
        duration_ns=sum(chunk["duration_ns"] for chunk in recorded["renditions"][0]["chunks"]),
        plan=plan,
    )


def file_of(ladder: str, folders: Sequence[Path]) -> Path:
    """Return the master playlist of a ladder.

    Raises
    ------
    MediaError
        When it is missing, or a synthetic ladder, which has none.
    """
    from anabranch.media.playlists import master_of

    if ladder in NAMED:
        hint = "application.ladder = the folder of one (`anabranch media ladder` makes it)"
        raise MediaError([Fault(message=f"`{ladder}` is synthetic: it has no files to play", hint=hint)])
    path = locate(ladder, folders)
    if path is None:
        raise MediaError([Fault(message=f"no such ladder: `{ladder}`", hint=_hint(ladder))])
    return master_of(path)


def resolve(plan: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a plan's ladder with everything resolved, and the text of its playlists by path.

    Raises
    ------
    MissingError
        When the simulator is not built.
    """
    from anabranch import plugins

    text, playlists = plugins.module().ladder(json.dumps(plan))
    return json.loads(text), dict(playlists)


def _hint(ladder: str) -> str:
    """Return the nearest named ladder."""
    seems_path = _files.expanded(ladder).suffix or "/" in ladder
    otherwise = "a master playlist (.m3u8), or its folder" if seems_path else "`anabranch list ladders`"
    return did_you_mean(ladder, NAMED, otherwise=otherwise)
