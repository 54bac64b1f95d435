"""Start-up costs of a film's layout: `media check`, and the index that `media make` puts in front."""

import json
import struct

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.media import _boxes, layout
from anabranch.media.make import make_film
from anabranch.media.probe import Packets

av = pytest.importorskip("av")


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("films") / "film.mp4"
    make_film(path, duration_s=2, rate_bps=1_000_000, size=(320, 240), frame_rate=10)
    return path


def again(film, path, **options):
    """Copy the packets of a film into another file, without encoding them again."""
    with av.open(str(film)) as source, av.open(str(path), "w", options=options) as target:
        streams = {one.index: target.add_stream_from_template(one) for one in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                target.mux(packet)
    return path


@pytest.mark.parametrize(
    ("name", "options", "index", "connections", "least"),
    [
        ("a.mp4", {"movflags": "+faststart"}, "front", 3, 1),
        ("a.mp4", {}, "end", 3, 3),
        ("a.mp4", {"movflags": "+frag_keyframe+empty_moov"}, "fragments", 3, 1),
        ("a.ts", {}, "none", 1, 1),
        ("a.mkv", {}, "none", 1, 1),
    ],
)
def test_the_place_of_the_index(film, tmp_path, name, options, index, connections, least):
    """Where FFmpeg's muxer puts it; VLC's three connections are those of docs/concepts/player-model.md."""
    found = layout.check(again(film, tmp_path / name, **options))
    assert (found.index, found.connections, found.least_connections) == (index, connections, least)
    assert (found.index_bytes > 0) == (index != "none")


def test_media_make_puts_the_index_in_front(film):
    assert layout.check(film).index == "front"


def test_the_index_at_the_end_has_to_arrive_too(film, tmp_path):
    """Only the order of the boxes differs: the index moves behind the media data."""
    front = layout.check(again(film, tmp_path / "front.mp4", movflags="+faststart"))
    end = layout.check(again(film, tmp_path / "end.mp4"))
    assert end.index_bytes == front.index_bytes
    # FFmpeg's muxer reserves 8 bytes in front of the media data (a box `free`) in both.
    assert end.first_bytes == front.first_bytes


def test_bytes_before_playing_by_hand():
    """Second 0 of pictures at 0 to 100, second 0 of sound at 900: 1.25 s need all of the file up to 950."""
    packets = Packets(
        stream=["video", "video", "video", "audio", "audio"],
        position=[0, 100, 200, 900, None],
        size=[100, 100, 700, 50, 30],
        pts_ns=[0, 10**9, 2 * 10**9, 0, 2 * 10**9],
        dts_ns=[0, 10**9, 2 * 10**9, 0, 2 * 10**9],
        kind=["I", "P", "P", "A", "A"],
        reference=[True] * 5,
    )
    assert layout._gathered(packets) == (950, 250)
    # When the first sound comes, the pictures have reached 2 s.
    assert layout._apart(packets) == 2.0


def test_the_start_by_arithmetic():
    """Three connections of two round trips of 100 ms, and 1 MB at 8 Mb/s, which takes a second."""
    assert layout.start_s(3, 10**6, rtt_s=0.1, rate_bps=8e6) == pytest.approx(1.6)


def test_boxes_of_every_size(tmp_path):
    """ISO/IEC 14496-12 section 4.2: size 1 has 64 bits more, size 0 reaches to the end."""
    path = tmp_path / "boxes.mp4"
    large = struct.pack(">I4sQ", 1, b"mdat", 24) + b"x" * 8
    path.write_bytes(struct.pack(">I4s", 8, b"ftyp") + large + struct.pack(">I4s", 0, b"moov") + b"y" * 5)
    assert list(_boxes.outermost(path)) == [(b"ftyp", 8), (b"mdat", 24), (b"moov", 13)]
    assert layout._index(path) == ("end", 13)


def test_a_box_without_a_size_ends_the_search(tmp_path):
    path = tmp_path / "boxes.mp4"
    path.write_bytes(struct.pack(">I4s", 3, b"ftyp") + b"z" * 20)
    assert list(_boxes.outermost(path)) == []


def test_the_command_gives_hints(film, tmp_path):
    path = again(film, tmp_path / "my film.mp4")
    told = call("media", "check", path, "--rtt", "100 ms", "--rate", "1 Mbit/s")
    assert told.exit_code == 0
    assert "behind the media data" in told.stdout
    assert f"ffmpeg -i '{path}' -c copy -movflags +faststart" in told.stderr
    found = json.loads(call("media", "check", path, "--rtt", "100 ms", "--rate", "1 Mbit/s", "--json").stdout)
    assert found["start_s"] == pytest.approx(0.6 + found["first_bytes"] * 8e-6)
    assert "faststart" not in call("media", "check", film).stderr


def test_all_faults_of_the_command_at_once(tmp_path):
    told = call("media", "check", tmp_path / "none.mp4", "--rtt", "fast", "--rate", "0")
    assert told.exit_code == 2
    assert "--rtt fast" in told.stderr
    assert "--rate 0" in told.stderr
    assert "cannot read the film" in call("media", "check", tmp_path / "none.mp4").stderr
