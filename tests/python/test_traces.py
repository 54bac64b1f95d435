"""Recordings of links: every form read and written, every fault reported, and their use by the simulator."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anabranch import traces
from anabranch.cli._app import app
from anabranch.errors import InputError, ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans
from anabranch.traces._summary import summarise

OWN = "t_s,rate_mbps,delay_ms,loss\n0,5,10,0\n1,0,10,0.5\n3.5,2.5,0,0\n"

SABRE = '[{"duration_ms": %s, "bandwidth_kbps": %s}]'


def trace_of(tmp_path, text, name="trace.txt"):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return traces.read(file)


def faults_of(tmp_path, text):
    with pytest.raises(InputError) as caught:
        trace_of(tmp_path, text)
    return [(fault.line, fault.message) for fault in caught.value.faults]


class TestReading:
    def test_our_own_form_has_rate_delay_and_loss(self, tmp_path):
        trace = trace_of(tmp_path, "# made by hand\n" + OWN)
        assert trace.form == "anabranch"
        assert [(s.at_ns, s.rate_bps, s.delay_ns, s.loss) for s in trace.steps] == [
            (0, 5_000_000, 10_000_000, 0.0),
            (10**9, 0, 10_000_000, 0.5),
            (3_500_000_000, 2_500_000, 0, 0.0),
        ]
        assert trace.length_ns == 6 * 10**9, "the last step is as long as the one before"
        assert trace.mean_bps() == pytest.approx((5 + 2.5 * 2.5) / 6 * 1e6)

    def test_delay_and_loss_may_be_left_out(self, tmp_path):
        trace = trace_of(tmp_path, "t_s,rate_mbps\n0,1\n")
        assert (trace.length_ns, trace.has_delays) == (10**9, False)

    def test_a_link_has_half_of_a_round_trip(self, tmp_path):
        trace = trace_of(tmp_path, "t_s,rate_mbps,rtt_ms,loss\n0,1,50,0.1\n1,2,81,0\n")
        assert [(s.delay_ns, s.loss) for s in trace.steps] == [(25_000_000, 0.1), (40_500_000, 0.0)]
        assert trace.has_delays

    def test_mahimahi_counts_opportunities(self, tmp_path):
        trace = trace_of(tmp_path, "0\n0\n5\n10\n")
        assert trace.opportunities_ms == (0, 0, 5, 10)
        assert trace.mean_bps() == 4 * 12_000 / 0.010

    def test_pairs_begin_at_any_second(self, tmp_path):
        trace = trace_of(tmp_path, "1650000000,1000000\n1650000001,0\n1650000002,3000000\n")
        assert [(s.at_ns, s.rate_bps) for s in trace.steps] == [
            (0, 10**6),
            (10**9, 0),
            (2 * 10**9, 3 * 10**6),
        ]
        assert trace.mean_bps() == pytest.approx(4e6 / 3)

    def test_sabres_latency_is_a_round_trip(self, tmp_path):
        entries = [{"duration_ms": 500, "bandwidth_kbps": 800, "latency_ms": 60}]
        trace = trace_of(tmp_path, json.dumps(entries))
        assert (trace.steps[0].rate_bps, trace.steps[0].delay_ns) == (800_000, 30_000_000)
        assert trace.length_ns == 500_000_000


def test_columns_may_be_in_any_order_and_in_other_units(tmp_path):
    plain = trace_of(tmp_path, "t_s,rate_mbps,rtt_ms,loss\n0,1.5,50,0.1\n1,2,81,0\n")
    other = trace_of(tmp_path, "loss_percent,rtt_ms,rate_kbps,t_ms\n10,50,1500,0\n0,81,2000,1000\n")
    assert other == plain
    assert plain.steps[0].rate_bps == 1_500_000
    whole = trace_of(tmp_path, "rate_bps,t_s\n1500000,0\n2000000,1\n")
    assert [step.rate_bps for step in whole.steps] == [step.rate_bps for step in plain.steps]


class TestFaults:
    def test_all_are_reported_at_once_with_their_lines(self, tmp_path):
        text = "t_s,rate_mbps,delay_ms,loss\n0,5,10,0\n1,x,-4,2\n0.5,-1,0,0\n7,1\n9,nan,0,0\n"
        assert faults_of(tmp_path, text) == [
            (3, "rate_mbps is not a number: `x`"),
            (3, "delay_ms is negative: `-4`"),
            (3, "loss is above 1: `2`"),
            (4, "the trace runs backwards: 0.5 s after 1 s"),
            (4, "rate_mbps is negative: `-1`"),
            (5, "2 values under 4 names"),
            (6, "rate_mbps is not a number: `nan`"),
        ]

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("", None, "the trace is empty"),
            ("# nothing\n\n", None, "the trace is empty"),
            ("t_s,rate_mbps\n", None, "the trace is empty"),
            ("[]", 1, "the trace is empty"),
            ("hello\nworld\n", 1, "not a known form of trace: `hello`"),
            ("1,2,3\n", 1, "not a known form of trace: `1,2,3`"),
            ("t_s,delay_ms\n0,1\n", 1, "missing column: rate_mbps or rate_kbps or rate_bps"),
            ("t_s,rate_mbps,delay_ms,rtt_ms\n0,1,1,2\n", 1, "delay_ms and rtt_ms exclude each other"),
            ("t_s,rate_kbps,rate_mbps\n0,1,1\n", 1, "rate_kbps and rate_mbps exclude each other"),
            ("rate_mbps,los,t_s\n0,1,1\n", 1, "unknown column: `los`"),
            ("rate_mbps\n1\n", 1, "missing column: t_s or t_ms"),
            ("t_s,rate_mbps\n1,1\n2,1\n", 2, "the trace does not begin at 0"),
            ("t_s,rate_mbps\n0,0\n2,0\n", None, "the trace never serves anything"),
            ("5\n4\n9\n", 2, "the trace runs backwards: 0.004 s after 0.005 s"),
            ("5\n-4\n9\n", 2, "the millisecond is negative: `-4`"),
            ("5\n7.5\n", 2, "the millisecond is not whole: `7.5`"),
            ("0\n0\n", 2, "the last opportunity lies at 0: the trace takes no time"),
            ("0,5\n1,6\n1,7\n", 3, "the trace runs backwards: 1 s after 1 s"),
            ("0,5\n1\n", 2, "expected second,bits/s: `1`"),
            ('[{"duration_ms": 5}]', None, "entry 1 lacks duration_ms or bandwidth_kbps"),
            ('{"a": 1}', 1, "not a known form of trace"),
            ('[{"duration_ms": 5,\n]', 2, None),
        ],
    )
    def test_each_is_reported(self, tmp_path, text, line, message):
        found = faults_of(tmp_path, text)[0]
        assert found[0] == line
        assert message is None or found[1] == message

    def test_a_file_that_is_not_there_or_no_text(self, tmp_path):
        with pytest.raises(InputError, match="cannot read the trace"):
            traces.read(tmp_path / "nothing")
        (tmp_path / "film.mp4").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputError, match="not UTF-8"):
            traces.read(tmp_path / "film.mp4")

    @pytest.mark.parametrize(
        ("text", "line", "message"),
        [
            ("[" * 200_000, None, "not valid JSON for a trace: it nests too deeply"),
            (SABRE % ("1" * 5000, "5"), None, "not valid JSON for a trace: a number of thousands of digits"),
            (SABRE % ("1" * 400, "5"), None, f"duration_ms of entry 1 is above 10,000,000,000: `{'1' * 40}`"),
            (SABRE % ("1", "1e300"), None, "bandwidth_kbps of entry 1 is above 10,000,000,000: `1e+300`"),
            (SABRE % ("1e-7", "5"), None, "entry 1 takes no time"),
            (
                f"[{', '.join([SABRE[1:-1] % ('6e9', '5')] * 2)}]",
                None,
                "the trace is longer than 10,000,000 s",
            ),
            ("0,1e300\n", 1, "the rate is above 10,000,000,000,000: `1e300`"),
            ("1e300,5\n", 1, "the second is above 100,000,000,000: `1e300`"),
            ("1e9,5\n2e9,5\n", 2, "more than 10,000,000 s after the first: `2e9`"),
            ("7,5\n7.0000000001,5\n", 2, "the trace runs backwards: 0 s after 0 s"),
            ("1e30\n", 1, "the millisecond is above 10,000,000,000: `1e30`"),
            ("t_s,rate_mbps\n0,1\n1e12,1\n", 3, "t_s is above 10,000,000: `1e12`"),
            ("t_s,rate_mbps\n0,1\n1e-10,1\n", 3, "the trace runs backwards: 0 s after 0 s"),
            ("t_s,rate_mbps\n0,inf\n", 2, "rate_mbps is above 10,000,000: `inf`"),
            ("t_s,rate_mbps,delay_ms\n0,1,1e30\n", 2, "delay_ms is above 3,600,000: `1e30`"),
        ],
        ids=range(15),
    )
    def test_invalid_trace_lines_are_reported(self, tmp_path, text, line, message):
        assert faults_of(tmp_path, text)[0] == (line, message)

    def test_a_file_without_end_is_not_read_to_its_end(self, tmp_path):
        with (tmp_path / "hole.csv").open("wb") as file:
            file.truncate(2**40)
        with pytest.raises(InputError, match="cannot read the trace: larger than 256 MiB"):
            traces.read(tmp_path / "hole.csv")

    def test_of_a_thousand_twenty_are_reported(self, tmp_path):
        found = faults_of(tmp_path, "t_s,rate_mbps\n" + "0,x\n" * 1000)
        assert len(found) == 21
        assert "more faults" in found[-1][1]


class TestWriting:
    @pytest.mark.parametrize("form", traces.FORMS)
    def test_written_traces_read_back_with_the_same_mean(self, tmp_path, form):
        trace = trace_of(tmp_path, OWN)
        text, lost = traces.write(trace, form, step_ns=500_000_000)
        again = trace_of(tmp_path, text)
        assert again.form == form
        assert again.length_ns == trace.length_ns
        assert again.mean_bps() == pytest.approx(trace.mean_bps(), rel=0.002)
        assert lost == {"anabranch": [], "sabre": ["losses"]}.get(form, ["delays", "losses"])

    def test_our_own_form_loses_nothing(self, tmp_path):
        trace = trace_of(tmp_path, OWN)
        assert traces.write(trace, "anabranch")[0] == OWN

    def test_opportunities_survive_and_become_rates_by_windows(self, tmp_path):
        lines = "".join(f"{ms}\n" for ms in [*range(1, 1001, 2), 2000])
        trace = trace_of(tmp_path, lines)
        assert traces.write(trace, "mahimahi")[0] == lines
        again = trace_of(tmp_path, traces.write(trace, "anabranch")[0])
        assert [step.rate_bps for step in again.steps] == [500 * 12_000, 12_000]

    def test_a_packet_begun_in_one_step_is_finished_in_the_next(self, tmp_path):
        # 1.2 packets in the first second, the rest at 12 a second: 0.8 of one, then a packet each 83.3 ms.
        trace = trace_of(tmp_path, "t_s,rate_mbps\n0,0.0144\n1,0.144\n")
        times = [int(line) for line in traces.write(trace, "mahimahi")[0].split()]
        assert times[:3] == [834, 1067, 1150]


class TestSummary:
    def test_it_counts(self, tmp_path):
        found = summarise(trace_of(tmp_path, OWN))
        assert found.length_s == 6
        assert found.mean_mbps == pytest.approx(1.875)
        assert found.rate_mbps[0] == 0
        assert found.idle_share == pytest.approx(2 / 6)
        assert found.longest_gap_s == 2.5
        assert found.loss == pytest.approx(0.5 * 2.5 / 6)
        assert found.delay_ms == (0, 10, 10)

    def test_gaps_between_opportunities(self, tmp_path):
        found = summarise(trace_of(tmp_path, "300\n1000\n5000\n"))
        assert found.longest_gap_s == 4
        assert found.delay_ms is None
        steady = summarise(trace_of(tmp_path, "t_s,rate_mbps\n0,1\n9,1\n"))
        assert steady.autocorrelation is None
        # 14 ms are one window of a second, so there is no pair of windows.
        assert summarise(trace_of(tmp_path, "1\n5\n9\n14\n")).autocorrelation is None

    def test_short_trace_shows_why_autocorrelation_is_missing(self, tmp_path):
        (tmp_path / "s").write_text("1\n5\n9\n14\n", encoding="utf-8")
        done = CliRunner().invoke(app, ["trace", "show", str(tmp_path / "s")])
        assert "nan" not in done.stdout
        assert "- (needs three seconds with different rates)" in done.stdout

    def test_reading_reports_progress(self, tmp_path):
        # Twice the 65,536 lines between two reports, and one line.
        lines = 2 * 65_536 + 1
        file = tmp_path / "long"
        file.write_text("".join(f"{at}\n" for at in range(lines)), encoding="utf-8")
        told = []
        traces.read(file, progress=lambda done, total: told.append((done, total)))
        assert told == [(0, lines), (65_536, lines), (131_072, lines)]


def scenario(tmp_path, text, **keys):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    path = {"name": "p", "rtt": "20 ms", "trace": str(tmp_path / "a.csv"), **keys}
    path = {key: value for key, value in path.items() if value is not None}
    return {"name": "t", "application": {"kind": "bulk", "duration": "10 s"}, "paths": [path]}


def messages(given):
    with pytest.raises(ScenarioError) as caught:
        loading.load(given)
    return [(fault.message, fault.line) for fault in caught.value.faults]


class TestInAScenario:
    def test_it_is_resolved_into_the_plan(self, tmp_path):
        plan = plans.build(loading.load(scenario(tmp_path, OWN)).scenario, None)
        down, up = plan["links"]
        assert down["model"] == up["model"]
        assert down["model"]["steps"]["rates_bps"] == [5_000_000, 0, 2_500_000]
        assert down["model"]["steps"]["repeat_ns"] == 6 * 10**9
        assert (down["rate_bps"], down["delay_ns"]) == (None, 10_000_000)
        assert down["queue"] == {"packets": 100}

    def test_it_may_hold_its_last_step_and_be_of_one_direction(self, tmp_path):
        given = scenario(tmp_path, OWN, trace=None, rate="5 Mbit/s")
        given["paths"][0]["down"] = {"trace": {"file": str(tmp_path / "a.csv"), "repeat": False}}
        down, up = plans.build(loading.load(given).scenario, None)["links"]
        assert down["model"]["steps"]["repeat_ns"] is None
        assert "model" not in up

    def test_it_stands_beside_the_scenario_file(self, tmp_path):
        (tmp_path / "a.csv").write_text(OWN, encoding="utf-8")
        text = '[application]\nkind = "bulk"\nduration = "1 s"\n[[paths]]\nname = "p"\ntrace = "a.csv"\n'
        (tmp_path / "s.toml").write_text('name = "s"\n' + text, encoding="utf-8")
        assert loading.load(tmp_path / "s.toml").scenario.paths[0].trace.file == str(tmp_path / "a.csv")

    def test_its_faults_are_reported_with_the_others(self, tmp_path):
        given = scenario(tmp_path, "t_s,rate_mbps\n0,1\n0,x\n", rate="5")
        found = messages(given)
        assert ("the trace runs backwards: 0 s after 0 s", 3) in found
        assert ("rate_mbps is not a number: `x`", 3) in found
        assert any("bare number" in message for message, _ in found)

    def test_only_traces_without_delays_require_an_rtt(self, tmp_path):
        assert loading.load(scenario(tmp_path, OWN, rtt=None)).scenario.paths[0].rtt is None
        assert messages(scenario(tmp_path, "0,1000\n1,2000\n", rtt=None)) == [("missing key: `rtt`", None)]
        assert messages(scenario(tmp_path, OWN, trace="nothing.csv")) == [
            ("no such trace: `nothing.csv`", None)
        ]

    @pytest.mark.module
    def test_the_simulator_follows_it(self, tmp_path):
        from anabranch import run

        steady = run(scenario(tmp_path, "t_s,rate_mbps\n0,2\n1,2\n"))
        assert steady.qos["goodput_mbps"] == pytest.approx(1.9, abs=0.1)
        opportunities = run(scenario(tmp_path, "".join(f"{ms}\n" for ms in range(6, 601, 6))))
        assert opportunities.qos["goodput_mbps"] == pytest.approx(1.9, abs=0.1)


def call(*arguments):
    return CliRunner().invoke(app, ["trace", *map(str, arguments)])


class TestCommands:
    def test_show_sums_up(self, tmp_path):
        (tmp_path / "a.csv").write_text(OWN, encoding="utf-8")
        shown = call("show", tmp_path / "a.csv")
        assert shown.exit_code == 0
        assert "1.875 Mb/s" in shown.stdout
        found = json.loads(call("show", tmp_path / "a.csv", "--json").stdout)
        assert (found["length_s"], found["longest_gap_s"]) == (6, 2.5)

    def test_convert_picks_the_format_by_suffix_or_option(self, tmp_path):
        source = tmp_path / "a.csv"
        source.write_text(OWN, encoding="utf-8")
        for name, extra, form in (
            ("b.json", [], "sabre"),
            ("b.down", [], "mahimahi"),
            ("b.csv", ["--to", "pairs", "--step", "500 ms"], "pairs"),
        ):
            result = call("convert", source, tmp_path / name, *extra)
            assert result.exit_code == 0, result.stderr
            assert "left out" in result.stderr
            assert traces.read(tmp_path / name).form == form

    def test_every_fault_of_the_options_is_reported(self, tmp_path):
        result = call("convert", "nothing", tmp_path / "no" / "b.csv", "--to", "saber", "--step", "5")
        assert result.exit_code == 2
        for message in (
            "no such folder",
            "no such form of trace: `saber`",
            "did you mean `sabre`?",
            "bare number",
        ):
            assert message in result.stderr
        result = call("show", tmp_path / "nothing")
        assert (result.exit_code, "cannot read the trace" in result.stderr) == (2, True)

    @pytest.mark.parametrize(
        ("text", "arguments", "message"),
        [
            ("t_s,rate_mbps\n0,1\n9e6,1\n", ["show"], "18,000,000 windows of 1 s"),
            (OWN, ["convert", "--to", "pairs", "--step", "1ns"], "6,000,000,000 windows of 1e-09 s"),
            ("1\n2000\n", ["convert", "--to", "sabre", "--step", "1ns"], "2,000,000,000 windows of 1e-09 s"),
            ("t_s,rate_mbps\n0,1e7\n", ["convert", "--to", "mahimahi"], "serves 833,333,333 packets"),
        ],
    )
    def test_oversized_trace_output_is_rejected(self, tmp_path, text, arguments, message):
        (tmp_path / "a.csv").write_text(text, encoding="utf-8")
        out = [tmp_path / "b"] if arguments[0] == "convert" else []
        result = call(arguments[0], tmp_path / "a.csv", *out, *arguments[1:])
        assert (result.exit_code, message in result.stderr) == (2, True), result.stderr

    @pytest.mark.module
    def test_record_makes_a_trace_of_a_model(self, tmp_path):
        out = tmp_path / "lte.csv"
        arguments = ["wifi-lte", "lte", out, "--duration", "20s", "--step", "500ms"]
        assert call("record", *arguments).exit_code == 0
        first = out.read_bytes()
        found = summarise(traces.read(out))
        assert (found.length_s, found.loss) == (20, 0)
        assert found.mean_mbps > 1
        assert found.delay_ms[1] > 25, "the path's own delay is in it"
        assert call("record", *arguments).exit_code == 0
        assert out.read_bytes() == first
        assert call("record", *arguments, "--run", 1).exit_code == 0
        assert out.read_bytes() != first
        wrong = call("record", "wifi-lte", "lta", out)
        assert (wrong.exit_code, "did you mean `lte.down`?" in wrong.stderr) == (2, True)

    @pytest.mark.module
    def test_a_recording_of_a_recording_is_the_same(self, tmp_path):
        (tmp_path / "a.csv").write_text(OWN, encoding="utf-8")
        text = (
            'name = "s"\n[application]\nkind = "bulk"\nduration = "1 s"\n'
            '[[paths]]\nname = "p"\ntrace = "a.csv"\n'
        )
        (tmp_path / "s.toml").write_text(text, encoding="utf-8")
        arguments = [tmp_path / "s.toml", "p", tmp_path / "b.csv", "--duration", "6s", "--step", "500ms"]
        assert call("record", *arguments).exit_code == 0
        again = traces.read(tmp_path / "b.csv")
        rates = [step.rate_bps / 1e6 for step in again.steps]
        # Counted as it arrives, 10 ms later: a packet or two are in the next step.
        assert rates == pytest.approx([5, 5, 0, 0, 0, 0, 0, 2.5, 2.5, 2.5, 2.5, 2.5], abs=0.15)
        assert again.steps[0].delay_ns == pytest.approx(10e6, rel=0.02)


def test_a_figure_shows_rate_delay_and_losses(tmp_path):
    from anabranch.figures.links import link

    drawn = json.dumps(link(trace_of(tmp_path, OWN), title="a trace").to_dict())
    for part in ("a trace", "Mb/s", "ms one way", '"loss": 0.5', '"rate": 2.5'):
        assert part in drawn


class TestRandomStarts:
    """Each run begins at another place in a recording."""

    def test_shifted_trace_wraps_around(self, tmp_path):
        # OWN holds 5 Mb/s for 1 s, nothing for 2.5 s, 2.5 Mb/s for 2.5 s; a third of 6 s lies in the silence.
        moved = trace_of(tmp_path, OWN).begun_at(1 / 3)
        assert [(s.at_ns, s.rate_bps, s.delay_ns, s.loss) for s in moved.steps] == [
            (0, 0, 10_000_000, 0.5),
            (1_500_000_000, 2_500_000, 0, 0.0),
            (4_000_000_000, 5_000_000, 10_000_000, 0.0),
            (5_000_000_000, 0, 10_000_000, 0.5),
        ]
        assert moved.length_ns == 6 * 10**9

    def test_the_first_place_is_the_recording_itself(self, tmp_path):
        trace = trace_of(tmp_path, OWN)
        assert trace.begun_at(0.0) == trace

    @pytest.mark.parametrize("text", [OWN, "3\n3\n5\n10\n", "0\n5\n10\n"])
    @pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.5, 0.99])
    def test_nothing_is_lost_or_won(self, tmp_path, text, share):
        trace = trace_of(tmp_path, text)
        moved = trace.begun_at(share)
        assert moved.mean_bps() == pytest.approx(trace.mean_bps())
        assert moved.length_ns == trace.length_ns

    def test_opportunities_begin_at_the_last_one_before_the_place(self, tmp_path):
        # 40 % of 10 ms is at 4 ms, in the silence behind the two opportunities of 3 ms: these are the last now.
        moved = trace_of(tmp_path, "3\n3\n5\n10\n").begun_at(0.4)
        assert moved.opportunities_ms == (2, 7, 10, 10)

    def test_opportunities_before_the_first_one_begin_at_the_beginning(self, tmp_path):
        moved = trace_of(tmp_path, "3\n3\n5\n10\n").begun_at(0.2)
        assert moved.opportunities_ms == (3, 3, 5, 10)

    def scenario(self, tmp_path, **trace):
        (tmp_path / "a.csv").write_text(OWN, encoding="utf-8")
        raw = {
            "name": "recorded",
            "application": {"kind": "bulk", "bytes": "1 MB"},
            "paths": [
                {"name": name, "rtt": "20 ms", "trace": {"file": "a.csv", **trace}} for name in ("one", "two")
            ],
        }
        return loading.load(raw, folder=tmp_path).scenario

    def starts(self, scenario, run):
        plan = plans.build(scenario, None, run=run)
        return {link["name"]: json.dumps(link["model"]["steps"]) for link in plan["links"]}

    def test_runs_and_paths_differ_and_directions_agree(self, tmp_path):
        scenario = self.scenario(tmp_path, start="random")
        first, second = (self.starts(scenario, run) for run in (0, 1))
        assert first["one.down"] == first["one.up"]
        assert len({first["one.down"], first["two.down"], second["one.down"], second["two.down"]}) == 4
        assert self.starts(scenario, 0) == first

    def test_without_the_key_plans_stay_as_they_were(self, tmp_path):
        scenario = self.scenario(tmp_path)
        assert self.starts(scenario, 0) == self.starts(scenario, 1)
        assert json.loads(self.starts(scenario, 0)["one.down"])["begin_ns"] == [0, 10**9, 3_500_000_000]

    def test_a_recording_that_does_not_repeat_cannot(self, tmp_path):
        with pytest.raises(ScenarioError, match="a random start in a recording that does not repeat"):
            self.scenario(tmp_path, start="random", repeat=False)

    def test_comparisons_begin_at_random_places_by_default(self, tmp_path):
        from anabranch.comparison.make import tables_of

        (tmp_path / "a.csv").write_text(OWN, encoding="utf-8")
        raw = {
            "paths": [
                {"name": "one", "trace": "a.csv", "up": {"trace": {"file": "a.csv"}}},
                {"name": "two", "trace": {"file": "a.csv", "start": "beginning"}},
                {"name": "three", "trace": {"file": "a.csv", "repeat": False}},
            ]
        }
        one, two, three = tables_of(raw, [])[0]["paths"]
        assert one["trace"] == one["up"]["trace"] == {"file": "a.csv", "start": "random"}
        assert two == raw["paths"][1]
        assert three == raw["paths"][2]
