"""Adaptive applications: keys, metrics worked out by hand, P.1203's terms, and the whole way to a report."""

from __future__ import annotations

import json
import math

import pytest
from typer.testing import CliRunner

from anabranch import metrics
from anabranch.cli._app import app
from anabranch.errors import ScenarioError
from anabranch.metrics import p1203
from anabranch.scenario import load as loading
from anabranch.scenario import players

SCENARIO = """\
name = "adaptive"
[application]
kind = "adaptive"
ladder = "uq18-jp"
abr = "throughput"
[[paths]]
name = "wifi"
rtt = "40 ms"
rate = "5 Mbit/s"
"""


@pytest.fixture
def scenario(tmp_path):
    file = tmp_path / "adaptive.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return file


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def table(**columns):
    return columns


def one_client():
    """A session with three chunks of 10 s in two renditions, separate sound, and an underflow of 2 s."""
    return {
        "connections": table(
            client=[0], connect_s=[0.1], duration_s=[33.6], bytes_read=[1], reinjected_bytes=[0],
            max_read_gap_s=[0.0], finished=[True],
        ),
        "subflows": table(client=[0, 0], subflow=[0, 1], path=["a", "b"], bytes=[3_000_000, 1_000_000]),
        "requests": table(client=[0, 0], id=[0, 1], t_s=[0.0, 0.5], done_s=[0.4, 3.0]),
        "player": table(
            t_s=[0.1, 0.9, 1.0, 1.1, 2.0, 2.5, 3.0], client=[0] * 7,
            bytes_read=[0, 900, 250_000, 300_000, 1_000_000, 1_100_000, 1_250_000],
        ),
        "playback": table(
            client=[0] * 5, t_s=[1.6, 11.6, 21.6, 23.6, 33.6], pts_s=[0.0, 10.0, 20.0, 20.0, 30.0],
            event=["start", "switch", "underflow", "resume", "end"],
        ),
        "renditions": table(
            track=["video", "video", "audio"], rendition=[0, 1, 0], name=["360p", "1080p", "audio"],
            bandwidth_bps=[500_000, 4_000_000, 64_000], average_bps=[400_000.0, None, None],
            width=[640, 1920, 0], height=[360, 1080, 0], frame_rate=[25.0, None, None],
            duration_s=[30.0, 30.0, 30.0],
        ),
        "chunks": table(
            client=[0] * 5, track=["video", "audio", "video", "video", "video"], index=[0, 0, 1, 1, 2],
            rendition=[0, 0, 1, 1, 1], duration_s=[10.0] * 5, bytes=[500_000, 80_000, 9, 2_500_000, 3_000_000],
            t_s=[0.2, 0.3, 0.4, 0.5, 0.6], done_s=[0.3, 0.4, None, 0.6, 3.0],
            abandoned=[False, False, True, False, False],
        ),
    }  # fmt: skip


def test_qoe_metrics_match_values_computed_by_hand():
    assert metrics.qoe(one_client()) == {
        "buffer_underflows": 1,
        "recovery_time_s": 2.0,
        "startup_delay_s": 1.6,
        "rebuffer_s": 2.0,
        "rebuffer_longest_s": 2.0,
        # There are 30 s of film between 1.6 s and 33.6 s.
        "still_s": 2.0,
        "still_longest_s": 2.0,
        "unplayed_s": 0.0,
        "play_time_s": 30.0,
        "reached_end": True,
        # The first request waits 0.1 s for the connection.
        "startup_s": 1.5,
        "total_s": 33.5,
        "rebuffer_total_s": 2.0,
        "resolution_mean": 840.0,
        "resolution_changes": 1,
        "top_share": 0.666667,
        "bitrate_mean_mbps": 1.6,
        # 250 kB, 750 kB and 250 kB in three whole seconds: 2, 6 and 2 Mb/s.
        "throughput_mean_mbps": pytest.approx((2 + 6 + 2) / 3, abs=1e-6),
        "throughput_std_mbps": pytest.approx(math.sqrt(32 / 9), abs=1e-6),
        "throughput_active_mbps": pytest.approx((2 + 6 + 2) / 3, abs=1e-6),
        "downloaded_bytes": 4_000_000,
        "chunks_abandoned": 1,
        "finished": True,
    }


def test_every_number_is_a_metric():
    found = metrics.qoe(one_client())
    assert set(found) <= set(metrics.METRICS)
    assert metrics.lookup("top_share", qoe=found, qos={}, duration=1.0) == 0.666667


def test_the_input_of_p1203_has_every_chunk_and_stall():
    found = p1203.request(one_client())
    assert found["I13"]["segments"] == [
        {
            "codec": "h264",
            "bitrate": 400.0,
            "start": 0.0,
            "duration": 10.0,
            "resolution": "640x360",
            "fps": 25.0,
        },
        {
            "codec": "h264",
            "bitrate": 2000.0,
            "start": 10.0,
            "duration": 10.0,
            "resolution": "1920x1080",
            "fps": 24.0,
        },
        {
            "codec": "h264",
            "bitrate": 2400.0,
            "start": 20.0,
            "duration": 10.0,
            "resolution": "1920x1080",
            "fps": 24.0,
        },
    ]
    assert found["I11"]["segments"] == [{"codec": "aaclc", "bitrate": 64.0, "start": 0.0, "duration": 10.0}]
    assert found["I23"]["stalling"] == [[0.0, 1.5], [20.0, 2.0]]
    assert found["IGen"]["displaySize"] == "1920x1080"


def test_ratings_and_opinion_scores_are_each_others_inverse():
    assert (p1203.mos_from_r(0), p1203.mos_from_r(100)) == (1.05, 4.9)
    # 1.05 + 3.85 x 0.6: the third term vanishes at 60.
    assert p1203.mos_from_r(60) == pytest.approx(3.36)
    for rating in (10, 35, 60, 99):
        assert p1203.r_from_mos(p1203.mos_from_r(rating)) == pytest.approx(rating, abs=1e-6)


def test_p1203s_published_terms():
    found = p1203.terms(one_client())
    # 64 kb/s: 100 exp(-3.2) + 14.6 = 18.676 lost of 100.
    assert found["o21"] == pytest.approx(p1203.mos_from_r(100 - 18.6762), abs=1e-4)
    # Two stalls over 30 s. The weights are 0.48413 + 0.51587 / 8 at the start and 0.48413 + 0.51587 / 2 ten
    # seconds before the end; the stalls are 20 s apart.
    length = 1.5 * (0.48413 + 0.51587 / 8) + 2.0 * (0.48413 + 0.51587 / 2)
    factor = math.exp(-2 / 9.3516 - length / 30 / 0.9189 - 20 / 30 / 11.0568)
    assert found["stalling"] == pytest.approx(factor, abs=1e-6)
    assert found["mos"] == pytest.approx(1 + (found["o35"] - 1) * factor, abs=1e-5)
    assert 1 < found["o22"] < 5


def test_more_bits_more_lines_and_fewer_stalls_are_worth_more():
    def changed(name, column, values):
        tables = one_client()
        tables[name] = {**tables[name], column: values}
        return p1203.terms(tables)

    plain = p1203.terms(one_client())
    assert changed("chunks", "bytes", [100_000, 80_000, 9, 500_000, 600_000])["o22"] < plain["o22"]
    assert changed("chunks", "rendition", [1, 0, 1, 1, 1])["o22"] != plain["o22"]
    calm = changed("playback", "event", ["start", "switch", "switch", "switch", "end"])
    assert calm["stalling"] > plain["stalling"]


BAD = [
    # The columns: name, the text for `abr = ..` or `ladder = ..`, key, message, hint.
    ("rule", 'ladder = "uq18-jp"\nabr = "bolla"', "application.abr", "unknown ABR rule: `bolla`", "`bola`"),
    ("parameter", 'ladder = "uq18-jp"\nabr = {name = "bola", gama_p = 5}', "application.abr.gama_p",
     "unknown parameter of bola: `gama_p`", "`gamma_p`"),
    ("value", 'ladder = "uq18-jp"\nabr = {name = "mpc", form = "slow"}', "application.abr.form",
     '`form` of mpc is "robust" or "plain", not `slow`', ""),
    ("ladder", 'ladder = "uq18-jb"', "application.ladder", "no such ladder: `uq18-jb`", "`uq18-jp`"),
    ("no ladder", "", "application.ladder", "missing key: `ladder`", "uq18-jp"),
    ("film", 'ladder = "uq18-jp"\nfilm = "demo"', "application.film",
     "not a key of an adaptive application: `film`", "`ladder`"),
    ("other player", 'ladder = "uq18-jp"\nplayer = {prefetch = "1 MiB"}', "application.player.prefetch",
     "a key of the progressive player, not of the adaptive one: `prefetch`", "`append`"),
    ("model", 'ladder = "uq18-jp"\nplayer = {model = "dashjs"}', "application.player.model",
     "unknown model: `dashjs`", "`hlsjs`"),
]  # fmt: skip


@pytest.mark.module
@pytest.mark.parametrize(
    ("text", "key", "message", "hint"), [case[1:] for case in BAD], ids=[c[0] for c in BAD]
)
def test_a_fault_names_its_key(tmp_path, text, key, message, hint):
    file = tmp_path / "bad.toml"
    file.write_text(SCENARIO.replace('ladder = "uq18-jp"\nabr = "throughput"', text), encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        loading.load(file)
    (fault,) = caught.value.faults
    assert (fault.key, fault.message) == (key, message)
    assert hint in fault.hint
    assert fault.line is not None


@pytest.mark.module
def test_keys_of_the_adaptive_player_are_faults_elsewhere(tmp_path):
    file = tmp_path / "bad.toml"
    text = SCENARIO.replace(
        'kind = "adaptive"', 'kind = "bulk"\nduration = "1 s"\nplayer = {max_buffer = "9 s"}'
    )
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        loading.load(file)
    assert sorted(fault.message for fault in caught.value.faults) == [
        "a key of an adaptive application: `abr`",
        "a key of an adaptive application: `ladder`",
        "a key of the adaptive player, not of the progressive one: `max_buffer`",
    ]


def test_both_players_have_cmcd_and_share_no_other_key():
    progressive, adaptive = (players.player_keys(adaptive=one) for one in (False, True))
    assert set(progressive) & set(adaptive) == {"cmcd"}
    assert set(progressive) | set(adaptive) == set(players.Player.model_fields)
    for one in (False, True):
        assert players.Player(cmcd=True).plan(adaptive=one)["cmcd"] is True
        assert "cmcd" not in players.Player().plan(adaptive=one)


@pytest.mark.module
def test_a_run_is_reported_and_drawn(scenario, tmp_path):
    report, standard = tmp_path / "report.html", tmp_path / "p1203.json"
    result = call("run", scenario, "--report", report, "--p1203", standard, "--set", "application.abr=mpc")
    assert result.exit_code == 0
    assert "mean resolution" in result.stdout
    assert "time at the top" in result.stdout
    text = report.read_text(encoding="utf-8")
    assert "Rendition on the screen" in text
    assert "uq18-jp (7 renditions to" in text
    assert "ABR mpc, player vlc" in text
    given = json.loads(standard.read_text(encoding="utf-8"))
    assert [len(given[part]["segments"]) for part in ("I11", "I13")] == [60, 60]


@pytest.mark.module
def test_an_expectation_may_name_an_adaptive_metric(scenario):
    scenario.write_text(
        SCENARIO + "[expect]\ntop_share = {min = 0.99}\nstartup_s = {max = 3}\n", encoding="utf-8"
    )
    result = call("run", scenario, "--set", "application.abr=fixed", "--json")
    assert json.loads(result.stdout)["qoe"]["top_share"] == 1.0
    assert result.exit_code == (1 if json.loads(result.stdout)["qoe"]["startup_s"] > 3 else 0)


@pytest.mark.module
def test_p1203_wants_adaptive_playback(tmp_path):
    result = call("run", "bulk-two-paths", "--p1203", tmp_path / "x.json")
    assert result.exit_code == 2
    assert "no adaptive playback in the scenario (--p1203)" in result.stderr


@pytest.mark.module
def test_rules_and_ladders_are_listed():
    rules = {row["name"]: row for row in json.loads(call("list", "abr", "--json").stdout)}
    built_in = {"vlc-rate", "vlc-nearoptimal", "hlsjs", "bola", "mpc", "throughput", "fixed"}
    # An entry point of this package, as those of other packages.
    assert built_in | {"hlsjs-node"} == set(rules)
    assert [item["key"] for item in rules["bola"]["parameters"]] == ["gamma_p", "buffer_s"]
    assert "uq18-va" in call("list", "ladders").stdout


@pytest.mark.module
def test_a_broken_playlist_is_a_fault_of_the_scenario(scenario):
    ladder = scenario.parent / "ladder"
    ladder.mkdir()
    (ladder / "master.m3u8").write_text("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=x\na.m3u8\n", encoding="utf-8")
    result = call("check", scenario, "--set", "application.ladder=ladder", "--set", "application.rate=5")
    assert result.exit_code == 2
    assert "EXT-X-STREAM-INF: not a value of BANDWIDTH: `x`" in result.stderr
    assert "master.m3u8, line 2)" in result.stderr
    assert "key: application.rate" in result.stderr


@pytest.mark.slow
@pytest.mark.module
def test_a_film_becomes_a_ladder_that_plays(scenario, tmp_path):
    av = pytest.importorskip("av")
    film, out = tmp_path / "film.mp4", tmp_path / "ladder"
    made = call(
        "media", "make", film, "--duration", "5s", "--rate", "1 Mbit/s", "--size", "320x180", "--fps", 25
    )
    assert made.exit_code == 0
    rungs = ("--rung", "90=100kbit/s", "--rung", "180=300kbit/s")
    result = call("media", "ladder", film, out, "--chunk", "2 s", *rungs)
    assert (result.exit_code, result.stdout.strip()) == (0, str(out / "master.m3u8"))
    from anabranch.media import playlists

    found = playlists.read(out)
    assert [(row["name"], row["width"], row["frame_rate"]) for row in found["renditions"]] == [
        ("90p", 160, 25.0),
        ("180p", 320, 25.0),
    ]
    for rendition in found["renditions"]:
        assert [chunk["duration_ns"] for chunk in rendition["chunks"]] == [2 * 10**9, 2 * 10**9, 10**9]
        assert rendition["codecs"].startswith("avc1.")
    assert found["audio"] is not None
    # Every chunk can be decoded separately, because it begins with a picture that refers to no other.
    with av.open(str(out / "180p" / "1.ts")) as chunk:
        assert next(chunk.decode(video=0)).key_frame
    again = call("media", "ladder", film, out)
    assert (again.exit_code, "not an empty folder" in again.stderr) == (2, True)
    played = call("run", scenario, "--set", f"application.ladder={out}", "--json")
    assert json.loads(played.stdout)["qoe"]["finished"] is True


def test_without_an_encoder_the_host_is_at_fault(tmp_path, monkeypatch):
    av = pytest.importorskip("av")
    film = tmp_path / "film.mp4"
    call("media", "make", film, "--duration", "1s", "--rate", "1 Mbit/s", "--size", "320x180")

    def none(name, mode):
        raise ValueError(name, mode)

    monkeypatch.setattr(av, "Codec", none)
    result = call("media", "ladder", film, tmp_path / "out")
    assert result.exit_code == 4
    assert "no H.264 encoder" in result.stderr


def test_rungs_that_cannot_be_are_reported_at_once(tmp_path):
    rungs = ("--rung", "241=1Mbit/s", "--rung", "240=fast", "--rung", "90=1Mbit/s", "--rung", "90=2Mbit/s")
    result = call("media", "ladder", "film.mp4", tmp_path / "a" / "b", "--chunk", "0 s", *rungs)
    assert result.exit_code == 2
    assert result.stderr.count("error: ") == 5


def two_viewers():
    """Two clients: the one above, and another one that requested two chunks, one of them twice in different
    renditions.
    """
    tables = one_client()
    other = {
        "connections": {"client": 1, "connect_s": None, "duration_s": 9.0, "bytes_read": 2, "reinjected_bytes": 3,
                        "max_read_gap_s": 1.0, "finished": False},
        "subflows": {"client": 1, "subflow": 0, "path": "a", "bytes": 700},
        "requests": {"client": 1, "id": 0, "t_s": 0.5, "done_s": 2.5},
        "player": {"t_s": 0.0, "client": 1, "bytes_read": 77},
        "playback": {"client": 1, "t_s": 3.0, "pts_s": 0.0, "event": "start"},
        "chunks": {"client": 1, "track": "video", "index": 0, "rendition": 0, "duration_s": 4.0, "bytes": 1_000_000,
                   "t_s": 0.5, "done_s": 2.5, "abandoned": False},
    }  # fmt: skip
    for name, row in other.items():
        tables[name] = {column: [row[column], *values] for column, values in tables[name].items()}
    return tables


def test_each_viewer_is_their_own():
    tables = two_viewers()
    first, second = (client["qoe"] for client in metrics.by_client(tables))
    assert first == metrics.qoe(one_client())
    assert second == {
        "buffer_underflows": 0, "recovery_time_s": 0.0, "startup_delay_s": 3.0, "rebuffer_s": 0, "rebuffer_longest_s": 0.0,
        # The stall lasts from 3 s to the end of the session.
        "still_s": 0.0, "still_longest_s": 0.0, "unplayed_s": 24.0, "reached_end": False,
        "play_time_s": 6.0, "startup_s": 2.5, "total_s": None, "rebuffer_total_s": None, "resolution_mean": 360.0,
        "resolution_changes": 0, "top_share": 0.0, "bitrate_mean_mbps": 2.0,
        # Only the first second has a sample, and there is no whole second.
        "throughput_mean_mbps": None, "throughput_std_mbps": None, "throughput_active_mbps": None, "downloaded_bytes": 700, "chunks_abandoned": 0,
        "finished": False,
    }  # fmt: skip


def test_every_change_of_rendition_counts_up_and_down():
    tables = one_client()
    tables["chunks"]["rendition"] = [1, 0, 1, 0, 1]
    found = metrics.qoe(tables)
    # 1080, 360 and 1080 lines; two thirds of the time at the top.
    assert (found["resolution_changes"], found["resolution_mean"], found["top_share"]) == (2, 840.0, 0.666667)
    tables["chunks"]["rendition"] = [1, 0, 1, 0, 0]
    assert metrics.qoe(tables)["resolution_changes"] == 1


def test_a_film_that_never_began_has_no_times():
    tables = one_client()
    tables["playback"] = table(client=[], t_s=[], pts_s=[], event=[])
    found = metrics.qoe(tables)
    assert [found[name] for name in ("startup_delay_s", "startup_s", "total_s", "rebuffer_total_s")] == [
        None
    ] * 4


def test_a_ladder_without_sizes_has_no_resolution():
    tables = one_client()
    tables["renditions"]["height"] = [0, 0, 7]
    assert metrics.qoe(tables)["resolution_mean"] is None


def test_seconds_are_whole_from_the_first_request_to_the_last_byte():
    tables = one_client()
    tables["requests"] = table(client=[0] * 3, id=[0, 1, 2], t_s=[1.5, 1.25, 9.0], done_s=[2.5, 3.5, None])
    # Of the samples at 0, 1, 2 and 3 s, those from 1 to 3 s count: 750 kB and 250 kB.
    tables["player"] = table(
        t_s=[0.0, 1.0, 2.0, 3.0, 4.0], client=[0] * 5, bytes_read=[0, 250_000, 1_000_000, 1_250_000, 9]
    )
    found = metrics.qoe(tables)
    assert (found["throughput_mean_mbps"], found["throughput_std_mbps"]) == (4.0, 2.0)
    # The playback began at 1.6 s, behind the request of 1.25 s.
    assert found["startup_s"] == 0.35
