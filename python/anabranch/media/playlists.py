"""HLS playlists (.m3u8, RFC 8216) from files, to a ladder as the plan has it.

The library `m3u8` reads them. It takes much that is wrong, and fails where it does not; so every line
that a ladder is made of is looked at first, each fault is kept with its line, and the library is given
what is sound.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from anabranch import _files
from anabranch.errors import Fault, MediaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SECOND = 10**9
_ATTRIBUTE = re.compile(r'\s*([A-Z0-9-]+)=("[^"]*"|[^",]*)(?:,|$)')
_DECIMAL = re.compile(r"\d{1,9}(\.\d{1,18})?")
_BYTE_RANGE = re.compile(r"(\d{1,12})(?:@(\d{1,12}))?")
_RESOLUTION = re.compile(r"\d{1,6}x\d{1,6}")
_INTEGER = re.compile(r"\d{1,15}")
_LARGEST = 64 * 2**20


@dataclass
class _Playlist:
    """A playlist, and what is wrong with it.

    Attributes
    ----------
    file
        Where it is.
    data
        What the library makes of its sound lines.
    lines
        The lines of each kind of tag, in order; of those that have an address, the address's.
    faults
        What is wrong.
    """

    file: Path
    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, list[int]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, message: str, line: int | None = None, *, hint: str = "") -> None:
        """Keep a fault."""
        self.faults.append(Fault(message=message, where=str(self.file), line=line, hint=hint))


def read(path: Path) -> dict[str, Any]:
    """Return the ladder of a master playlist as a plan has it (`recorded`).

    Parameters
    ----------
    path
        The master playlist (.m3u8), or a folder with one.

    Raises
    ------
    MediaError
        With every fault of every playlist.
    """
    master = _open(master_of(path))
    base = master.file.parent
    variants = _variants(master)
    renditions, faults = [], []
    for line, variant in variants:
        media = _media(master, line, variant["uri"])
        renditions.append((line, {**_declared(variant["stream_info"]), **_measured(media, base)}))
        faults += media.faults
    sound = _sound(master, variants)
    audio = None
    if sound is not None:
        media = _media(master, *sound)
        audio = {"name": "audio", "bandwidth_bps": 0, **_measured(media, base)}
        audio["bandwidth_bps"] = _peak_bps(audio["chunks"])
        faults += media.faults
    renditions.sort(key=lambda item: item[1]["bandwidth_bps"])
    if not faults and not master.faults:
        _compare(master, renditions)
    if master.faults or faults:
        raise MediaError([*master.faults, *faults])
    unspecific = master.file.stem in ("master", "index", "playlist")
    return {
        "name": base.resolve().name if unspecific else master.file.stem,
        "master": _resource(master.file, base),
        "renditions": [rendition for _, rendition in renditions],
        "audio": audio,
    }


def rates(file: Path) -> tuple[int, int]:
    """Return the peak and the mean rate of a media playlist's chunks, in bits per second.

    Raises
    ------
    MediaError
        With every fault of the playlist.
    """
    media = _open(file)
    chunks = _measured(media, file.parent)["chunks"]
    if media.faults:
        raise MediaError(media.faults)
    bits = 8 * sum(chunk["bytes"] for chunk in chunks)
    return _peak_bps(chunks), bits * _SECOND // max(sum(chunk["duration_ns"] for chunk in chunks), 1)


def master_of(path: Path) -> Path:
    """Return the master playlist that a path means.

    Raises
    ------
    MediaError
        When a folder has none, or several.
    """
    if not _files.is_folder(path):
        return path
    found = [
        file
        for file in sorted(path.glob("*.m3u8"))
        if _files.is_file(file) and "#EXT-X-STREAM-INF" in _text(file)
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"`{file.name}`" for file in found)
    message = "several master playlists in the folder" if found else "no master playlist in the folder"
    hint = f"name one of them: {names}" if found else "a .m3u8 file with EXT-X-STREAM-INF"
    raise MediaError([Fault(message=f"{message}: `{path}`", hint=hint)])


def _text(file: Path) -> str:
    """Return what a file says, as far as it is text."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_LARGEST)
    except OSError:
        return ""


def _open(file: Path) -> _Playlist:
    """Return a playlist: its faults, and what the library makes of the rest."""
    from m3u8 import parser

    playlist = _Playlist(file=file)
    try:
        content = _files.content(file, _LARGEST)
        lines = content.decode("utf-8").removeprefix("\ufeff").splitlines()
    except UnicodeDecodeError as error:
        playlist.fault("not UTF-8 text", content[: error.start].count(b"\n") + 1, hint="is this a playlist?")
        lines = []
    except (OSError, ValueError) as error:
        playlist.fault(f"cannot read the playlist: {getattr(error, 'strerror', None) or error}")
        lines = []
    if lines and lines[0].strip() != "#EXTM3U":
        playlist.fault("the first line is not #EXTM3U", 1, hint="is this a playlist?")
        lines = []
    elif not lines and not playlist.faults:
        playlist.fault("an empty file, not a playlist")
    playlist.data = parser.parse("\n".join(_sound_lines(playlist, lines)))
    return playlist


def _sound_lines(playlist: _Playlist, lines: list[str]) -> list[str]:
    """Return the lines that a ladder is made of and that are as the RFC has them."""
    kept: list[str] = []
    tags: list[str] = []
    begun: tuple[str, int] | None = None
    broken = False
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line:
            continue
        if not line.startswith("#"):
            if begun is not None and not broken:
                kept += [*tags, line]
                playlist.lines.setdefault(begun[0], []).append(number)
            elif begun is None:
                playlist.fault(f"an address without EXTINF or EXT-X-STREAM-INF: `{line[:60]}`", number)
            begun, broken, tags = None, False, []
            continue
        tag, _, value = line.partition(":")
        message = _CHECKS[tag](value) if tag in _CHECKS else None
        if tag in ("#EXTINF", "#EXT-X-STREAM-INF"):
            if begun is not None and not broken:
                playlist.fault(f"{begun[0][1:]} without an address", begun[1])
            begun, broken, tags = (tag, number), bool(message), [line]
        elif tag == "#EXT-X-BYTERANGE":
            broken = broken or bool(message)
            tags.append(line)
        elif tag in _CHECKS and not message:
            playlist.lines.setdefault(tag, []).append(number)
            kept.append(line)
        if message:
            playlist.fault(f"{tag[1:]}: {message}", number)
    if begun is not None and not broken:
        playlist.fault(f"{begun[0][1:]} without an address", begun[1])
    return kept


def _attributes(value: str) -> dict[str, str] | None:
    """Return an attribute list (section 4.2), or None for text that is not one."""
    found: dict[str, str] = {}
    at = 0
    while at < len(value):
        match = _ATTRIBUTE.match(value, at)
        if match is None:
            return None
        found[match[1]] = match[2].strip('"')
        at = match.end()
    return found


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[str], str | None]:
    """Return a check of a tag's whole value."""

    def check(value: str) -> str | None:
        return None if pattern.fullmatch(value.strip()) else f"not {what}: `{value.strip()[:60]}`"

    return check


def _check_extinf(value: str) -> str | None:
    """Check a chunk's duration: decimal seconds, then a title or nothing."""
    seconds = value.partition(",")[0].strip()
    if not _DECIMAL.fullmatch(seconds):
        return f"not a duration: `{seconds[:60]}`"
    return None if float(seconds) > 0 else "a chunk without duration"


def _check_stream(value: str) -> str | None:
    """Check what a variant declares, as far as it is read."""
    found = _attributes(value)
    if found is None:
        return f"not a list of attributes: `{value[:60]}`"
    if "BANDWIDTH" not in found:
        return "no BANDWIDTH"
    patterns = {
        "BANDWIDTH": _INTEGER,
        "AVERAGE-BANDWIDTH": _INTEGER,
        "RESOLUTION": _RESOLUTION,
        "FRAME-RATE": _DECIMAL,
    }
    for name, pattern in patterns.items():
        if name in found and not pattern.fullmatch(found[name]):
            return f"not a value of {name}: `{found[name][:60]}`"
    return None if int(found["BANDWIDTH"]) else "not a value of BANDWIDTH: `0`"


def _check_media(value: str) -> str | None:
    """Check a rendition of sound; others are not read."""
    found = _attributes(value)
    if found is None:
        return f"not a list of attributes: `{value[:60]}`"
    missing = [name for name in ("TYPE", "GROUP-ID") if name not in found]
    return f"no {missing[0]}" if missing else None


def _check_map(value: str) -> str | None:
    """Check where a decoder's set-up is."""
    found = _attributes(value)
    if found is None:
        return f"not a list of attributes: `{value[:60]}`"
    if "URI" not in found:
        return "no URI"
    if "BYTERANGE" in found and not _BYTE_RANGE.fullmatch(found["BYTERANGE"]):
        return f"not a byte range: `{found['BYTERANGE'][:60]}`"
    return None


#: The check of each tag that a ladder is made of: returns a message about its value, or None.
_CHECKS: dict[str, Callable[[str], str | None]] = {
    "#EXTINF": _check_extinf,
    "#EXT-X-BYTERANGE": _matching(_BYTE_RANGE, "a byte range"),
    "#EXT-X-ENDLIST": lambda _: None,
    "#EXT-X-MAP": _check_map,
    "#EXT-X-MEDIA": _check_media,
    "#EXT-X-STREAM-INF": _check_stream,
    "#EXT-X-TARGETDURATION": _matching(_INTEGER, "whole seconds"),
}


def _variants(master: _Playlist) -> list[tuple[int, dict[str, Any]]]:
    """Return the variants of a master playlist, each with the line of its address."""
    if master.data["segments"]:
        master.fault("a media playlist, not a master playlist", hint="a ladder is a master playlist's")
        return []
    if not master.data["playlists"] and not master.faults:
        master.fault("no rendition (EXT-X-STREAM-INF)")
    return list(zip(master.lines.get("#EXT-X-STREAM-INF", ()), master.data["playlists"], strict=True))


def _sound(master: _Playlist, variants: list[tuple[int, dict[str, Any]]]) -> tuple[int, str] | None:
    """Return line and address of the sound of its own: the default one of the first variant's group."""
    group = variants[0][1]["stream_info"].get("audio") if variants else None
    lines = master.lines.get("#EXT-X-MEDIA", [])
    found = [
        (line, media)
        for line, media in zip(lines, master.data["media"], strict=True)
        if media["type"] == "AUDIO" and media["group_id"] == group
    ]
    if group is not None and not found:
        master.fault(f"no EXT-X-MEDIA of the group: `{group}`", variants[0][0] - 1)
    own = [(line, media) for line, media in found if media.get("uri")]
    own.sort(key=lambda item: item[1].get("default") != "YES")
    return (own[0][0], own[0][1]["uri"]) if own else None


def _declared(stream: dict[str, Any]) -> dict[str, Any]:
    """Return what a master playlist says of a rendition."""
    width, _, height = stream.get("resolution", "0x0").partition("x")
    name = f"{height}p" if int(height) else f"{stream['bandwidth'] // 1000}k"
    return {
        "name": name,
        "bandwidth_bps": stream["bandwidth"],
        "average_bps": stream.get("average_bandwidth"),
        "width": int(width),
        "height": int(height),
        "frame_rate": stream.get("frame_rate"),
        "codecs": stream.get("codecs") or "",
    }


def _file(playlist: _Playlist, uri: str, line: int | None, base: Path) -> Path | None:
    """Return the file that an address means, below the ladder's folder; or None and a fault."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = None
    if parts is None or parts.scheme or parts.netloc:
        playlist.fault(f"not a file: `{uri[:80]}`", line, hint="fetch the ladder first; only files are read")
        return None
    file = playlist.file.parent / unquote(parts.path)
    # A ladder may come from anywhere: it must not name, through `..` or a link, what else is on this host.
    if not _is_below(file, base):
        playlist.fault(f"outside the ladder's folder: `{uri[:80]}`", line)
        return None
    if not _files.is_file(file):
        playlist.fault(f"no such file: `{uri[:80]}`", line)
        return None
    return file


def _is_below(file: Path, folder: Path) -> bool:
    """Tell whether a file lies in a folder, symbolic links followed; an impossible name lies anywhere."""
    try:
        return file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return True  # there is no such file, which is said as such


def _media(master: _Playlist, line: int, uri: str) -> _Playlist:
    """Return a media playlist that the master names; a missing one is reported as the master's fault."""
    file = _file(master, uri, line, master.file.parent)
    if file is None:
        return _Playlist(file=master.file, data={"segments": []})
    media = _open(file)
    if media.faults:
        return media
    longest = max((segment.get("duration", 0) for segment in media.data["segments"]), default=0)
    target = media.data.get("targetduration")
    if media.data["playlists"]:
        media.fault("a master playlist, where a media playlist is wanted")
    elif not media.data["segments"]:
        media.fault("no chunk (EXTINF)")
    elif len(media.lines.get("#EXTINF", ())) != len(media.data["segments"]) or any(
        "duration" not in segment for segment in media.data["segments"]
    ):
        media.fault("not every chunk has an EXTINF of its own")
    elif target is None:
        media.fault("no EXT-X-TARGETDURATION")
    elif int(longest + 0.5) > target:
        where = media.lines["#EXT-X-TARGETDURATION"][0]
        media.fault(f"EXT-X-TARGETDURATION: {target} is less than a chunk of {longest:g} s", where)
    if not media.data["is_endlist"]:
        media.fault("no EXT-X-ENDLIST: the film is not complete", hint="live playlists are not played")
    return media


def _measured(media: _Playlist, base: Path) -> dict[str, Any]:
    """Return what a media playlist and its files say of a rendition."""
    ends: dict[Path, int] = {}
    chunks = []
    # Of a playlist with faults nothing is measured: what is there need not match.
    segments = [] if media.faults else media.data["segments"]
    for line, segment in zip(media.lines.get("#EXTINF", ()), segments, strict=not media.faults):
        span = segment.get("byterange")
        piece = _piece(media, segment["uri"], span, (line, ends, base))
        if piece is not None:
            chunks.append({**piece, "duration_ns": round(segment["duration"] * _SECOND)})
    # One set-up for all chunks: playlists that change it midway are rare, and it is small.
    section = next((segment.get("init_section") for segment in media.data["segments"]), None)
    init = None
    if section:
        line = media.lines["#EXT-X-MAP"][0]
        piece = _piece(media, section["uri"], section.get("byterange"), (line, {}, base))
        init = {**piece, "duration_ns": 0} if piece is not None else None
    playlist = _resource(media.file, base)
    return {"playlist": playlist, "init": init, "chunks": chunks}


def _piece(
    media: _Playlist, uri: str, span: str | None, place: tuple[int, dict[Path, int], Path]
) -> dict[str, Any] | None:
    """Return path, offset and size of a piece of a file, or None and a fault."""
    line, ends, base = place
    file = _file(media, uri, line, base)
    if file is None:
        return None
    size = file.stat().st_size
    offset = None
    if span is not None:
        length, _, given = span.partition("@")
        # Without an offset it follows the piece before, of the same file (section 4.3.2.2).
        if not given and file not in ends:
            if not media.faults:  # else it is the piece before that is broken
                media.fault(f"EXT-X-BYTERANGE: `{span}` has no offset, and no piece before it", line)
            return None
        offset = int(given) if given else ends[file]
        if offset + int(length) > size:
            media.fault(f"EXT-X-BYTERANGE: `{span}` goes beyond the {size:,} bytes of the file", line)
            return None
        size = int(length)
        ends[file] = offset + size
    if size == 0:
        media.fault(f"an empty chunk: `{uri[:80]}`", line)
        return None
    return {"path": _path(file, base), "offset": offset, "bytes": size}


def _path(file: Path, base: Path) -> str:
    """Return a file's path on a server of the master playlist's folder."""
    return quote(os.path.relpath(file, base).replace(os.sep, "/"))


def _resource(file: Path, base: Path) -> dict[str, Any]:
    """Return a whole file as a plan has it."""
    return {"path": _path(file, base), "bytes": file.stat().st_size}


def _peak_bps(chunks: list[dict[str, Any]]) -> int:
    """Return the rate of the largest chunk."""
    return max((-(-chunk["bytes"] * 8 * _SECOND // chunk["duration_ns"]) for chunk in chunks), default=0)


def _compare(master: _Playlist, renditions: list[tuple[int, dict[str, Any]]]) -> None:
    """Check that a player can go from one rendition to another."""
    for (_, below), (line, above) in itertools.pairwise(renditions):
        if below["bandwidth_bps"] == above["bandwidth_bps"]:
            master.fault(f"a second rendition of BANDWIDTH={above['bandwidth_bps']}", line)
        if len(below["chunks"]) != len(above["chunks"]):
            message = f"{len(above['chunks'])} chunks, where a rendition below has {len(below['chunks'])}"
            master.fault(message, line, hint="all renditions must be cut alike")
