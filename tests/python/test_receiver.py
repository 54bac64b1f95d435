"""Data that a receiver held back: computed by hand, and over recorded runs."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch
from anabranch.metrics._pieces import cut, union_s
from anabranch.metrics._receiver import receiver


def columns(names, *given):
    return {name: [row[place] for row in given] for place, name in enumerate(names.split())}


def test_stretches_are_cut_where_any_begins_or_ends():
    # 0 to 10, again 5 to 15, and 20 to 30: nothing covers 15 to 20.
    pieces = cut(np.array([0, 5, 20]), np.array([10, 10, 10]), np.array([2.0, 1.0, 0.5]))
    assert pieces.start.tolist() == [0, 5, 10, 15, 20]
    assert pieces.size.tolist() == [5, 5, 5, 5, 10]
    assert pieces.first.tolist() == [2, 1, 1, np.inf, 0.5]
    assert pieces.last.tolist() == [2, 2, 1, -np.inf, 0.5]
    assert pieces.source.tolist() == [0, 1, 1, -1, 2]
    assert pieces.count.tolist() == [1, 2, 1, 0, 1]
    # All wait for the first piece, and the data behind the hole for ever.
    assert pieces.ready.tolist() == [2, 2, 2, np.inf, np.inf]
    assert pieces.awaited.tolist() == [0, 0, 0, 3, 3]
    assert pieces.at(np.array([0, 7, 29])).tolist() == [0, 1, 4]
    assert np.isinf(cut(np.array([1]), np.array([1]), np.array([0.0])).ready).all(), "byte 0 never came"


def test_intervals_that_overlap_count_once():
    assert union_s(np.array([3.0, 0.0, 1.0]), np.array([4.0, 2.0, 1.5])) == 3
    assert union_s(np.array([1.0]), np.array([1.0])) == 0


LEFT = "t_s client connection subflow path position data_position bytes cwnd_segments in_flight_segments nearest nearest_cwnd_segments"
CAME = "t_s client connection subflow position bytes"
HELD = "t_s client connection in_order_bytes unread_bytes ahead_bytes subflow_bytes window_bytes limit_bytes"

#: Two subflows. On 0 the second segment is lost and comes at 0.9; on 1 the only one takes half a second.
TABLES = {
    "connections": {"client": [0], "duration_s": [2.0], "bytes_read": [4000], "max_read_gap_s": [0.1], "reinjected_bytes": [0]},
    "departures": columns(
        LEFT,
        (0.0, 0, 0, 0, "a", 0, 0, 1000, 10, 1, 0, 10),
        (0.1, 0, 0, 1, "b", 0, 1000, 1000, 30, 1, 0, 10),
        (0.1, 0, 0, 0, "a", 1000, 2000, 1000, 10, 2, 0, 10),
        (0.2, 0, 0, 0, "a", 2000, 3000, 1000, 10, 3, 0, 10),
        (0.8, 0, 0, 0, "a", 1000, 2000, 1000, 5, 1, 0, 5),
    ),
    "arrivals": columns(
        CAME,
        (0.1, 0, 0, 0, 0, 1000),
        (0.3, 0, 0, 0, 2000, 1000),
        (0.6, 0, 0, 1, 0, 1000),
        (0.9, 0, 0, 0, 1000, 1000),
    ),
    "receivers": columns(
        HELD,
        (0.1, 0, 0, 1000, 0, 0, 0, 9000, 4000),
        (0.4, 0, 0, 1000, 0, 0, 1000, 3100, 4000),
        (0.7, 0, 0, 2000, 0, 0, 1000, 5000, 4000),
    ),
}  # fmt: skip


def test_waits_are_split_between_subflow_and_stream():
    whole, by_subflow = receiver(TABLES)
    # Byte 3000 on: came at 0.3, waited on its subflow until 0.9. All before 3000 was read as it came.
    assert whole["subflow_wait_ms"] == pytest.approx(600 / 4)
    assert whole["stream_wait_ms"] == 0
    assert (whole["held_s"], whole["held_for_repair_s"]) == (0.6, 0.6)
    assert whole["reordered_share"] == 0
    # The paths are a, b, a, a: two changes in two seconds. b is used while a, which has the lower RTT, has a
    # window a third of b's.
    assert whole["path_changes_per_s"] == 1
    assert (whole["off_nearest_share"], whole["off_nearest_low_share"]) == (0.25, 1)
    assert (whole["buffer_waiting_share_max"], whole["buffer_waiting_bytes_max"]) == (0.25, 1000)
    # At 0.4 and 0.7 s something waits and nothing is unread.
    assert whole["reader_blocked_s"] == pytest.approx(0.2)
    # At 0.4 s 3,000 bytes beyond what is in order are sent, of 3,100: within two segments of the edge.
    assert whole["window_limited_s"] == pytest.approx(0.1)
    assert by_subflow[0]["latency_ms_median"] == pytest.approx(100)
    assert by_subflow[0]["latency_repaired_ms_median"] == pytest.approx(800)
    assert by_subflow[1]["latency_ms_median"] == pytest.approx(500)
    assert by_subflow[1]["latency_repaired_ms_median"] is None
    assert by_subflow[0]["out_of_order_bytes_mean"] == pytest.approx(1000 * 0.6 / 2)


def test_new_bytes_sent_during_recovery_are_counted():
    """Subflow 0 is in Recovery at 0.1 and in Loss at 0.2 s; 1 is in Recovery at 0 s and not at 0.2 s any more."""
    samples = columns(
        "t_s client subflow state",
        (0.0, 0, 0, "Open"),
        (0.0, 0, 1, "Recovery"),
        (0.1, 0, 0, "Recovery"),
        (0.2, 0, 0, "Loss"),
        (0.2, 0, 1, "Open"),
        (0.3, 0, 0, "Open"),
        (0.7, 0, 0, "Recovery"),
        (0.9, 0, 0, "Recovery"),
    )
    _, by_subflow = receiver({**TABLES, "samples": samples})
    # The segment of 0.1 s; the next sample after that of 0.2 s says Open, and that of 0.8 s is sent again.
    assert (by_subflow[0]["repair_new_bytes"], by_subflow[1]["repair_new_bytes"]) == (1000, 0)
    assert "repair_new_bytes" not in receiver(TABLES)[1][0]


def test_the_share_of_a_session_in_which_a_subflow_is_used():
    """The bytes sent in the first, third and fourth of four whole stretches of 10 s, and in all of them."""
    at = {0: (1, 5, 22, 38, 41), 1: (3, 12, 29.9, 30)}
    rows = [(t, 0, 0, one, "p", 0, 0, 1, 1, 1, 0, 1) for one, times in at.items() for t in times]
    rows = [(*row[:5], place, place, *row[7:]) for place, row in enumerate(sorted(rows))]
    came = [(t + 0.1, 0, 0, one, place, 1) for place, (t, _, _, one, *_) in enumerate(rows)]
    _, by_subflow = receiver(
        {
            "connections": {**TABLES["connections"], "duration_s": [60.0]},
            "departures": columns(LEFT, *rows),
            "arrivals": columns(CAME, *came),
        }
    )
    assert (by_subflow[0]["used_share"], by_subflow[1]["used_share"]) == (0.75, 1)
    assert receiver(TABLES)[1][0]["used_share"] is None


def without_loss(**more):
    """Return the same trace without the loss: subflow 0 delivers bytes 2000 to 4000 at 0.2 and 0.3 s."""
    left = {name: values[:4] for name, values in TABLES["departures"].items()}
    came = columns(
        CAME,
        (0.1, 0, 0, 0, 0, 1000),
        (0.2, 0, 0, 0, 1000, 1000),
        (0.3, 0, 0, 0, 2000, 1000),
        (0.6, 0, 0, 1, 0, 1000),
    )
    return {**TABLES, "departures": left, "arrivals": came, **more}


def test_reordering_between_subflows_counts_as_stream_wait():
    whole, by_subflow = receiver(without_loss())
    assert whole["subflow_wait_ms"] == 0
    assert whole["stream_wait_ms"] == pytest.approx((400 + 300) / 4)
    assert whole["reordered_share"] == 0.5
    assert (whole["held_s"], whole["held_for_repair_s"]) == (pytest.approx(0.4), 0)
    assert (by_subflow[0]["awaited_share"], by_subflow[1]["awaited_share"]) == (0, 1)


@pytest.mark.parametrize(
    ("tables", "at_s", "found"),
    [
        (without_loss(), 0.5, (1, 0)),
        (without_loss(), 0.15, (0, 0)),  # nothing waits
        (without_loss(), 0.25, (0, 0)),  # 1,000 bytes are less than a tenth of a second of film
        (TABLES, 0.5, (0, 0)),  # as here
    ],
)
def test_underflow_is_attributed_to_reordering_or_repair(tables, at_s, found):
    # 16,000 bytes a second: a tenth of it is 1,600.
    film = {"frames": {"size": [8000, 8000], "pts_s": [0.0, 1.0]}}
    film["playback"] = {"event": ["start", "underflow"], "t_s": [0.05, at_s]}
    whole, _ = receiver({**tables, **film})
    assert (whole["underflows_reordered"], whole["underflows_repaired"]) == found


def test_a_connection_that_was_given_up_holds_nothing_any_more():
    """Its second segment never came, and everything after 0.4 s came over another connection."""
    first = {name: values[:4] for name, values in TABLES["departures"].items()}
    later = (1.0, 0, 1, 2, "a", 0, 0, 1000, 10, 1, 2, 10)
    departures = {name: [*values, one] for (name, values), one in zip(first.items(), later, strict=True)}
    arrivals = columns(
        CAME,
        (0.1, 0, 0, 0, 0, 1000),
        (0.3, 0, 0, 0, 2000, 1000),
        (0.4, 0, 0, 1, 0, 1000),
        (1.1, 0, 1, 2, 0, 1000),
    )
    film = {
        "frames": {"size": [4000, 4000], "pts_s": [0.0, 1.0]},
        "playback": {"event": ["underflow"], "t_s": [1.5]},
    }
    seen = {**TABLES, "departures": departures, "arrivals": arrivals, **film}
    whole, by_subflow = receiver(seen)
    assert whole["held_s"] == pytest.approx(0.1), "from 0.3 to 0.4 s"
    assert (whole["underflows_reordered"], whole["underflows_repaired"]) == (0, 0)
    assert by_subflow[0]["out_of_order_bytes_mean"] == pytest.approx(1000 * 0.1 / 2)
    assert whole["window_limited_s"] == pytest.approx(0.1), "the sample at 0.4 s, and none after it"


def test_an_underflow_before_a_repair_is_put_down_to_it():
    film = {"frames": {"size": [4000, 4000], "pts_s": [0.0, 1.0]}}
    film["playback"] = {"event": ["underflow"], "t_s": [0.7]}
    whole, _ = receiver({**TABLES, **film})
    assert (whole["underflows_reordered"], whole["underflows_repaired"]) == (0, 1)


def test_without_a_record_there_is_nothing_to_tell():
    assert receiver({"connections": TABLES["connections"]}) is None


def bulk(**more):
    return {
        "name": "bulk",
        "record": ["receiver"],
        "application": {"kind": "bulk", "bytes": "3 MB"},
        "transport": {"scheduler": "min-rtt", "congestion": "reno"},
        "paths": [{"name": "near", "rtt": "40 ms", "rate": "5 Mbit/s", **more}],
    }


@pytest.mark.module
def test_on_one_path_a_repair_takes_a_round_trip_more():
    world = bulk(loss="0.5 %", queue="20 packets")
    run = anabranch.run(world)
    inside, (flow,) = run.qos["receiver"], run.qos["subflows"]
    assert inside["stream_wait_ms"] == 0
    assert inside["held_for_repair_s"] == inside["held_s"] > 0
    # Repaired data crosses the path three times, a round trip of 40 ms more than other data.
    assert flow["latency_repaired_ms_median"] > flow["latency_ms_median"] + 40
    assert anabranch.run({**world, "record": []}).digest == run.digest


@pytest.mark.module
def test_spdx_sends_no_new_data_on_recovering_subflows():
    """Of a far path: its repairs last for several samples."""
    world = bulk()
    world["application"]["bytes"] = "10 MB"
    world["paths"].append(
        {"name": "far", "rtt": "300 ms", "rate": "5 Mbit/s", "loss": "0.5 %", "queue": "200 packets"}
    )
    far = {}
    for scheduler in ("spd", "spdx"):
        world["transport"]["scheduler"] = scheduler
        far[scheduler] = anabranch.run(world).qos["subflows"][1]
        assert far[scheduler]["recovery_s"] > 0.5
    assert far["spd"]["repair_new_bytes"] > 20_000
    assert far["spdx"]["repair_new_bytes"] == 0


@pytest.mark.module
def test_run_prints_held_data_and_the_awaited_paths(tmp_path):
    from typer.testing import CliRunner

    from anabranch.cli._app import app

    file = tmp_path / "two.toml"
    file.write_text(
        'name = "two"\nrecord = ["receiver"]\n[application]\nkind = "paced"\nrate = "2 Mbit/s"\n'
        'duration = "5 s"\n[transport]\nscheduler = "round-robin"\n'
        '[[paths]]\nname = "near"\nrtt = "40 ms"\nrate = "5 Mbit/s"\n'
        '[[paths]]\nname = "far"\nrtt = "400 ms"\nrate = "5 Mbit/s"\n'
    )
    told = " ".join(CliRunner().invoke(app, ["run", str(file)]).stdout.split())
    assert "What had come and could not be read yet" in told
    assert "for far 100 %" in told
    without = CliRunner().invoke(app, ["run", str(file), "--set", "record=[]"]).stdout
    assert "could not be read" not in without


@pytest.mark.module
def test_stream_waits_for_the_far_path():
    world = bulk()
    world["paths"].append({"name": "far", "rtt": "400 ms", "rate": "5 Mbit/s"})
    # Less than either path carries, in turns: nothing queues, and nothing is lost.
    world["application"] = {"kind": "paced", "rate": "2 Mbit/s", "duration": "10 s"}
    world["transport"]["scheduler"] = "round-robin"
    run = anabranch.run(world)
    near, far = run.qos["subflows"]
    assert far["awaited_share"] > 0.9 > near["awaited_share"]
    assert run.qos["receiver"]["stream_wait_ms"] > 10
    assert far["latency_ms_median"] > 200
