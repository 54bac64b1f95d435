"""Ladders by numbers: from heights and rates, or from a master playlist whose chunks are not on this host.

All renditions have the same cut. The size of a chunk differs from the rendition's mean by at most the
*spread*, alike in each rendition, as the content of a film would have it. The pattern is fixed: equal
numbers give equal chunks. The mean over the film is exact. The first chunks may have known sizes instead.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from anabranch import _cache, _files
from anabranch.errors import Fault, MediaError
from anabranch.media import _dash, _hls, _variants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.media._hls import Playlist, Variant

_SECOND = 10**9
#: The length of a chunk, the length of the film and the spread of sizes, unless given.
CHUNK_NS, LENGTH_NS, SPREAD = 4 * _SECOND, 600 * _SECOND, 0.2
#: The longest time for a playlist by URL, in seconds, and its largest size in bytes.
_WAIT_S, _LARGEST = 10.0, 1_000_000
#: The size of a media playlist: a head, and a line and an address for each chunk.
_HEAD_BYTES, _CHUNK_BYTES = 120, 45


@dataclass(frozen=True, kw_only=True)
class Rung:
    """A rendition by numbers.

    Attributes
    ----------
    name
        Its name.
    mean_bps
        Its mean rate.
    declares_bps
        The rate that a playlist declares (`BANDWIDTH`): that of the largest chunk.
    width, height
        The picture; 0 if unknown.
    frame_rate
        Pictures a second; None if unknown.
    codecs
        As a playlist declares them.
    """

    name: str
    mean_bps: float
    declares_bps: int
    width: int
    height: int
    frame_rate: float | None = None
    codecs: str = ""


def rung(height: int, mean_bps: int, content: Content) -> Rung:
    """Return the rendition of a height and a mean rate of the pictures, which are 16 to 9."""
    return Rung(
        name=f"{height}p",
        mean_bps=mean_bps,
        declares_bps=round(mean_bps * content.peak) + content.sound_bps,
        width=2 * round(height * 8 / 9),
        height=height,
    )


@dataclass(frozen=True, kw_only=True)
class Content:
    """The sizes of chunks relative to the mean of their rendition, and the separate sound.

    Attributes
    ----------
    spread
        The largest difference of a chunk's rate from the mean of its rendition, as a share of the mean.
    sizes
        The rates of the first chunks over the mean. The film's mean is then not exact.
    sound_bps
        The rate of separate sound; 0 if there is none.
    """

    spread: float = SPREAD
    sizes: Sequence[float] = ()
    sound_bps: int = 0

    @property
    def peak(self) -> float:
        """The largest rate of a chunk over the mean: what a playlist declares (RFC 8216, section 4.3.4.2)."""
        return max(1 + self.spread, *self.sizes, 0.0)

    def factors(self, chunks_ns: Sequence[int]) -> list[float]:
        """Return the rate of each chunk over the mean."""
        drawn = [1 + self.spread * part for part in _pattern(chunks_ns)]
        return [*self.sizes[: len(drawn)], *drawn[len(self.sizes) :]]


#: The sizes of chunks, unless given.
USUAL = Content()


def ladder(name: str, rungs: Sequence[Rung], chunks_ns: Sequence[int], content: Content) -> dict[str, Any]:
    """Return a ladder as a plan has it (`recorded`).

    Parameters
    ----------
    name
        Its name, which its paths on the server begin with.
    rungs
        The renditions.
    chunks_ns
        The length of each chunk.
    content
        The sizes of the chunks.
    """
    factors = content.factors(chunks_ns)
    renditions = [
        {
            "name": one.name,
            "bandwidth_bps": one.declares_bps,
            "average_bps": round(one.mean_bps),
            "width": one.width,
            "height": one.height,
            "frame_rate": one.frame_rate,
            "codecs": one.codecs,
            **_media(name, one.name, one.mean_bps, chunks_ns, factors),
        }
        for one in sorted(rungs, key=lambda one: one.declares_bps)
    ]
    audio = None
    if content.sound_bps:
        alike = [1.0] * len(chunks_ns)
        media = _media(name, "audio", content.sound_bps, chunks_ns, alike)
        audio = {"name": "audio", "bandwidth_bps": content.sound_bps, **media}
    master = {"path": f"{name}/master.m3u8", "bytes": _HEAD_BYTES * (1 + len(rungs))}
    return {"name": name, "master": master, "renditions": renditions, "audio": audio}


def _media(
    name: str, track: str, mean_bps: float, chunks_ns: Sequence[int], factors: Sequence[float]
) -> dict[str, Any]:
    """Return the playlist and the chunks of a rendition or of the sound."""
    bytes_of = _HEAD_BYTES + _CHUNK_BYTES * len(chunks_ns)
    return {
        "playlist": {"path": f"{name}/{track}/index.m3u8", "bytes": bytes_of},
        "init": None,
        "chunks": [
            {
                "path": f"{name}/{track}/{place}.ts",
                "offset": None,
                "bytes": max(1, round(mean_bps * factor * lasts / 8 / _SECOND)),
                "duration_ns": lasts,
            }
            for place, (lasts, factor) in enumerate(zip(chunks_ns, factors, strict=True))
        ],
    }


def cut(length_ns: int, chunk_ns: int) -> list[int]:
    """Return the lengths of chunks; the last one has the rest."""
    whole, rest = divmod(length_ns, chunk_ns)
    return [chunk_ns] * whole + ([rest] if rest else [])


def _pattern(chunks_ns: Sequence[int]) -> list[float]:
    """Return the relative size of each chunk: from -1 to 1, with a mean of 0 over time."""
    draws = [
        int.from_bytes(hashlib.sha256(f"chunk {place}".encode()).digest()[:8]) / 2**63 - 1
        for place in range(len(chunks_ns))
    ]
    mean = sum(one * lasts for one, lasts in zip(draws, chunks_ns, strict=True)) / sum(chunks_ns)
    away = [one - mean for one in draws]
    most = max(abs(one) for one in away)
    return [one / most if most else 0.0 for one in away]


def is_url(name: str) -> bool:
    """Return whether a ladder is named by a URL."""
    return name.lower().startswith(("http://", "https://"))


def of_master(
    name: str,
    file: Path,
    *,
    chunk_ns: int = CHUNK_NS,
    length_ns: int = LENGTH_NS,
    content: Content = USUAL,
    notes: list[Fault] | None = None,
) -> dict[str, Any]:
    """Return the ladder of a master playlist or a static DASH manifest by its declared rates.

    A media playlist in its folder, or the manifest, gives the lengths of the chunks. Otherwise they are as
    given.

    Parameters
    ----------
    name
        The file or URL of the playlist or manifest as the user wrote it.
    file
        The file.
    chunk_ns, length_ns
        Length of a chunk, and length of the film.
    content
        The sizes of the chunks. The rates that a playlist declares include the sound.
    notes
        Receives a note about the sizes, and about variants that are left out.

    Raises
    ------
    MediaError
        With every fault of the playlist.
    """
    found = (_of_manifest if _dash.is_manifest(file) else _of_playlist)(file, content)
    soft = [one.name for one in found.rungs if one.mean_bps < 1]
    if content.sound_bps and soft:
        message = f"the sound has a higher rate than a rendition: {', '.join(soft)}"
        raise MediaError([Fault(message=message, where=name, hint="a lower `sound`")])
    by = found.cut_by if found.lengths_ns else f"chunks of {chunk_ns / _SECOND:g} s"
    spread = f"a spread of {100 * content.spread:g} %"
    text = f"sizes of chunks are by {found.rate} and {by}, with {spread}: no chunk is read"
    if notes is not None:
        notes += [Fault(message=one, where=name) for one in (*found.notes, text)]
    stem = Path(urlsplit(name).path if is_url(name) else file.name).stem or "master"
    lengths = found.lengths_ns or cut(found.duration_ns or length_ns, chunk_ns)
    return ladder(stem, found.rungs, lengths, content)


@dataclass(frozen=True, kw_only=True)
class _Declared:
    """The contents of a playlist or manifest.

    Attributes
    ----------
    rungs
        The renditions.
    lengths_ns
        The lengths of the chunks; empty if unknown.
    duration_ns
        The length of the film; None if unknown.
    rate, cut_by
        The names of the rate and of the source of the lengths, for messages.
    notes
        Parts that are left out.
    """

    rungs: Sequence[Rung]
    lengths_ns: Sequence[int]
    duration_ns: int | None
    rate: str
    cut_by: str
    notes: Sequence[str]


def _of_playlist(file: Path, content: Content) -> _Declared:
    """Return the contents of a master playlist."""
    master = _hls.read(file)
    if not master.variants and not master.faults:
        master.fault("no rendition (EXT-X-STREAM-INF)", hint="a ladder is a master playlist's")
    if master.faults:
        raise MediaError(master.faults)
    variants, left_out = _variants.chosen(master.variants)
    return _Declared(
        rungs=[_declared(one, content) for one in variants],
        lengths_ns=next(filter(None, (_lengths(master, one) for one in variants)), ()),
        duration_ns=None,
        rate="BANDWIDTH",
        cut_by="media playlist",
        notes=left_out,
    )


def _of_manifest(file: Path, content: Content) -> _Declared:
    """Return the contents of a DASH manifest."""
    found = _dash.read(file)
    rungs = [
        Rung(
            name=f"{one.height}p-{one.bandwidth_bps // 1000}k"
            if one.height
            else f"{one.bandwidth_bps // 1000}k",
            mean_bps=one.bandwidth_bps / (1 + content.spread),
            declares_bps=one.bandwidth_bps,
            width=one.width,
            height=one.height,
            frame_rate=one.frame_rate,
            codecs=one.codecs,
        )
        for one in found.renditions
    ]
    return _Declared(
        rungs=rungs,
        lengths_ns=found.lengths_ns,
        duration_ns=found.duration_ns,
        rate="bandwidth",
        cut_by="segments of the manifest",
        notes=found.notes,
    )


def _declared(variant: Variant, content: Content) -> Rung:
    """Return the rendition that a variant declares."""
    width, height = variant.size
    average = variant.attributes.get("AVERAGE-BANDWIDTH")
    peak = variant.bandwidth_bps
    return Rung(
        name=f"{height}p" if height else f"{peak // 1000}k",
        # BANDWIDTH is the rate of the largest chunk, and both rates include separate sound (RFC 8216,
        # section 4.3.4.2).
        mean_bps=(float(average) - content.sound_bps)
        if average
        else (peak - content.sound_bps) / (1 + content.spread),
        declares_bps=peak,
        width=width,
        height=height,
        frame_rate=variant.frame_rate or None,
        codecs=variant.attributes.get("CODECS", ""),
    )


def _lengths(master: Playlist, variant: Variant) -> list[int] | None:
    """Return the lengths of a variant's chunks, if its media playlist is beside the master playlist."""
    if is_url(variant.uri):
        return None
    file = master.file.parent / unquote(urlsplit(variant.uri).path)
    if not _files.is_file(file):
        return None
    media = _hls.read(file, given=master.variables)
    if media.faults:
        raise MediaError(media.faults)
    return [one.duration_ns for one in media.segments if one.duration_ns] or None


def has_no_files(file: Path) -> bool:
    """Return whether a ladder is by numbers: a manifest, or a master playlist without files on this host."""
    if _dash.is_manifest(file):
        return True
    master = _hls.read(file)
    if master.faults or not master.variants:
        return False
    for variant in master.variants:
        media = master.file.parent / unquote(urlsplit(variant.uri).path)
        if is_url(variant.uri) or not _files.is_file(media):
            continue
        found = _hls.read(media, given=master.variables)
        if found.faults or not found.segments:
            return False
        first = found.segments[0].uri
        if not is_url(first) and _files.is_file(media.parent / unquote(urlsplit(first).path)):
            return False
    return True


def fetched(url: str) -> Path:
    """Return the file of a master playlist or manifest by URL. It is fetched once and then kept in the cache.

    Raises
    ------
    MediaError
        When it cannot be fetched.
    """
    import urllib.error
    import urllib.request

    file = _cache.folder() / f"master-{hashlib.sha256(url.encode()).hexdigest()[:16]}.m3u8"
    if file.exists():
        return file
    try:
        with urllib.request.urlopen(url, timeout=_WAIT_S) as answer:
            text = answer.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        hint = "save the playlist, and name the file"
        raise MediaError([Fault(message=f"cannot fetch `{url[:120]}`: {error}", hint=hint)]) from None
    if len(text) > _LARGEST:
        message = f"more than {_LARGEST:,} bytes: `{url[:120]}`"
        raise MediaError([Fault(message=message, hint="a master playlist is much smaller")])
    # An error page with status 200 must not stay in the cache.
    fresh = file.with_suffix(f".{os.getpid()}.new.m3u8")
    _files.write_bytes(fresh, text, "the playlist")
    try:
        if _dash.is_manifest(fresh):
            _dash.read(fresh)
        elif faults := _hls.read(fresh).faults:
            message = f"not a playlist: `{url[:120]}`: {faults[0].message}"
            raise MediaError([Fault(message=message, hint="open the URL in a browser")])
        fresh.replace(file)
    finally:
        fresh.unlink(missing_ok=True)
    return file
