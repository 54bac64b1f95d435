"""VLC and hls.js in a measurement: the relay that they load through, and their reports as figures."""

import http.client
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from anabranch import measure
from anabranch.cli._app import app
from anabranch.errors import InputError, MissingError
from anabranch.live.viewers import VIEWERS
from anabranch.measure import _figures, _players, _session
from anabranch.measure._playback import Playback
from anabranch.measure._relay import Relay
from anabranch.measure._sockets import Watch
from test_measure import _NEEDS_IP, _served, _stream


def _order(address, path):
    plan = measure.planned(f"{address}/{path}", paths=["lo"], capture=False)
    return _session.Order(
        host=plan.host, url=plan.url, arm="TCP over lo", trial=0, path=plan.host.paths[0], limit_s=1.0
    )


class _Player:
    """A player that requests addresses of a relay, one after another over one connection."""

    def __init__(self, folder, path):
        self.folder, self.path = folder, path
        self.session = _session.Session(arm="TCP over lo", trial=0)

    def ask(self, *targets, span=None):
        """Return the answers: status and body. The address of the server is `SERVER` in them."""
        answers = []
        with _served(self.folder) as address:
            with (
                Watch(multipath=False) as watch,
                Relay(_order(address, self.path), self.session, watch) as self.relay,
            ):
                own = urlsplit(self.relay.address)
                connection = http.client.HTTPConnection(own.hostname, own.port, timeout=10)
                for target in targets:
                    connection.request("GET", target, headers={"Range": span} if span else {})
                    answer = connection.getresponse()
                    answers.append((answer.status, answer.read()))
                connection.close()
            self.watch, self.own = watch, f"http://127.0.0.1:{own.port}"
        return answers


@_NEEDS_IP
def test_the_relay_records_chunks_with_their_renditions(tmp_path):
    _stream(tmp_path)
    player = _Player(tmp_path, "master.m3u8")
    answers = player.ask("/master.m3u8", "/high/list.m3u8", "/high/0.ts", "/low/list.m3u8", "/low/1.ts")
    assert [status for status, _ in answers] == [200] * 5
    assert [len(answers[number][1]) for number in (2, 4)] == [4000, 1000]
    chunks = player.session.chunks
    assert [(chunk.bytes, chunk.height, chunk.rate_bps) for chunk in chunks] == [
        (4000, 720, 2),
        (1000, 240, 1),
    ]
    assert all(0 <= chunk.asked_s <= chunk.came_s for chunk in chunks)
    # Three chunks of 2 s.
    assert player.relay.film_s == 6.0
    assert player.session.bytes == sum(len(body) for _, body in answers)
    assert player.relay.fault is None
    # One connection of the player is one to the server, and its counters were read.
    assert len(player.watch.ends) == 1
    assert max(sample.subflows[0].received for sample in player.watch.samples) > player.session.bytes


@_NEEDS_IP
def test_addresses_of_the_server_in_playlists_become_the_relays(tmp_path):
    _stream(tmp_path)
    session = _session.Session(arm="TCP over lo", trial=0)
    with (
        _served(tmp_path) as address,
        Watch(multipath=False) as watch,
        Relay(_order(address, "x.m3u8"), session, watch) as relay,
    ):
        text = f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,RESOLUTION=4x2\n{address}/low/list.m3u8\n"
        found = relay.playlist(f"{address}/x.m3u8", text.encode()).decode()
        own = relay.address.removesuffix("/x.m3u8")
        assert f"{own}/low/list.m3u8" in found
        assert address not in found
        other = text.replace(address, "http://192.0.2.9")
        with pytest.raises(InputError, match="the address leads to another server"):
            relay.playlist(f"{address}/x.m3u8", other.encode())


@_NEEDS_IP
def test_a_failure_of_the_server_reaches_the_player_and_ends_the_session(tmp_path):
    player = _Player(tmp_path, "x.m3u8")
    ((status, _),) = player.ask("/x.m3u8")
    assert status == 502
    assert "the server answers 404" in str(player.relay.fault)


@_NEEDS_IP
def test_a_live_stream_is_refused(tmp_path):
    _stream(tmp_path, ended=False)
    player = _Player(tmp_path, "low/list.m3u8")
    ((status, _),) = player.ask("/low/list.m3u8")
    assert status == 502
    assert "a live stream" in str(player.relay.fault)


def test_stalls_of_a_program_are_those_of_its_events():
    events = [("start", 1.0), ("underflow", 4.0), ("resume", 6.5), ("underflow", 8.0)]
    rows = [{"event": name, "t_s": at_s} for name, at_s in events]
    viewed = Playback.of_events(rows, 10.0)
    assert viewed.started_s == 1.0
    # The second one lasts until the session ends.
    assert viewed.stalls == [(4.0, 6.5), (8.0, 10.0)]
    assert viewed.stalled_s == 4.5


def _told(name):
    """Return reports of a program that plays 8 s of film from 2 s to 11 s, with a stall of 1 s."""
    if name == "vlc":
        return [
            {"t": 100.0, "what": "ready", "version": "3.0.24", "user": 1},
            {"t": 102.0, "what": "buffering", "percent": 100.0, "time_ms": 0},
            {"t": 105.0, "what": "buffering", "percent": 50.0, "time_ms": 3000},
            {"t": 106.0, "what": "buffering", "percent": 100.0, "time_ms": 3000},
            {"t": 110.0, "what": "counters", "read": 1, "demuxed": 1, "decoded": 1, "displayed": 1, "lost": 2,
             "time_ms": 7000},
            {"t": 111.0, "what": "end"},
        ]  # fmt: skip
    counted = {"what": "counters", "buffer_s": 0.0, "pictures": 9, "dropped": 2}
    return [
        {"t": 100.0, "what": "ready", "library": "1.7.4", "version": "Chrome/1"},
        {"t": 102.0, "what": "playing", "position_s": 0.0},
        {"t": 105.0, "what": "waiting", "position_s": 3.0},
        {"t": 106.0, "what": "playing", "position_s": 3.0},
        {"t": 110.0, **counted, "position_s": 7.0},
        {"t": 111.0, "what": "ended", "position_s": 8.0},
    ]


@pytest.mark.parametrize(("name", "title"), [("vlc", "VLC 3.0.24"), ("hlsjs", "hls.js 1.7.4 in Chrome/1")])
def test_the_figures_of_a_program(name, title):
    class Came:
        began_s, film_s = 100.0, 8.0

    session = _session.Session(arm="MPTCP", trial=0, duration_s=11.2)
    _players._fill(session, VIEWERS[name], _told(name), Came)
    row = _figures.of_session(session, [])
    assert (row["player"], row["error"]) == (title, None)
    assert (row["startup_s"], row["stalls"], row["stalled_s"]) == (2.0, 1, 1.0)
    assert row["dropped_pictures"] == 2
    # 11 s less 2 s before the start and 8 s of film.
    assert (row["uq18"]["P_total"], row["uq18"]["R_total"]) == (11.0, 1.0)


def test_a_session_that_ends_at_its_limit_has_the_film_until_there():
    class Came:
        began_s, film_s = 100.0, 600.0

    session = _session.Session(arm="MPTCP", trial=0, duration_s=10.0)
    _players._fill(session, VIEWERS["hlsjs"], _told("hlsjs")[:-1], Came)
    # 10 s less 2 s before the start and 7 s of film.
    assert _figures.of_session(session, [])["uq18"]["R_total"] == 1.0


def test_a_program_that_shows_no_picture_is_reported():
    class Came:
        began_s, film_s = 100.0, None

    session = _session.Session(arm="MPTCP", trial=0)
    _players._fill(session, VIEWERS["vlc"], _told("vlc")[:1], Came)
    assert session.error == "VLC showed no picture"


def test_chunks_of_sound_are_no_change_of_rendition_and_overlapping_loads_count_once():
    def chunk(asked_s, came_s, rate_bps):
        return _session.Chunk(asked_s=asked_s, came_s=came_s, bytes=500_000, height=None, rate_bps=rate_bps)

    chunks = [chunk(0, 2, 1), chunk(1, 3, None), chunk(5, 6, 1), chunk(6, 7, 2)]
    row = _figures.of_session(_session.Session(arm="MPTCP", trial=0, chunks=chunks), [])
    assert row["uq18"]["Res_ch"] == 1
    # 2 MB while something was loaded: from 0 to 3 s and from 5 to 7 s.
    assert row["goodput_mbps"] == pytest.approx(16 / 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["http://127.0.0.1:9/film.mp4", "--player", "hlsjs"], "hls.js plays HLS playlists"),
        (["http://127.0.0.1:9/film.m3u8", "--player", "hls"], "did you mean `hlsjs`?"),
    ],
)
def test_a_player_that_does_not_fit_is_refused(options, message):
    done = CliRunner().invoke(app, ["measure", *options])
    assert (done.exit_code, message in done.stderr) == (2, True)


def test_a_player_that_is_not_installed_is_reported_with_the_command_that_installs_it(monkeypatch):
    lacking = replace(VIEWERS["vlc"], lacks=lambda: "VLC is missing: apt install vlc")
    monkeypatch.setitem(_players.viewers.VIEWERS, "vlc", lacking)
    with pytest.raises(MissingError, match="apt install vlc"):
        measure.planned("http://127.0.0.1:9/x.m3u8", player="vlc")
