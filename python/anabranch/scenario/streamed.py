"""The film or ladder that a scenario streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.media import films

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded


def film_of(
    loaded: Loaded, *, played: bool = False, progress: Callable[[float, float], None] | None = None
) -> Film | None:
    """Return the film or ladder that a scenario streams.

    An application that does not play the film gets its size and length. If a program will play the film's
    file (`played`), the file is made if it has to be, and its packets are those of the file.

    Raises
    ------
    MediaError
        When the film is missing, unreadable or truncated.
    """
    application = loaded.scenario.application
    if application.kind == "adaptive":
        from anabranch.media.ladders import open_ladder

        return open_ladder(application.ladder, loaded.folders, progress=progress)
    return films.open_film(
        application.film,
        loaded.folders,
        described=application.kind != "progressive",
        played=played,
        progress=progress,
    )
