"""The laboratory's figures from a trace, its series and its page, each number worked out by hand."""

from __future__ import annotations

import gzip
from types import SimpleNamespace

import pytest

from anabranch.calibrate import compare, kernels, measure, page, series, settings, simulate, vlc
from anabranch.calibrate.compare import Target
from anabranch.calibrate.model import Change, GroundTruth, Leg, Measured, Setting, Trial
from anabranch.errors import Fault
from anabranch.figures.calibration import Series
from anabranch.scenario import load

LEGS = (Leg(rtt_ms=50, rate_mbps=5, loss=0.005), Leg(rtt_ms=100, rate_mbps=4, loss=0))


def setting(kind="bulk", **given):
    known = {"case": "P1", "congestion": "cubic", "multipath": True, "legs": LEGS, "duration_s": 60.0}
    return Setting(kind=kind, **{**known, **given})


def tables(**more):
    """Two paths; accept() after 75 ms, so that the laboratory's samples are those at 0.1, 0.3 and 0.5 s."""
    times = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    return {
        "connections": {
            "bytes_read": [5_000_000, 1],
            "duration_s": [8.0, 1.0],
            "max_read_gap_s": [0.75, 9.0],
        },
        "samples": {
            "t_s": times * 2,
            "path": ["path1"] * 6 + ["path2"] * 6,
            "cwnd_segments": [10, 11, 90, 20, 90, 17, 10, 10, 90, 30, 90, 50],
            "srtt_ms": [50.0, 50.0, 9.0, 70.0, 9.0, 60.0, None, None, 9.0, 0.0, 9.0, 110.0],
            "bytes_acked": [0, 0, 9, 20_000, 9, 30_000, 0, 0, 9, 5, 9, 10_000],
            "retransmissions": [0, 0, 9, 1, 9, 4, 0, 0, 9, 1, 9, 2],
        },
        "gaps": {"t_s": [0.25], "gap_s": [0.5]},
        "player": {"t_s": [0.0, 0.5, 1.0, 2.0], "bytes_read": [0, 100_000, 250_000, 1_250_000]},
        **more,
    }


def figures(one, **given):
    return measure.figures(one, tables(), **{"cut_at_s": None, **given})


SUBFLOWS = {
    "sf1_bytes_acked": 30_000, "sf1_retrans_segs": 4, "sf1_cwnd_mean": 16, "sf1_cwnd_median": 17,
    "sf1_srtt_mean_ms": 60,
    # A subflow without a smoothed RTT does not exist yet.
    "sf2_bytes_acked": 10_000, "sf2_retrans_segs": 2, "sf2_cwnd_mean": 50, "sf2_cwnd_median": 50,
    "sf2_srtt_mean_ms": 110,
}  # fmt: skip


def test_a_bulk_transfer():
    # 5 MB in 8 s.
    assert figures(setting()) == {"goodput_mbps": 5, "max_read_gap_s": 0.75, **SUBFLOWS}


def test_a_paced_application_has_a_split():
    assert figures(setting("paced")) == {
        "goodput_mbps": 5, "max_read_gap_s": 0.75, **SUBFLOWS, "split_1_percent": 75,
    }  # fmt: skip
    one_path = figures(setting("paced", legs=LEGS[:1]))
    assert set(one_path) == {
        "goodput_mbps",
        "max_read_gap_s",
        *(name for name in SUBFLOWS if name[:3] == "sf1"),
    }


def test_a_hand_over_has_the_gap_behind_the_cut():
    # Data again at 0.75 s, 0.35 s behind the cut.
    assert figures(setting("handoff"), cut_at_s=0.4) == {
        "goodput_mbps": 5, "max_read_gap_s": 0.75, **SUBFLOWS, "resume_after_cut_s": pytest.approx(0.35),
    }  # fmt: skip
    assert figures(setting("handoff"))["resume_after_cut_s"] == 0.75


def test_a_path_without_samples_carried_nothing():
    found = measure.figures(
        setting("paced"), {**tables(), "samples": {name: [] for name in tables()["samples"]}}, cut_at_s=None
    )
    assert found == {
        "goodput_mbps": 5, "max_read_gap_s": 0.75, "sf1_bytes_acked": 0, "sf1_retrans_segs": 0,
        "sf2_bytes_acked": 0, "sf2_retrans_segs": 0, "split_1_percent": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("rtt_ms", "first_s"), [(50, 0.1), (66, 0.1), (67, 0.2), (200, 0.3), (201, 0.4)])
def test_samples_begin_behind_one_and_a_half_round_trips(rtt_ms, first_s):
    samples = {
        "t_s": [n / 10 for n in range(6)], "path": ["path1"] * 6, "cwnd_segments": list(range(6)),
        "srtt_ms": [1.0] * 6, "bytes_acked": [0] * 6, "retransmissions": [0] * 6,
    }  # fmt: skip
    one = setting(legs=(Leg(rtt_ms=rtt_ms, rate_mbps=1, loss=0),))
    rows = measure.samples(one, {"samples": samples})["path1"]
    assert (rows[0]["cwnd_segments"], rows[0]["t_s"]) == (round(first_s * 10), 0)
    assert all(row["cwnd_segments"] == round(10 * (first_s + row["t_s"])) for row in rows)


@pytest.mark.parametrize(
    ("gaps", "resumed"),
    [
        # Binary fractions: (begin, length) around a cut at 20 s.
        ([(20.0, 0.125)], 0), ([(20.0, 0.15)], 0), ([(20.0, 0.1875)], 0.1875),
        ([(19.0, 1.0)], 0), ([(19.0, 1.25)], 0.25),
        ([(21.5, 0.5)], 0), ([(21.25, 0.5)], 1.75),
        # The longest, whichever comes first.
        ([(20.0, 0.25), (20.5, 0.75), (21.375, 0.5)], 1.25), ([(20.0, 1.0), (21.0, 0.5)], 1.0), ([], 0),
    ],
)  # fmt: skip
def test_which_silence_is_the_hand_overs(gaps, resumed):
    table = {"t_s": [begin for begin, _ in gaps], "gap_s": [length for _, length in gaps]}
    assert measure.resume_s(table, 20.0) == resumed


# Series.


@pytest.mark.parametrize(
    ("counts", "rates"),
    [
        # 1 MB in the first second, half a one in the next 2 s, what is left is no whole second.
        ([(0.0, 0), (0.5, 1), (1.0, 1_000_000), (3.0, 1_500_000), (3.5, 9)], [(1.0, 8.0), (3.0, 2.0)]),
        ([(2.0, 500_000), (2.9, 1), (3.1, 1_600_000)], [(3.1, pytest.approx(8.0))]),
        ([(0.0, 5)], []), ([], []),
    ],
)  # fmt: skip
def test_rates_are_over_whole_seconds(counts, rates):
    assert series.rate(counts) == rates


def test_the_series_of_a_simulated_run():
    found = series.of_simulator(setting(), tables())
    assert found.cwnd == {1: [(0.0, 11.0), (0.2, 20.0), (0.4, 17.0)], 2: [(0.4, 50.0)]}
    assert found.srtt == {1: [(0.0, 50.0), (0.2, 70.0), (0.4, 60.0)], 2: [(0.4, 110.0)]}
    assert found.acked == {1: [], 2: []}
    # 250 kB in a second, then 1 MB.
    assert found.goodput == [(1.0, 2.0), (2.0, 8.0)]


SENDER = """\
t,remote,cwnd,rtt_us,bytes_acked
0.0,10.1.0.1:80,10,50250,0
0.5,10.2.0.1,4,100000,0
1.0,10.1.0.1:80,20,60500,125000
1.5,10.2.0.1,8,110000,250000
"""


def recorded(folder, name, sender, receiver="t,bytes\n0.0,0\n1.0,500000\n"):
    (folder / "ts").mkdir()
    for suffix, text in ((".csv.gz", sender), (".rx.csv.gz", receiver)):
        (folder / "ts" / f"{name}{suffix}").write_bytes(gzip.compress(text.encode()))


def test_the_series_of_the_kernel(tmp_path):
    recorded(tmp_path, "a", SENDER)
    faults = []
    assert series.of_kernel(tmp_path, "a", faults) == Series(
        cwnd={1: [(0.0, 10.0), (1.0, 20.0)], 2: [(0.5, 4.0), (1.5, 8.0)]},
        srtt={1: [(0.0, 50.25), (1.0, 60.5)], 2: [(0.5, 100.0), (1.5, 110.0)]},
        acked={1: [(1.0, 1.0)], 2: [(1.5, 2.0)]},
        goodput=[(1.0, 4.0)],
    )
    assert faults == []


@pytest.mark.parametrize("column", ["t", "cwnd", "rtt_us", "bytes_acked"])
def test_a_cell_of_the_sender_that_is_no_number_is_reported(tmp_path, column):
    head, row, *_ = SENDER.splitlines()
    cells = dict(zip(head.split(","), row.split(","), strict=True))
    recorded(tmp_path, "a", f"{head}\n{','.join({**cells, column: 'x'}.values())}\n")
    faults = []
    assert series.of_kernel(tmp_path, "a", faults) is None
    assert {(fault.key, fault.line, fault.message) for fault in faults} == {(column, 2, "not a number: `x`")}


@pytest.mark.parametrize(("row", "column"), [("x,7", "t"), ("7,x", "bytes")])
def test_a_cell_of_the_receiver_that_is_no_number_is_reported(tmp_path, row, column):
    recorded(tmp_path, "a", SENDER, f"t,bytes\n{row}\n")
    faults = []
    assert series.of_kernel(tmp_path, "a", faults) is None
    assert [(fault.key, fault.line) for fault in faults] == [(column, 2)]


@pytest.mark.parametrize("address", ["10.9.0.1", "10.0.0.1", "110.1.0.1", "10.1.0", "10.1.0.1:", "x"])
def test_another_address_is_no_paths(tmp_path, address):
    recorded(tmp_path, "a", SENDER + f"2.0,{address},1,1,1\n2.5,{address},1,1,1\n")
    faults = []
    assert series.of_kernel(tmp_path, "a", faults) is None
    assert [(fault.message, fault.line) for fault in faults] == [
        (f"no address of a path: `{address}`", line) for line in (6, 7)
    ]


# The conversion of a measured setting to a scenario (groundtruth/README.md, docs/calibration.md).


def test_the_laboratorys_hosts_and_emulator():
    assert settings.scenario(setting("paced", pace_bps=5.24e6, multipath=False)) == {
        "name": "paced/P1/cubic",
        "application": {"kind": "paced", "rate": "5240000 bit/s", "duration": "60.000000 s"},
        "transport": {
            "scheduler": "linux", "congestion": "cubic", "multipath": False, "receive_buffer": "32 MiB",
            "send_buffer": "4 MiB",
        },
        "paths": [
            # Late by 0.12 ms on average, drawn evenly: up to 0.24 ms.
            {"name": "path1", "rtt": "50.000000 ms", "rate": "5000000 bit/s", "jitter": "0.24 ms", "loss": "0.5 %",
             "queue": "100 packets"},
            {"name": "path2", "rtt": "100.000000 ms", "rate": "4000000 bit/s", "jitter": "0.24 ms", "loss": "0 %",
             "queue": "100 packets"},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("how", "state"), [("blackhole", "down"), ("linkdown", "link-down"), ("linkdown+epdel", "removed")]
)
def test_a_cut_is_an_event_of_the_first_path(how, state):
    found = settings.scenario(setting("handoff", how=how), cut_at_s=20.5)
    assert found["events"] == [{"at": "20.500000 s", "path": "path1", "state": state}]
    assert found["application"]["kind"] == "bulk"
    assert "events" not in settings.scenario(setting("handoff", how=how))


def test_a_player_plays_for_its_session():
    application = settings.scenario(setting("vlc", film="v524.ts", duration_s=104.93))["application"]
    assert application == {"kind": "progressive", "film": "papers-film", "duration": "104.930000 s"}


# VLC's counters.


def counted(playback, why=(), shown=(), duration_s=10.0):
    return vlc.figures(
        {
            "connections": {"duration_s": [duration_s]},
            "frames": {"why": list(why), "shown_s": list(shown)},
            "playback": {"t_s": [time for time, _ in playback], "event": [event for _, event in playback]},
        }
    )


def test_a_rebuffer_ends_with_the_next_full_or_resume():
    found = counted(
        [
            (3.0, "underflow"),
            (1.0, "full"),
            (4.5, "resume"),
            (5.0, "full"),
            (6.0, "underflow"),
            (6.25, "full"),
        ],
        why=["late", "late", "flush", None],
    )
    assert found == {
        "startup_s": 1.0 + 0.07, "rebuffer_count": 2, "rebuffer_s": 1.75, "lost_pictures": 2, "displayed_pictures": 0,
    }  # fmt: skip
    assert "startup_s" not in counted([(3.0, "underflow")])


@pytest.mark.parametrize(
    ("shown", "events", "count"),
    [
        # The last picture again 76 ms later, unless the next one is due then.
        ([1.0, 1.0759], [], 2), ([1.0, 1.0761], [], 3), ([1.0, 1.1519], [], 3), ([1.0, 1.1521], [], 4),
        ([1.2, None, 1.0], [], 4), ([9.0, 10.0, 10.001], [], 15),
        # A flush at a picture's own time leaves nothing to show again; one at the next picture's is the next's.
        ([1.0, 2.0], [(1.0, "underflow")], 2), ([1.0, 2.0], [(2.0, "underflow")], 15),
        ([1.0, 2.0], [(1.5, "full")], 15), ([1.0, 2.0], [(1.4, "underflow"), (1.1, "underflow")], 3),
    ],
)  # fmt: skip
def test_pictures_are_shown_again_while_nothing_comes(shown, events, count):
    assert vlc.displayed({"shown_s": shown}, events, 10.0) == count


# The page.


def test_calibration_page_lists_the_results():
    bulk, cut = (
        setting(),
        setting("handoff", how="blackhole", duration_s=45.0, pace_bps=5.24e6, multipath=False),
    )
    trials = (Trial(run="a", number=1, figures={}),)
    fine = compare.judge("goodput_mbps", [8, 8], [8.125], Target(absolute=0.5))
    missed = compare.judge("sf1_retrans_segs", [0], [2], Target(absolute=1))
    told = compare.judge("sf1_cwnd_median", [0.5], [0.25], None)
    outcome = page.Outcome(
        truth=GroundTruth(measured=(), films={}),
        measured=[Measured(setting=bulk, trials=trials), Measured(setting=cut, trials=trials)],
        compared=[[fine, told], [missed]],
        tasks=[],
        runs=40,
    )
    shown = page.Picture(name="bulk-p1", alt="a picture", columns={}, until_s=60)
    text = page.page(outcome, [shown], folder="calibration", by_hand="By hand.")
    words = " ".join(text.split())
    assert "A setting with random loss is run 40 times. Any other is run 30 times" in words
    assert "a film's stalls are computed, are run 20 times" in words
    assert "unchanged with 12 trials or more, with fewer up to 2 times the target" in words
    assert f"{page.KEPT[0]}\n\nBy hand.\n\n{page.KEPT[1]}" in text
    assert (
        f"## Random settings\n\n{page.RANDOM[0]}\n\nNo settings were drawn yet.\n\n{page.RANDOM[1]}\n" in text
    )
    again = page.page(outcome, [], folder="x", by_hand="", random="Seed 7.")
    assert page.drawn(again) == "Seed 7."
    body = text[text.index("## In short") : text.index("## How figures are compared")]
    assert body.split("\n")[2:8] == [
        "| | goodput | retransmissions | all figures | worst goodput |",
        "|---|--:|--:|--:|--:|",
        "| Bulk | 1 of 1 | 0 of 0 | 1 of 1 | +1.6 % (bulk/P1/cubic) |",
        "| Hand-over | 0 of 0 | 0 of 1 | 0 of 1 |  |",
        "",
        (
            "- groundtruth: goodput 1 of 1, all figures 1 of 2, retransmissions 0 of 1, "
            "worst goodput +1.6 % (`bulk/P1/cubic`)."
        ),
    ]
    assert "- `handoff/P1/cubic/blackhole/paced`: path 1: retransmissions, kernel 0, simulator 2\n" in body
    rest = text[text.index("## Bulk") :]
    assert rest == (
        "## Bulk: as much as the paths take\n\n### bulk P1\n\n"
        "50 ms, 5 Mb/s, 0.50% loss | 100 ms, 4 Mb/s; MPTCP; 60 s.\n\n![a picture](calibration/bulk-p1.svg)\n\n"
        "| cubic | kernel | n | simulator | error | allowed | |\n|---|--:|--:|--:|--:|--:|---|\n"
        "| goodput, Mb/s | 8 ± 0 | 2 | 8.125 | +1.6% | ± 0.500 | ok |\n"
        "| path 1: cwnd median, segments | 0.500 | 1 | 0.250 | -50.0% |  | not judged (no target) |\n\n"
        "## Hand-over: path 1 is lost\n\n### handoff P1 blackhole\n\n"
        "50 ms, 5 Mb/s, 0.50% loss | 100 ms, 4 Mb/s; plain TCP; 45 s; paced at 5.24 Mb/s; "
        "path 1 falls silent both ways.\n\n"
        "| cubic | kernel | n | simulator | error | allowed | |\n|---|--:|--:|--:|--:|--:|---|\n"
        "| path 1: retransmissions | 0 | 1 | 2 | 2 | ± 1 | miss |\n"
    )
    one_kind = page.page(
        page.Outcome(truth=outcome.truth, measured=outcome.measured[:1], compared=[[fine]], tasks=[], runs=9),
        [], folder="x", by_hand="",
    )  # fmt: skip
    assert "Nothing misses its target." in one_kind
    assert "is run 9 times. Any other is run 9 times" in " ".join(one_kind.split())
    assert "a film's stalls are computed, are run 9 times" in " ".join(one_kind.split())
    assert "Hand-over" not in one_kind


def test_calibration_page_lists_odd_settings_and_rejected_rows():
    legs = (
        Leg(rtt_ms=50, rate_mbps=5, loss=0, loss_up=0.01),
        Leg(rtt_ms=9, rate_mbps=4, loss=0, queue_packets=8),
    )
    changes = (Change(at_s=20, path=1, rate_mbps=2), Change(at_s=30.5, path=2, state="down"))
    one = setting(case="HX", legs=legs, changes=changes, receive_buffer_bytes=524_288, folder="odd")
    nothing = compare.judge("sf1_cwnd_mean", [8], [], Target(absolute=0.5))
    outcome = page.Outcome(
        truth=GroundTruth(measured=(), films={}, refused=(Fault(message="unknown column: `x`", where="b.csv", line=1),)),
        measured=[Measured(setting=one, trials=())], compared=[[nothing]], tasks=[], runs=40,
    )  # fmt: skip
    text = page.page(outcome, [], folder="x", by_hand="")
    assert "Not understood and left out:\n\n- error: unknown column: `x` (b.csv, line 1)\n" in text
    assert "- `odd/bulk/HX/cubic`: path 1: cwnd mean, segments, kernel 8, simulator none\n" in text
    assert "| odd: Bulk | 0 of 0 | 0 of 0 | 0 of 1 |  |" in text
    assert text[text.index("## odd") :] == (
        "## odd: Bulk: as much as the paths take\n\n### odd bulk HX\n\n"
        "50 ms, 5 Mb/s, 1.00% loss of acknowledgements | 9 ms, 4 Mb/s, queue 8; MPTCP; 60 s; "
        "path 1 has 2 Mb/s at 20 s; path 2 down at 30.5 s; receive buffer up to 524,288 bytes.\n\n"
        "| cubic | kernel | n | simulator | error | allowed | |\n|---|--:|--:|--:|--:|--:|---|\n"
        "| path 1: cwnd mean, segments | 8 | 1 | none |  | ± 0.500 | miss (the simulator has none) |\n"
    )


@pytest.mark.module
def test_the_papers_kernel_and_its_laboratory():
    # groundtruth/papers-kernel/README.md: tcp_rmem 4096 87380 6291456, scheduler default, exact links.
    one = setting(kernel="mptcp-0.94", congestion="lia")
    found = settings.scenario(one)
    assert found["transport"]["scheduler"] == "dft"
    assert found["transport"]["congestion"] == {"name": "lia", "form": "kernel"}
    assert found["transport"]["receive_buffer"] == "6291456 B"
    assert found["transport"]["receive_buffer_initial"] == "87380 B"
    assert [path["jitter"] for path in found["paths"]] == ["0 ms"] * 2
    names = {"roundrobin": "round-robin", "redundant": "redundant"}
    for theirs, ours in names.items():
        other = setting(kernel="mptcp-0.94", scheduler=theirs)
        assert other.name == f"bulk/P1/cubic/{theirs}"
        assert settings.scenario(other)["transport"]["scheduler"] == ours
        load.load(settings.scenario(other))
    for control in ("cubic", "reno", "bbr"):
        plain = settings.scenario(setting(kernel="mptcp-0.94", congestion=control))
        assert plain["transport"]["congestion"] == control
        load.load(plain)
    for control in ("lia", "olia", "balia", "wvegas"):
        load.load(settings.scenario(setting(kernel="mptcp-0.94", congestion=control)))


@pytest.mark.parametrize("knows", [True, False])
def test_a_generation_is_named_where_scenarios_know_generations(monkeypatch, knows):
    fields = {**kernels.Transport.model_fields}
    fields.pop("profile", None)
    monkeypatch.setattr(
        kernels, "Transport", SimpleNamespace(model_fields=fields | ({"profile": 1} if knows else {}))
    )
    old, new = (settings.scenario(setting(kernel=name))["transport"] for name in ("mptcp-0.94", "linux-6.18"))
    assert old.get("profile") == ("mptcp-0.94" if knows else None)
    assert "profile" not in new


# A film of 5.24 Mb/s is 655,000 bytes a second.
SECOND = 655_000


@pytest.mark.parametrize(
    ("arrived", "count"),
    [
        # Seconds of film received at each whole second: as fast as it is played, and always one second ahead.
        ([0, 1, 2, 3, 4, 5], 0),
        # Playback starts at 1 s. At 3 s, one second of film has arrived and two have been played. Two more
        # seconds of film arrive at 5 s, so one second is in the buffer again.
        ([0, 1, 1.5, 1.5, 1.5, 3.5, 3.5, 3.5], 1), ([0, 1, 1.5, 1.5, 1.5, 3.5, 3.5, 3.5, 3.5], 2),
        # The buffer never has a second of film, so playback never starts.
        ([0, 0.5, 0.9, 0.99], 0),
        # A stall that lasts until the end counts.
        ([0, 1, 1, 1, 1, 1, 1], 1),
        ([], 0),
    ],
)  # fmt: skip
def test_a_player_behind_the_arrivals_runs_dry(arrived, count):
    assert measure.stalls([(float(time), one * SECOND) for time, one in enumerate(arrived)]) == count


def test_a_film_has_stalls():
    found = figures(setting("film"))
    assert (found["stalls"], found["max_read_gap_s"]) == (0, 0.75)
    assert "stalls" not in figures(setting())


def test_odd_path_settings_are_part_of_the_scenario():
    legs = (Leg(rtt_ms=50, rate_mbps=5, loss=0, loss_up=0.01, queue_packets=8),)
    changes = (Change(at_s=20, path=1, rate_mbps=2.5), Change(at_s=30, path=1, state="up"))
    found = settings.scenario(
        setting("handoff", how="blackhole", legs=legs, changes=changes, receive_buffer_bytes=524_288),
        cut_at_s=25.0,
    )
    assert (found["paths"][0]["queue"], found["paths"][0]["up"]) == ("8 packets", {"loss": "1 %"})
    assert found["transport"]["receive_buffer"] == "524288 B"
    assert found["events"] == [
        {"at": "20.000000 s", "path": "path1", "rate": "2500000 bit/s", "direction": "both"},
        {"at": "30.000000 s", "path": "path1", "state": "up"},
        {"at": "25.000000 s", "path": "path1", "state": "down"},
    ]
    load.load(found)


def test_pictures_are_of_first_trials_but_a_players(tmp_path):
    def one(kind, run, **given):
        trials = tuple(Trial(run=f"{run}{number}", number=number, figures={}) for number in (1, 2))
        return Measured(setting=setting(kind, **given), trials=trials, folder=tmp_path)

    measured, faults = [one("bulk", "a"), one("vlc", "v", film="f.ts")], []
    assert page.kernel_series(measured, faults) == {}, "there is no folder of series"
    recorded(tmp_path, "a1", SENDER)
    found = page.kernel_series(measured, faults)
    assert set(found) == {"bulk/P1/cubic"}
    assert found["bulk/P1/cubic"].cwnd[2] == [(0.5, 4.0), (1.5, 8.0)]
    assert faults == []
    assert page.kernel_series([one("paced", "b")], faults) == {}
    assert faults == [], "of that run there is none"
    (tmp_path / "ts" / "b1.rx.csv.gz").touch()
    assert page.kernel_series([one("paced", "b")], faults) == {}
    assert [fault.message.rpartition("/")[2] for fault in faults] == ["b1.csv.gz`", "an empty file"]


def test_pictures_show_the_controllers_of_a_case_side_by_side(monkeypatch):
    first, second, other = setting(), setting(congestion="reno", duration_s=90.0), setting(case="P3")
    measured = [Measured(setting=each, trials=()) for each in (first, other, second)]
    tasks = [
        simulate.Task(place=n, setting=each.setting, film=None, runs=(4, 5), cuts=())
        for n, each in enumerate(measured)
    ]
    run = []
    monkeypatch.setattr(simulate, "trace", lambda task, number: (run.append((task.place, number)), tables()))
    outcome = page.Outcome(
        truth=GroundTruth(measured=(), films={}), measured=measured, compared=[[]] * 3, tasks=tasks, runs=9
    )  # fmt: skip
    kernel = {
        name: Series(cwnd={}, srtt={}, acked={}, goodput=[(1.0, n)])
        for n, name in enumerate(["bulk/P1/cubic", "bulk/P1/reno"])
    }
    (picture,) = page.pictures(outcome, kernel)
    assert (picture.name, picture.until_s) == ("bulk-p1", 90.0)
    assert picture.alt == "bulk p1: kernel and simulator over time, cubic, reno"
    assert {name: pair[0].goodput for name, pair in picture.columns.items()} == {
        "cubic": [(1.0, 0)],
        "reno": [(1.0, 1)],
    }
    assert picture.columns["reno"][1].cwnd[2] == [(0.4, 50.0)]
    assert run == [(0, 4), (2, 4)]


def test_controllers_of_one_case_stand_under_one_heading():
    assert page.group(setting()) == page.group(setting(congestion="reno")) == "bulk-p1"
    assert page.group(setting("handoff", how="linkdown+epdel")) == "handoff-p1-linkdown-epdel"
    assert page.group(setting("vlc", film="v524.ts")) == "vlc-p1-v524.ts"
