"""Whole films in every container, and the same films cut short.

A track may be shorter than the movie, because `mvhd` has the duration of the longest track (ISO/IEC 14496-12
section 8.2.2). The packets of an M2TS have 192 bytes (BDAV): 4 before each of the 188 of ISO/IEC 13818-1.
"""

from __future__ import annotations

import struct

import av
import pytest

from anabranch.errors import MediaError
from anabranch.media.make import make_film
from anabranch.media.probe import probe

#: The number of pictures in the film: 2 s at 30 a second.
PICTURES = 60


@pytest.fixture(scope="session")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "film.mp4"
    make_film(path, duration_s=2.0, rate_bps=900_000, size=(320, 180))
    return path


def copy(source, target, form, *, options=None, pictures=PICTURES, sound_s=9.0, sound=True):
    """Copy the packets of a film to another container, leaving some of them out."""
    with av.open(str(source)) as given, av.open(str(target), "w", format=form, options=options or {}) as made:
        taken = [stream for stream in given.streams if sound or stream.type == "video"]
        streams = {stream.index: made.add_stream_from_template(stream) for stream in taken}
        left = pictures
        for packet in given.demux(taken):
            if packet.dts is None:
                continue
            if packet.stream.type == "video":
                left -= 1
            elif packet.pts * packet.time_base > sound_s:
                continue
            if left >= 0 or packet.stream.type == "audio":
                packet.stream = streams[packet.stream.index]
                made.mux(packet)
    return target


#: Containers by name: the muxer, its options, and the file suffix.
FORMS = {
    "mp4": ("mp4", {}, "mp4"),
    "faststart": ("mp4", {"movflags": "faststart"}, "mp4"),
    "mov": ("mov", {}, "mov"),
    "fragments": ("mp4", {"movflags": "frag_keyframe+empty_moov"}, "mp4"),
    "small fragments": ("mp4", {"movflags": "frag_every_frame+empty_moov+default_base_moof"}, "mp4"),
    "matroska": ("matroska", {}, "mkv"),
    "matroska to a pipe": ("matroska", {"live": "1"}, "mkv"),
    "ts": ("mpegts", {}, "ts"),
    "m2ts": ("mpegts", {"mpegts_m2ts_mode": "1"}, "m2ts"),
    "flv": ("flv", {}, "flv"),
}


@pytest.fixture(params=FORMS)
def contained(request, film, tmp_path):
    form, options, ending = FORMS[request.param]
    return copy(film, tmp_path / f"other.{ending}", form, options=options)


def test_a_whole_film_is_taken_and_a_cut_one_refused(contained):
    assert sum(probe(contained).kinds().values()) == PICTURES
    whole = contained.read_bytes()
    for share in (0.3, 0.6, 0.9):
        size = int(len(whole) * share)
        # A transport stream that is cut between two packets looks like a shorter one, so the cut is moved by
        # a byte.
        contained.write_bytes(whole[: size + (size % 188 == 0 or size % 192 == 0)])
        with pytest.raises(MediaError, match="truncated"):
            probe(contained)


@pytest.mark.parametrize("name", FORMS)
def test_bytes_behind_a_film_are_no_cut(film, tmp_path, name):
    # A packet of a transport stream begins with the sync byte 0x47 (ISO/IEC 13818-1 section 2.4.3.3). FFmpeg and VLC
    # ignore other bytes.
    form, options, ending = FORMS[name]
    other = copy(film, tmp_path / f"other.{ending}", form, options=options)
    whole = other.read_bytes()
    for tail in (b"\n", b"\0" * 7, b"\0" * 100, b"a text ", b"some text of no meaning\n"):
        other.write_bytes(whole + tail)
        assert sum(probe(other).kinds().values()) == PICTURES, tail


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("pictures", "sound_s"), [(15, 9.0), (PICTURES, 0.3)], ids=["longer sound", "shorter"]
)
def test_tracks_of_unequal_length_are_no_cut(film, tmp_path, name, pictures, sound_s):
    form, options, ending = FORMS[name]
    target = copy(film, tmp_path / f"u.{ending}", form, options=options, pictures=pictures, sound_s=sound_s)
    assert sum(probe(target).kinds().values()) == pictures


@pytest.mark.parametrize("left", [0.9, 0.5, 0.2])
def test_sample_tables_that_are_cut_are_found(film, tmp_path, left):
    # FFmpeg reads the tracks of a `moov` whose end is missing. Here all or part of the sound tables are
    # missing.
    data = copy(film, tmp_path / "late.mp4", "mp4").read_bytes()
    at = data.index(b"moov") - 4
    other = tmp_path / "cut.mp4"
    other.write_bytes(data[: at + int((len(data) - at) * left)])
    with pytest.raises(MediaError, match="truncated"):
        probe(other)


def test_packets_of_204_bytes_are_a_transport_stream(film, tmp_path):
    data = copy(film, tmp_path / "a.ts", "mpegts").read_bytes()
    packets = [data[at : at + 188] + bytes(16) for at in range(0, len(data), 188)]
    other = tmp_path / "b.ts"
    other.write_bytes(b"".join(packets))
    assert sum(probe(other).kinds().values()) == PICTURES
    other.write_bytes(b"".join(packets)[:-100])
    with pytest.raises(MediaError, match="truncated"):
        probe(other)


def test_a_film_cut_between_two_tags_is_found_by_its_duration(film, tmp_path):
    # An FLV has a header of 9 bytes. Each tag has the size of the previous tag, a header of 11 bytes, and its
    # content.
    data = copy(film, tmp_path / "a.flv", "flv").read_bytes()
    at, ends = 9, []
    while at + 15 < len(data):
        at += 15 + int.from_bytes(data[at + 5 : at + 8], "big")
        ends.append(at + 4)
    other = tmp_path / "b.flv"
    other.write_bytes(data[: ends[len(ends) // 4]])
    with pytest.raises(MediaError, match="truncated"):
        probe(other)


def test_bytes_before_the_first_packet_are_no_cut(film, tmp_path):
    other = copy(film, tmp_path / "a.ts", "mpegts")
    other.write_bytes(b"\0" * 100 + other.read_bytes())
    assert sum(probe(other).kinds().values()) == PICTURES


def test_an_avi_of_several_lists_is_whole_or_cut(film, tmp_path):
    # The AVI muxer needs H.264 in the byte-stream format of a transport stream.
    annexb = copy(film, tmp_path / "a.ts", "mpegts", sound=False)
    other = copy(annexb, tmp_path / "a.avi", "avi", sound=False)
    assert sum(probe(other).kinds().values()) == PICTURES
    whole = other.read_bytes()
    other.write_bytes(whole + b"RIFF" + struct.pack("<I", 4) + b"AVIX")
    assert sum(probe(other).kinds().values()) == PICTURES
    for size in (len(whole) // 2, len(whole) - 1):
        other.write_bytes(whole[:size])
        with pytest.raises(MediaError, match="truncated"):
            probe(other)


def box(name, content):
    return struct.pack(">I4s", 8 + len(content), name) + content


def cover():
    """A cover as written by a music player: `udta` with `meta`, `ilst`, `covr` and a PNG of one pixel."""
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cfc0"
        "00000301010018dd8db00000000049454e44ae426082"
    )
    data = box(b"data", struct.pack(">II", 14, 0) + png)
    handler = box(b"hdlr", bytes(8) + b"mdirappl" + bytes(9))
    return box(b"udta", box(b"meta", bytes(4) + handler + box(b"ilst", box(b"covr", data))))


def test_a_cover_before_the_tracks_is_not_the_film(film, tmp_path):
    data = copy(film, tmp_path / "late.mp4", "mp4").read_bytes()
    at = data.index(b"moov") - 4
    assert data.index(b"mdat") < at, "the positions of samples need no change"
    (size,) = struct.unpack(">I", data[at : at + 4])
    (head,) = struct.unpack(">I", data[at + 8 : at + 12])  # mvhd
    parts = data[at + 8 : at + 8 + head], cover(), data[at + 8 + head : at + size]
    other = tmp_path / "cover.mp4"
    other.write_bytes(data[:at] + box(b"moov", b"".join(parts)) + data[at + size :])
    with av.open(str(other)) as opened:
        assert opened.streams.video[0].codec_context.name == "png", "the cover comes first"
    found = probe(other)
    assert (found.codec, found.width, sum(found.kinds().values())) == ("h264", 320, PICTURES)


def test_sound_with_a_cover_is_no_film(film, tmp_path):
    other = tmp_path / "song.mp4"
    with av.open(str(film)) as given, av.open(str(other), "w", format="mp4") as made:
        stream = made.add_stream_from_template(given.streams.audio[0])
        for packet in given.demux(given.streams.audio[0]):
            if packet.dts is not None:
                packet.stream = stream
                made.mux(packet)
    data = other.read_bytes()
    at = data.index(b"moov") - 4
    (size,) = struct.unpack(">I", data[at : at + 4])
    other.write_bytes(data[:at] + box(b"moov", data[at + 8 : at + size] + cover()))
    with pytest.raises(MediaError, match="no video in the film"):
        probe(other)


def changed(film, target, name, offset, value):
    """Write a 32-bit number into the first box of a name, at an offset after the name."""
    data = bytearray(film.read_bytes())
    at = data.index(name) + 4 + offset
    data[at : at + 4] = struct.pack(">I", value)
    target.write_bytes(data)
    return target


@pytest.mark.parametrize("seconds", [0, 1, 3600])
def test_a_wrong_duration_of_the_movie_is_no_cut(film, tmp_path, seconds):
    # Version and flags, two times, and the time scale of 1,000 precede the duration (section 8.2.2.2).
    other = changed(film, tmp_path / "other.mp4", b"mvhd", 16, seconds * 1000)
    assert sum(probe(other).kinds().values()) == PICTURES


def test_an_edit_list_that_plays_less_is_no_cut(film, tmp_path):
    # Version, flags and the number of entries precede the duration of the first segment (section 8.6.6.2).
    # The second list belongs to the sound.
    data = bytearray(film.read_bytes())
    at = data.index(b"elst", data.index(b"elst") + 1) + 4 + 8
    data[at : at + 4] = struct.pack(">I", 100)
    other = tmp_path / "other.mp4"
    other.write_bytes(data)
    sound = [probe(one).packets.stream.count("audio") for one in (film, other)]
    assert sound[0] > 80
    assert sound[1] < 20, "FFmpeg leaves the rest out"
    other.write_bytes(data[:-20_000])
    with pytest.raises(MediaError, match="truncated"):
        probe(other)


def test_a_missing_end_of_the_sound_alone_is_found(film, tmp_path):
    # After the last picture there are 1.5 s of sound, so the cut removes only a few packets of sound.
    options = {"movflags": "faststart"}
    other = copy(film, tmp_path / "sound.mp4", "mp4", options=options, pictures=15)
    assert set(probe(other).packets.stream[-40:]) == {"audio"}
    other.write_bytes(other.read_bytes()[:-2000])
    with pytest.raises(MediaError, match="truncated"):
        probe(other)
