"""Recordings of links without a unit in the file: Pensieve's format, and warnings about units."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from anabranch import traces
from anabranch.cli._app import app
from anabranch.errors import InputError

OWN = "t_s,rate_mbps,delay_ms,loss\n0,5,10,0\n1,0,10,0.5\n3.5,2.5,0,0\n"

SABRE = '[{"duration_ms": %s, "bandwidth_kbps": %s}]'


def trace_of(tmp_path, text):
    file = tmp_path / "trace.txt"
    file.write_bytes(text.encode())
    return traces.read(file)


class TestPensieve:
    """Seconds and Mb/s, separated by a space or a tab (pensieve #124 and #129)."""

    @pytest.mark.parametrize("separator", [" ", "\t", "   ", " \t"])
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    @pytest.mark.parametrize("begin", ["", "\ufeff", "# a comment\n"])
    def test_they_are_seconds_and_megabits(self, tmp_path, separator, end, begin):
        rows = (("0.0", "4.8"), ("1.0", "5.2"), ("2.0", "0.9"))
        trace = trace_of(tmp_path, begin + "".join(f"{separator.join(row)}{end}" for row in rows))
        assert (trace.form, trace.length_ns) == ("pensieve", 3 * 10**9)
        assert [(s.at_ns, s.rate_bps) for s in trace.steps] == [
            (0, 4_800_000),
            (10**9, 5_200_000),
            (2 * 10**9, 900_000),
        ]

    def test_the_seconds_may_begin_anywhere(self, tmp_path):
        trace = trace_of(tmp_path, "1650000000.5 1\n1650000001.5 2\n")
        assert [step.at_ns for step in trace.steps] == [0, 10**9]

    @pytest.mark.parametrize(
        ("text", "line", "message", "hint"),
        [
            ("0 1\n2 1\n1 1\n", 3, "the trace runs backwards: 1 s after 2 s", "sort the rows by time"),
            ("0 1\n1 1\n1 2\n", 3, "the trace runs backwards: 1 s after 1 s", "keep one row for each time"),
            ("0 1\n1 x\n", 2, "the rate is not a number: `x`", ""),
            ("0 1\n1 2 3\n", 2, "expected second Mb/s: `1 2 3`", ""),
            ("1650000000000 1\n", 1, "the second is above 100,000,000,000: `1650000000000`", "milliseconds"),
            ("0;4.8\n1;5\n", 1, "not a known form of trace: `0;4.8`", "separated by a semicolon"),
            ("0;4,8\n1;5,2\n", 1, "not a known form of trace: `0;4,8`", "the header t_s,rate_mbps"),
            ("0 4,8\n1 5,2\n", 1, "not a known form of trace: `0 4,8`", "decimal points"),
            ("0,0,4,8\n", 1, "not a known form of trace: `0,0,4,8`", "instead of decimal commas"),
            ("4.8\n5.2\n", 1, "the millisecond is not whole: `4.8`", "rates need times"),
            ("0 1 2\n", 1, "not a known form of trace: `0 1 2`", "separated by spaces or a tab"),
            ("time,kbps\n0,1\n", 1, "not a known form of trace: `time,kbps`", "columns with names must be"),
            ("time;kbps\n0;1\n", 1, "not a known form of trace: `time;kbps`", "columns with names must be"),
        ],
    )
    def test_other_forms_are_refused_with_a_hint(self, tmp_path, text, line, message, hint):
        with pytest.raises(InputError) as caught:
            trace_of(tmp_path, text)
        fault = caught.value.faults[0]
        assert (fault.line, fault.message) == (line, message)
        assert hint in fault.hint

    @pytest.mark.parametrize(
        "text",
        [
            "t_s;rate_mbps;delay_ms\n0;5,5;10\n1;0;10\n",
            "t_s\trate_mbps\tdelay_ms\n0\t5.5\t10\n1\t0\t10\n",
            "\ufefft_s,rate_mbps,delay_ms\r\n0,5.5,10\r\n1,0,10\r\n",
            '"t_s","rate_mbps","delay_ms"\n"0","5.5","10"\n"1","0","10"\n',
        ],
    )
    def test_our_own_header_may_be_written_by_a_spreadsheet(self, tmp_path, text):
        trace = trace_of(tmp_path, text)
        assert [(s.at_ns, s.rate_bps, s.delay_ns) for s in trace.steps] == [
            (0, 5_500_000, 10_000_000),
            (10**9, 0, 10_000_000),
        ]


class TestDoubts:
    """Computed by hand: the mean over time of the rates below, and the time between rows."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("0,4.8\n1,5.2\n2,0.9\n", "the mean rate of the trace is only 3.67 b/s"),
            ("0,4800\n1,5200\n2,900\n", "the mean rate of the trace is only 3.63 kb/s"),
            ("0 4800\n1 5200\n2 900\n", "the mean rate of the trace is 3.63 Gb/s"),
            ("t_s,rate_mbps\n0,0.0009\n1,0.0009\n", "the mean rate of the trace is only 900 b/s"),
            ("20000\n", "the mean rate of the trace is only 600 b/s"),
            (SABRE % (1000, 0.9), "the mean rate of the trace is only 900 b/s"),
            ("0 4\n1000 5\n2000 4\n", "the rows of the trace are 1000 s apart"),
            ("t_s,rate_mbps\n0,4\n0.001,5\n0.002,6\n", "the rows of the trace are 0.001 s apart"),
        ],
    )
    def test_numbers_of_another_unit_are_doubted(self, tmp_path, text, message):
        (found,) = traces.doubts(trace_of(tmp_path, text), "a.csv")
        assert (found.message, found.where) == (message, "a.csv")
        assert "are the units right?" in found.hint

    @pytest.mark.parametrize(
        "text",
        [
            OWN,
            "0,4800000\n1,5200000\n",
            "0 1500\n1 900\n",  # mmWave 5G: Lumos5G has means of 523 Mb/s
            "t_s,rate_mbps\n0,0.001\n",
            "0,100000\n1,100000\n2,100000\n",
            SABRE % (1000, 1),
            "12000\n",  # 1,500 bytes in 12 s are 1 kb/s
        ],
    )
    def test_plausible_numbers_are_not_doubted(self, tmp_path, text):
        assert traces.doubts(trace_of(tmp_path, text), "a.csv") == []

    @pytest.mark.module
    def test_check_run_and_sweep_warn(self, tmp_path):
        (tmp_path / "a.csv").write_text("0,4.8\n1,5.2\n", encoding="utf-8")
        text = (
            'name = "s"\n[application]\nkind = "bulk"\nduration = "1 s"\n'
            '[[paths]]\nname = "p"\nrtt = "20 ms"\ntrace = "a.csv"\nup.trace = "a.csv"\n'
        )
        (tmp_path / "s.toml").write_text(text, encoding="utf-8")
        # At 5 b/s, no packet arrives within the second: no path works, and `run` says so by code 3.
        for command, code in (("check", 0), ("run", 3)):
            result = CliRunner().invoke(app, [command, str(tmp_path / "s.toml")])
            assert result.exit_code == code, result.stderr
            assert result.stderr.count("warning: the mean rate of the trace is only 5 b/s (a.csv)") == 1
            assert "  hint: are the units right? rates after a comma are in bits per second" in result.stderr
        sweep = [
            "sweep",
            str(tmp_path / "s.toml"),
            "--trials",
            "1",
            "--grid",
            "transport.scheduler=linux,blest",
        ]
        swept = CliRunner().invoke(app, [*sweep, "--out", str(tmp_path / "out"), "--workers", "1"])
        assert swept.stderr.count("warning: the mean rate of the trace is only 5 b/s (a.csv)") == 1, (
            swept.output
        )
        assert "note: The mean rate of the trace is only 5 b/s (a.csv)" in result.stdout


def read_with(tmp_path, text, **facts):
    file = tmp_path / "trace.txt"
    file.write_text(text, encoding="utf-8")
    return traces.read(file, facts=traces.RecordingFacts(**facts))


#: Rows at 0, 1, 2, 10 and 11 s: the usual time between them is 1 s, so 8 s are a gap, and 3 s would be none.
GAP = "0 4\n1 5\n2 6\n10 7\n11 8\n"


class TestFacts:
    """Units of two columns, and gaps, as the user gives them."""

    @pytest.mark.parametrize("separator", [" ", ",", "\t"])
    @pytest.mark.parametrize(("rate_unit", "bps"), [("bit/s", 1), ("kbit/s", 1000), ("Mbit/s", 10**6)])
    def test_a_rate_s_unit(self, tmp_path, separator, rate_unit, bps):
        trace = read_with(tmp_path, f"0{separator}4.8e3\n1{separator}5.2e3\n", rate_unit=rate_unit)
        assert [step.rate_bps for step in trace.steps] == [4800 * bps, 5200 * bps]
        assert trace.length_ns == 2 * 10**9

    def test_a_time_s_unit(self, tmp_path):
        trace = read_with(tmp_path, "1650000000000 4\n1650000000500 5\n", time_unit="ms")
        assert [step.at_ns for step in trace.steps] == [0, 5 * 10**8]

    @pytest.mark.parametrize(
        ("gaps", "rows", "seconds"),
        [
            ("hold", [(0, 4), (1, 5), (2, 6), (10, 7), (11, 8)], 12),
            ("outage", [(0, 4), (1, 5), (2, 6), (3, 0), (10, 7), (11, 8)], 12),
            ("cut", [(0, 4), (1, 5), (2, 6), (3, 7), (4, 8)], 5),
        ],
    )
    def test_gaps(self, tmp_path, gaps, rows, seconds):
        for text in (GAP, "t_s,rate_mbps\n" + GAP.replace(" ", ",")):
            trace = read_with(tmp_path, text, gaps=gaps)
            assert [(step.at_ns // 10**9, step.rate_bps // 10**6) for step in trace.steps] == rows
            assert trace.length_ns == seconds * 10**9

    def test_a_gap_before_the_last_row(self, tmp_path):
        # The last row lasts as long as is usual, and not as long as the gap.
        assert read_with(tmp_path, "0 4\n1 5\n2 6\n9 7\n", gaps="cut").length_ns == 4 * 10**9
        assert read_with(tmp_path, "0 4\n1 5\n2 6\n9 7\n", gaps="outage").length_ns == 10 * 10**9

    @pytest.mark.parametrize(
        ("text", "facts", "message"),
        [
            (OWN, {"rate_unit": "kbit/s"}, "a recording of the form anabranch states its units"),
            (SABRE % (1000, 1), {"time_unit": "ms"}, "a recording of the form sabre states its units"),
            (SABRE % (1000, 1), {"gaps": "cut"}, "a recording of the form sabre has no gaps"),
            ("12\n", {"gaps": "outage"}, "a recording of the form mahimahi has no gaps"),
        ],
    )
    def test_facts_that_a_file_states_itself_are_refused(self, tmp_path, text, facts, message):
        with pytest.raises(InputError, match=message):
            read_with(tmp_path, text, **facts)

    def test_gaps_among_regular_rows_are_doubted(self, tmp_path):
        # Twenty rows a second apart, and then none for 30 s, of which one second is usual.
        rows = "".join(f"{second} 4\n" for second in (*range(20), 49, 50))
        (found,) = traces.doubts(read_with(tmp_path, rows), "a.txt")
        assert found.message == "the trace lacks rows for 29 s in 1 gap"
        for gaps in ("outage", "cut"):
            facts = traces.RecordingFacts(gaps=gaps)
            assert traces.doubts(read_with(tmp_path, rows, gaps=gaps), "a.txt", facts) == []
        # Rows that come when something changes are not regular.
        assert traces.doubts(read_with(tmp_path, "0 4\n1 5\n4 6\n40 7\n41 2\n"), "a.txt") == []

    def test_a_given_unit_is_not_doubted(self, tmp_path):
        text = "0 4800\n1 5200\n2 900\n"
        assert traces.doubts(read_with(tmp_path, text), "a.txt") != []
        facts = traces.RecordingFacts(rate_unit="kbit/s")
        assert traces.doubts(read_with(tmp_path, text, rate_unit="kbit/s"), "a.txt", facts) == []

    @pytest.mark.module
    def test_a_scenario_and_the_commands_take_them(self, tmp_path):
        from anabranch.scenario import plan
        from anabranch.scenario.load import load

        (tmp_path / "a.txt").write_text("0 4000\n1000 5000\n2000 6000\n9000 7000\n", encoding="utf-8")
        text = (
            'name = "s"\n[application]\nkind = "bulk"\nduration = "1 s"\n'
            '[[paths]]\nname = "p"\nrtt = "20 ms"\nup.rate = "9 Mbit/s"\n'
            'down.trace = { file = "a.txt", rate_unit = "kbit/s", time_unit = "ms", gaps = "%s" }\n'
        )
        (tmp_path / "s.toml").write_text(text % "outage", encoding="utf-8")
        loaded = load(tmp_path / "s.toml")
        (link,) = (one for one in plan.build(loaded.scenario, None)["links"] if one["name"] == "p.down")
        steps = link["model"]["steps"]
        assert steps["rates_bps"] == [4_000_000, 5_000_000, 6_000_000, 0, 7_000_000]
        assert steps["begin_ns"] == [at * 10**9 for at in (0, 1, 2, 3, 9)]
        assert not loaded.warnings
        (tmp_path / "s.toml").write_text(text % "outages", encoding="utf-8")
        refused = CliRunner().invoke(app, ["check", str(tmp_path / "s.toml")])
        assert refused.exit_code == 2
        assert "outages" in refused.output
        given = ["--rate-unit", "kbit/s", "--time-unit", "ms", "--gaps", "cut"]
        shown = CliRunner().invoke(app, ["trace", "show", str(tmp_path / "a.txt"), *given])
        assert "4 s" in shown.stdout
        wrong = CliRunner().invoke(app, ["trace", "show", str(tmp_path / "a.txt"), "--rate-unit", "kbps"])
        assert wrong.exit_code == 2
        assert "not a value: `kbps`" in wrong.output
