"""Ladders by name, or read from the playlists of a folder."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _cache, _files
from anabranch.errors import Fault, MediaError, did_you_mean
from anabranch.media import numbers
from anabranch.media.films import Film, locate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch.scenario._faults import Source
    from anabranch.scenario.models import Numbers

#: The ladders that have names.
NAMED = {
    "uq18-jp": "UQ18's server in Japan: 7 renditions from 240p, 246 kb/s, to 720p, 3.318 Mb/s; 10 min",
    "uq18-va": "UQ18's server in Virginia: 5 renditions from 288p, 544 kb/s, to 1080p, 12.064 Mb/s; 5 min",
    "uq18-va-2min": "made on demand and cached: files with the rates of uq18-va, for a browser; 2 min",
}


@dataclass(frozen=True, kw_only=True)
class Made:
    """A ladder that is made on demand, with the rates of a synthetic one.

    Attributes
    ----------
    like
        The synthetic ladder.
    duration_s
        Its length, seconds.
    size
        The film's width and height, which are those of the highest rendition.
    """

    like: str
    duration_s: float
    size: tuple[int, int]


#: The ladders that are made on demand.
MADE: Mapping[str, Made] = {
    "uq18-va-2min": Made(like="uq18-va", duration_s=120.0, size=(1920, 1080)),
}
#: Length of a chunk of a ladder that is made on demand, seconds.
_CHUNK_S = 10.0
#: A ladder's master playlist, which is written last.
_MASTER = "master.m3u8"
#: Version of made ladders; a ladder of another version is made again.
_VERSION = 2


def check_ladder(source: Source, folders: Sequence[Path], warnings: list[Fault]) -> list[Fault]:
    """Return the faults of a scenario's ladder. Faults of a playlist have its own file and line.

    Notes on parts of the ladder that are not played are added to `warnings`.
    """
    here = ("application", "ladder")
    application = source.raw.get("application")
    ladder = application.get("ladder") if isinstance(application, dict) else None
    if isinstance(ladder, list):
        ladder = {"renditions": ladder}
    if isinstance(ladder, dict):
        return _check_numbers(source, ladder, folders, warnings)
    if not isinstance(ladder, str) or ladder in NAMED:
        return []
    if numbers.is_url(ladder):
        return _faults_of(lambda: numbers.of_master(ladder, numbers.fetched(ladder), notes=warnings))
    path = locate(ladder, folders)
    if path is None:
        return [source.fault(here, f"no such ladder: `{ladder}`", hint=_hint(ladder))]
    return _faults_of(lambda: _of_files(ladder, path, warnings))


def _check_numbers(
    source: Source, given: Mapping[str, Any], folders: Sequence[Path], warnings: list[Fault]
) -> list[Fault]:
    """Return the faults of a ladder by numbers that go beyond its keys."""
    here = ("application", "ladder")
    if ("renditions" in given) == ("master" in given):
        hint = 'renditions = [{ height = 240, bitrate = "400 kbit/s" }], or master = "master.m3u8"'
        return [source.fault(here, "a ladder by numbers has either `renditions` or `master`", hint=hint)]
    heights = [one.get("height") for one in given.get("renditions", ()) if isinstance(one, dict)]
    twice = next((one for one in heights if heights.count(one) > 1), None)
    if twice is not None:
        message = f"two renditions with the height {twice}"
        return [source.fault(here, message, hint="each height once")]
    name = given.get("master")
    if not isinstance(name, str):
        return []
    if not numbers.is_url(name) and locate(name, folders) is None:
        return [source.fault((*here, "master"), f"no such file: `{name}`")]
    own = _numbers_of(given, name)
    return _faults_of(lambda: _of_numbers(own, folders, warnings))


def _numbers_of(given: Mapping[str, Any], master: str) -> Numbers:
    """Return the numbers beside a master playlist; the defaults if they have faults of their own."""
    from pydantic import ValidationError

    from anabranch.scenario.models import Numbers

    try:
        return Numbers.model_validate(given)
    except ValidationError:
        return Numbers(master=master)


def _faults_of(made: Callable[[], object]) -> list[Fault]:
    """Return the faults with which a ladder cannot be made."""
    try:
        made()
    except MediaError as error:
        return list(error.faults)
    return []


def _of_files(name: str, path: Path, notes: list[Fault] | None = None) -> dict[str, Any]:
    """Return the ladder of a master playlist by its files, or by its numbers if none of them is here."""
    from anabranch.media.playlists import master_of, read

    master = master_of(path)
    if _files.is_file(master) and numbers.has_no_files(master):
        return numbers.of_master(name, master, notes=notes)
    return read(path, notes)


def _master(name: str, folders: Sequence[Path]) -> Path:
    """Return the file of a master playlist by path or URL."""
    from anabranch.media.playlists import master_of

    return numbers.fetched(name) if numbers.is_url(name) else master_of(_found(name, folders))


def _of_numbers(given: Numbers, folders: Sequence[Path], notes: list[Fault] | None = None) -> dict[str, Any]:
    """Return a ladder by numbers."""
    content = numbers.Content(spread=given.spread, sizes=given.sizes, sound_bps=given.sound or 0)
    if given.master is not None:
        return numbers.of_master(
            given.master,
            _master(given.master, folders),
            chunk_ns=given.chunk,
            length_ns=given.length,
            content=content,
            notes=notes,
        )
    rungs = [numbers.rung(one.height, one.bitrate, content) for one in given.renditions or ()]
    lengths = numbers.cut(given.length, given.chunk)
    return numbers.ladder("numbers", rungs, lengths, content)


def open_ladder(
    ladder: str | Numbers | None,
    folders: Sequence[Path],
    *,
    progress: Callable[[float, float], None] | None = None,
) -> Film | None:
    """Return a ladder for the plan; make it if necessary.

    Its size is that of its highest rendition and its sound.

    Raises
    ------
    MediaError
        When it is missing, or a playlist of it is broken.
    """
    if ladder is None:
        return None
    name = ladder if isinstance(ladder, str) else "numbers"
    if not isinstance(ladder, str):
        recorded = _of_numbers(ladder, folders)
        plan: dict[str, Any] = {"recorded": recorded}
        name = str(recorded["name"])
    elif numbers.is_url(ladder):
        recorded = numbers.of_master(ladder, numbers.fetched(ladder))
        plan = {"recorded": recorded}
    elif ladder in NAMED and ladder not in MADE:
        plan = {"synthetic": {"name": ladder}}
        recorded, _ = resolve(plan)
    else:
        recorded = _of_files(ladder, _found(ladder, folders, progress))
        if ladder in MADE:
            recorded["name"] = ladder  # not the cache's name for it: a run's digest must not depend on that
        plan = {"recorded": recorded}
    highest = recorded["renditions"][-1]
    sounds = [*filter(None, [recorded["audio"]]), *recorded.get("more_audio", ())]
    heard = [highest, *sounds[highest.get("sound", 0) :][:1]]
    return Film(
        name=name,
        size_bytes=sum(chunk["bytes"] for rendition in heard for chunk in rendition["chunks"]),
        duration_ns=sum(chunk["duration_ns"] for chunk in recorded["renditions"][0]["chunks"]),
        plan=plan,
    )


def file_of(ladder: str | Numbers, folders: Sequence[Path]) -> Path:
    """Return the master playlist of a ladder.

    Raises
    ------
    MediaError
        When it is missing, or a synthetic ladder, which has none.
    """
    from anabranch.media.playlists import master_of

    if not isinstance(ladder, str) or numbers.is_url(ladder):
        hint = "application.ladder = the folder of one (`anabranch media ladder` makes it)"
        raise MediaError([Fault(message="a ladder by numbers has no files to play", hint=hint)])
    if ladder in NAMED and ladder not in MADE:
        hint = "application.ladder = the folder of one (`anabranch media ladder` makes it)"
        raise MediaError([Fault(message=f"`{ladder}` is synthetic: it has no files to play", hint=hint)])
    return master_of(_found(ladder, folders))


def make(ladder: str | None, progress: Callable[[float, float], None] | None = None) -> Path | None:
    """Return the folder of a ladder that is made on demand (made if necessary); None for others.

    Raises
    ------
    MissingError
        When the cache cannot be written.
    """
    if ladder is None or ladder not in MADE:
        return None
    from anabranch.media.make import make_film
    from anabranch.media.make_ladder import Rung, make_ladder

    what = MADE[ladder]
    recorded, _ = resolve({"synthetic": {"name": what.like}})
    rungs = [Rung(height=one["height"], rate_bps=_mean_bps(one)) for one in recorded["renditions"]]
    key = _cache.key(ladder=ladder, rungs=[[one.height, one.rate_bps] for one in rungs], version=_VERSION)
    folder = _cache.folder() / f"ladder-{key}"
    if not (folder / _MASTER).exists():
        film = make_film(duration_s=what.duration_s, rate_bps=rungs[-1].rate_bps, size=what.size)
        with _own(folder) as own:
            make_ladder(film.path, own, rungs=rungs, chunk_s=_CHUNK_S, progress=progress)
    return folder


@contextmanager
def _own(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which replaces another one when it is complete.

    Another process that makes the same ladder writes to other files; the first one that finishes is kept.
    """
    from anabranch.media.make import writing

    own = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        # The viewer runs as another user.
        own.chmod(0o755)
        yield own
        with writing("the ladder", folder):
            _put(own, folder)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _put(own: Path, folder: Path) -> None:
    """Move a finished ladder to its place, unless another process has put one there."""
    if not (folder / _MASTER).exists():
        shutil.rmtree(folder, ignore_errors=True)
    try:
        own.rename(folder)
    except OSError:
        if not (folder / _MASTER).exists():
            raise


def _mean_bps(rendition: Mapping[str, Any]) -> int:
    """Return the mean rate of a rendition's chunks, bits per second."""
    chunks = rendition["chunks"]
    count: int = sum(one["bytes"] for one in chunks)
    lasting_ns: int = sum(one["duration_ns"] for one in chunks)
    return round(count * 8e9 / lasting_ns)


def _found(
    ladder: str, folders: Sequence[Path], progress: Callable[[float, float], None] | None = None
) -> Path:
    """Return where a ladder's files are, made first if they have to be."""
    path = make(ladder, progress) or locate(ladder, folders)
    if path is None:
        raise MediaError([Fault(message=f"no such ladder: `{ladder}`", hint=_hint(ladder))])
    return path


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
