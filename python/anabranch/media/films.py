"""Films by name: the synthetic ones, those with a stored table, or any video file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.errors import Fault, MediaError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anabranch.scenario._faults import Source

_SUFFIXES = (".mp4", ".ts", ".mkv", ".webm", ".mov", ".m4v", ".avi", ".flv")


@dataclass(frozen=True, kw_only=True)
class Film:
    """A film as the plan needs it.

    Attributes
    ----------
    name
        The film as the user named it.
    size_bytes, duration_ns
        Of the whole file.
    plan
        The plan's `film`; None for a film that was described but not made.
    """

    name: str
    size_bytes: int
    duration_ns: int
    plan: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Named:
    """A film with a name.

    Attributes
    ----------
    description
        The film in a sentence.
    size_bytes, duration_ns, rate_bps
        The size and duration of the whole file.
    synthetic
        The plan's table of a synthetic film; None for a film whose packets are stored (`tables`). Such a film
        also has a file, which is made when a program plays it.
    """

    description: str
    size_bytes: int
    duration_ns: int
    rate_bps: int
    synthetic: Mapping[str, Any] | None


#: The films that have names.
NAMED = {
    "demo": Named(
        description="H.264 + AAC in MP4, 1280x720, 30 fps, 60 s at 5.24 Mb/s; a real player gets a file",
        size_bytes=39_331_733,
        duration_ns=60 * 10**9,
        rate_bps=5_240_000,
        synthetic=None,
    ),
    "demo-3min": Named(
        description="the same, 3 min: as long as LEO24's film, and at the rate of the papers'",
        size_bytes=117_978_487,
        duration_ns=180 * 10**9,
        rate_bps=5_240_000,
        synthetic=None,
    ),
    "papers-film": Named(
        description="synthetic, as in the papers: 409 MB, 5.24 Mb/s, 10 min 24 s, 30 fps, x264-like",
        size_bytes=409_000_000,
        duration_ns=624 * 10**9,
        rate_bps=5_240_000,
        synthetic={"name": "papers-film"},
    ),
    "papers-film-24": Named(
        description="the same bytes and seconds at 24 pictures a second",
        size_bytes=409_000_000,
        duration_ns=624 * 10**9,
        rate_bps=5_240_000,
        synthetic={"name": "papers-film", "frame_rate": 24.0},
    ),
    "papers-film-second": Named(
        description="the same bytes and seconds with an I picture every second",
        size_bytes=409_000_000,
        duration_ns=624 * 10**9,
        rate_bps=5_240_000,
        synthetic={"name": "papers-film", "group_pictures": 30},
    ),
    "papers-film-interleaved": Named(
        description="the same bytes and seconds with sound and pictures in order of time",
        size_bytes=409_000_000,
        duration_ns=624 * 10**9,
        rate_bps=5_240_000,
        synthetic={"name": "papers-film", "chunk_ns": 20_000_000},
    ),
    "leo24-film": Named(
        description="synthetic, as in LEO24: 118 MB, 5.24 Mb/s, 3 min",
        size_bytes=117_999_990,
        duration_ns=180 * 10**9,
        rate_bps=5_244_444,
        synthetic={"name": "leo24-film", "rate_bps": 5_244_444, "duration_ns": 180 * 10**9},
    ),
}


def locate(film: str, folders: Sequence[Path]) -> Path | None:
    """Return the file of a film given by path, looked up in each folder, or None."""
    for folder in folders:
        path = folder / _files.expanded(film)
        if _files.is_file(path) or _files.is_folder(path):
            return path
    return None


def check_film(source: Source, folders: Sequence[Path]) -> Fault | None:
    """Return what is wrong with a scenario's film, if anything; names need no file."""
    here = ("application", "film")
    application = source.raw.get("application")
    film = application.get("film") if isinstance(application, dict) else None
    if not isinstance(film, str) or film in NAMED:
        return None
    if not film.strip():
        return source.fault(here, "an empty name where a film is required", hint=_hint(film, ()))
    path = locate(film, folders)
    if path is None:
        return source.fault(here, f"no such film: `{film}`", hint=_hint(film, folders))
    from anabranch.media.probe import probe

    try:
        probe(path)
    except MediaError as error:
        return source.fault(here, error.faults[0].message, hint=error.faults[0].hint)
    return None


def open_film(
    film: str | None,
    folders: Sequence[Path],
    *,
    described: bool = False,
    played: bool = False,
    progress: Callable[[float, float], None] | None = None,
) -> Film | None:
    """Return a film.

    Parameters
    ----------
    film
        Name or path; None is no film.
    folders
        Where a relative path is looked up.
    described
        Whether only size and duration are needed.
    played
        Whether an external program will play the film's file. The packets are then read from the file, which
        is made if necessary.
    progress
        Called with the seconds of film made so far, and of the whole film.

    Raises
    ------
    MediaError
        When the file is missing, unreadable or truncated.
    """
    from anabranch.media import tables
    from anabranch.media.probe import probe

    if film is None:
        return None
    named = NAMED.get(film)
    if named is not None and (named.synthetic or not played):
        stored: dict[str, Any] | None
        if named.synthetic:
            stored = {"synthetic": dict(named.synthetic)}
        else:
            stored = None if described else tables.read(film)
        return Film(name=film, size_bytes=named.size_bytes, duration_ns=named.duration_ns, plan=stored)
    found = probe(file_of(film, folders, progress=progress))
    read = found.plan()
    if named is not None:
        read["recorded"]["name"] = film  # not the cache's name for it: a run's digest must not depend on that
    return Film(name=film, size_bytes=found.size_bytes, duration_ns=found.duration_ns, plan=read)


def file_of(
    film: str, folders: Sequence[Path], *, progress: Callable[[float, float], None] | None = None
) -> Path:
    """Return the file of a film; make it if necessary.

    Raises
    ------
    MediaError
        When it is missing, or a synthetic film, which has none.
    """
    named = NAMED.get(film)
    if named is not None and named.synthetic:
        hint = "application.film = demo, or a video file (`anabranch media film` makes one)"
        raise MediaError([Fault(message=f"`{film}` is synthetic: it has no file to play", hint=hint)])
    path = make(film, progress) or locate(film, folders)
    if path is None:
        raise MediaError([Fault(message=f"no such film: `{film}`", hint=_hint(film, folders))])
    return path


def make(film: str | None, progress: Callable[[float, float], None] | None = None) -> Path | None:
    """Return the file of a film with a stored table, and make it if necessary; None for any other film.

    Raises
    ------
    MissingError
        When the cache cannot be written.
    """
    named = NAMED.get(film or "")
    if named is None or named.synthetic:
        return None
    from anabranch.media.make import make_film

    return make_film(duration_s=named.duration_ns / 1e9, rate_bps=named.rate_bps, progress=progress).path


def _hint(film: str, folders: Sequence[Path]) -> str:
    """Return the nearest film: a named one, or a video file where the missing one was looked for."""
    nearby = [str(Path(film).parent / path.name) for folder in folders for path in _videos(folder, film)]
    return did_you_mean(film, [*NAMED, *nearby], otherwise="`anabranch list films` shows the named ones")


def _videos(folder: Path, film: str) -> list[Path]:
    """Return the video files next to the place where a film should be."""
    beside = folder / Path(film).parent
    try:
        return [path for path in sorted(beside.iterdir()) if path.suffix.lower() in _SUFFIXES]
    except (OSError, ValueError):
        return []
