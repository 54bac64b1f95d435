"""Finds the files that a cell's runs depend on in its scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.results import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.results.inputs import Input
    from anabranch.scenario.load import Loaded
    from anabranch.scenario.models import Link
    from anabranch.scenario.models import Path as ScenarioPath


def of(loaded: Loaded, file: str) -> list[Input]:
    """Return the scenario's own file and the files that it names, each with its checksum.

    Parameters
    ----------
    loaded
        The scenario.
    file
        The scenario's file; empty if it was not read from one.
    """
    own = [inputs.with_checksum("scenario", Path(file))] if file else []
    return [*own, *_plugins(loaded), *_media(loaded), *_recordings(loaded)]


def _plugins(loaded: Loaded) -> Iterator[Input]:
    """Yield the Python plug-ins."""
    for kind in sorted(loaded.plugins):
        for _, one in sorted(loaded.plugins[kind].items()):
            source = one.source
            path = source.root / source.first
            yield inputs.with_checksum(
                "plugin", path, root=str(source.root), below=source.below, data=sorted(source.data)
            )


def _media(loaded: Loaded) -> Iterator[Input]:
    """Yield the film or the ladder if it is a file. Named ones are part of the program."""
    from anabranch.media import films, ladders

    application = loaded.scenario.application
    if application.kind == "adaptive":
        name = application.ladder_name
        path = None if name is None or name in ladders.NAMED else films.locate(name, loaded.folders)
        if path is not None:
            yield inputs.with_checksum("ladder", path.resolve())
        return
    name = application.film
    path = None if name is None or name in films.NAMED else films.locate(name, loaded.folders)
    if path is not None:
        yield inputs.with_checksum("film", path.resolve())


def _recordings(loaded: Loaded) -> Iterator[Input]:
    """Yield the recordings that links follow."""
    found: dict[str, None] = {}
    links: list[Link | ScenarioPath] = [*loaded.scenario.paths, *loaded.scenario.links]
    for table in links:
        for one in (table.trace, table.down.trace, table.up.trace):
            if one is not None:
                found[one.file] = None
    for file in found:
        yield inputs.with_checksum("recording", Path(file))
