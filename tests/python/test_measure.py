"""Measurements over this host's paths: the player's arithmetic, figures, and faults, over the loopback interface."""

import json
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from anabranch import measure as measuring
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.measure import _figures, _paths, _session, page
from anabranch.measure._playback import Playback
from anabranch.measure._sockets import Sample, Subflow

_NEEDS_IP = pytest.mark.skipif(
    shutil.which("ip") is None and shutil.which("ip", path="/usr/sbin:/sbin") is None,
    reason="iproute2 is not installed",
)


def test_a_player_starts_with_a_chunk_stalls_when_empty_and_resumes_with_the_next():
    viewed = Playback()
    viewed.add(1.0, 2.0)  # it plays from 1 s to 3 s
    viewed.add(2.0, 2.0)  # and to 5 s
    viewed.add(7.5, 2.0)  # it stood still from 5 s to 7.5 s, and plays to 9.5 s
    assert viewed.started_s == 1.0
    assert viewed.stalls == [(5.0, 7.5)]
    assert viewed.buffer_s == 2.0
    assert viewed.finish(8.0) == 9.5
    assert viewed.stalled_s == 2.5


def test_a_player_that_is_empty_ends_when_the_last_picture_was_shown():
    viewed = Playback()
    viewed.add(1.0, 2.0)
    assert viewed.finish(10.0) == 3.0
    assert viewed.stalls == []


def _row(arm, trial, goodput, *, fell_back=False, error=None):
    empty = dict.fromkeys(_figures.COMPARED)
    row = {**empty, "arm": arm, "trial": trial, "goodput_mbps": goodput, "shares": {}}
    return {**row, "fell_back": fell_back, "error": error}


def test_all_paths_are_compared_with_the_best_path_within_each_trial():
    # Differences 3, 5 and 4: mean 4, standard deviation 1, t(0.975, 2) = 4.303, half width 4.303 / sqrt(3) = 2.484.
    rows = [_row("MPTCP", trial, 8.0 + change) for trial, change in enumerate((3, 5, 4))]
    rows += [_row("TCP over wifi", trial, 8.0) for trial in range(3)]
    rows += [_row("TCP over lte", trial, 2.0) for trial in range(3)]
    (found,) = _figures.differences(rows)
    assert (found.figure, found.beside, found.change.value) == ("goodput_mbps", "TCP over wifi", 4.0)
    assert (found.change.low, found.change.high) == pytest.approx((4 - 2.484, 4 + 2.484), abs=5e-4)
    assert found.is_decided
    assert _figures.sentence(found) == (
        "All paths together are better than TCP over wifi: the goodput changes by +4 Mb/s [+1.52, +6.48]."
    )


def test_a_session_that_fell_back_or_failed_counts_in_no_difference():
    rows = [_row("MPTCP", 0, 9.0, fell_back=True), _row("MPTCP", 1, 9.0, error="refused")]
    rows += [_row("TCP over wifi", trial, 8.0) for trial in range(2)]
    assert _figures.differences(rows) == []


def test_bytes_of_subflows_that_have_closed_still_count():
    ways = [_paths.Path(name="wifi", address="10.0.0.1"), _paths.Path(name="lte", address="10.0.1.1")]

    def of(address, port, received, rtt_ms):
        return Subflow(local=(address, port), received=received, rtt_ms=rtt_ms, min_rtt_ms=rtt_ms)

    samples = [
        Sample(
            at_s=0.1, subflows=(of("10.0.0.1", 1, 100, 20.0), of("10.0.1.1", 2, 50, 60.0)), fell_back=False
        ),
        Sample(
            at_s=0.2, subflows=(of("10.0.1.1", 2, 80, 70.0), of("10.0.0.1", 3, 20, 30.0)), fell_back=False
        ),
    ]
    session = _session.Session(arm="MPTCP", trial=0, samples=samples)
    found = _figures.of_session(session, ways)
    assert _figures.received(session) == {"10.0.0.1": 120, "10.0.1.1": 80}
    assert found["shares"] == {"wifi": 0.6, "lte": 0.4}
    assert found["uq18"]["RTT_avg"] == {"wifi": 25.0, "lte": 65.0}
    assert found["uq18"]["RTT_diff"] == 40.0


def test_the_throughput_of_whole_seconds():
    # 1 MB in the first second and 0.5 MB in the next; the third one is not whole.
    marks = [(0.5, 1_000_000), (1.5, 1_500_000), (2.2, 1_600_000)]
    session = _session.Session(arm="MPTCP", trial=0, bytes=1_600_000, duration_s=2.2, marks=marks)
    found = _figures.of_session(session, [])["uq18"]
    assert (found["Th_avg"], found["Th_std"]) == (6.0, 2.0)


@contextmanager
def _served(folder):
    """Serve a folder on loopback, and yield the address."""

    class Handler(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _stream(folder, *, ended=True):
    """Write a master playlist with two renditions of three chunks of 2 s."""
    for name, size in (("low", 1000), ("high", 4000)):
        folder.joinpath(name).mkdir()
        lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:2"]
        for number in range(3):
            folder.joinpath(name, f"{number}.ts").write_bytes(bytes(size))
            lines += ["#EXTINF:2.0,", f"{number}.ts"]
        lines += ["#EXT-X-ENDLIST"] if ended else []
        folder.joinpath(name, "list.m3u8").write_text("\n".join(lines), encoding="utf-8")
    master = (
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,RESOLUTION=426x240\nlow/list.m3u8\n"
        "#EXT-X-STREAM-INF:BANDWIDTH=2,RESOLUTION=1280x720\nhigh/list.m3u8\n"
    )
    folder.joinpath("master.m3u8").write_text(master, encoding="utf-8")


@_NEEDS_IP
def test_a_stream_is_played_over_loopback(tmp_path):
    _stream(tmp_path)
    with _served(tmp_path) as address:
        plan = measuring.planned(f"{address}/master.m3u8", paths=["lo"], trials=1, capture=False)
        found = measuring.measure(plan)
    alone = found.sessions[-1]
    # The first chunk is the lowest, as no rate is known; then the best rendition.
    assert [(chunk.bytes, chunk.height) for chunk in alone.chunks] == [(1000, 240), (4000, 720), (4000, 720)]
    assert alone.playback.media_s == 6.0
    row = found.rows[-1]
    assert row["height"] == pytest.approx(560.0)
    assert row["uq18"]["Res_ch"] == 1
    assert row["shares"] == {"lo": 1.0}
    # The counter of the kernel has the headers of the answers, too.
    assert alone.bytes < row["uq18"]["DB_total"] < alone.bytes + 6 * 400
    # The server speaks no MPTCP.
    assert all(session.fell_back for session in found.sessions if session.arm == measuring.ALL)
    assert "Throughput, TCP over lo" in page.build(found)


@_NEEDS_IP
def test_a_download_ends_at_its_limit(tmp_path):
    tmp_path.joinpath("file.bin").write_bytes(bytes(300_000_000))
    with _served(tmp_path) as address:
        plan = measuring.planned(f"{address}/file.bin", paths=["lo"], trials=1, limit_s=0.05, capture=False)
        session = measuring.measure(plan).sessions[0]
    assert 0 < session.bytes < 300_000_000
    assert session.error == ""


@_NEEDS_IP
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.m3u8", "the server answers 404"),
        ("live/low/list.m3u8", "a live stream"),
        ("text.m3u8", "the first line is not #EXTM3U"),
    ],
)
def test_an_address_that_cannot_be_played_is_reported(tmp_path, name, message):
    tmp_path.joinpath("live").mkdir()
    _stream(tmp_path / "live", ended=False)
    tmp_path.joinpath("text.m3u8").write_text("hello", encoding="utf-8")
    with _served(tmp_path) as address:
        done = CliRunner().invoke(
            app, ["measure", f"{address}/{name}", "--paths", "lo", "--trials", "1", "--no-capture"]
        )
    assert done.exit_code == 2
    assert message in done.stderr


@_NEEDS_IP
def test_all_wrong_interfaces_are_named_at_once():
    with pytest.raises(InputError) as raised:
        measuring.planned("http://127.0.0.1:9/x", paths=["nope0", "nope1"])
    assert [fault.message for fault in raised.value.faults] == ["no interface nope0", "no interface nope1"]


def test_a_report_that_is_no_page_is_refused_before_the_measurement(tmp_path):
    page_file = tmp_path / "here.pdf"
    done = CliRunner().invoke(app, ["measure", "http://127.0.0.1:9/x", "--report", str(page_file)])
    assert done.exit_code == 2
    assert "the name ends in .html or .htm" in done.stderr
    assert not page_file.exists()


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/x", "127.0.0.1/x", "http://"])
def test_other_addresses_are_refused(address):
    with pytest.raises(InputError, match="not an http or https address"):
        measuring.planned(address)


@_NEEDS_IP
def test_a_server_that_refuses_gives_exit_code_1_and_json(tmp_path):
    with _served(tmp_path) as address:
        pass
    options = ["--paths", "lo", "--trials", "1", "--no-capture", "--json"]
    done = CliRunner().invoke(app, ["measure", f"{address}/x", *options])
    assert done.exit_code == 1
    assert {row["error"] for row in json.loads(done.stdout)["sessions"]} == {"Connection refused"}


def _answers(monkeypatch, routes):
    """Let `ip` list two interfaces, with these routes of each, and take every address for a neighbour."""

    def ip(*arguments):
        if arguments[:2] == ("addr", "show"):
            return [{"ifname": name, "addr_info": [{}]} for name in routes]
        if arguments[:2] == ("route", "get"):
            return [{"dev": arguments[-1] if len(arguments) > 3 else "wan0", "prefsrc": "10.0.0.2"}]
        return routes.get(arguments[-1], [])

    monkeypatch.setattr(_paths, "_ip", ip)


def test_an_interface_without_a_route_to_the_server_is_no_path(monkeypatch):
    bridge = [{"dst": "172.17.0.0/16"}, {"type": "local", "dst": "172.17.0.1"}]
    _answers(monkeypatch, {"wan0": [{"dst": "default"}], "docker0": bridge})
    assert [path.name for path in _paths.find("192.0.2.1", 80).paths] == ["wan0"]
    assert [path.name for path in _paths.find("172.17.0.9", 80).paths] == ["wan0", "docker0"]
