"""Metrics on hand-made tables, with answers worked out by hand."""

from __future__ import annotations

import pytest

from anabranch import metrics
from anabranch.metrics._viewer import stall_times


def table(**columns):
    return columns


def one_client():
    """Ten pictures; an underflow of 2 s and one of 1 s; two subflows over 10 s."""
    times = [0.0, 0.1, 0.2, 0.3, 0.4]
    return {
        "connections": table(
            client=[0], connect_s=[0.05], duration_s=[10.0], bytes_read=[5_000_000], reinjected_bytes=[1400],
            max_read_gap_s=[1.25], fallback=[False], finished=[True],
        ),
        "subflows": table(
            client=[0, 0], subflow=[0, 1], path=["wifi", "lte"], bytes=[3_000_000, 2_500_000],
            retransmissions=[7, 0],
        ),
        "samples": table(
            t_s=times * 2, client=[0] * 10, subflow=[0] * 5 + [1] * 5, path=["wifi"] * 5 + ["lte"] * 5,
            # Only those at 0, 200 and 400 ms count.
            cwnd_segments=[10, 999, 20, 999, 60, 4, 999, 4, 999, 4],
            srtt_ms=[50.0, 999.0, 60.0, 999.0, 70.0, 100.0, 999.0, None, 999.0, 120.0],
            in_flight_segments=[1, 1, 0, 1, 1, 1, 1, 1, 0, 0],
            retransmissions=[0, 1, 4, 6, 7, 0, 0, 0, 0, 0],
            # The window is 10 when the repair begins, and 20 when it ends 200 ms later.
            state=["Open", "Recovery", "CWR", "Open", "Open", "Open", "Loss", "Loss", "Open", "Open"],
        ),
        "frames": table(
            client=[0] * 10, index=list(range(10)), pts_s=[float(pts) for pts in range(10)],
            fate=["displayed"] * 5 + ["flushed"] * 2 + ["discarded"] * 1 + ["unplayed"] * 2,
            # Pictures of 1 s. The first is shown before playing starts, and begins to play when it is due.
            shown_s=[0.5, 2.5, 5.0, 7.0, 8.0] + [None] * 5, due_s=[1.5, 2.5, 5.0, 7.0, 8.0] + [None] * 5,
        ),
        "playback": table(
            client=[0] * 6, t_s=[1.5, 3.0, 5.0, 6.0, 7.0, 9.5],
            event=["start", "underflow", "resume", "underflow", "resume", "end"],
        ),
        "events": table(t_s=[0.25], link=["wifi"], what=["link-down"]),
        "links": table(link=["wifi.down", "wifi.up"], dropped_queue=[5, 1], dropped_loss=[9, 0]),
    }  # fmt: skip


def test_qoe_metrics_match_values_computed_by_hand():
    assert metrics.qoe(one_client()) == {
        "picture_discards": 1,
        "buffer_underflows": 2,
        "recovery_time_s": 1.5,
        "startup_delay_s": 1.5,
        "rebuffer_s": 3.0,
        "rebuffer_longest_s": 2.0,
        # From 1.5 s to 9.5 s, less five pictures: from 3.5 to 5, from 6 to 7 and from 9 to 9.5 s.
        "still_s": 3.0,
        "still_longest_s": 1.5,
        # Ten pictures of 1 s, of which five were shown.
        "unplayed_s": 5.0,
        "play_time_s": 5.0,
        "reached_end": True,
        "frames": {"total": 10, "displayed": 5, "discarded": 1, "flushed": 2},
        "finished": True,
    }


def test_qos_metrics_match_values_computed_by_hand():
    found = metrics.qos(one_client(), paths=["lte", "wifi", "none"])
    # 3 MB and 2.5 MB of 5.5 MB.
    shares = {one["path"]: one["bytes_share"] for one in found.pop("paths")}
    assert list(shares.items()) == [("lte", 0.454545), ("wifi", 0.545455), ("none", 0.0)]
    assert found == {
        "goodput_mbps": 4.0,
        "rtt_diff_ms": 50.0,
        "reinjected_bytes": 1400,
        "max_read_gap_s": 1.25,
        "queue_drops": 6,
        "subflows": [
            {
                "path": "wifi",
                "bytes": 3_000_000,
                "throughput_mbps": 2.4,
                "retransmissions": 7,
                "srtt_ms_mean": 60.0,
                "cwnd_segments_mean": 30.0,
                "cwnd_segments_median": 20.0,
                "cwnd_segments_std": 21.602,
                "recovery_s": 0.1,
                "loss_s": 0.0,
                "idle_s": 0.1,
                "window_back_s": 0.2,
                "retransmissions_before_change": 4,
                "retransmissions_after_change": 3,
            },
            {
                "path": "lte",
                "bytes": 2_500_000,
                "throughput_mbps": 2.0,
                "retransmissions": 0,
                "srtt_ms_mean": 110.0,
                "cwnd_segments_mean": 4.0,
                "cwnd_segments_median": 4.0,
                "cwnd_segments_std": 0.0,
                "recovery_s": 0.0,
                "loss_s": 0.2,
                "idle_s": 0.2,
                "window_back_s": 0.3,
                "retransmissions_before_change": 0,
                "retransmissions_after_change": 0,
            },
        ],
    }


def test_a_window_that_does_not_come_back_counts_until_the_end():
    tables = one_client()
    # As large as before when Loss ends, and without an end of Loss.
    assert metrics.qos(tables)["subflows"][1]["window_back_s"] == 0.3
    tables["samples"]["state"][8:] = ["Loss", "Loss"]
    assert metrics.qos(tables)["subflows"][1]["window_back_s"] == 0.4
    tables["samples"]["state"][5:] = ["Open"] * 5
    assert metrics.qos(tables)["subflows"][1]["window_back_s"] is None


def test_a_world_without_a_change_has_no_before_and_after():
    tables = one_client() | {"events": table(t_s=[], link=[], what=[])}
    (wifi, _) = metrics.qos(tables)["subflows"]
    assert not any(name.startswith("retransmissions_") for name in wifi)


def test_cross_traffic_goodput_is_reported_per_group():
    tables = one_client()
    before = metrics.qos(tables)
    assert "cross_traffic_mbps" not in before
    columns = ("flow", "name", "congestion", "start_s", "end_s", "bytes_read", "retransmissions")
    rows = [
        (0, "load", "reno", 0.0, 4.0, 1_000_000, 3),
        (1, "load", "reno", 0.5, 8.0, 3_000_000, 4),
        (2, "call", "cubic", 6.0, 10.0, 500_000, 0),
        (3, "late", "cubic", 90.0, None, 0, 0),
    ]
    tables["cross_traffic"] = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
    qos = metrics.qos(tables)
    # 4.5 MB from 0 to 10 s, of which 4 MB from 0 to 8 s and half a one from 6 to 10 s.
    assert qos == {
        **before,
        "cross_traffic_mbps": 3.6,
        "cross_traffic": [
            {"name": "load", "congestion": "reno", "flows": 2, "bytes": 4_000_000, "goodput_mbps": 4.0,
             "retransmissions": 7},
            {"name": "call", "congestion": "cubic", "flows": 1, "bytes": 500_000, "goodput_mbps": 1.0,
             "retransmissions": 0},
            {"name": "late", "congestion": "cubic", "flows": 1, "bytes": 0, "goodput_mbps": 0.0,
             "retransmissions": 0},
        ],
    }  # fmt: skip
    assert metrics.lookup("cross_traffic_mbps", qoe=None, qos=qos, duration=None) == 3.6


def test_datagram_groups_report_losses():
    flow = {
        "name": "calls",
        "congestion": "none",
        "start_s": 0.0,
        "end_s": 2.0,
        "bytes_read": 500_000,
        "retransmissions": 0,
    }
    tables = one_client()
    columns = flow | {"datagrams_sent": 400, "datagrams_delivered": 350, "datagrams_lost": 45}
    tables["cross_traffic"] = {name: [value, value] for name, value in columns.items()}
    (group,) = metrics.qos(tables)["cross_traffic"]
    assert (group["datagrams_sent"], group["datagrams_lost"], group["goodput_mbps"]) == (800, 90, 4.0)
    tables["cross_traffic"] |= {"datagrams_sent": [0, 0], "datagrams_lost": [0, 0]}
    assert "datagrams_sent" not in metrics.qos(tables)["cross_traffic"][0]


def test_no_underflow_is_no_recovery_time():
    tables = one_client()
    tables["playback"] = table(client=[0, 0], t_s=[1.0, 9.0], event=["start", "end"])
    qoe = metrics.qoe(tables)
    assert (qoe["buffer_underflows"], qoe["recovery_time_s"], qoe["rebuffer_s"]) == (0, 0.0, 0.0)


def test_a_film_that_never_started_has_no_startup_delay():
    tables = one_client()
    tables["playback"] = table(client=[], t_s=[], event=[])
    qoe = metrics.qoe(tables)
    assert qoe["startup_delay_s"] is None
    assert qoe["reached_end"] is False


@pytest.mark.parametrize(
    ("events", "stalls"),
    [
        ([(1, "start"), (4, "underflow")], [(4, 10)]),  # lasts to the end of the session
        ([(1, "start"), (4, "underflow"), (6, "end")], [(4, 6)]),
        ([(1, "start"), (4, "underflow"), (5, "underflow"), (6, "resume")], [(4, 5), (5, 6)]),
        ([(1, "start"), (2, "resume"), (3, "end")], []),
    ],
)
def test_stalls(events, stalls):
    rows = [{"t_s": time, "event": event} for time, event in events]
    assert stall_times(rows, 10) == stalls


def test_nothing_played_is_no_qoe():
    tables = one_client()
    tables["frames"] = table(client=[], index=[], fate=[])
    assert metrics.qoe(tables) is None


def test_a_subflow_that_never_came_up():
    tables = one_client()
    tables["samples"] = {name: [] for name in tables["samples"]}
    qos = metrics.qos(tables)
    assert qos["rtt_diff_ms"] is None
    assert qos["subflows"][0]["cwnd_segments_mean"] is None


def two_clients():
    tables = one_client()
    for name in ("connections", "subflows", "samples", "frames", "playback"):
        count = len(tables[name]["client"])
        tables[name] = {column: [*values, *values] for column, values in tables[name].items()}
        tables[name]["client"] = [0] * count + [1] * count
    tables["connections"]["bytes_read"][1] = 2_500_000
    tables["connections"]["finished"][1] = False
    return tables


def test_several_clients_are_means():
    tables = two_clients()
    qoe, qos = metrics.qoe(tables), metrics.qos(tables)
    assert qos["goodput_mbps"] == 3.0
    assert qos["queue_drops"] == 6
    assert [subflow["path"] for subflow in qos["subflows"]] == ["wifi", "lte"]
    assert qos["subflows"][0]["bytes"] == 3_000_000
    assert qoe["frames"]["displayed"] == 5
    assert qoe["finished"] is False
    assert [client["qos"]["goodput_mbps"] for client in metrics.by_client(tables)] == [4.0, 2.0]


def test_every_metric_can_be_looked_up():
    flow = {
        "name": "load",
        "congestion": "reno",
        "start_s": 0.0,
        "end_s": 4.0,
        "bytes_read": 9,
        "retransmissions": 0,
    }
    tables = one_client() | {"cross_traffic": {name: [value] for name, value in flow.items()}}
    qoe, qos = metrics.qoe(tables), metrics.qos(tables)

    def lookup(name):
        return metrics.lookup(name, qoe=qoe, qos=qos, duration=metrics.duration_s(tables))

    # Metrics that only an adaptive player has: test_adaptive computes them; recorded ones, test_receiver.
    adaptive = {name for name in metrics.METRICS if lookup(name) is None and not name.startswith("receiver.")}
    assert {"startup_s", "top_share"} <= adaptive
    assert not adaptive & {"startup_delay_s", "goodput_mbps", "duration_s", "frames.total", "finished"}
    assert len(adaptive) == 12
    recorded = {"awaited_share", "out_of_order_bytes_mean", "latency_ms_median", "latency_repaired_ms_median"}
    recorded |= {"repair_new_bytes", "used_share"}
    of_flow = metrics.SUBFLOW_METRICS.keys() - recorded
    assert all(lookup(f"subflows.wifi.{name}") is not None for name in of_flow)
    assert lookup("frames.discarded") == 1
    assert lookup("subflows.none.bytes") is None
    assert metrics.lookup("picture_discards", qoe=None, qos=qos, duration=1.0) is None


def test_read_gap_without_data_is_the_whole_duration():
    tables = one_client()
    tables["connections"] |= {"bytes_read": [0], "max_read_gap_s": [0.0]}
    assert metrics.qos(tables)["max_read_gap_s"] == tables["connections"]["duration_s"][0]


def two_viewers():
    """Two clients with nothing in common, the second first in every table."""
    return {
        "connections": table(
            client=[1, 0], connect_s=[0.2, 0.1], duration_s=[20.0, 8.0], bytes_read=[5_000_000, 1_000_000],
            reinjected_bytes=[300, 100], max_read_gap_s=[2.0, 1.0], finished=[True, True],
        ),
        "subflows": table(
            client=[1, 0, 1], subflow=[0, 0, 1], path=["wifi", "wifi", "lte"], bytes=[2_500_000, 1_000_000, 5_000_000],
            retransmissions=[4, 2, 6],
        ),
        "samples": table(
            t_s=[0.0, 0.2, 0.0, 0.2, 0.2], client=[1, 1, 0, 0, 1], subflow=[0, 0, 0, 0, 1],
            cwnd_segments=[10, 20, 4, 6, None], srtt_ms=[50.0, 70.0, 0.0, 30.0, 100.0],
            in_flight_segments=[1] * 5, retransmissions=[0] * 5, state=["Open"] * 5,
        ),
        "frames": table(
            client=[1, 1, 0], fate=["displayed", "flushed", "discarded"], pts_s=[0.0, 1.0, 0.0],
            shown_s=[4.0, None, None], due_s=[4.0, None, None],
        ),
        "playback": table(
            client=[1, 0, 1, 0, 0, 1, 0, 1], t_s=[15.0, 1.0, 2.0, 4.0, 3.0, 5.0, 8.0, 20.0],
            event=["resume", "start", "start", "resume", "underflow", "underflow", "end", "end"],
        ),
        "links": table(link=["a", "b"], dropped_queue=[1, 2]),
    }  # fmt: skip


def test_each_client_is_its_own():
    first, second = metrics.by_client(two_viewers())
    assert (first["client"], second["client"]) == (0, 1)
    assert first["qoe"] == {
        "picture_discards": 1, "buffer_underflows": 1, "recovery_time_s": 1.0, "startup_delay_s": 1.0, "rebuffer_s": 1.0,
        "rebuffer_longest_s": 1.0,
        # Its one picture was not shown.
        "still_s": None, "still_longest_s": None, "unplayed_s": 0.0, "play_time_s": 0.0, "reached_end": True,
        "frames": {"total": 1, "displayed": 0, "discarded": 1, "flushed": 0}, "finished": True,
    }  # fmt: skip
    assert second["qoe"] == {
        "picture_discards": 0, "buffer_underflows": 1, "recovery_time_s": 10.0, "startup_delay_s": 2.0, "rebuffer_s": 10.0,
        "rebuffer_longest_s": 10.0,
        # A picture of 1 s at 4 s, in a session that ends at 20 s.
        "still_s": 15.0, "still_longest_s": 15.0, "unplayed_s": 1.0, "play_time_s": 1.0, "reached_end": True,
        "frames": {"total": 2, "displayed": 1, "discarded": 0, "flushed": 1}, "finished": True,
    }  # fmt: skip
    # A smoothed RTT of 0 is none yet.
    assert [one["path"] for one in first["qos"].pop("paths") + second["qos"].pop("paths")] == [
        "wifi",
        "wifi",
        "lte",
    ]
    assert first["qos"] == {
        "goodput_mbps": 1.0, "rtt_diff_ms": 0.0, "reinjected_bytes": 100, "max_read_gap_s": 1.0,
        "subflows": [
            {"path": "wifi", "bytes": 1_000_000, "throughput_mbps": 1.0, "retransmissions": 2, "srtt_ms_mean": 30.0,
             "cwnd_segments_mean": 5.0, "cwnd_segments_median": 5.0,
             "cwnd_segments_std": 1.0, "recovery_s": 0.0, "loss_s": 0.0, "idle_s": 0.0, "window_back_s": None},
        ],
    }  # fmt: skip
    assert second["qos"] == {
        "goodput_mbps": 2.0, "rtt_diff_ms": 40.0, "reinjected_bytes": 300, "max_read_gap_s": 2.0,
        "subflows": [
            {"path": "wifi", "bytes": 2_500_000, "throughput_mbps": 1.0, "retransmissions": 4, "srtt_ms_mean": 60.0,
             "cwnd_segments_mean": 15.0, "cwnd_segments_median": 15.0,
             "cwnd_segments_std": 5.0, "recovery_s": 0.0, "loss_s": 0.0, "idle_s": 0.0, "window_back_s": None},
            {"path": "lte", "bytes": 5_000_000, "throughput_mbps": 2.0, "retransmissions": 6, "srtt_ms_mean": 100.0,
             "cwnd_segments_mean": None, "cwnd_segments_median": None,
             "cwnd_segments_std": None, "recovery_s": 0.0, "loss_s": 0.0, "idle_s": 0.0, "window_back_s": None},
        ],
    }  # fmt: skip


def test_means_are_over_the_clients_that_have_a_number():
    tables = two_viewers()
    assert metrics.qoe(tables) == {
        "picture_discards": 0.5, "buffer_underflows": 1, "recovery_time_s": 5.5, "startup_delay_s": 1.5, "rebuffer_s": 5.5,
        "rebuffer_longest_s": 5.5,
        "still_s": 15.0, "still_longest_s": 15.0, "unplayed_s": 0.5, "play_time_s": 0.5, "reached_end": True,
        "frames": {"total": 1.5, "displayed": 0.5, "discarded": 0.5, "flushed": 0.5},
        "finished": True,
    }  # fmt: skip
    qos = metrics.qos(tables)
    assert list(qos) == [
        "goodput_mbps",
        "rtt_diff_ms",
        "reinjected_bytes",
        "max_read_gap_s",
        "queue_drops",
        "subflows",
        "paths",
    ]
    assert [one["bytes"] for one in qos["paths"]] == [1_750_000, 5_000_000]
    assert (qos["goodput_mbps"], qos["rtt_diff_ms"], qos["queue_drops"]) == (1.5, 20.0, 3)
    wifi, lte = qos["subflows"]
    assert (wifi["srtt_ms_mean"], wifi["bytes"], wifi["path"]) == (45.0, 1_750_000, "wifi")
    assert (lte["srtt_ms_mean"], lte["cwnd_segments_mean"]) == (100.0, None)
    assert metrics.duration_s(tables) == 20.0
    assert metrics.duration_s({}) is None


def test_only_one_client_may_have_seen_something():
    tables = two_viewers()
    tables["frames"] = table(client=[1], fate=["displayed"], pts_s=[0.0], shown_s=[4.0], due_s=[4.0])
    assert metrics.by_client(tables)[0]["qoe"] is None
    assert metrics.qoe(tables)["startup_delay_s"] == 2.0


def test_a_session_without_time_has_no_rate():
    tables = one_client()
    tables["connections"]["duration_s"] = [0.0]
    qos = metrics.qos(tables)
    assert (qos["goodput_mbps"], qos["subflows"][0]["throughput_mbps"]) == (0.0, 0.0)


def test_an_end_before_anything_played_is_no_time_of_play():
    tables = one_client()
    tables["connections"]["duration_s"] = [1.0]
    tables["playback"] = table(client=[0, 0], t_s=[1.5, 3.0], event=["start", "underflow"])
    tables["frames"] |= {"shown_s": [1.5] + [None] * 9}
    # The session ended before the stall and the picture, so neither takes any time.
    assert metrics.qoe(tables)["play_time_s"] == 0.0
    assert metrics.qoe(tables)["rebuffer_s"] == 0.0


def test_lookup_finds_metrics_by_dotted_name():
    qoe, qos = metrics.qoe(one_client()), metrics.qos(one_client())

    def lookup(name, **given):
        return metrics.lookup(name, **{"qoe": qoe, "qos": qos, "duration": 10.0, **given})

    assert lookup("duration_s") == 10.0
    assert lookup("subflows.lte.bytes") == 2_500_000
    assert lookup("frames.flushed") == 2
    assert lookup("frames.flushed", qoe=None) is None
    assert lookup("frames.other") is None
    assert lookup("queue_drops") == 6
    assert lookup("rebuffer_s") == 3.0
    assert lookup("rtt_diff_ms", qos={"rtt_diff_ms": None}) is None


def test_numbers_are_exact_to_the_microsecond_and_the_thousandth():
    tables = one_client()
    tables["connections"]["max_read_gap_s"] = [1.23456789]
    tables["connections"]["duration_s"] = [3.0]
    tables["playback"] = table(
        client=[0] * 6, t_s=[0.12345678, 1.0, 1.33333333, 1.5, 2.0, 3.0],
        event=["start", "underflow", "resume", "underflow", "resume", "end"],
    )  # fmt: skip
    tables["samples"] = table(
        t_s=[0.0, 0.2, 0.4] * 2, client=[0] * 6, subflow=[0, 0, 0, 1, 1, 1], path=["wifi"] * 3 + ["lte"] * 3,
        cwnd_segments=[1.00049, 2.00049, 4.0, 1, 1, 2], srtt_ms=[10.0, 10.0, 11.0, 20.0, 20.0, 20.0],
        in_flight_segments=[1] * 6, retransmissions=[0] * 6, state=["Open"] * 6,
    )  # fmt: skip
    qoe, qos = metrics.qoe(tables), metrics.qos(tables)
    assert (qoe["startup_delay_s"], qoe["rebuffer_s"], qoe["recovery_time_s"]) == (
        0.123457,
        0.833333,
        0.416667,
    )
    # From 1.5 s to 3 s, less one picture of 1 s and the half of the one that is cut off.
    assert (qoe["play_time_s"], qoe["still_s"]) == (1.5, 0.0)
    # 40 Mb in 3 s; the RTTs are 31 / 3 ms and 20 ms.
    assert (qos["goodput_mbps"], qos["max_read_gap_s"], qos["rtt_diff_ms"]) == (13.333333, 1.234568, 9.667)
    wifi, lte = qos["subflows"]
    assert (wifi["srtt_ms_mean"], wifi["cwnd_segments_mean"], wifi["cwnd_segments_median"]) == (
        10.333,
        2.334,
        2.0,
    )
    assert (lte["cwnd_segments_mean"], lte["throughput_mbps"]) == (1.333, 6.666667)


def test_a_round_trip_may_be_shorter_than_a_millisecond():
    tables = one_client()
    tables["samples"]["srtt_ms"] = [0.5] * 5 + [0.0] * 5
    assert [subflow["srtt_ms_mean"] for subflow in metrics.qos(tables)["subflows"]] == [0.5, None]


def test_sessions_and_flows_may_be_shorter_than_a_second():
    tables = one_client()
    tables["connections"]["duration_s"] = [0.5]
    flow = {
        "name": "x",
        "congestion": "reno",
        "start_s": 0.25,
        "end_s": 0.75,
        "bytes_read": 1000,
        "retransmissions": 0,
    }
    tables["cross_traffic"] = {name: [value] for name, value in flow.items()}
    qos = metrics.qos(tables)
    assert (qos["goodput_mbps"], qos["subflows"][1]["throughput_mbps"]) == (80.0, 40.0)
    assert qos["cross_traffic_mbps"] == 0.016


def test_a_trace_without_samples_or_links_has_no_means_and_no_drops():
    tables = one_client()
    del tables["samples"], tables["links"]
    qos = metrics.qos(tables)
    assert (qos["rtt_diff_ms"], qos["queue_drops"], qos["goodput_mbps"]) == (None, 0, 4.0)


def test_paths_are_in_the_scenario_s_order_and_sums_of_their_subflows():
    """By hand: b has 300 + 100 B of 500 and (300·20 + 100·40)/400 = 25 ms; c had no subflow."""
    # 1 B over 8 us is 1 Mbit/s, and the session lasts 0.8 ms: 100 B are 1 Mbit/s.
    tables = {
        "connections": {"client": [0], "duration_s": [0.0008], "bytes_read": [500], "reinjected_bytes": [0],
                        "max_read_gap_s": [0.0], "finished": [True]},
        "subflows": {"client": [0, 0, 0], "subflow": [0, 1, 2], "path": ["b", "a", "b"], "bytes": [300, 100, 100],
                     "retransmissions": [1, 0, 4]},
        "samples": {"client": [0, 0, 0], "subflow": [0, 1, 2], "t_s": [0.2, 0.2, 0.2],
                    "cwnd_segments": [None, None, None], "srtt_ms": [20.0, None, 40.0],
                    "in_flight_segments": [1, 1, 1], "retransmissions": [0, 0, 0], "state": ["Open"] * 3},
    }  # fmt: skip

    def by_path(names):
        return metrics.by_client(tables, paths=names)[0]["qos"]["paths"]

    found = by_path(["a", "b", "c"])
    none = {"srtt_ms_mean": None, "cwnd_segments_mean": None}
    assert found == [
        {"path": "a", "subflows": 1, "bytes": 100, "bytes_share": 0.2, "throughput_mbps": 1.0,
         "retransmissions": 0, **none},
        {"path": "b", "subflows": 2, "bytes": 400, "bytes_share": 0.8, "throughput_mbps": 4.0,
         "retransmissions": 5, **none, "srtt_ms_mean": 25.0},
        {"path": "c", "subflows": 0, "bytes": 0, "bytes_share": 0.0, "throughput_mbps": 0.0,
         "retransmissions": 0, **none},
    ]  # fmt: skip
    assert [one["path"] for one in by_path(())] == ["b", "a"]
