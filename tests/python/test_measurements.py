"""The laboratory's tables become settings, trials and films; each fault in them is reported with its cell."""

from __future__ import annotations

import gzip

import pytest

from anabranch.calibrate import _cells, compare, films, read, simulate
from anabranch.calibrate.model import Change, Leg, Setting, Trial
from anabranch.errors import Fault, InputError

LEGS = (Leg(rtt_ms=50, rate_mbps=5, loss=0.005), Leg(rtt_ms=100, rate_mbps=4, loss=0))

LEG = "rtt1_ms,bw1_mbps,loss1,rtt2_ms,bw2_mbps,loss2"
SUB = "bytes_acked,retrans_segs,cwnd_mean,cwnd_median,srtt_mean_ms"
HEAD = ",".join(
    ["run,case,proto,cc,trial,pace,dur,goodput_mbps,max_read_gap_s", LEG]
    + [f"sf{n}_{name}" for n in (1, 2) for name in SUB.split(",")]
)


def table(folder, name, *lines):
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_runs_become_settings_and_trials(tmp_path):
    one = "50,5,0.005,100,4,0,300,3,16,17,60,100,2,50,51,110"
    table(
        tmp_path, "mine.csv", HEAD,
        f"b2,A,mptcp,cubic,2,0,60,8.5,0.25,{one}",
        f"b1,A,mptcp,cubic,1,0,60,8,0.5,{one}",
        f"p1,A,mptcp,reno,1,5240000,30,5.2,0.125,{one}",
        "s1,B,tcp,reno,1,5240000,60,4,0.5,20,1,0,,,,7,1,2,3,20,,,,,",
    )  # fmt: skip
    bulk, paced, single = read.read(tmp_path).measured
    assert bulk.setting == Setting(
        kind="bulk", case="A", congestion="cubic", multipath=True, legs=LEGS, duration_s=60
    )
    assert [(trial.run, trial.number, trial.cut_at_s) for trial in bulk.trials] == [
        ("b1", 1, None),
        ("b2", 2, None),
    ]
    figures = {
        "goodput_mbps": 8, "max_read_gap_s": 0.5,
        "sf1_bytes_acked": 300, "sf1_retrans_segs": 3, "sf1_cwnd_mean": 16, "sf1_cwnd_median": 17, "sf1_srtt_mean_ms": 60,
        "sf2_bytes_acked": 100, "sf2_retrans_segs": 2, "sf2_cwnd_mean": 50, "sf2_cwnd_median": 51, "sf2_srtt_mean_ms": 110,
    }  # fmt: skip
    assert bulk.trials[0].figures == figures
    assert (paced.setting.kind, paced.setting.pace_bps, paced.setting.duration_s) == ("paced", 5.24e6, 30)
    assert paced.trials[0].figures["split_1_percent"] == 75
    assert (single.setting.multipath, single.setting.legs) == (False, (Leg(rtt_ms=20, rate_mbps=1, loss=0),))
    assert "split_1_percent" not in single.trials[0].figures


def test_split_is_zero_if_no_bytes_were_sent(tmp_path):
    table(tmp_path, "mine.csv", HEAD, "p,A,mptcp,reno,1,1,60,8,0.5,50,5,0,100,4,0" + ",0" * 10)
    assert read.read(tmp_path).measured[0].trials[0].figures["split_1_percent"] == 0


HAND = "run,case,how,mode,cc,trial,cut_at_s,resume_after_cut_s,goodput_mbps,sf1_retrans_segs,sf2_retrans_segs,dur,pace"


def test_handoff_tables_may_omit_columns(tmp_path):
    table(tmp_path, "cases.csv", f"case,{LEG}", "A,50,5,0.005,100,4,0", "B,20,1,0,30,1,0")
    table(
        tmp_path, "handoff.csv", HAND,
        "h_B_1,A,blackhole,bulk,reno,1,19.5,1.5,8,3,4,30,7000000",
        "h_B_2,,linkdown,paced,reno,1,20,2.5,8,3,4,,",
        "h_B_3,A,linkdown+epdel,paced,reno,2,20,2.5,8,3,4,,1000000",
    )  # fmt: skip
    first, second, third = read.read(tmp_path).measured
    assert first.setting == Setting(
        kind="handoff", case="A", congestion="reno", multipath=True, legs=LEGS, duration_s=30, how="blackhole"
    )
    assert first.trials == (
        Trial(
            run="h_B_1", number=1, cut_at_s=19.5,
            figures={"resume_after_cut_s": 1.5, "goodput_mbps": 8, "sf1_retrans_segs": 3, "sf2_retrans_segs": 4},
        ),
    )  # fmt: skip
    # The laboratory's session lasted 45 s, and its pace was 5.24 Mb/s.
    assert (second.setting.case, second.setting.duration_s, second.setting.pace_bps) == ("B", 45, 5.24e6)
    assert (third.setting.how, third.setting.pace_bps, third.trials[0].number) == ("linkdown+epdel", 1e6, 2)


ODD = HEAD + ",loss_up1,queue1_packets,loss_up2,queue2_packets,events,tcp_rmem_max"
FIGURES = "8,0.5,50,5,0.005,100,4,0,300,3,16,17,60,100,2,50,51,110"


def test_odd_columns_of_a_setting_are_parsed(tmp_path):
    table(
        tmp_path, "odd.csv", ODD,
        f"a,A,mptcp,reno,1,0,60,{FIGURES},0.01,8,0,300,20:0:rate=2M 40.5:1:rate=10M,524288",
        f'b,B,mptcp,reno,1,0,60,{FIGURES},,,,,"[""20:1:down"", ""30:1:up""]",',
    )  # fmt: skip
    truth = read.read(tmp_path, name="odd")
    first, second = (one.setting for one in truth.measured)
    assert first.legs == (
        Leg(rtt_ms=50, rate_mbps=5, loss=0.005, loss_up=0.01, queue_packets=8),
        Leg(rtt_ms=100, rate_mbps=4, loss=0, loss_up=0, queue_packets=300),
    )
    assert first.changes == (Change(at_s=20, path=1, rate_mbps=2), Change(at_s=40.5, path=2, rate_mbps=10))
    assert (first.name, first.receive_buffer_bytes) == ("odd/bulk/A/reno", 524_288)
    assert second.legs == LEGS, "what a table does not say is as ever"
    assert second.changes == (Change(at_s=20, path=2, state="down"), Change(at_s=30, path=2, state="up"))
    assert second.receive_buffer_bytes is None
    assert truth.refused == ()


@pytest.mark.parametrize(
    "event", ["20:2:down", "20:0:sideways", "20:0:rate=", "20:0:rate=2T", "x", "[1", "20:0:delay=5"]
)
def test_an_event_that_is_unknown_is_reported(tmp_path, event):
    rest = f"{FIGURES},0,100,0,100"
    table(
        tmp_path, "odd.csv", ODD, f"a,A,mptcp,reno,1,0,60,{rest},{event},", f"b,A,mptcp,reno,2,0,60,{rest},,"
    )
    truth = read.read(tmp_path)
    assert [(one.message, one.line, one.key) for one in truth.refused] == [
        (f"unknown event: `{event}`", 2, "events")
    ]
    assert [trial.run for trial in truth.measured[0].trials] == ["b"]


def test_three_paths_and_a_subflow_that_never_was(tmp_path):
    third = ",".join(f"sf3_{name}" for name in SUB.split(","))
    more = "20,1,0,7,1,2,3,25"
    table(
        tmp_path, "mine.csv", f"{HEAD},rtt3_ms,bw3_mbps,loss3,{third}",
        f"a,A,mptcp,reno,1,0,60,{FIGURES},{more}",
        f"b,A,mptcp,reno,2,0,60,{FIGURES},20,1,0,,,,,",
        f"c,A,mptcp,reno,3,0,60,{FIGURES},20,1,0,7,,,,",
        f"d,B,mptcp,reno,1,1e6,60,{FIGURES},{more}",
    )  # fmt: skip
    truth = read.read(tmp_path)
    bulk, paced = truth.measured
    assert bulk.setting.legs == (*LEGS, Leg(rtt_ms=20, rate_mbps=1, loss=0))
    assert [trial.run for trial in bulk.trials] == ["a", "b"]
    assert bulk.values("sf3_bytes_acked") == [7, 0]
    assert bulk.values("sf3_retrans_segs") == [1, 0]
    assert bulk.values("sf3_srtt_mean_ms") == [25]
    # Half a row of a subflow does not count.
    assert {one.line for one in truth.refused} == {4}
    assert [one.key for one in truth.refused] == [f"sf3_{name}" for name in SUB.split(",")[1:]]
    assert paced.trials[0].figures["split_1_percent"] == pytest.approx(100 * 300 / 407)


def test_a_cut_in_a_table_of_runs_is_a_hand_over(tmp_path):
    table(
        tmp_path, "rows.csv", f"{HEAD},events,how,mode,cut_at_s,resume_after_cut_s",
        f"a,A,mptcp,reno,1,0,45,{FIGURES},\"[\"\"20:0:down\"\"]\",blackhole,bulk,20,0.7",
        f"b,A,mptcp,reno,1,0,45,{FIGURES},,,,,",
    )  # fmt: skip
    cut, whole = read.read(tmp_path).measured
    assert (cut.setting.name, cut.setting.how, cut.setting.changes) == (
        "handoff/A/reno/blackhole",
        "blackhole",
        (),
    )
    assert (cut.setting.legs, cut.setting.duration_s, cut.trials[0].cut_at_s) == (LEGS, 45, 20)
    assert cut.trials[0].figures["resume_after_cut_s"] == 0.7
    assert cut.trials[0].figures["sf2_cwnd_mean"] == 50
    assert cut.trials[0].figures["max_read_gap_s"] == 0.5
    assert whole.setting.name == "bulk/A/reno"


def test_windows_of_hand_overs_are_read_where_a_table_has_them(tmp_path):
    table(tmp_path, "cases.csv", f"case,{LEG}", "A,50,5,0.005,100,4,0")
    table(
        tmp_path, "handoff.csv", f"{HAND},sf2_cwnd_mean,sf2_srtt_mean_ms,sf1_bytes_acked",
        "h_A_1,A,blackhole,bulk,reno,1,20,1.5,8,3,4,30,,121.5,238,1000",
        "h_A_2,A,blackhole,bulk,reno,2,20,1.5,8,3,4,30,,,,",
    )  # fmt: skip
    (one,) = read.read(tmp_path).measured
    assert one.values("sf2_cwnd_mean") == [121.5]
    assert (one.values("sf2_srtt_mean_ms"), one.values("sf1_bytes_acked")) == ([238], [1000])
    found = {figure.figure: figure.verdict for figure in compare.compare(one, [{"sf2_cwnd_mean": 133.6}])}
    assert (found["sf2_cwnd_mean"], found["sf2_srtt_mean_ms"]) == ("ok", "miss")


OLD = HEAD + ",sched,queue_p,opp_reinj_rwnd"


def test_the_papers_kernel_is_recognised_by_its_counters_or_its_file(tmp_path):
    table(
        tmp_path, "mine.csv", OLD,
        f"a,A,mptcp,reno,1,0,60,{FIGURES},default,100,0", f"b,A,mptcp,reno,1,0,60,{FIGURES},redundant,100,0",
        f"c,B,mptcp,reno,1,0,60,{FIGURES},,60,0", f"d,B,mptcp,reno,2,0,60,{FIGURES},redundent,60,0",
    )  # fmt: skip
    truth = read.read(tmp_path)
    first, second, third = (one.setting for one in truth.measured)
    assert {one.setting.kernel for one in truth.measured} == {"mptcp-0.94"}
    assert (first.name, second.name) == ("bulk/A/reno", "bulk/A/reno/redundant")
    assert [leg.queue_packets for leg in (*first.legs, *third.legs)] == [100, 100, 60, 60]
    (fault,) = truth.refused
    assert (fault.message, fault.line, fault.hint) == (
        "unknown scheduler: `redundent`", 5, "did you mean `redundant`?"
    )  # fmt: skip
    (tmp_path / "kernel.toml").write_text('kernel = "linux-6.18"\n', encoding="utf-8")
    new = read.read(tmp_path)
    assert {one.setting.kernel for one in new.measured} == {"linux-6.18"}
    # That one has no redundant scheduler.
    assert [fault.line for fault in new.refused] == [3, 5]
    assert read.read(tmp_path, kernel="mptcp-0.94").measured[0].setting.kernel == "mptcp-0.94"


@pytest.mark.parametrize(
    ("text", "message"), [('kernel = "mptcp-0.49"', "unknown kernel: `mptcp-0.49`"), ("kernel =", "not a TOML file"), ("", "unknown kernel: `None`")]
)  # fmt: skip
def test_a_kernel_that_is_unknown_is_reported(tmp_path, text, message):
    table(tmp_path, "mine.csv", HEAD, f"a,A,mptcp,reno,1,0,60,{FIGURES}")
    (tmp_path / "kernel.toml").write_text(text, encoding="utf-8")
    truth = read.read(tmp_path)
    (fault,) = truth.refused
    assert fault.message.startswith(message)
    assert truth.measured[0].setting.kernel == "linux-6.18"


def test_films_have_stalls_and_cases_of_their_own(tmp_path):
    table(tmp_path, "rows.csv", OLD, f"a,A,mptcp,reno,1,0,60,{FIGURES},,100,0")
    table(
        tmp_path, "film.csv", f"{OLD},stalls",
        f"f,A,mptcp,reno,1,0,624,{FIGURES},,60,0,26", f"g,A,mptcp,cubic,1,0,624,{FIGURES},,60,0,",
    )  # fmt: skip
    truth = read.read(tmp_path)
    assert truth.refused == ()
    bulk, film, other = truth.measured
    assert (bulk.setting.name, film.setting.name, film.setting.kind) == ("bulk/A/reno", "film/A/reno", "film")
    assert film.setting.legs[0].queue_packets == 60
    assert film.values("stalls") == [26]
    assert other.values("stalls") == []
    assert [len(task.runs) for task in simulate.tasks([film], {}, runs=100)] == [10, 10]


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        ("queue1_pakets", "did you mean `queue1_packets`?"), ("loss_upp2", "did you mean `loss_up2`?"),
        ("sf2_cwndmean", "did you mean `sf2_cwnd_mean`?"),
        ("zzz", "groundtruth/README.md lists the columns of tables"),
    ],
)  # fmt: skip
def test_an_unknown_column_is_refused_by_itself(tmp_path, column, hint):
    table(tmp_path, "mine.csv", f"{HEAD},{column}", f"a,A,mptcp,reno,1,0,60,{FIGURES},1")
    truth = read.read(tmp_path)
    assert truth.refused == (
        Fault(
            message=f"unknown column: `{column}`",
            where=str(tmp_path / "mine.csv"),
            line=1,
            key=column,
            hint=hint,
        ),
    )
    assert len(truth.measured) == 1


def test_an_unknown_table_is_refused_by_itself(tmp_path):
    table(tmp_path, "mine.csv", HEAD, f"a,A,mptcp,reno,1,0,60,{FIGURES}")
    table(tmp_path, "case.csv", "case,rtt", "A,50")
    table(tmp_path, "handof.csv", HAND, "h_A_1,A,blackhole,bulk,reno,1,19.5,1.5,8,3,4,30,7000000")
    (tmp_path / "torn.csv").write_bytes(b'run\n"')
    truth = read.read(tmp_path)
    assert len(truth.measured) == 1
    told = {one.message: (one.line, one.hint) for one in truth.refused}
    assert told["unknown table: `handof.csv`"] == (1, "is it `handoff.csv`?")
    assert told["unknown table: `case.csv`"] == (1, "is it `cases.csv`?")
    assert len(told) == 3


@pytest.mark.parametrize("name", ["bulk", "lossy", "paced", "film", "handoff", "vlc", "cases"])
def test_a_name_with_a_letter_too_many_is_taken_for_the_one_meant(tmp_path, name):
    table(tmp_path, "mine.csv", HEAD, f"a,A,mptcp,reno,1,0,60,{FIGURES}")
    table(tmp_path, "cases.csv", f"case,{LEG}", "A,50,5,0.005,100,4,0")
    table(tmp_path, f"{name}x.csv", "run", "a")
    (refused,) = read.read(tmp_path).refused
    assert refused.hint == f"is it `{name}.csv`?"


FILM = """\
stream,pos,size,pts_s,dts_s,key
video,188,1000,1.5,1.4,1
video,1316,500,1.7,1.5,0
audio,N/A,100,1.52,1.52,1
video,2632,300,1.6,1.6,0
video,3948,200,1.8,1.7,0
"""
PLAYER = "run,case,proto,cc,trial,file,startup_s,rebuffer_count,rebuffer_s,lost_pictures,displayed_pictures,dur,read_bytes"


def test_players_and_their_films(tmp_path):
    table(tmp_path, "cases.csv", f"case,{LEG}", "A,50,5,0.005,100,4,0")
    table(
        tmp_path, "vlc.csv", PLAYER,
        "g1,A,mptcp,bbr,1,f.ts,1.5,2,3.5,7,90,,5000",
        "g2,A,mptcp,bbr,2,f.ts,1.25,3,4.5,8,91,,4000",
        "g3,A,tcp,bbr,1,f.mp4,1.25,3,4.5,8,91,50,",
    )  # fmt: skip
    for name in ("f.ts", "f.mp4"):
        (tmp_path / f"{name}.frames.csv.gz").write_bytes(gzip.compress(FILM.encode()))
    with pytest.raises(InputError, match="unknown congestion control: `bbr`"):
        read.read(tmp_path)
    edited = (tmp_path / "vlc.csv").read_text(encoding="utf-8").replace("bbr", "reno")
    (tmp_path / "vlc.csv").write_text(edited, encoding="utf-8")
    truth = read.read(tmp_path)
    first, second = truth.measured
    # 105 s of a session less the 0.07 s until the request.
    assert (first.setting.duration_s, second.setting.duration_s) == (pytest.approx(104.93), 50)
    assert (first.setting.film, first.setting.multipath, second.setting.multipath) == ("f.ts", True, False)
    assert first.trials[0].figures == {
        "startup_s": 1.5, "rebuffer_count": 2, "rebuffer_s": 3.5, "lost_pictures": 7, "displayed_pictures": 90,
    }  # fmt: skip
    assert [trial.run for trial in first.trials] == ["g1", "g2"]
    # Of one film, 5000 bytes were read. Of the other, only the last packet is known.
    assert (truth.films["f.ts"].size_bytes, truth.films["f.mp4"].size_bytes) == (5000, 4148)


WHOLE = {
    "mine.csv": (HEAD, "r,A,mptcp,reno,1,7,60,8.5,0.25,50,5,0.005,100,4,0,300,3,16,17,60,100,2,50,51,110"),
    "handoff.csv": (HAND, "h_A_1,A,blackhole,paced,reno,1,19.5,1.5,8,3,4,30,7000000"),
    "vlc.csv": (PLAYER, "g1,A,mptcp,reno,1,f.ts,1.5,2,3.5,7,90,50,5000"),
}
CELLS = [(name, column) for name, (head, _) in WHOLE.items() for column in head.split(",")]


@pytest.mark.parametrize(("name", "column"), CELLS)
def test_one_cell_that_is_wrong_is_one_fault(tmp_path, name, column):
    table(tmp_path, "cases.csv", f"case,{LEG}", "A,50,5,0.005,100,4,0")
    (tmp_path / "f.ts.frames.csv.gz").write_bytes(gzip.compress(FILM.encode()))
    head, row = WHOLE[name]
    cells = dict(zip(head.split(","), row.split(","), strict=True))
    table(tmp_path, name, head, row)
    assert len(read.read(tmp_path).measured) == 1
    table(tmp_path, name, head, ",".join({**cells, column: "x"}.values()))
    if column == "run":
        assert read.read(tmp_path).measured[0].trials[0].run == "x"
    elif (name, column) == ("mine.csv", "case"):
        assert read.read(tmp_path).measured[0].setting.case == "x"
    else:
        with pytest.raises(InputError) as caught:
            read.read(tmp_path)
        (fault,) = caught.value.faults
        if column == "file":
            assert fault.message == "film of an unknown container: `x`"
        else:
            assert (fault.key, fault.line) == (column, 2)


def film(folder, text, name="f.ts", bytes_read=0):
    path, faults = folder / "t.csv.gz", []
    path.write_bytes(gzip.compress(text.encode()))
    return films.read(path, "t", name, bytes_read=bytes_read, faults=faults), [
        fault.message for fault in faults
    ]


def test_a_film_of_a_table_of_packets(tmp_path):
    found, faults = film(tmp_path, FILM)
    assert faults == []
    # Four pictures 0.1 s apart: the last is shown for 0.1 s too.
    assert (found.name, found.size_bytes, found.duration_ns) == ("f.ts", 4148, 400_000_000)
    assert found.plan["recorded"] == {
        "name": "f.ts", "container": "mpegts", "size_bytes": 4148, "duration_ns": 400_000_000, "frame_rate": 10.0,
        "width": 0, "height": 0,
        "packets": {
            "stream": ["video", "video", "audio", "video", "video"],
            "position": [188, 1316, None, 2632, 3948],
            "size": [1000, 500, 100, 300, 200],
            # From the first picture.
            "pts_ns": [0, 200_000_000, 20_000_000, 100_000_000, 300_000_000],
            "dts_ns": [-100_000_000, 0, 20_000_000, 100_000_000, 200_000_000],
            "kind": ["I", "P", "A", "B", "P"],
            "reference": [True, True, False, False, True],
        },
    }  # fmt: skip
    assert film(tmp_path, FILM, name="f.mp4", bytes_read=4149)[0].size_bytes == 4149
    assert film(tmp_path, FILM, name="f.mp4")[0].plan["recorded"]["container"] == "mp4"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (FILM, "f.mkv", "film of an unknown container: `f.mkv`"),
        ("".join(FILM.splitlines(keepends=True)[:2]), "f.ts", "a film needs two pictures or more"),
        (FILM.replace("1.7,", "1.5,").replace("1.6,1.6", "1.5,1.6").replace("1.8,", "1.5,"), "f.ts",
         "all pictures are shown at the same time"),
        (FILM.replace("audio", "radio"), "f.ts", "unknown stream: `radio`"),
        (FILM.replace("1000", "-1"), "f.ts", "out of range: `-1`"),
    ],
)  # fmt: skip
def test_invalid_film_table_is_reported(tmp_path, text, name, message):
    assert film(tmp_path, text, name) == (None, [message])


def test_every_packet_that_is_wrong_is_reported(tmp_path):
    text = FILM.replace("1000", "a").replace("300", "b")
    assert film(tmp_path, text) == (None, ["not a number: `a`", "not a number: `b`"])


@pytest.mark.parametrize(
    ("text", "given", "value"),
    [
        ("0", {}, 0), ("-0.001", {}, None), ("1", {"below": 1.0}, None), ("0.999", {"below": 1.0}, 0.999),
        ("0.1", {"least": 0.1}, 0.1), ("0.09", {"least": 0.1}, None), ("inf", {}, None), ("", {}, None),
    ],
)  # fmt: skip
def test_numbers_have_bounds(text, given, value):
    faults = []
    row = _cells.Row(where="a.csv", line=3, cells={"x": text}, faults=faults)
    assert row.number("x", **given) == value
    assert [(one.where, one.line, one.key) for one in faults] == (
        [] if value is not None else [("a.csv", 3, "x")]
    )


@pytest.mark.parametrize(
    ("given", "hint"),
    [({}, "at least 0"), ({"least": 0.1}, "at least 0.1"), ({"below": 1.0}, "at least 0 and below 1")],
)
def test_bounds_are_named(given, hint):
    faults = []
    assert _cells.Row(where="a", line=1, cells={"x": "-1"}, faults=faults).number("x", **given) is None
    assert [(fault.message, fault.hint) for fault in faults] == [("out of range: `-1`", hint)]


def seen(folder, content, required=("a", "b"), name="t.csv"):
    """Return the rows of a table as (line, a, b), and its faults as (line, key, message, hint)."""
    faults = []
    (folder / name).write_bytes(content)
    found = [
        (row.line, row.text("a"), row.text("b")) for row in _cells.rows(folder / name, "t", required, faults)
    ]
    assert {fault.where for fault in faults} <= {"t"}
    return found, [(fault.line, fault.key, fault.message, fault.hint) for fault in faults]


def test_rows_have_lines_and_a_mark_of_utf_8_is_no_column(tmp_path):
    assert seen(tmp_path, b'\xef\xbb\xbfa,b\n1,2\n"3\n4",5\n6,\n') == (
        [(2, "1", "2"), (4, "3\n4", "5"), (5, "6", "")], [],
    )  # fmt: skip
    assert seen(tmp_path, gzip.compress(b"b,c,a\n1,2,3\n"), name="t.csv.gz") == ([(2, "3", "1")], [])


def test_rows_of_another_length_are_reported_and_the_others_read(tmp_path):
    found, faults = seen(tmp_path, b"a,b\n1\n1,2,3,4\n5,6\n")
    assert found == [(4, "5", "6")]
    assert faults == [
        (2, "", "1 cells in a table of 2 columns", ""), (3, "", "4 cells in a table of 2 columns", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "name", "faults"),
    [
        (b"a,b\n", "t.csv", [(None, "", "a table without rows", "")]),
        (b"", "t.csv", [(None, "", "an empty file", "")]),
        (b"a,c\n1,2\n", "t.csv", [(1, "b", "missing column: `b`", "")]),
        (b"\xff\n", "t.csv", [(None, "", "not UTF-8 text", "")]),
        (b"a,b\n1,2\n", "t.csv.gz", [(None, "", "not a whole gzip file", "")]),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-4], "t.csv.gz", [(None, "", "not a whole gzip file", "")]),
        (b'a,b\n"1"2,3\n', "t.csv", [(2, "", "not a CSV table: ',' expected after '\"'", "")]),
    ],
)  # fmt: skip
def test_invalid_measurement_table_is_reported(tmp_path, content, name, faults):
    assert seen(tmp_path, content, name=name) == ([], faults)


def test_a_column_that_is_nearly_there_is_named(tmp_path):
    required = ("rtt1_ms", "rtt2_ms")
    (fault,) = seen(tmp_path, b"rtt1_ms,rt2_ms\n1,2\n", required)[1]
    assert fault == (1, "rtt2_ms", "missing column: `rtt2_ms`", "is it the column `rt2_ms`?")
    # The hint for an unknown column never proposes a column of another path.
    (fault,) = seen(tmp_path, b"rtt1_ms,rtt3_ms\n1,2\n", required)[1]
    assert fault == (1, "rtt2_ms", "missing column: `rtt2_ms`", "")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("2,0,61,8,0.5,50,5,0.005", "setting described twice: `bulk/A/reno`"),
        ("2,0,60,8,0.5,50,5,1", "out of range: `1`"),
        ("2,0,60,8,0.5,50,5,1.05", "out of range: `1.05`"),
    ],
)
def test_rows_that_do_not_fit_are_reported(tmp_path, second, message):
    rest = ",100,4,0" + ",0" * 10
    table(
        tmp_path,
        "mine.csv",
        HEAD,
        f"a,A,mptcp,reno,1,0,60,8,0.5,50,5,0.005{rest}",
        f"b,A,mptcp,reno,{second}{rest}",
    )
    truth = read.read(tmp_path)
    assert [(fault.message, fault.line) for fault in truth.refused] == [(message, 3)]
    assert [trial.run for one in truth.measured for trial in one.trials] == ["a"], "the other row is kept"
