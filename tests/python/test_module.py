"""The whole program with the real simulator. The tests are skipped with a message if it is not built."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

import anabranch
from anabranch import report
from anabranch.media.make import make_film
from anabranch.scenario import shipped

pytestmark = pytest.mark.module

BULK = {
    "name": "bulk",
    "application": {"kind": "bulk", "bytes": "2 MB"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "0.5 %"},
        {"name": "lte", "rtt": "100 ms", "rate": "5 Mbit/s"},
    ],
}
FILM = {**BULK, "application": {"film": "papers-film", "duration": "20 s"}}


def test_equal_inputs_give_equal_bytes():
    first, second = anabranch.run(FILM), anabranch.run(FILM)
    assert first.digest == second.digest
    assert first.tables == second.tables
    assert anabranch.run(FILM, seed=2).digest != first.digest
    assert anabranch.run(FILM, run=1).digest != first.digest


@pytest.mark.parametrize("name", shipped.names())
def test_every_shipped_scenario_runs(name):
    settings = {"application.film": "papers-film", "application.duration": "20 s"}
    if name.startswith("adaptive"):
        settings = {"application.duration": "20 s"}
    short = settings if name != "bulk-two-paths" else {"application.bytes": "5 MB"}
    expect = {} if name == "bulk-two-paths" else {"expect": {}}
    run = anabranch.run(name, set={**short, **expect})
    assert run.qos["goodput_mbps"] > 0
    json.dumps(run.to_json(), allow_nan=False)


def test_bulk_reads_every_byte():
    result = anabranch.run(BULK)
    assert result.rows("connections")[0]["bytes_read"] == 2_000_000
    assert result.rows("connections")[0]["finished"]
    assert 4.0 < result.qos["goodput_mbps"] < 10.0


LONG = {**BULK, "application": {"kind": "bulk", "duration": "10 s"}}


def bytes_by_path(result):
    found = {}
    for row in result.rows("subflows"):
        found[row["path"]] = found.get(row["path"], 0) + row["bytes"]
    return found


def test_a_backup_path_carries_nothing_until_the_regular_one_is_removed():
    paths = [{**path, "backup": path["name"] == "lte"} for path in BULK["paths"]]
    quiet = bytes_by_path(anabranch.run({**LONG, "paths": paths}))
    assert (quiet["wifi"] > 4_000_000, quiet["lte"]) == (True, 0)
    lost = {"at": "5 s", "path": "wifi", "state": "removed"}
    result = anabranch.run({**LONG, "paths": paths, "events": [lost]})
    assert bytes_by_path(result)["lte"] > 2_000_000
    assert 0.1 < result.qos["max_read_gap_s"] < 1.0


@pytest.mark.parametrize("state", ["down", "link-down", "removed"])
def test_a_lost_path_carries_nothing_and_something_after_its_return(state):
    lost = {"at": "3 s", "path": "wifi", "state": state}
    gone = anabranch.run({**LONG, "events": [lost]})
    whole = anabranch.run({**LONG, "events": [lost, {"at": "5 s", "path": "wifi", "state": "up"}]})
    assert bytes_by_path(gone)["wifi"] < 3 * 5e6 / 8
    assert bytes_by_path(whole)["wifi"] > bytes_by_path(gone)["wifi"] + 500_000
    joined = [row["path"] for row in whole.rows("subflows")]
    assert joined == ["wifi", "lte", "wifi"] if state == "removed" else ["wifi", "lte"]
    assert (whole.rows("connections")[0]["refused_packets"] > 0) == (state != "down")


def test_paced_reads_at_its_rate():
    paced = {**BULK, "application": {"kind": "paced", "rate": "2 Mbit/s", "duration": "10 s"}}
    assert anabranch.run(paced).qos["goodput_mbps"] == pytest.approx(2.0, rel=0.05)


def test_cross_traffic_takes_its_share_and_is_reported_separately():
    crossed = {**LONG, "cross_traffic": [{"name": "others", "path": "wifi", "count": 2, "start": "5 s"}]}
    alone, beside = anabranch.run(LONG), anabranch.run(crossed)
    assert alone.rows("cross_traffic") == []
    rows = beside.rows("cross_traffic")
    assert [(row["name"], row["fate"]) for row in rows] == [("others", "running")] * 2
    assert rows[0]["start_s"] == 5.0
    assert 5.0 < rows[1]["start_s"] < 6.0
    assert 1.0 < beside.qos["cross_traffic_mbps"] < 5.0
    assert {row["flow"] for row in beside.rows("cross_samples")} == {0, 1}
    assert bytes_by_path(beside)["wifi"] < bytes_by_path(alone)["wifi"] - 500_000
    assert len(beside.rows("subflows")) == 2


def test_cross_traffic_elsewhere_changes_no_packet_of_a_capture(tmp_path):
    elsewhere = {
        "links": [{"name": "core", "rate": "5 Mbit/s"}],
        "cross_traffic": [{"links": ["core"], "count": 3}],
    }
    anabranch.run(LONG, pcapng=tmp_path / "alone")
    beside = anabranch.run({**LONG, **elsewhere}, pcapng=tmp_path / "beside")
    assert beside.qos["cross_traffic_mbps"] > 4.0
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "beside").read_bytes()


def test_cross_traffic_rows_report_the_fate_of_each_flow():
    kinds = [
        {"kind": "udp", "rate": "1 Mbit/s", "duration": "2 s"},
        {"kind": "on-off", "rate": "1 Mbit/s", "on": "200 ms", "off": "300 ms", "size": "500 B"},
        {"kind": "poisson", "rate": "9 Mbit/s"},
        {"kind": "transfers", "gap": "500 ms", "bytes": "20 kB", "congestion": "reno"},
    ]
    run = anabranch.run(
        {**LONG, "cross_traffic": [{"name": kind["kind"], "path": "wifi"} | kind for kind in kinds]}
    )
    rows = {
        name: [row for row in run.rows("cross_traffic") if row["name"] == name]
        for name in ("udp", "on-off", "poisson")
    }
    assert [(row["datagrams_sent"], row["end_s"], row["fate"]) for row in rows["udp"]] == [
        (167, 2.0, "stopped")
    ]
    (burst,), (poisson,) = rows["on-off"], rows["poisson"]
    assert burst["datagrams_sent"] > 0
    assert burst["congestion"] == "none"
    # More than the path carries.
    assert poisson["datagrams_lost"] > 0.2 * poisson["datagrams_sent"]
    under_way = [
        row["datagrams_sent"] - row["datagrams_delivered"] - row["datagrams_lost"] for row in (burst, poisson)
    ]
    assert all(0 <= count < 150 for count in under_way)
    transfers = [row for row in run.rows("cross_traffic") if row["name"] == "transfers"]
    assert len(transfers) > 5
    assert all(row["bytes_read"] == 20_000 for row in transfers if row["fate"] == "finished")
    group = next(group for group in run.qos["cross_traffic"] if group["name"] == "poisson")
    assert group["datagrams_lost"] == poisson["datagrams_lost"]


def test_too_many_transfers_are_the_gap_s_fault():
    many = {
        **LONG,
        "cross_traffic": [{"path": "wifi", "kind": "transfers", "gap": "0.5 ms", "bytes": "1 kB"}],
    }
    with pytest.raises(anabranch.ScenarioError, match="10000 transfers") as caught:
        anabranch.run(many)
    assert caught.value.faults[0].key == "cross_traffic.0.gap"


def test_a_refused_parameter_is_the_cross_traffic_s_fault():
    crossed = {
        **LONG,
        "cross_traffic": [{"path": "lte"}, {"path": "wifi", "congestion": {"name": "reno", "x": 1}}],
    }
    with pytest.raises(anabranch.ScenarioError, match="x") as caught:
        anabranch.run(crossed)
    assert caught.value.faults[0].key == "cross_traffic.1.congestion.x"


def test_the_tables_have_the_columns_of_the_contract():
    tables = anabranch.run(FILM).tables
    assert {"client", "connect_s", "duration_s", "bytes_read", "finished"} <= set(tables["connections"])
    assert {"t_s", "path", "cwnd_segments", "srtt_ms", "bytes_acked"} <= set(tables["samples"])
    assert {"index", "pts_s", "fate", "why", "due_s", "shown_s"} <= set(tables["frames"])
    assert set(tables["frames"]["fate"]) <= {"displayed", "discarded", "flushed", "unplayed"}
    assert set(tables["playback"]["event"]) <= {"full", "start", "underflow", "resume", "end"}
    for table in tables.values():
        assert len({len(column) for column in table.values()}) <= 1


def test_a_film_of_one_s_own(tmp_path):
    path = tmp_path / "my film & more.mp4"
    make_film(path, duration_s=2.0, rate_bps=900_000, size=(320, 180))
    result = anabranch.run(FILM, set={"application.film": str(path)})
    assert result.qoe["frames"]["total"] == 60
    assert result.qoe["finished"]


@pytest.mark.parametrize("kind", ["scheduler", "congestion"])
def test_every_plug_in_carries_a_stream(kind):
    from anabranch.plugins import catalogue

    names = catalogue().schedulers if kind == "scheduler" else catalogue().congestion
    for name in names:
        assert anabranch.run(BULK, **{kind: name}).rows("connections")[0]["finished"], name


def test_unknown_parameters_are_refused():
    with pytest.raises(anabranch.ScenarioError, match="no-such-parameter"):
        anabranch.run(BULK, congestion={"name": "reno", "no-such-parameter": 1.0})


def test_an_interrupt_ends_the_run():
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        anabranch.run(BULK, progress=interrupt)


def test_an_unwritable_capture_is_the_user_s_fault(tmp_path):
    with pytest.raises(anabranch.ScenarioError, match="cannot write the capture"):
        anabranch.run(BULK, pcapng=tmp_path / "nowhere" / "x.pcapng")


def test_a_report_of_a_real_run():
    run = anabranch.run(FILM)
    assert len(report.build(run)) < 2_000_000


@pytest.mark.tshark
def test_tshark_reads_the_capture(tmp_path):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    capture = tmp_path / "run.pcapng"
    anabranch.run({**BULK, "application": {"kind": "bulk", "bytes": "200 kB"}}, pcapng=capture)

    def tshark(*arguments):
        command = ["tshark", "-r", str(capture), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert tshark("-Y", "_ws.malformed", "-T", "fields", "-e", "frame.number") == []
    assert set(tshark("-T", "fields", "-e", "mptcp.stream")) == {"0"}
    assert len(set(tshark("-T", "fields", "-e", "frame.interface_id"))) == 2


@pytest.mark.slow
@pytest.mark.tshark
def test_tshark_reads_a_withdrawn_address_and_its_return(tmp_path):
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    capture = tmp_path / "run.pcapng"
    events = [{"at": f"{at} s", "path": "wifi", "state": state} for at, state in ((1, "removed"), (2, "up"))]
    paths = [{**path, "backup": path["name"] == "lte"} for path in BULK["paths"]]
    anabranch.run({**BULK, "paths": paths, "events": events}, pcapng=capture)

    def tshark(*arguments):
        command = ["tshark", "-r", str(capture), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def times(subtype):
        return tshark(
            "-Y", f"tcp.options.mptcp.subtype == {subtype}", "-T", "fields", "-e", "frame.time_epoch"
        )

    assert tshark("-Y", "_ws.malformed", "-T", "fields", "-e", "frame.number") == []
    assert [float(time) % 100 for time in times(4)] == [1.0], "REMOVE_ADDR, once"
    assert len(times(1)) == 2 * 3, "the join of the backup and that of the return"
    assert set(tshark("-T", "fields", "-e", "mptcp.stream")) == {"0"}


def test_a_session_that_was_given_up_is_reported():
    path = {"name": "a", "rtt": "20 ms", "rate": "1 Mbit/s"}
    short = {
        "name": "short",
        "application": {"kind": "bulk", "bytes": "1 MB"},
        "time_limit": "2 s",
        "paths": [path],
    }
    result = anabranch.run(short)
    (note,) = result.notes
    read = result.tables["connections"]["bytes_read"][0]
    assert 0 < read < 10**6
    assert note == f"The session had not finished when the simulation ended: {read:,} B were read."
    assert anabranch.run({**short, "time_limit": "60 s"}).notes == ()
