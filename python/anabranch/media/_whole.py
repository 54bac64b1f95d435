"""Detects films whose file is cut short, from the sizes and durations that the container declares.

The duration of a movie is that of its longest track (ISO/IEC 14496-12 section 8.2.2, mvhd). A shorter track
therefore does not mean that the end is missing, and the tracks of an MP4 are compared with their own sample
tables. In other containers the outermost elements are compared with the size of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING, Any, BinaryIO

from anabranch.media import _boxes

if TYPE_CHECKING:
    from pathlib import Path

    from av.container import InputContainer
    from av.packet import Packet

#: The sizes of MPEG-TS packets, and the bytes before the sync byte: plain, with a time of arrival (M2TS,
#: BDAV), and with error correction.
_TS_FORMS = ((188, 0), (192, 4), (204, 0))
_SYNC = 0x47
#: The number of sync bytes in a row that identify a transport stream.
_SYNCS = 8
#: The outermost boxes of an MP4. Other bytes at the end of a file are not a box, and not a sign of a cut.
#: A cut within the header of a box is found by the duration.
_BOXES = frozenset(
    b"ftyp styp moov moof mdat mfra sidx ssix emsg prft free skip wide uuid meta pdin udta".split()
)
#: Audio codecs whose packets are the samples of an MP4. A packet of PCM contains many samples, so only its
#: time can be compared.
_PACKETS = {"aac", "ac3", "alac", "eac3", "flac", "mp3", "opus"}
#: The elements of a Matroska that may have an unknown size: Segment and Cluster.
_MASTERS = {0x18538067, 0x1F43B675}
#: The outermost elements, and those within a Segment or Cluster of unknown size (RFC 9559 section 5.1): the
#: head of EBML, Void and CRC-32, then those of a Segment, then those of a Cluster.
_ELEMENTS = _MASTERS | {
    *(0x1A45DFA3, 0xEC, 0xBF),
    *(0x114D9B74, 0x1549A966, 0x1654AE6B, 0x1C53BB6B, 0x1254C367, 0x1043A770, 0x1941A469),
    *(0xE7, 0xA7, 0xAB, 0xA3, 0xA0, 0xAF),
}
#: The tags of an FLV: sound, pictures, data (annex E.4.1).
_TAGS = {8, 9, 18}
#: The containers whose outermost elements have sizes, so that the end of the last one is the end of the film.
_SIZED = {"avi"}
#: A track or film lacks its end if it is shorter than this share of the stated duration less a second.
_SHARE, _SLACK_S = Fraction(9, 10), 1


@dataclass(kw_only=True)
class Seen:
    """The packets of one track that were found in the file.

    Attributes
    ----------
    packets
        The number of packets.
    begin, end
        The presentation times at which the first packet begins and the last one ends, seconds.
    cut
        Whether the demuxer found a packet that extends beyond the file.
    """

    packets: int = 0
    begin: Fraction | None = None
    end: Fraction = Fraction(0)
    cut: bool = False

    def take(self, packet: Packet[Any]) -> None:
        """Count a packet."""
        time = packet.pts if packet.pts is not None else packet.dts
        if time is None:
            return
        base = packet.time_base or Fraction(1, 1)
        begin = Fraction(time) * base
        self.packets += 1
        self.begin = begin if self.begin is None else min(self.begin, begin)
        self.end = max(self.end, begin + Fraction(packet.duration or 0) * base)
        self.cut = self.cut or packet.is_corrupt

    @property
    def length(self) -> Fraction:
        """The time from the first packet to the end of the last."""
        return Fraction(0) if self.begin is None else self.end - self.begin


def is_cut(path: Path, container: InputContainer, seen: dict[int, Seen], short: str) -> bool:
    """Return whether a film's file ends before the end that its container declares.

    Parameters
    ----------
    path
        The file.
    container
        The file as opened by PyAV.
    seen
        The packets of the played tracks, by stream index.
    short
        The short name of the container.
    """
    if short == "mp4":
        return _is_cut_mp4(path, container, seen)
    if short == "mpegts":
        return _is_cut_ts(path)
    ends = {"matroska": _matroska_end, "webm": _matroska_end, "avi": _avi_end, "flv": _flv_end}
    if short not in ends:
        return False
    if ends[short](path) > path.stat().st_size:
        return True
    # A cut between two elements shows only in the duration, which is that of the longest track.
    longest = max((one.length for one in seen.values()), default=Fraction(0))
    return short not in _SIZED and _is_short(longest, _stated(container))


def _stated(container: InputContainer) -> Fraction:
    """Return the duration that the film's header declares, seconds; 0 if it declares none."""
    return Fraction(max(container.duration or 0, 0), 10**6)


def _is_short(length: Fraction, stated: Fraction) -> bool:
    return stated > 0 and length < stated * _SHARE - _SLACK_S


def _is_cut_mp4(path: Path, container: InputContainer, seen: dict[int, Seen]) -> bool:
    """Compare each track with its sample table. Fragments have no such table, but boxes with sizes."""
    last, reaches = _last_box(path)
    beyond = reaches > path.stat().st_size
    if not any(container.streams[index].frames for index in seen):
        longest = max((one.length for one in seen.values()), default=Fraction(0))
        return beyond or _is_short(longest, _stated(container))
    # The sample tables themselves are cut, and FFmpeg reads those that are left.
    if beyond and last == b"moov":
        return True
    if any(one.cut for one in seen.values()):
        return True
    if not _lacks_samples(container, seen):
        return False
    # An edit list (section 8.6.6) hides samples that are in the file.
    return _lacks_samples_without_edits(path, seen)


def _lacks_samples(container: InputContainer, seen: dict[int, Seen]) -> bool:
    """Return whether a track has fewer samples than its table lists."""
    for index, one in seen.items():
        stream = container.streams[index]
        codec = stream.codec_context.name if stream.codec_context else ""
        is_counted = stream.type == "video" or codec in _PACKETS
        counted = stream.frames - one.packets if is_counted else 0
        stated = Fraction(stream.duration or 0) * Fraction(stream.time_base or 0)
        if counted > 0 or _is_short(one.length, stated):
            return True
    return False


def _lacks_samples_without_edits(path: Path, seen: dict[int, Seen]) -> bool:
    """Return whether a track lacks samples if edit lists are ignored."""
    import av

    again = {index: Seen() for index in seen}
    with av.open(str(path), metadata_errors="replace", options={"ignore_editlist": "1"}) as container:
        for packet in container.demux([container.streams[index] for index in seen]):
            again[packet.stream.index].take(packet)
        return _lacks_samples(container, again)


def _last_box(path: Path) -> tuple[bytes, int]:
    """Return the name of the last box of an MP4, and its end by its size."""
    found = list(takewhile(lambda box: box[0] in _BOXES, _boxes.outermost(path)))
    return found[-1][0] if found else b"", sum(length for _, length in found)


def _is_cut_ts(path: Path) -> bool:
    """Return whether the last packet of a transport stream is incomplete.

    Other bytes behind the last packet do not begin with a sync byte. FFmpeg and VLC ignore them.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        begin = file.read(_TS_FORMS[-1][0] * (_SYNCS + 1))
    for first in range(_TS_FORMS[-1][0]):
        for packet, before in _TS_FORMS:
            syncs = begin[first + before :: packet][:_SYNCS]
            if syncs and all(byte == _SYNC for byte in syncs):
                rest = (size - first) % packet
                return rest > before and _byte(path, size - rest + before) == _SYNC
    return False


def _byte(path: Path, at: int) -> int:
    """Return the byte at a position of a file."""
    with path.open("rb") as file:
        file.seek(at)
        return file.read(1)[0]


def _matroska_end(path: Path) -> int:
    """Return the end of the last Matroska element that has a size (RFC 8794 section 6.2)."""
    at, size = 0, path.stat().st_size
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            number, length = _element(file)
            begin = file.tell()
            # Bytes behind the film are no element.
            if number not in _ELEMENTS or (length is None and number not in _MASTERS):
                return size
            # In a film that was written to a pipe, Segment and Clusters have no size. Go on to the elements
            # inside.
            at = begin + (length or 0)
    return at


def _element(file: BinaryIO) -> tuple[int | None, int | None]:
    """Return the number and size of the EBML element at the file's position; each may be None."""
    first = file.read(1)
    if not first or not first[0]:
        return None, None
    rest = file.read(8 - first[0].bit_length())
    number = int.from_bytes(first + rest, "big")
    first = file.read(1)
    if not first or not first[0]:
        return number, None
    bits = 7 * (9 - first[0].bit_length())
    rest = file.read(8 - first[0].bit_length())
    size = int.from_bytes(first + rest, "big") & (2**bits - 1)
    return number, None if size == 2**bits - 1 else size


def _avi_end(path: Path) -> int:
    """Return the end of the last RIFF list of an AVI; large films have several (OpenDML)."""
    at, size = 0, path.stat().st_size
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            head = file.read(8)
            length = int.from_bytes(head[4:], "little")
            # A size of 0 was never filled in by the writer.
            if head[:4] != b"RIFF" or length == 0:
                return size
            at += 8 + length
    return at


def _flv_end(path: Path) -> int:
    """Return the end of the last tag of an FLV (Adobe's Video File Format Specification, annex E)."""
    at, size = 9, path.stat().st_size
    with path.open("rb") as file:
        while at + 4 < size:
            file.seek(at + 4)
            head = file.read(4)
            # The upper bits are reserved or mark an encrypted tag. Bytes behind the film are no tag.
            if head[0] & 0x1F not in _TAGS:
                return size
            at += 4 + 11 + int.from_bytes(head[1:], "big")
    # Each tag is followed by its size, four bytes.
    return at + 4
