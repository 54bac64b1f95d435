"""HLS playlists (.m3u8, RFC 8216) from files, to a ladder as the plan has it.

`_hls` parses the text, and `_variants` selects the variants. This module measures the files and builds the
ladder from them. All faults are reported at once, each with its line.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from anabranch import _files
from anabranch.errors import Fault, MediaError
from anabranch.media import _hls, _variants

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from anabranch.media._hls import Playlist, Segment, Span, Variant

_SECOND = 10**9
#: The largest difference between the beginnings of a chunk in two renditions that count as cut alike,
#: nanoseconds (hls.js, `maxFragLookUpTolerance`).
_TOLERANCE_NS = 250_000_000


def read(path: Path, notes: list[Fault] | None = None) -> dict[str, Any]:
    """Return the ladder of a master playlist as a plan has it (`recorded`).

    Parameters
    ----------
    path
        The master playlist (.m3u8), or a folder with one.
    notes
        Receives notes about the parts that are left out of the ladder.

    Raises
    ------
    MediaError
        With every fault of every playlist.
    """
    master = _hls.read(master_of(path))
    base = master.file.parent
    notes = [] if notes is None else notes
    variants, left_out = _variants.chosen(_variants_of(master))
    faults: list[Fault] = []
    renditions: list[tuple[int, dict[str, Any]]] = []
    for variant in variants:
        media = _media(master, variant.line, variant.uri)
        renditions.append((variant.line, {**_declared(variant), **_measured(media, base)}))
        faults += media.faults
    sounds: list[dict[str, Any]] = []
    groupless = [variant for variant in variants if "AUDIO" not in variant.attributes]
    for one in _sounds(master, variants):
        media = _media(master, one.line, one.uri)
        name = f"audio-{one.group}" if sounds else "audio"
        sound = {"name": name, "bandwidth_bps": 0, **_measured(media, base)}
        sound["bandwidth_bps"] = _peak_bps(sound["chunks"])
        sounds.append(sound)
        faults += media.faults
        for index in one.variants:
            if sounds[1:]:
                renditions[index][1]["sound"] = len(sounds) - 1
    renditions.sort(key=lambda item: item[1]["bandwidth_bps"])
    said: list[str] = []
    if not faults and not master.faults:
        said = _aligned(master, renditions)
        if renditions and all(_is_gaps(rendition) for _, rendition in renditions):
            hint = "remove EXT-X-GAP from the chunks that are there"
            master.fault("all chunks are gaps in every rendition (EXT-X-GAP)", renditions[0][0], hint=hint)
        said += [] if master.faults else _skipped(renditions, sounds)
    if master.faults or faults:
        raise MediaError([*master.faults, *faults])
    if sounds and groupless:
        names = ", ".join(f"`{variant.uri[:60]}`" for variant in groupless)
        said.append(f"separate sound is played with variants that name no AUDIO, as in hls.js: {names}")
    notes += [Fault(message=text, where=str(master.file)) for text in (*left_out, *said)]
    unspecific = master.file.stem in ("master", "index", "playlist")
    ladder = {
        "name": base.resolve().name if unspecific else master.file.stem,
        "master": _resource(master.file, base),
        "renditions": [rendition for _, rendition in renditions],
        "audio": sounds[0] if sounds else None,
    }
    return {**ladder, "more_audio": sounds[1:]} if sounds[1:] else ladder


def rates(file: Path) -> tuple[int, int]:
    """Return the peak and the mean rate of a media playlist's chunks, in bits per second.

    Raises
    ------
    MediaError
        With every fault of the playlist.
    """
    media = _hls.read(file)
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
    """Return the text of a file, as far as it is text."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(_hls.LARGEST)
    except OSError:
        return ""


def _variants_of(master: Playlist) -> list[Variant]:
    """Return the variants of a master playlist."""
    if master.segments:
        master.fault("a media playlist, not a master playlist", hint="a ladder is a master playlist's")
        return []
    if not master.variants and not master.faults:
        master.fault("no rendition (EXT-X-STREAM-INF)")
    return master.variants


@dataclass(frozen=True, kw_only=True)
class _Sound:
    """A separate sound, and the indices of the variants that are played with it."""

    group: str
    uri: str
    line: int
    variants: list[int]


def _sounds(master: Playlist, variants: list[Variant]) -> list[_Sound]:
    """Return the separate sounds of the variants, each once.

    A sound without an address is part of the variant's own chunks (section 4.3.4.1).
    """
    found: dict[str, _Sound] = {}
    within: list[Variant] = []
    audio = [(line, media) for line, media in master.media if media["TYPE"] == "AUDIO"]
    groups = {media["GROUP-ID"] for _, media in audio}
    # Variants that are left out are checked, too.
    for variant in master.variants:
        group = variant.attributes.get("AUDIO")
        if group is not None and group not in groups:
            master.fault(f"no EXT-X-MEDIA of the group: `{group}`", variant.tag_line)
    for place, variant in enumerate(variants):
        line, media = _variants.sound_of(variant, audio, first=master.variants[0])
        uri = media.get("URI")
        if uri:
            sound = _Sound(group=media["GROUP-ID"], uri=uri, line=line, variants=[])
            found.setdefault(uri, sound).variants.append(place)
        else:
            within.append(variant)
    if found and within:
        message = (
            f"a variant whose sound is muxed, although others have separate sound: `{within[0].uri[:60]}`"
        )
        hint = "the player model does not change between the two: name a group with an address in each AUDIO"
        master.fault(message, within[0].line, hint=hint)
    return list(found.values())


def _declared(variant: Variant) -> dict[str, Any]:
    """Return the declared properties of a rendition."""
    width, height = variant.size
    average = variant.attributes.get("AVERAGE-BANDWIDTH")
    return {
        "name": f"{height}p" if height else f"{variant.bandwidth_bps // 1000}k",
        "bandwidth_bps": variant.bandwidth_bps,
        "average_bps": None if average is None else int(average),
        "width": width,
        "height": height,
        "frame_rate": variant.frame_rate or None,
        "codecs": variant.attributes.get("CODECS", ""),
    }


def _file(playlist: Playlist, uri: str, line: int | None, base: Path) -> Path | None:
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
    """Return whether a file lies in a folder, symbolic links followed; an impossible name lies anywhere."""
    try:
        return file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return True  # A file that does not exist is reported separately.


def _media(master: Playlist, line: int, uri: str) -> Playlist:
    """Return a media playlist that the master names; a missing one is reported as the master's fault."""
    file = _file(master, uri, line, master.file.parent)
    if file is None:
        return _hls.Playlist(file=master.file)
    media = _hls.read(file, given=master.variables, query=urlsplit(uri).query)
    if media.faults:
        return media
    longest = max((segment.duration_ns for segment in media.segments), default=0)
    if media.variants:
        media.fault("a master playlist, where a media playlist is wanted")
    elif not any(segment.duration_ns for segment in media.segments):
        media.fault("no chunk (EXTINF)")
    elif media.target is None:
        media.fault("no EXT-X-TARGETDURATION")
    # "When rounded to the nearest integer" (section 4.3.3.1).
    elif (longest + _SECOND // 2) // _SECOND > media.target[0]:
        message = f"{media.target[0]} is less than a chunk of {longest / _SECOND:g} s"
        media.fault(f"EXT-X-TARGETDURATION: {message}", media.target[1])
    if not media.ended:
        media.fault("no EXT-X-ENDLIST: the film is not complete", hint="live playlists are not played")
    return media


def _measured(media: Playlist, base: Path) -> dict[str, Any]:
    """Return the properties of a rendition from its media playlist and files."""
    chunks: list[dict[str, Any]] = []
    setups: list[tuple[int, int]] = []
    before: tuple[str, int] | None = None
    # The files of a playlist with faults are not measured, because they need not match.
    for segment in [] if media.faults else media.segments:
        span, before = _span(segment, before)
        # hls.js never loads a segment without duration (`fragmentWithinToleranceTest`).
        if segment.duration_ns == 0:
            continue
        if segment.setup is not None and (not setups or setups[-1][1] != segment.setup):
            setups.append((len(chunks), segment.setup))
        timed = {"duration_ns": segment.duration_ns}
        if segment.gap:
            chunks.append({"path": quote(segment.uri), "offset": None, "bytes": 0, **timed, "gap": True})
            continue
        piece = _piece(media, segment, span, base)
        if piece is not None:
            chunks.append({**piece, **timed})
    found: dict[str, Any] = {"playlist": _resource(media.file, base), "init": None, "chunks": chunks}
    later = []
    for first, setup in setups:
        piece = _piece(media, media.setups[setup], _numbers(media.setups[setup].span), base)
        if piece is not None and first == 0:
            found["init"] = {**piece, "duration_ns": 0}
        elif piece is not None:
            later.append([first, {**piece, "duration_ns": 0}])
    return {**found, "later_inits": later} if later else found


def _numbers(span: str | None) -> tuple[int, int] | None:
    """Return the offset and the length of a byte range with an offset."""
    if span is None:
        return None
    length, _, offset = span.partition("@")
    return int(offset), int(length)


def _span(
    segment: Segment, before: tuple[str, int] | None
) -> tuple[tuple[int, int] | None, tuple[str, int] | None]:
    """Return the byte range of a segment, and its file and end for the next segment.

    Without an offset, the range follows that of the previous segment, which must belong to the same file
    (section 4.3.2.2). Otherwise there is no range.
    """
    if segment.span is None:
        return None, None
    text = segment.span
    if "@" not in text:
        if before is None or before[0] != segment.uri:
            return None, None
        text = f"{text}@{before[1]}"
    offset, length = _numbers(text) or (0, 0)
    return (offset, length), (segment.uri, offset + length)


def _piece(media: Playlist, place: Span, span: tuple[int, int] | None, base: Path) -> dict[str, Any] | None:
    """Return path, offset and size of a piece of a file, or None and a fault."""
    file = _file(media, place.uri, place.line, base)
    if file is None:
        return None
    if span is None and place.span is not None:
        if not media.faults:  # else it is the piece before that is broken
            media.fault(f"EXT-X-BYTERANGE: `{place.span}` has no offset, and no piece before it", place.line)
        return None
    size = file.stat().st_size
    offset = None
    if span is not None:
        offset, length = span
        if offset + length > size:
            message = f"EXT-X-BYTERANGE: `{place.span}` goes beyond the {size:,} bytes of the file"
            media.fault(message, place.line)
            return None
        size = length
    if size == 0:
        media.fault(f"an empty chunk: `{place.uri[:80]}`", place.line)
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


def _ends(rendition: dict[str, Any]) -> list[int]:
    """Return the end of each chunk of a rendition, nanoseconds."""
    return list(accumulate(chunk["duration_ns"] for chunk in rendition["chunks"]))


def _aligned(master: Playlist, renditions: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """Cut renditions of unequal length to the shortest one, and return a note about it.

    Renditions that are cut at different times are a fault, because a player could not switch between them.
    """
    if not renditions:
        return []
    ends = [_ends(rendition) for _, rendition in renditions]
    shortest = min(ends, key=lambda of: (len(of), of[-1]))
    count = len(shortest)
    for (line, _), of in zip(renditions, ends, strict=True):
        if not _is_cut_alike(of, shortest):
            other = f"where another rendition has {count}" if len(of) != count else "as another rendition has"
            message = f"{len(of)} chunks, {other}, cut at other times"
            master.fault(message, line, hint="all renditions must be cut alike")
            return []
    if all(len(of) == count for of in ends):
        return []
    longest = max(map(len, ends))
    for _, rendition in renditions:
        _cut(rendition, count)
    until = f"the film ends with the shortest, after {shortest[-1] / _SECOND:g} s"
    return [f"the renditions have {count} to {longest} chunks: {until}"]


def _is_cut_alike(ends: list[int], shortest: list[int]) -> bool:
    """Return whether the chunks of a rendition begin when those of the shortest one do.

    The last chunk of a film is often shorter than the others, so the last ends may differ.
    """
    last = len(shortest) - 1
    begins = zip(ends[:last], shortest[:last], strict=True)
    if any(abs(one - other) > _TOLERANCE_NS for one, other in begins):
        return False
    # The next chunk of a longer rendition must not begin before the shortest one ends.
    return len(ends) == len(shortest) or ends[last] >= shortest[last] - _TOLERANCE_NS


def _is_gaps(rendition: dict[str, Any]) -> bool:
    return all(chunk.get("gap") for chunk in rendition["chunks"])


def _cut(rendition: dict[str, Any], count: int) -> None:
    """Keep only the first `count` chunks of a rendition, and the set-ups that they need."""
    del rendition["chunks"][count:]
    if "later_inits" in rendition:
        rendition["later_inits"] = [one for one in rendition["later_inits"] if one[0] < count]


def _skipped(renditions: list[tuple[int, dict[str, Any]]], sounds: list[dict[str, Any]]) -> list[str]:
    """Remove chunks that no rendition has. Return notes on gaps and on sound of another length."""
    notes = []
    every = [rendition for _, rendition in renditions]
    count = len(every[0]["chunks"]) if every else 0
    gaps = [at for at in range(count) if all(one["chunks"][at].get("gap") for one in every)]
    if gaps:
        lost_s = sum(every[0]["chunks"][at]["duration_ns"] for at in gaps) / _SECOND
        notes.append(f"{len(gaps)} chunks are gaps in every rendition (EXT-X-GAP): {lost_s:g} s are skipped")
        ends = [0, *_ends(every[0])]
        spans = [(ends[at], ends[at + 1]) for at in gaps]
        for rendition in every:
            _without(rendition, gaps)
        for sound in sounds:
            count_left_out = _without_times(sound, spans)
            chunks = f"{count_left_out} chunks of the sound `{sound['name']}`"
            notes.append(f"{chunks} are left out, as the pictures of their time are gaps")
    some = sum(any(one["chunks"][at].get("gap") for one in every) for at in range(count - len(gaps)))
    if some:
        notes.append(f"{some} chunks are gaps in some renditions (EXT-X-GAP): others are played there")
    end_ns = _ends(every[0])[-1] if every and every[0]["chunks"] else 0
    for sound in sounds:
        apart_s = (_ends(sound)[-1] - end_ns) / _SECOND
        if abs(apart_s) > 1:
            longer = "longer" if apart_s > 0 else "shorter"
            notes.append(f"the sound `{sound['name']}` is {abs(apart_s):g} s {longer} than the pictures")
    return notes


def _without_times(sound: dict[str, Any], spans: list[tuple[int, int]]) -> int:
    """Remove some times from a sound, and return how many of its chunks have no time left.

    A player skips these times in all tracks. A chunk of which only a part remains is loaded in full.
    """
    left_out, begin = [], 0
    for at, (chunk, end) in enumerate(zip(sound["chunks"], _ends(sound), strict=True)):
        skipped = sum(max(0, min(end, last) - max(begin, first)) for first, last in spans)
        begin = end
        if skipped >= chunk["duration_ns"]:
            left_out.append(at)
        else:
            chunk["duration_ns"] -= skipped
    _without(sound, left_out)
    return len(left_out)


def _without(rendition: dict[str, Any], gaps: Iterable[int]) -> None:
    """Remove chunks from a rendition, and adjust the first chunks of its set-ups."""
    left_out = set(gaps)
    chunks = rendition["chunks"]
    rendition["chunks"] = [chunk for at, chunk in enumerate(chunks) if at not in left_out]
    if "later_inits" in rendition:
        moved = (
            (first - sum(at < first for at in left_out), init) for first, init in rendition["later_inits"]
        )
        rendition["later_inits"] = [[first, init] for first, init in moved]
