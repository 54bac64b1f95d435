"""The content of a video file: every packet's place, size, times, kind, and reference."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch import _cache, _extras, _files
from anabranch.errors import Fault, MediaError
from anabranch.media import _h264, _whole

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

_VERSION = 3
_SECOND = 10**9
#: FFmpeg's flags of streams whose pictures are not the film, such as a cover: `AV_DISPOSITION_ATTACHED_PIC`,
#: `AV_DISPOSITION_TIMED_THUMBNAILS` and `AV_DISPOSITION_STILL_IMAGE`.
_NO_FILM = 1 << 10 | 1 << 11 | 1 << 20


@dataclass(frozen=True, kw_only=True)
class Packets:
    """The packets of a file as columns, in the order of the file.

    Attributes
    ----------
    stream
        "video" or "audio".
    position, size
        Bytes. A position is None where a packet shares a transport unit with the one before it of its
        stream, as several AAC packets in one PES packet of an MPEG-TS do.
    pts_ns, dts_ns
        Nanoseconds; the first picture is shown at 0.
    kind
        "I", "P", "B", or "A" for audio.
    reference
        Whether other pictures refer to this one.
    """

    stream: list[str] = field(default_factory=list)
    position: list[int | None] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    pts_ns: list[int] = field(default_factory=list)
    dts_ns: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    reference: list[bool] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A video file's description; `plan` is the form that the simulator takes."""

    name: str
    container: str
    size_bytes: int
    duration_ns: int
    frame_rate: float
    width: int
    height: int
    codec: str
    packets: Packets

    @property
    def rate_mbps(self) -> float:
        """Mean rate of the whole file in Mb/s."""
        return self.size_bytes * 8e3 / self.duration_ns

    def kinds(self) -> dict[str, int]:
        """Return how many pictures there are of each kind."""
        return {kind: self.packets.kind.count(kind) for kind in ("I", "P", "B")}

    def plan(self) -> dict[str, Any]:
        """Return the columns as docs/plan-and-trace.md names them."""
        # The columns themselves: `asdict` would copy thousands of values one by one.
        columns = {key: value for key, value in vars(self).items() if key != "codec"}
        return {"recorded": {**columns, "packets": dict(vars(self.packets))}}


class _Row(NamedTuple):
    """One packet."""

    position: int | None
    size: int
    pts: Fraction
    dts: Fraction
    kind: str
    reference: bool


def probe(path: str | Path) -> Probe:
    """Read a video file's structure, without decoding a picture.

    The result is cached by path and file state, if the cache can be written.

    Raises
    ------
    MediaError
        When the file is missing, unreadable, truncated, or holds no video.
    """
    path = Path(path)
    try:
        path.stat()
    except OSError as error:
        raise _error(path, f"cannot read the film: {error.strerror}") from None
    if not path.is_file():
        raise _error(path, "a film is a file, not a folder")
    name = _cache.key(path=str(path.resolve()), state=_files.state(path), version=_VERSION)
    kept = _cache.recall(f"probe-{name}.json")
    if kept is not None:
        # A damaged description is made again.
        with suppress(ValueError, TypeError, KeyError):
            columns = json.loads(kept)
            return Probe(**{**columns, "packets": Packets(**columns["packets"])})
    result = _read(path)
    _cache.keep(f"probe-{name}.json", json.dumps(asdict(result)))
    return result


def _error(path: Path, message: str, hint: str = "") -> MediaError:
    """Return the error of one film."""
    return MediaError([Fault(message=f"{message}: `{path}`", hint=hint)])


def _read(path: Path) -> Probe:
    """Demultiplex a file."""
    _extras.need("av", for_="reading a film")
    import av

    if path.stat().st_size == 0:
        raise _error(path, "the film is empty")
    try:
        with av.open(str(path), metadata_errors="replace") as container:
            return _describe(path, container)
    except (av.FFmpegError, ValueError, OverflowError) as error:
        hint = "an MP4 without its index was cut short" if path.suffix.lower() in (".mp4", ".mov") else ""
        reason = getattr(error, "strerror", None) or str(error)
        raise _error(path, f"unreadable or truncated film ({reason})", hint) from None


def _describe(path: Path, container: InputContainer) -> Probe:
    """Return an open file's description."""
    if not len(container.streams):
        raise _error(path, "unreadable or truncated film (nothing in it)")
    video = _pictures_of(path, container)
    streams = [video, *container.streams.audio[:1]]
    seen = {stream.index: _whole.Seen() for stream in streams}
    size = path.stat().st_size
    prefix = _h264.length_size(video.codec_context.extradata)
    is_h264 = video.codec_context.name == "h264"
    rows: list[_Row] = []
    newest = Fraction(-(10**9))
    end = Fraction(0)
    for packet in container.demux(streams):
        seen[packet.stream.index].take(packet)
        if not packet.size or (packet.pts is None and packet.dts is None):
            continue
        base = packet.time_base or Fraction(1, 1)
        pts = Fraction(packet.pts if packet.pts is not None else packet.dts or 0) * base
        dts = Fraction(packet.dts if packet.dts is not None else packet.pts or 0) * base
        kind, reference = "A", False
        if packet.stream.type == "video":
            kind, reference = _kind(packet, prefix, is_h264=is_h264, earlier=pts < newest)
            newest = max(newest, pts)
            end = max(end, pts + Fraction(packet.duration or 0) * base)
        place = packet.pos if packet.pos is not None and packet.pos >= 0 else None
        rows.append(_Row(place, packet.size, pts, dts, kind, reference))
    pictures = sum(row.kind != "A" for row in rows)
    if not pictures:
        raise _error(path, "unreadable or truncated film (no picture in it)")
    if _whole.is_cut(path, container, seen, _container(container)):
        length = float(seen[video.index].length)
        counted = f" of {video.frames}" if video.frames else f", {length:.1f} s"
        message = f"truncated film ({pictures} pictures{counted})"
        raise _error(path, message, "the file ends before its header says; copy or encode it again")
    rows = _in_file_order(rows)
    rate = video.average_rate or video.guessed_rate or Fraction(25)
    first = min(row.pts for row in rows if row.kind != "A")
    return Probe(
        # A file's name need not be valid text, but the film's name is printed in plans and reports.
        name=os.fsencode(path.stem).decode(errors="replace"),
        container=_container(container),
        size_bytes=size,
        duration_ns=round((end - first) * _SECOND),
        frame_rate=float(rate),
        width=video.width,
        height=video.height,
        codec=video.codec_context.name,
        packets=Packets(
            stream=["audio" if row.kind == "A" else "video" for row in rows],
            position=[row.position for row in rows],
            size=[row.size for row in rows],
            pts_ns=[round((row.pts - first) * _SECOND) for row in rows],
            dts_ns=[round((row.dts - first) * _SECOND) for row in rows],
            kind=[row.kind for row in rows],
            reference=[row.reference for row in rows],
        ),
    )


def _pictures_of(path: Path, container: InputContainer) -> VideoStream:
    """Return the stream of the film's pictures: the first that is not a cover or a thumbnail."""
    streams = [stream for stream in container.streams.video if not int(stream.disposition) & _NO_FILM]
    if not streams:
        raise _error(path, "no video in the film")
    described = [stream for stream in streams if stream.codec_context and stream.width and stream.height]
    if not described:
        raise _error(path, "unreadable or truncated film (its video is not described)")
    return described[0]


def _in_file_order(rows: list[_Row]) -> list[_Row]:
    """Return the packets by position.

    A packet without a position follows the previous packet of its stream.
    """
    last = {True: 0, False: 0}
    keyed = []
    for row in rows:
        sound = row.kind == "A"
        if row.position is not None:
            last[sound] = row.position
        keyed.append((last[sound], row))
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


def _kind(packet: Packet[Any], prefix: int | None, *, is_h264: bool, earlier: bool) -> tuple[str, bool]:
    """Return a picture's kind and whether others refer to it.

    H.264 has both in its NAL units. In other formats, a key frame is an I, a picture shown before an earlier
    decoded one is a B without references, and all others are P.
    """
    if is_h264:
        found = _h264.picture(bytes(packet), prefix)
        if found is not None:
            return found.kind, found.reference
    if packet.is_keyframe:
        return "I", True
    return ("B", False) if earlier else ("P", True)


def _container(container: InputContainer) -> str:
    """Return a format's short name."""
    names = container.format.name.split(",")
    for short in ("mp4", "mpegts", "matroska", "webm", "flv", "avi"):
        if short in names:
            return short
    return names[0]
