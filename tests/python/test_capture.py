"""`anabranch capture`: a run's own packets give the run's own figures, and messages for files that are none."""

from __future__ import annotations

import gzip
import json

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import capture
from anabranch.capture import _scenario
from anabranch.cli._app import app
from anabranch.errors import InputError

pytestmark = pytest.mark.module

#: A bulk transfer of 2 MB over a path that loses packets and a slower one: retransmissions and waiting data.
_KEYS = {"application.bytes": "2 MB"}


def command(*arguments):
    return CliRunner().invoke(app, ["capture", *map(str, arguments)])


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Return a run and the file of its packets at the client."""
    file = tmp_path_factory.mktemp("capture") / "session.pcapng"
    return anabranch.run("bulk-two-paths", set=_KEYS, pcapng=file), file


def test_a_run_s_packets_give_its_own_figures(session):
    run, file = session
    found = capture.read(file, progress=False)
    (read,) = capture.sessions(found)
    assert read.captured_at == "client"
    (connection,) = run.rows("connections")
    assert read.bytes == connection["bytes_read"]
    # Both copies of reinjected bytes must reach the client for it to see them.
    assert read.reinjected_bytes <= connection["reinjected_bytes"]
    by_path = {row["path"]: row for row in run.rows("subflows")}
    links = {row["link"]: row for row in run.rows("links")}
    for path, stream, name in zip(read.paths, found.streams, by_path, strict=True):
        # Everything arrived in the end, so the client saw all bytes that were not sent again.
        sent = by_path[name]
        assert path.bytes == sent["bytes_sent"] - sent["bytes_retransmitted"]
        # The client is at the end of the down link and at the start of the up link.
        assert stream["to_client"]["frames"] == links[f"{name}.down"]["delivered"]
        assert stream["to_server"]["frames"] == links[f"{name}.up"]["enqueued"]
        assert path.retransmitted_bytes is None
    assert any("retransmissions" in what for what in read.not_visible)
    assert read.paths[0].out_of_order, "the path loses packets"


def test_round_trips_are_those_of_the_paths(session):
    # Propagation of 50 and 100 ms, plus at least the time of a segment and of its acknowledgement on the link.
    _, file = session
    (read,) = capture.sessions(capture.read(file, progress=False))
    least = [path.min_rtt_ms for path in read.paths]
    assert least[0] == pytest.approx(50, abs=5)
    assert least[1] == pytest.approx(100, abs=5)
    assert all(path.rtt_ms >= path.min_rtt_ms for path in read.paths)


def test_gzip_and_a_cut_file(session, tmp_path):
    _, file = session
    whole = capture.read(file, progress=False)
    packed = tmp_path / "session.bin"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert capture.read(packed, progress=False).found == whole.found
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(file.read_bytes()[:-7])
    part = capture.read(cut, progress=False)
    assert part.damage == "the file ends in the middle of a record"
    assert part.counts["records"] == whole.counts["records"] - 1


def test_the_command_prints_sessions_and_one_object(session, tmp_path):
    _, file = session
    course = tmp_path / "course.csv"
    printed = command(file)
    assert "Taken at the client" in printed.stdout
    assert "Not visible: retransmissions" in printed.stdout
    found = json.loads(command(file, "--json", "--samples", course).stdout)
    assert found["sessions"][0]["name"] == "MPTCP 0"
    assert found["tcp_streams"] == 2
    header, *rows = course.read_text().splitlines()
    assert header.startswith("t_s,stream,direction,throughput_mbps")
    assert len(rows) > 20


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x1f\x8b\x08\x00rubbish"])
def test_a_file_that_is_no_capture_is_refused(content, tmp_path):
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        capture.read(file, progress=False)
    assert str(file) in str(refused.value)


def test_the_samples_may_not_replace_the_capture(session):
    _, file = session
    refused = command(file, "--samples", file)
    assert refused.exit_code == 2
    assert "would be written over the capture" in refused.stderr


def test_a_subflow_that_the_server_opened_is_judged_from_the_other_end():
    # At the client. The server opens the second subflow, so there the client answers the SYN at once, after
    # 0.04 ms, and the server's answer takes the path's 80 ms.
    def half(count, median):
        times = {"count": count, "median_ms": median, "min_ms": median}
        none = {"count": 0, "median_ms": None, "min_ms": None}
        return {
            **dict.fromkeys(("unique_bytes", "resent_bytes", "duplicate_sack_bytes"), 0),
            **dict.fromkeys(("out_of_order_frames", "zero_windows"), 0),
            "ack_rtt": none,
            "echo_rtt": times,
        }

    def stream(number, side, server, client):
        return {
            "stream": number,
            "client": f"a{number}",
            "server": f"b{number}",
            "captured_at": side,
            "syn_to_syn_ack_ms": server,
            "syn_ack_to_ack_ms": client,
            "begin_s": 0.0,
            "duration_s": 1.0,
            "idle_s": 0.0,
            "connection": 0,
            "orphan_token": None,
            "to_server": half(0, None),
            "to_client": half(0, None),
        }

    data = {
        **dict.fromkeys(("unique_bytes", "unmapped_bytes", "reinjected_bytes", "head_of_line_s"), 0),
        "head_of_line_s_by_stream": {},
    }
    connection = {
        "connection": 0,
        "guessed": False,
        "fallback": None,
        "both_keys_seen": True,
        "to_client": data,
        "subflows": [{"stream": 0, "from_server": False}, {"stream": 1, "from_server": True}],
    }
    streams = [stream(0, "client", 50.0, 0.05), stream(1, "server", 0.04, 80.0)]
    found = {"streams": streams, "connections": [connection], "counts": {}}
    (session,) = capture.sessions(capture.Capture(file="x", found=found, tables={}))
    assert session.captured_at == "client"
    assert [path.rtt_ms for path in session.paths] == [50.0, 80.0]
    assert [path.client for path in session.paths] == ["a0", "b1"]


def test_capture_report_names_the_side_and_its_blind_spots(session, tmp_path):
    _, file = session
    page = tmp_path / "page.html"
    assert command(file, "--report", page).exit_code == 0
    text = page.read_text()
    for words in ("captured at the client", "Res_avg", "Retransmissions to the client"):
        assert words in text
    missing = command(file, "--report", page, "--session", "TCP 9")
    assert missing.exit_code == 2
    assert "no such session" in missing.stderr


def test_figures_and_reasons_work_on_a_captured_run(session):
    run, file = session
    read = anabranch.read_capture(file, progress=False)
    assert read.summary["world"] == "captured"
    assert read.qos["goodput_mbps"] == pytest.approx(run.qos["goodput_mbps"])
    assert read.qoe is None
    assert read.qos["subflows"][0]["retransmissions"] is None
    assert read.frame("samples")["srtt_ms"].max() > 50
    assert read.why().sentences == []
    figures = read.summary["uq18"]
    assert figures["DB_total"] == sum(row["bytes"] for row in read.rows("subflows"))
    # Paths of 50 and 100 ms; queues add to both.
    assert figures["RTT_diff"] > 0
    assert set(figures["missing"]) == {"S_o", "P_total", "R_total", "Res_avg", "Res_ch"}


def exchange(target, begin, end, *, size=1000, playlist="", ranged=""):
    """Return a request with its response."""
    return capture.Exchange(
        method="GET",
        target=target,
        host="films",
        range=ranged,
        status=200.0,
        content_length=float(size),
        t_s=begin,
        first_byte_s=begin + 0.1,
        done_s=end,
        bytes=size,
        length_guessed=False,
        playlist=playlist,
    )


def test_chunks_have_the_rendition_of_their_playlist():
    master = (
        "#EXTM3U\n"
        "#EXT-X-STREAM-INF:BANDWIDTH=5000000,RESOLUTION=1280x720\nhigh/index.m3u8?token=1\n"
        "#EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=640x360\nlow/index.m3u8\n"
    )
    media = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n0.ts\n#EXTINF:3.5,\n1.ts\n#EXT-X-ENDLIST\n"
    found = [
        exchange("/film/master.m3u8", 1.0, 1.2, playlist=master),
        exchange("/film/low/index.m3u8", 1.2, 1.4, playlist=media),
        exchange("/film/low/0.ts", 1.5, 2.5, size=125_000),
        exchange("/film/high/index.m3u8?token=1", 2.5, 2.6, playlist=media),
        exchange("/film/high/1.ts", 2.6, None, size=10),
        exchange("/other.js", 2.7, 2.8),
    ]
    tables = capture.http_tables(found, 1.0)
    assert [row["name"] for row in tables["renditions"]] == ["360p", "720p"]
    first, second = tables["chunks"]
    assert (first["rendition"], first["index"], first["duration_s"]) == (0, 0, 4.0)
    # 125 kB in a second.
    assert first["throughput_mbps"] == pytest.approx(1.0)
    assert (second["rendition"], second["index"], second["abandoned"]) == (1, 1, True)
    assert len(tables["requests"]) == 6
    assert tables["requests"][0]["t_s"] == 0.0


def test_byte_ranges_of_one_file_are_chunks():
    media = "#EXTM3U\n#EXTINF:2,\n#EXT-X-BYTERANGE:100@0\nall.ts\n#EXTINF:2,\n#EXT-X-BYTERANGE:50\nall.ts\n"
    found = [
        exchange("/index.m3u8", 0.0, 0.1, playlist=media),
        exchange("/all.ts", 0.2, 0.3, ranged="bytes=100-149"),
    ]
    (chunk,) = capture.http_tables(found, 0.0)["chunks"]
    assert chunk["index"] == 1


def test_a_scenario_has_the_rates_and_times_of_the_paths(session, tmp_path):
    _, file = session
    target = tmp_path / "again.toml"
    assert command(file, "--scenario", target).exit_code == 0
    read = capture.read(file, progress=False)
    first, second = capture.paths(read, capture.traced(read))
    # Both paths of the scenario have 5 Mbit/s, 50 and 100 ms. An empty packet takes less than a millisecond.
    assert first.rtt_ms == pytest.approx(50, abs=1)
    assert second.rtt_ms == pytest.approx(100, abs=1)
    for path in (first, second):
        assert [rate for rate in path.rates if rate is not None] == pytest.approx(
            [5.0] * sum(rate is not None for rate in path.rates), rel=0.03
        )
    again = anabranch.run(target)
    assert again.rows("connections")[0]["bytes_read"] == 2_000_000


def test_connections_that_share_a_path_add_up_to_its_rate():
    """At the server: each connection has 125,000 bytes acknowledged in a tenth of a second, 10 Mb/s."""
    down = [
        {"t_s": tick / 10, "stream": stream, "acked_bytes": 125_000 * (tick + 1), "pair_mbps": None}
        for tick in range(10)
        for stream in (0, 1)
    ]
    queued = dict.fromkeys(range(10), 40.0)
    for times, is_lower_bound in ((queued, False), ({}, True)):
        seen = _scenario._Seen(down=down, times=times, begin=0.0, seconds=1, side="server")
        assert _scenario._rates(seen, 20.0, 1.0) == ([pytest.approx(20.0)], is_lower_bound)
