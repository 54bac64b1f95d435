"""A captured session as a scenario: what it assumes of the film, of queues, of losses and of rates."""

from __future__ import annotations

import json
import tomllib
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import capture, logs
from anabranch.capture import _film, _queue, _rule, _scenario
from anabranch.capture._queue import Tick
from anabranch.cli._app import app
from anabranch.metrics import cmcd

pytestmark = pytest.mark.module

#: A minute of the film of UQ18's server in Japan, cut off by the duration.
_KEYS = {"application.duration": "60 s"}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Return an adaptive run that was cut off, its capture at the client, and its log."""
    folder = tmp_path_factory.mktemp("film")
    run = anabranch.run("adaptive-two-paths", set=_KEYS, pcapng=folder / "film.pcapng")
    text = cmcd.text(cmcd.reports(run.tables, session="x", version=1), "json")
    (folder / "cmcd.json").write_text(text, encoding="utf-8")
    return run, folder / "film.pcapng", folder / "cmcd.json"


def command(*arguments):
    return CliRunner().invoke(app, ["capture", *map(str, arguments)])


def ticks(sent, lost):
    return [
        Tick(number=number, sent=one, lost=two)
        for number, (one, two) in enumerate(zip(sent, lost, strict=True))
    ]


def test_loss_is_that_of_single_packets():
    # One of ten tenths with ten packets each has a burst of eight: (1 - p)^10 = 0.9, so p = 1 - 0.9^(1/10).
    assert _queue.loss(ticks([10] * 10, [0] * 9 + [8])) == pytest.approx(1 - 0.9**0.1, rel=1e-6)
    # One single packet of the hundred was lost.
    assert _queue.loss(ticks([10] * 10, [0] * 9 + [1])) == pytest.approx(0.01, rel=1e-6)
    assert _queue.loss(ticks([10] * 4, [2] * 4)) == pytest.approx(0.2, rel=1e-6)
    assert _queue.loss(ticks([10] * 4, [0] * 4)) == 0.0


def test_a_queue_has_the_packets_that_were_carried_while_a_segment_waited():
    # 500 packets/s for 5 s and then 50. A full queue of 50 packets takes 100 ms, and then 1 s. The losses met it.
    times = dict.fromkeys(range(50), 150.0) | dict.fromkeys(range(20, 24), 200.0)
    times |= dict.fromkeys(range(62, 100), 600.0) | dict.fromkeys(range(80, 84), 1100.0)
    lost = [1.0 if tick in {21, 22, 81, 82} else 0.0 for tick in range(100)]
    found = _queue.queue(ticks([40] * 50 + [5] * 50, lost), times, 100.0, [500.0] * 5 + [50.0] * 5, 0)
    assert found.packets == pytest.approx(50)
    assert found.was_full
    assert found.loss == 0.0


def test_losses_at_all_lengths_of_a_queue_are_the_link_s():
    # Every fifth tenth has one of 20 packets lost, whatever the queue is.
    times = {tick: 120.0 + (tick % 40) for tick in range(100)}
    lost = [1.0 if tick % 5 == 0 else 0.0 for tick in range(100)]
    found = _queue.queue(ticks([20] * 100, lost), times, 100.0, [200.0] * 10, 0)
    assert not found.was_full
    assert found.loss == pytest.approx(0.01, rel=1e-6)


def test_rates_of_a_radio_that_joins_packets_are_those_that_it_carries():
    # The queue shows that 7 of the 10 Mb/s of neighbouring packets are carried, so 20 are 14.
    assert _scenario._paired([10.0, 10.0, 20.0, None], [7.0, 7.0, None, None]) == [7.0, 7.0, 14.0, None]
    # On a link of constant rate both agree, and headers make the difference.
    assert _scenario._paired([5.0, 5.0, 5.0], [4.95, 4.9, None]) == [5.0, 5.0, 5.0]
    # A rate that changes within a second is its mean.
    assert _scenario._paired([3.0, 3.0, 3.0], [3.0, 5.1, 3.0]) == [3.0, 5.1, 3.0]


def test_rates_of_a_path_with_jitter_are_those_that_it_carries():
    # Most neighbours on a path of 20 Mb/s are further apart than the link sent them, so they show 11 Mb/s. The
    # seconds at the beginning and the end have no queue all the time.
    pairs, queued = [11.0, 12.5, 12.5, 12.5, 11.25], [None, 20.0, 20.0, 20.0, None]
    assert _scenario._paired(pairs, queued) == pytest.approx([17.6, 20.0, 20.0, 20.0, 18.0])


@pytest.mark.parametrize("jitter", ["0 ms", "1 ms", "4 ms", "8 ms"])
def test_a_transfer_over_a_path_with_jitter_is_repeated(tmp_path, jitter):
    """The bound of a what-if: 5 % of goodput."""
    world = {
        "name": "jitter",
        "application": {"kind": "bulk", "bytes": "30 MB"},
        "paths": [
            {"name": "wifi", "rtt": "25 ms", "rate": "8 Mbit/s", "loss": "0.3 %"},
            {"name": "5g", "rtt": "60 ms", "rate": "20 Mbit/s", "jitter": jitter},
        ],
    }
    run = anabranch.run(world, pcapng=tmp_path / "one.pcapng")
    assert command(tmp_path / "one.pcapng", "--scenario", tmp_path / "again.toml").exit_code == 0
    again = anabranch.run(tmp_path / "again.toml")
    assert again.qos["goodput_mbps"] == pytest.approx(run.qos["goodput_mbps"], rel=0.05)


def test_a_link_is_busy_while_a_segment_waits():
    # The segment of tenth 50 came 2.1 s after its request, of which the path takes 0.1 s: it waited for 2 s.
    # Waiting of less than a quarter of the path's time is no queue.
    assert _scenario._busy({50: 2100.0, 60: 120.0}, 100.0) == set(range(30, 51))


def test_a_path_of_a_few_packets_a_second_has_that_rate():
    """125 bytes in each of four tenths of a second are 4 kbit/s; segments that far apart are no pairs."""
    down = [
        {"t_s": tick / 10, "stream": 0, "acked_bytes": 0, "pair_mbps": None, "throughput_mbps": 0.01}
        for tick in (0, 3, 6, 9, 12, 15, 18)
    ]
    times = dict.fromkeys((0, 3, 6, 9, 12, 15, 18), 500.0)
    seen = _scenario._Seen(down=down, times=times, begin=0.0, seconds=2, side="client")
    rates, _ = _scenario._rates(seen, 100.0, 1.0)
    # The queue of the last tenth of the second second does not show.
    assert rates == [pytest.approx(0.004), None]


def test_overflows_of_a_queue_are_no_loss_of_the_path(session):
    """The scenario's paths have no loss, 3 and 1.5 Mbit/s, and queues of 100 packets."""
    _, file, _ = session
    read = capture.read(file, progress=False)
    for path, rate in zip(capture.paths(read, capture.traced(read)), (3.0, 1.5), strict=True):
        assert path.queue_was_full
        assert path.queue_packets == pytest.approx(100, abs=3)
        assert path.loss < 1e-4
        assert path.filled == pytest.approx([rate] * len(path.filled), rel=0.02)


def test_a_log_s_chunks_have_the_sizes_and_times_of_their_responses(session):
    run, file, log = session
    read = capture.read(file, progress=False)
    merged = logs.merge(capture.traced(read), logs.read(log)).run()
    true = [row for row in run.rows("chunks") if not row["abandoned"]]
    found = merged.rows("chunks")[: len(true)]
    for name in ("track", "index", "bytes", "done_s"):
        # The last response was cut off, so it has no size in the capture.
        assert [row[name] for row in found][:-1] == [row[name] for row in true][:-1], name


def test_a_log_gives_the_film_of_a_scenario(session, tmp_path):
    run, file, log = session
    target = tmp_path / "again.toml"
    assert command(file, "--log", log, "--scenario", target).exit_code == 0
    application = tomllib.loads(target.read_text(encoding="utf-8"))["application"]
    assert application["kind"] == "adaptive"
    # The last byte that the client read came a little before the end.
    assert 59.0 < float(application["duration"].removesuffix(" s")) <= 60.0
    assert application["ladder"]["chunk"] == "10 s"
    playlist = (tmp_path / application["ladder"]["master"]).read_text(encoding="utf-8")
    rows = {row["height"]: row for row in run.rows("renditions") if row["track"] == "video"}
    sound = next(row for row in run.rows("renditions") if row["track"] == "audio")
    used = {row["rendition"] for row in run.rows("chunks") if row["track"] == "video"}
    for row in rows.values():
        # CMCD has whole kbit/s. The highest rendition is in the key `tb`, without its height.
        declared = 1000 * (round(row["bandwidth_bps"] / 1000) + round(sound["bandwidth_bps"] / 1000))
        has_size = f"x{row['height']}\n" in playlist
        assert has_size == (row["rendition"] in used), row["name"]
        assert (f"BANDWIDTH={declared}," in playlist) == (
            row["rendition"] in used or row["height"] == max(rows)
        )
    assert application["ladder"]["sound"] == "65000 bit/s"  # 81,250 bytes in 10 s
    again = anabranch.run(target)
    assert again.qos["goodput_mbps"] == pytest.approx(run.qos["goodput_mbps"], rel=0.05)
    true, found = (_sizes(one) for one in (run, again))
    both = true.keys() & found.keys()
    assert len(both) >= 5
    # The factors in the scenario have four digits.
    assert [found[one] for one in both] == pytest.approx([true[one] for one in both], rel=2e-3)


def _sizes(run):
    """Return the sizes of a run's whole chunks with pictures, by number and height."""
    heights = {row["rendition"]: row["height"] for row in run.rows("renditions") if row["track"] == "video"}
    return {
        (row["index"], heights[row["rendition"]]): row["bytes"]
        for row in run.rows("chunks")
        if row["track"] == "video" and row["done_s"] is not None
    }


def test_the_rule_of_a_log_of_cmcd_is_the_one_that_repeats_the_session(tmp_path):
    """VLC's rule stays at the top where hls.js's rule stays at the lowest of the two known renditions."""
    world = {
        "name": "film",
        "application": {"kind": "adaptive", "duration": "60 s", "ladder": "uq18-va"},
        "paths": [
            {"name": "dsl", "rtt": "30 ms", "rate": "6 Mbit/s", "loss": "0.2 %"},
            {"name": "lte", "rtt": "60 ms", "rate": "10 Mbit/s"},
        ],
    }
    run = anabranch.run(world, pcapng=tmp_path / "film.pcapng")
    text = cmcd.text(cmcd.reports(run.tables, session="x", version=1), "json")
    (tmp_path / "cmcd.json").write_text(text, encoding="utf-8")
    target = tmp_path / "again.toml"
    shown = command(tmp_path / "film.pcapng", "--log", tmp_path / "cmcd.json", "--scenario", target)
    assert shown.exit_code == 0, shown.output
    assert "agrees best with the session: `vlc-nearoptimal` with the player `vlc`" in shown.output
    assert "The next: `" in shown.output
    written = target.read_text(encoding="utf-8")
    assert "# The rule of adaptation agrees best with the session: `vlc-nearoptimal`" in written
    assert "is assumed" not in written
    again = anabranch.run(target)
    assert again.qos["goodput_mbps"] == pytest.approx(run.qos["goodput_mbps"], rel=0.05)


def test_renditions_of_chunks_are_compared_by_their_number():
    # The run's rates include 64 kbit/s of sound. Chunk 2 differs, chunk 3 is missing, and chunk 4 is too many.
    session = {0: 959e3, 1: 19.9e6, 2: 19.9e6, 3: 19.9e6}
    run = {0: 1023e3, 1: 19.964e6, 2: 1023e3, 4: 19.964e6}
    assert _rule.compared(session, run, [1023e3, 19.964e6]) == (2, 5)


def agreement(rule, same, apart):
    return _rule.Agreement(rule=rule, player="vlc", same=same, chunks=10, apart=apart)


def test_the_best_rule_has_the_most_equal_renditions_and_then_the_nearest_goodput():
    one, two, three = agreement("a", 7, 0.0), agreement("b", 9, 0.08), agreement("c", 9, -0.06)
    found = _rule.ranked([one, two, three])
    assert (found.best, found.next, found.fault) == (three, two, None)
    # Goodputs within 5 % are equal: the first rule is taken.
    equal = _rule.ranked([agreement("a", 9, 0.04), agreement("b", 9, 0.01)])
    assert equal.best.rule == "a"
    assert "The next agrees equally: `b`" in " ".join(equal.sentences())


@pytest.mark.parametrize(("same", "apart"), [(7, 0.0), (10, 0.11)])
def test_a_session_that_no_rule_repeats_is_warned_of(same, apart):
    # Less than 80 % of the chunks have the same rendition, or goodput differs by more than 10 %.
    found = _rule.ranked([agreement("a", same, apart)])
    assert found.fault is not None
    assert "No built-in rule of adaptation repeats the session" in next(found.sentences())


def test_a_log_of_vlc_gives_the_film_of_a_scenario(session, tmp_path):
    """VLC lists the segments of the renditions, and logs each request. Sizes are in the capture alone."""
    run, file, _ = session
    asked = [row for row in run.rows("chunks") if row["track"] == "video"]
    lines = ["0.000 adaptive debug: BaseAdaptationSet default_id#0"]
    for rung in (row for row in run.rows("renditions") if row["track"] == "video"):
        lines.append(f"0.000 adaptive debug: Representation http://h/uq18-jp/{rung['name']}/index.m3u8")
        lines += [
            f"0.000 adaptive debug: Segment #{row['index']} url=http://h/uq18-jp/{rung['name']}/{row['index']}.ts "
            "duration 10000000"
            for row in asked
        ]
    lines += [
        f"{row['t_s']:.3f} adaptive debug: Retrieving http://h/{row['resource']} @0"
        for row in run.rows("requests")
    ]
    log = tmp_path / "vlc.log"
    log.write_text("\n".join(lines), encoding="utf-8")
    target = tmp_path / "again.toml"
    shown = command(file, "--log", log, "--scenario", target, "--report", tmp_path / "a.html")
    assert shown.exit_code == 0, shown.output
    application = tomllib.loads(target.read_text(encoding="utf-8"))["application"]
    assert (application["abr"], application["player"]["model"]) == ("vlc-nearoptimal", "vlc")
    playlist = (tmp_path / application["ladder"]["master"]).read_text(encoding="utf-8")
    used = {row["rendition"] for row in asked[:-1]}
    assert playlist.count("#EXT-X-STREAM-INF") == len(used)
    # The mean rate of the last rendition, of which the most chunks were requested.
    most = [row for row in asked[:-1] if row["rendition"] == max(used)]
    mean = int(8 * sum(row["bytes"] for row in most) / sum(row["duration_s"] for row in most))
    assert f"AVERAGE-BANDWIDTH={mean}\n" in playlist
    anabranch.run(target)


def test_a_known_ladder_repeats_the_session(session, tmp_path):
    """The bounds of a what-if: 5 % of goodput, and 2 stalls."""
    run, file, _ = session
    target = tmp_path / "again.toml"
    assert command(file, "--ladder", "uq18-jp", "--scenario", target).exit_code == 0
    again = anabranch.run(target)
    assert again.qos["goodput_mbps"] == pytest.approx(run.qos["goodput_mbps"], rel=0.05)
    assert abs(again.qoe["buffer_underflows"] - run.qoe["buffer_underflows"]) <= 2


def test_a_film_without_chunks_is_a_transfer(session, tmp_path):
    _, file, _ = session
    target = tmp_path / "again.toml"
    assert command(file, "--scenario", target).exit_code == 0
    assert tomllib.loads(target.read_text(encoding="utf-8"))["application"]["kind"] == "bulk"
    edited = target.read_text(encoding="utf-8") + "# edited by hand\n"
    target.write_text(edited, encoding="utf-8")
    refused = command(file, "--scenario", target)
    assert refused.exit_code == 2
    assert f"the file exists: `{target}`" in refused.stderr
    assert "--force overwrites it" in refused.stderr
    assert target.read_text(encoding="utf-8") == edited
    assert command(file, "--scenario", target, "--force").exit_code == 0
    assert "edited" not in target.read_text(encoding="utf-8")


def test_pauses_of_a_session_without_a_known_film_are_named(tmp_path):
    # The paths carry five times the film's highest rate, so the player waits most of the time.
    keys = {**_KEYS, "paths.wifi.rate": "20 Mbit/s"}
    anabranch.run("adaptive-two-paths", set=keys, pcapng=tmp_path / "film.pcapng")
    target = tmp_path / "again.toml"
    assert command(tmp_path / "film.pcapng", "--scenario", target).exit_code == 0
    assert "# The session had pauses of" in target.read_text(encoding="utf-8")


def test_ladders_that_cannot_be_used_are_refused(session, tmp_path):
    _, file, _ = session
    alone = command(file, "--ladder", "uq18-jp")
    assert alone.exit_code == 2
    assert "give `--scenario FILE.toml`" in alone.output
    unknown = command(file, "--ladder", "uq18-jq", "--scenario", tmp_path / "again.toml")
    assert unknown.exit_code == 2
    assert "no such ladder" in unknown.output
    assert not (tmp_path / "again.toml").exists()


SILENT = {
    "name": "silent",
    "application": {"kind": "bulk", "bytes": "24 MB"},
    "paths": [
        {"name": "wifi", "rtt": "20 ms", "rate": "12 Mbit/s", "loss": "0.3 %"},
        {"name": "lte", "rtt": "60 ms", "rate": "6 Mbit/s"},
    ],
}
CUT = {"kind": "silent", "path": "wifi", "at": "4 s", "lasting": "3 s"}


@pytest.mark.parametrize("side", ["client", "server"])
def test_an_outage_of_a_path_is_one_of_the_scenario(tmp_path, side):
    world = {**SILENT, "handoffs": [CUT]}
    run = anabranch.run(world, pcapng=tmp_path / "cut.pcapng", pcapng_at=side)
    assert command(tmp_path / "cut.pcapng", "--scenario", tmp_path / "again.toml").exit_code == 0
    text = tomllib.loads((tmp_path / "again.toml").read_text(encoding="utf-8"))
    (cut,) = text["handoffs"]
    assert (cut["kind"], cut["path"]) == ("silent", "path0")
    begin_s, lasting_s = float(cut["at"].removesuffix(" s")), float(cut["lasting"].removesuffix(" s"))
    assert begin_s == pytest.approx(4.0, abs=0.15)
    # The path was up again after 3 s, but the sender had doubled the time to its next attempt.
    assert 1.0 < lasting_s < 3.0
    again = anabranch.run(tmp_path / "again.toml")
    assert again.qos["goodput_mbps"] == pytest.approx(run.qos["goodput_mbps"], rel=0.05)


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_transfer_has_the_bytes_of_the_session(tmp_path, side):
    # The capture at the server ends before the last acknowledgements reach it.
    anabranch.run(
        {**SILENT, "application": {"kind": "bulk", "bytes": "6 MB"}},
        pcapng=tmp_path / "one.pcapng",
        pcapng_at=side,
    )
    assert command(tmp_path / "one.pcapng", "--scenario", tmp_path / "again.toml").exit_code == 0
    text = tomllib.loads((tmp_path / "again.toml").read_text(encoding="utf-8"))
    assert text["application"]["bytes"] == "6000000 B"


@pytest.mark.parametrize("side", ["client", "server"])
def test_an_idle_path_has_no_outage(tmp_path, side):
    # A film of 60 s in chunks over a fast path: it is silent for seconds between chunks.
    world = {
        **SILENT,
        "application": {
            "kind": "adaptive",
            "ladder": [{"height": 240, "bitrate": "300 kbit/s"}],
            "duration": "60 s",
        },
        "transport": {"scheduler": "min-rtt"},
    }
    for name, given in (("film", world), ("bulk", SILENT)):
        anabranch.run(given, pcapng=tmp_path / f"{name}.pcapng", pcapng_at=side)
        assert command(tmp_path / f"{name}.pcapng", "--scenario", tmp_path / f"{name}.toml").exit_code == 0
        assert "handoffs" not in (tmp_path / f"{name}.toml").read_text(encoding="utf-8")


def test_a_session_ends_where_its_log_ends(session, tmp_path):
    """The log is cut after 25 s of the session of 60 s, as by a viewer who stopped."""
    _, file, log = session
    lines = [line for line in log.read_text(encoding="utf-8").splitlines() if json.loads(line)["t_s"] <= 25.0]
    (tmp_path / "cut.json").write_text("\n".join(lines), encoding="utf-8")
    read = capture.read(file, progress=False)
    merged = logs.merge(capture.traced(read), logs.read(tmp_path / "cut.json"))
    run = merged.run()
    capture.write_scenario(tmp_path / "made.toml", read, merged, run)
    text = (tmp_path / "made.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)["application"]
    last_s = json.loads(lines[-1])["t_s"] + run.summary["log"]["offset_s"]
    assert found["duration"] == f"{last_s:.3f} s"
    # Seven chunks of 10 s were requested by then, and the film goes on.
    assert found["ladder"]["length"] == "190 s"
    assert "Verdicts about the film" in text


@pytest.mark.parametrize(("log_end_s", "end_s"), [(85.0, 85.0), (95.0, 100.0), (130.0, 100.0)])
def test_a_log_that_ends_just_before_the_capture_does_not_end_the_session(log_end_s, end_s):
    run = SimpleNamespace(summary={"duration_s": 100.0, "log": {"end_s": log_end_s}})
    assert _film._end_s(run) == end_s


@pytest.mark.parametrize(("last_s", "has_stopped"), [(50.0, True), (69.0, True), (71.0, False)])
def test_a_player_that_requests_nothing_for_three_chunks_has_the_whole_film(last_s, has_stopped):
    run = SimpleNamespace(summary={"duration_s": 100.0, "log": {"end_s": 100.0}})
    chunks = [{"t_s": time_s, "duration_s": 10.0} for time_s in (0.0, last_s)]
    assert _film._has_stopped(run, chunks) == has_stopped
    # Without a log, the chunks come from a capture, which may lack some.
    assert not _film._has_stopped(SimpleNamespace(summary={"duration_s": 100.0}), chunks)


def test_the_first_request_without_su_is_the_latest_start(session):
    _, file, log = session
    done = CliRunner().invoke(app, ["log", str(log)])
    assert "at the latest. Stalled" in done.stdout
    done = command(file, "--log", log)
    assert " s at the latest." in done.stdout


@pytest.mark.parametrize(
    ("words", "kind", "nearest"),
    [
        (["fiml.pcapng"], "capture", "film.pcapng"),
        (["film.pcapng", "fiml.pcapng"], "capture", "film.pcapng"),
        (["film.pcapng", "--log", "cmdc.json"], "log", "cmcd.json"),
    ],
)
def test_a_missing_file_has_the_nearest_name_as_a_hint(session, monkeypatch, words, kind, nearest):
    monkeypatch.chdir(session[1].parent)
    shown = command(*words)
    assert shown.exit_code == 2
    assert shown.stderr == f"error: no such {kind}: `{words[-1]}`\n  hint: did you mean `{nearest}`?\n"


def test_the_table_marks_how_round_trip_times_were_measured(session, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # a narrower table is split
    shown = command(session[1])
    header, *rows = [line for line in shown.stdout.splitlines() if line.startswith("  ")][:3]
    at = header.index("RTT from") + len("RTT from")
    # A client's own data are its requests: at least five give a median, else its timestamps do.
    found = [path.rtt_from for path in capture.sessions(capture.read(session[1], progress=False))[0].paths]
    assert [row[:at].split()[-1] for row in rows] == found


def test_the_page_of_a_capture_and_its_log_has_what_both_show(session, tmp_path):
    """CMCD has no positions in the film, so the page cannot draw which rendition was on the screen."""
    _, file, log = session
    page = tmp_path / "both.html"
    assert command(file, "--log", log, "--report", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "Chunks on their way" in text
    assert "Player buffer" in text
    assert "Rendition on the screen" not in text
    assert text.count("is aligned by the first request of both files") == 1
    # Facts are not in the colour of warnings.
    assert '<p class="lead">Taken at the client' in text
    assert "bytes received in order" in text
    names = {row["name"] for row in logs.read_log(log).rows("renditions")}
    # A label has room for 60 pixels.
    assert max(map(len, names)) <= 10
