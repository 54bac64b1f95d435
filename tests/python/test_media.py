"""Films: made, probed, cut short."""

from __future__ import annotations

import pathlib

import av
import pytest

from anabranch.errors import MediaError
from anabranch.media import _h264, films
from anabranch.media import make as making
from anabranch.media.make import make_film
from anabranch.media.probe import probe


@pytest.fixture(scope="session")
def short_film(tmp_path_factory):
    """A film of 2 s, small enough to be made in a moment."""
    path = tmp_path_factory.mktemp("film") / "short.mp4"
    make_film(path, duration_s=2.0, rate_bps=900_000, size=(320, 180))
    return path


def test_a_film_has_the_rate_asked_for(short_film):
    found = probe(short_film)
    assert short_film.stat().st_size * 8 / 2.0 == pytest.approx(900_000, rel=0.03)
    assert found.rate_mbps == pytest.approx(0.9, rel=0.03)
    assert (found.container, found.codec, found.width, found.height) == ("mp4", "h264", 320, 180)
    assert (found.frame_rate, found.duration_ns) == (30.0, 2_000_000_000)


def test_a_film_is_made_once(monkeypatch):
    told = []
    first = make_film(duration_s=1.0, rate_bps=600_000, size=(160, 90), progress=lambda *at: told.append(at))
    assert {whole for _, whole in told} == {1.0}
    # All attempts count as one piece of work, so the progress never restarts.
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[0][0] <= 0.2
    assert told[-1][0] <= 1.0
    monkeypatch.setattr(making, "_encode", None)
    second = make_film(duration_s=1.0, rate_bps=600_000, size=(160, 90))
    assert (first.cached, second.cached) == (False, True)
    assert first.path == second.path


def test_a_rate_that_cannot_be_met_is_a_fault():
    with pytest.raises(MediaError, match="cannot make a film"):
        make_film(duration_s=0.5, rate_bps=60_000, size=(160, 90))


def test_a_probe_has_every_packet_in_the_order_of_the_file(short_film):
    packets = probe(short_film).packets
    assert len({len(column) for column in vars(packets).values()}) == 1
    assert packets.stream.count("video") == 60
    assert packets.position == sorted(packets.position)
    ends = [position + size for position, size in zip(packets.position, packets.size, strict=True)]
    assert max(ends) <= short_film.stat().st_size
    assert min(time for time, kind in zip(packets.pts_ns, packets.kind, strict=True) if kind != "A") == 0
    assert set(packets.kind) == {"I", "P", "B", "A"}
    assert not any(packets.reference[row] for row, kind in enumerate(packets.kind) if kind == "A")


def test_kinds_are_those_that_the_decoder_sees(short_film):
    packets = probe(short_film).packets
    told = {
        round(time / 1e9, 3): kind
        for time, kind in zip(packets.pts_ns, packets.kind, strict=True)
        if kind != "A"
    }
    with av.open(str(short_film)) as container:
        decoded = {
            round(frame.time, 3): av.video.frame.PictureType(frame.pict_type).name
            for frame in container.decode(video=0)
        }
    assert told == decoded


def test_transport_stream_probe_matches_mp4(short_film, tmp_path):
    other = tmp_path / "short.ts"
    with av.open(str(short_film)) as source, av.open(str(other), "w", format="mpegts") as target:
        streams = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                target.mux(packet)
    first, second = probe(short_film), probe(other)
    assert second.container == "mpegts"
    assert second.kinds() == first.kinds()
    assert sum(second.packets.reference) == sum(first.packets.reference)
    assert second.duration_ns == pytest.approx(first.duration_ns, rel=0.02)


def test_a_probe_is_cached_until_the_file_changes(short_film, monkeypatch):
    first = probe(short_film)
    monkeypatch.setattr("anabranch.media.probe._read", None)
    assert probe(short_film) == first


@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_a_truncated_film_is_refused(short_film, tmp_path, share):
    whole = short_film.read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(MediaError, match="truncated film"):
        probe(cut)


@pytest.mark.parametrize("size", [0, 1, 40, 400])
def test_a_film_cut_in_its_header_is_refused(short_film, tmp_path, size):
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(short_film.read_bytes()[:size])
    with pytest.raises(MediaError, match=r"truncated|empty"):
        probe(cut)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_film_is_read_or_refused(short_film, tmp_path, seed):
    import random

    rng = random.Random(seed)
    data = bytearray(short_film.read_bytes())
    for _ in range(rng.choice([1, 10, 100])):
        data[rng.randrange(min(len(data), 6000))] = rng.randrange(256)
    damaged = tmp_path / "damaged.mp4"
    damaged.write_bytes(data[: rng.randrange(len(data) // 2, len(data) + 1)])
    try:
        found = probe(damaged)
    except MediaError as error:
        assert str(error).startswith("error: ")  # noqa: PT017 - reading it is as good an end
    else:
        assert found.packets.size


def test_probe_rejects_files_that_are_not_films(tmp_path):
    text = tmp_path / "text.mp4"
    text.write_text("this is no film\n" * 100, encoding="utf-8")
    with pytest.raises(MediaError, match="unreadable"):
        probe(text)
    with pytest.raises(MediaError, match="a file, not a folder"):
        probe(tmp_path)
    with pytest.raises(MediaError, match="cannot read the film"):
        probe(tmp_path / "nothing.mp4")


def test_sound_alone_is_refused(tmp_path):
    path = tmp_path / "sound.wav"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame(format="s16", layout="mono", samples=800)
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(MediaError, match="no video"):
        probe(path)


def test_slices_are_read_from_either_form_of_nal_units():
    # first_mb_in_slice = 0 ("1"), slice_type = 5, P ("00110"); nal_ref_idc = 2, nal_unit_type = 1.
    unit = bytes([0x41, 0b10011000, 0])
    other = bytes([0x09, 0x10])  # an access unit delimiter
    annex_b = b"\0\0\0\1" + other + b"\0\0\1" + unit
    avcc = len(other).to_bytes(4) + other + len(unit).to_bytes(4) + unit
    expected = _h264.Picture(kind="P", reference=True)
    assert _h264.picture(annex_b, None) == expected
    assert _h264.picture(avcc, 4) == expected
    assert _h264.picture(b"\0\0\1\x09\x10", None) is None
    # slice_type = 1, B ("010"), nothing refers to it.
    assert _h264.picture(b"\0\0\1" + bytes([0x01, 0b10100000]), None) == _h264.Picture(
        kind="B", reference=False
    )


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\1", b"\0\0\0\x05\x41", b"\xff" * 8, b"\0\0\0\1\x41"])
def test_broken_units_are_no_error(data):
    for prefix in (None, 1, 2, 4):
        _h264.picture(data, prefix)


def test_films_by_path_are_looked_up_beside_the_scenario(short_film):
    found = films.open_film("short.mp4", [pathlib.Path("/nowhere"), short_film.parent])
    assert found.plan["recorded"]["name"] == "short"
    assert set(found.plan["recorded"]) == {
        "name", "container", "size_bytes", "duration_ns", "frame_rate", "width", "height", "packets",
    }  # fmt: skip
    with pytest.raises(MediaError, match=r"did you mean `short\.mp4`"):
        films.open_film("shrt.mp4", [short_film.parent])


def test_the_synthetic_film_is_only_named():
    assert films.open_film("papers-film", []).plan == {"synthetic": {"name": "papers-film"}}
    assert films.open_film("demo", [], described=True).plan is None
    assert films.open_film(None, []) is None
