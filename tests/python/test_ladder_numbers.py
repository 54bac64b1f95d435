"""Ladders by numbers: heights and rates, and master playlists whose chunks are not on this host."""

from __future__ import annotations

import threading
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest

import anabranch
from anabranch.errors import MediaError, ScenarioError
from anabranch.media import ladders, numbers
from anabranch.scenario.load import load

RUNGS = [
    {"height": 240, "bitrate": "400 kbit/s"},
    {"height": 480, "bitrate": "1.2 Mbit/s"},
    {"height": 720, "bitrate": "3 Mbit/s"},
]
MASTER = """\
#EXTM3U
#EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=640x360
low/index.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=3600000,AVERAGE-BANDWIDTH=2500000,RESOLUTION=1280x720
https://cdn.example/high/index.m3u8
"""
#: A media playlist whose chunks are elsewhere: 6 s, 6 s and 3 s.
MEDIA = """\
#EXTM3U
#EXT-X-TARGETDURATION:6
#EXTINF:6,
0.ts
#EXTINF:6,
1.ts
#EXTINF:3,
2.ts
#EXT-X-ENDLIST
"""


def scenario(ladder):
    return {
        "name": "small",
        "application": {"kind": "adaptive", "ladder": ladder, "abr": "hlsjs", "duration": "20 s"},
        "paths": [{"name": "wifi", "rtt": "40 ms", "rate": "6 Mbit/s"}],
    }


def renditions(ladder):
    loaded = load(scenario(ladder))
    film = ladders.open_ladder(loaded.scenario.application.ladder, loaded.folders)
    return film, film.plan["recorded"]["renditions"]


def mean_bps(rendition):
    chunks = rendition["chunks"]
    return 8e9 * sum(one["bytes"] for one in chunks) / sum(one["duration_ns"] for one in chunks)


def test_a_list_of_heights_and_rates_is_a_ladder():
    film, found = renditions(RUNGS)
    assert [one["name"] for one in found] == ["240p", "480p", "720p"]
    assert [(one["width"], one["height"]) for one in found][2] == (1280, 720)
    assert film.duration_ns == 600 * 10**9
    for one, rate in zip(found, (400e3, 1.2e6, 3e6), strict=True):
        assert len(one["chunks"]) == 150
        assert mean_bps(one) == pytest.approx(rate, rel=1e-4)
        # The sizes spread by a fifth unless given otherwise. BANDWIDTH is the largest rate of a chunk.
        rates = [8e9 * chunk["bytes"] / chunk["duration_ns"] for chunk in one["chunks"]]
        assert max(abs(each - rate) for each in rates) == pytest.approx(0.2 * rate, rel=1e-3)
        assert one["bandwidth_bps"] == pytest.approx(1.2 * rate)


def test_chunk_length_and_spread_are_given_beside_the_renditions():
    film, found = renditions({"renditions": RUNGS, "chunk": "6 s", "length": "15 s", "spread": "0 %"})
    assert [one["duration_ns"] // 10**9 for one in found[0]["chunks"]] == [6, 6, 3]
    assert film.duration_ns == 15 * 10**9
    # 1.2 Mb/s for 6 s are 900 kB.
    assert [one["bytes"] for one in found[1]["chunks"]] == [900_000, 900_000, 450_000]


def test_known_sizes_of_the_first_chunks_are_kept_in_every_rendition():
    given = {"renditions": RUNGS, "chunk": "2 s", "length": "8 s", "spread": "0 %", "sizes": [0.5, 1.5]}
    _, found = renditions(given)
    # 400 kb/s for 2 s are 100 kB; 3 Mb/s are 750 kB.
    assert [one["bytes"] for one in found[0]["chunks"]] == [50_000, 150_000, 100_000, 100_000]
    assert [one["bytes"] for one in found[2]["chunks"]] == [375_000, 1_125_000, 750_000, 750_000]
    # BANDWIDTH is the rate of the largest chunk (RFC 8216, 4.3.4.2): 1.5 * 400 kb/s.
    assert found[0]["bandwidth_bps"] == 600_000
    # Those behind the end of the film are not used.
    _, short = renditions({**given, "length": "2 s"})
    assert [one["bytes"] for one in short[0]["chunks"]] == [50_000]


def test_sound_has_chunks_of_its_own_and_is_part_of_the_declared_rates(tmp_path):
    given = {"renditions": RUNGS, "chunk": "2 s", "length": "5 s", "spread": "50 %", "sound": "80 kbit/s"}
    film, found = renditions(given)
    # RFC 8216, 4.3.4.2: a variant's BANDWIDTH is the sum of its renditions'. 1.5 * 400 + 80 kb/s.
    assert found[0]["bandwidth_bps"] == 680_000
    assert mean_bps(found[0]) == pytest.approx(400e3, rel=1e-4)
    audio = film.plan["recorded"]["audio"]
    # 80 kb/s for 2 s are 20 kB.
    assert [one["bytes"] for one in audio["chunks"]] == [20_000, 20_000, 10_000]
    assert audio["bandwidth_bps"] == 80_000
    (tmp_path / "film.m3u8").write_text(MASTER)
    file = str(tmp_path / "film.m3u8")
    _, declared = renditions({"master": file, "sound": "100 kbit/s", "spread": "25 %"})
    # (900 - 100) / 1.25 and 2,500 - 100 kb/s.
    assert [mean_bps(one) for one in declared] == pytest.approx([640e3, 2.4e6], rel=1e-4)
    with pytest.raises(ScenarioError, match=r"the sound has a higher rate than a rendition: 360p\b"):
        load(scenario({"master": file, "sound": "1 Mbit/s"}))


def test_chunks_vary_alike_in_every_rendition():
    _, found = renditions(RUNGS)
    low, _, high = (
        [chunk["bytes"] / mean_bps(one) for chunk in one["chunks"]] for one in (found[0], found[1], found[2])
    )
    assert low == pytest.approx(high, rel=1e-3)
    assert numbers._pattern([10**9] * 5) == numbers._pattern([10**9] * 5)
    assert numbers._pattern([10**9]) == [0.0]


def test_a_master_playlist_without_files_has_sizes_by_bandwidth(tmp_path):
    (tmp_path / "film.m3u8").write_text(MASTER)
    file = str(tmp_path / "film.m3u8")
    warnings = load(scenario(file)).warnings
    assert any("by BANDWIDTH" in one.message and "spread of 20 %" in one.message for one in warnings)
    _, found = renditions(file)
    # The mean is declared, or that at which a chunk of 1.2 times as much has the declared peak.
    assert [mean_bps(one) for one in found] == pytest.approx([750e3, 2.5e6], rel=1e-4)
    assert [one["bandwidth_bps"] for one in found] == [900_000, 3_600_000]
    # The same with other lengths.
    given = {"master": file, "chunk": "2 s", "length": "8 s", "spread": "50 %"}
    _, short = renditions(given)
    (note,) = (one.message for one in load(scenario(given)).warnings if "BANDWIDTH" in one.message)
    assert "chunks of 2 s, with a spread of 50 %" in note
    assert len(short[0]["chunks"]) == 4
    assert mean_bps(short[0]) == pytest.approx(600e3, rel=1e-4)


def test_a_media_playlist_beside_it_gives_the_lengths(tmp_path):
    (tmp_path / "film.m3u8").write_text(MASTER)
    (tmp_path / "low").mkdir()
    (tmp_path / "low" / "index.m3u8").write_text(MEDIA)
    _, found = renditions(str(tmp_path / "film.m3u8"))
    for one in found:
        assert [chunk["duration_ns"] // 10**9 for chunk in one["chunks"]] == [6, 6, 3]


def test_a_chunk_that_is_missing_among_others_is_still_a_fault(tmp_path):
    (tmp_path / "film.m3u8").write_text(MASTER.replace("https://cdn.example/", ""))
    for name in ("low", "high"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.m3u8").write_text(MEDIA)
    (tmp_path / "low" / "0.ts").write_bytes(b"x" * 1000)
    with pytest.raises(ScenarioError, match="no such file"):
        load(scenario(str(tmp_path / "film.m3u8")))


def test_a_master_playlist_by_url_is_fetched_once(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "film.m3u8").write_text(MASTER)
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *given):
            asked.append(given)

    server = HTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        film, found = renditions(f"{url}/film.m3u8")
        assert (film.name, len(found)) == (f"{url}/film.m3u8", 2)
        assert len(asked) == 1
        with pytest.raises(ScenarioError, match="cannot fetch"):
            load(scenario(f"{url}/nothing.m3u8"))
        # A page instead of the playlist is not kept: the next request gets the playlist.
        (tmp_path / "late.m3u8").write_text("<html>Maintenance</html>")
        with pytest.raises(ScenarioError, match="not a playlist"):
            load(scenario(f"{url}/late.m3u8"))
        (tmp_path / "late.m3u8").write_text(MASTER)
        assert len(renditions(f"{url}/late.m3u8")[1]) == 2
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        ([], "empty"),
        ([{"height": 240}], "missing key: `bitrate`"),
        ([{"height": 240, "bitrate": "1 Mbit/s"}] * 2, "two renditions with the height 240"),
        ([{"hight": 240, "height": 240, "bitrate": "1 Mbit/s"}], "did you mean `height`"),
        ({"chunk": "4 s"}, "either `renditions` or `master`"),
        ({"renditions": RUNGS, "master": "a.m3u8"}, "either `renditions` or `master`"),
        ({"master": "a.m3u8"}, "no such file: `a.m3u8`"),
        ({"renditions": RUNGS, "spread": "100 %"}, "must be below"),
        ({"renditions": RUNGS, "sizes": [1.0, 0]}, "must be above 0"),
        ({"renditions": RUNGS, "sound": "much"}, "cannot read a rate: `much`"),
    ],
)
def test_faults_of_numbers(ladder, message):
    with pytest.raises(ScenarioError) as caught:
        load(scenario(ladder))
    assert message in str(caught.value)


def test_numbers_have_no_files_to_play():
    loaded = load(scenario(RUNGS))
    with pytest.raises(MediaError, match="by numbers"):
        ladders.file_of(loaded.scenario.application.ladder, loaded.folders)


@pytest.mark.module
def test_a_ladder_by_numbers_is_played():
    run = anabranch.run(scenario(RUNGS))
    assert {row["name"] for row in run.rows("renditions")} == {"240p", "480p", "720p"}
    # 6 Mb/s carry 3 Mb/s.
    assert run.qoe["resolution_mean"] > 480
    assert run.digest == anabranch.run(scenario({"renditions": RUNGS})).digest
