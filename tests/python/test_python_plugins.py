"""Schedulers and congestion controls written in Python, run by the real simulator."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import textwrap

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import plugins, report
from anabranch._run import run_loaded
from anabranch.cli._app import app
from anabranch.errors import InputError, PluginError
from anabranch.scenario.load import load
from anabranch.study import sweep

pytestmark = pytest.mark.module

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"
BULK = {
    "name": "bulk",
    "application": {"kind": "bulk", "bytes": "2 MB"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "0.5 %"},
        {"name": "lte", "rtt": "100 ms", "rate": "5 Mbit/s"},
    ],
}
SMALL = {**BULK, "application": {"kind": "bulk", "bytes": "100 kB"}}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return how to write a plug-in's file into the working directory."""
    monkeypatch.chdir(tmp_path)

    def writer(text, name="mine.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        return file

    return writer


def scheduler(body, before=""):
    """Return the source of a scheduler whose `schedule` has this body."""
    return f"{before}\nclass Mine:\n    def schedule(self, request, subflows):\n" + textwrap.indent(
        textwrap.dedent(body), " " * 8
    )


def controller(body):
    """Return the source of a controller whose `on_ack` has this body."""
    text = "class Mine:\n    def on_congestion(self, event, window):\n        window.ssthresh = 2\n"
    return (
        text + "    def on_ack(self, ack, window):\n" + textwrap.indent(textwrap.dedent(body), " " * 8) + "\n"
    )


@pytest.mark.parametrize("name", ["two-paths", "lossy-wifi", "handover-removed", "bulk-two-paths"])
def test_the_smallest_scheduler_is_min_rtt_to_the_byte(name):
    short = {"application.film": "papers-film", "application.duration": "20 s"}
    settings = short if name != "bulk-two-paths" else {"application.bytes": "5 MB"}
    place = f"{EXAMPLES}/lowest_rtt.py:LowestRtt"
    runs = [
        anabranch.run(name, scheduler=each, set={**settings, "expect": {}}) for each in ("min-rtt", place)
    ]
    assert runs[0].digest == runs[1].digest
    assert runs[0].tables == runs[1].tables


def test_additive_increase_is_reno_to_the_byte():
    place = f"{EXAMPLES}/aimd.py:Aimd"
    runs = [anabranch.run(BULK, congestion=each) for each in ("reno", place)]
    assert runs[0].digest == runs[1].digest
    samples = runs[0].rows("samples")
    assert (
        sum(a["cwnd_segments"] > b["cwnd_segments"] for a, b in zip(samples, samples[2:], strict=False)) > 3
    )
    assert anabranch.run(BULK, congestion=f"{place}(keep=0.7)").digest != runs[0].digest


COUNTING = """
    import helper
    class Mine:
        seen = []
        def schedule(self, request, subflows):
            helper.ASKED.append(request.now_ms)
            self.seen.append(request.now_ms)
            free = [s for s in subflows if s.can_send]
            early = len(helper.ASKED) + len(self.seen) < 1000
            return free[0 if early else -1] if free else None
"""


def test_nothing_of_a_run_is_left_to_the_next(write):
    write(COUNTING)
    write("ASKED = []\n", "helper.py")
    loaded = load(BULK | {"transport": {"scheduler": "mine.py:Mine"}})
    runs = [anabranch.run(BULK, scheduler="mine.py:Mine") for _ in range(2)]
    runs += [run_loaded(loaded) for _ in range(2)]
    assert len({run.identity for run in runs}) == 1
    assert len({run.digest for run in runs}) == 1
    assert len(plugged_module("helper").ASKED) > 100


def test_the_runs_of_a_sweep_are_those_of_single_runs(write, tmp_path):
    write(COUNTING)
    write("ASKED = []\n", "helper.py")
    paths = ", ".join(
        f'{{ name = "{name}", rtt = "{rtt} ms", rate = "5 Mb/s" }}' for name, rtt in (("a", 9), ("b", 30))
    )
    write(
        f'name = "x"\napplication = {{ kind = "bulk", bytes = "500 kB" }}\npaths = [{paths}]\n'
        'transport = { scheduler = "mine.py:Mine" }\n',
        "x.toml",
    )
    cells = sweep.cells([sweep.Point(path=tmp_path / "x.toml", settings=(), labels=())])
    text = cells[0].text()
    shared = [run_loaded(sweep.afresh(text)[0], run=run).digest for run in (0, 1, 0)]
    assert shared == [run_loaded(sweep.afresh(text)[0], run=run).digest for run in (0, 1, 0)]
    assert shared[0] == shared[2] == anabranch.run(tmp_path / "x.toml").digest


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_exception_in_a_sweep_names_the_cell_and_the_run(write, tmp_path, workers):
    write(scheduler("return 1 / 0"))
    given = ["sweep", "bulk-two-paths", "--out", str(tmp_path / "out")]
    given += ["--grid", "transport.scheduler=min-rtt,mine.py:Mine"]
    result = CliRunner().invoke(app, [*given, "--trials", "2", "--workers", workers])
    assert result.exit_code == 2
    assert re.search(
        r"ZeroDivisionError: .*\n  in run 0 of `bulk-two-paths`, .*mine\.py:Mine.*\n", result.stderr
    )


@pytest.mark.parametrize("first", [0.2, 0.5, 0.7])
def test_weights_are_kept(first):
    given = {"name": f"{EXAMPLES}/weighted.py:Weighted", "first": first}
    result = anabranch.run(BULK, scheduler=given)
    carried = {row["path"]: row["bytes"] for row in result.rows("subflows")}
    assert carried["wifi"] / sum(carried.values()) == pytest.approx(first, abs=0.03)


def test_cross_traffic_may_have_a_control_in_python():
    link = {"name": "shared", "rate": "5 Mbit/s", "delay": "20 ms"}
    paths = [{"name": "a", "links": ["shared"]}]
    given = {**SMALL, "paths": paths, "links": [link]}
    runs = [
        anabranch.run({**given, "cross_traffic": [{"links": ["shared"], "congestion": control}]})
        for control in ("reno", f"{EXAMPLES}/aimd.py:Aimd")
    ]
    tables = [{**run.tables["cross_traffic"], "congestion": []} for run in runs]
    assert tables[0] == tables[1]
    assert runs[0].tables["samples"] == runs[1].tables["samples"]


def test_compositions_build_on_a_class(write):
    place = f"{EXAMPLES}/lowest_rtt.py:LowestRtt"
    rust = anabranch.run(BULK, scheduler="rtx-aware(min-rtt)")
    assert rust.digest != anabranch.run(BULK, scheduler="min-rtt").digest
    for given in (f"rtx-aware({place})", {"name": "rtx-aware", "base": place},
                  {"name": "rtx-aware", "base": {"name": place}}):  # fmt: skip
        result = anabranch.run(BULK, scheduler=given)
        assert result.digest == rust.digest
        assert result.scheduler == f"rtx-aware({place})"
        assert list(result.plugins) == [place]


def test_parameters_reach_the_constructor_with_their_types(write):
    write(
        """
        import json, pathlib
        class Mine:
            def __init__(self, *, threshold, share=0.5, word="x", flag=False):
                pathlib.Path("got.json").write_text(json.dumps([threshold, share, word, flag]))
            def schedule(self, request, subflows):
                return subflows[0] if subflows[0].can_send else None
        """
    )
    anabranch.run(SMALL, scheduler={"name": "mine.py:Mine", "threshold": 3, "share": 0.25, "flag": True})
    got = json.loads(pathlib.Path("got.json").read_text(encoding="utf-8"))
    assert got == [3, 0.25, "x", True]
    assert isinstance(got[0], int)
    anabranch.run(SMALL, scheduler="rtx-aware(mine.py:Mine(threshold=1.5, word=auto))")
    assert json.loads(pathlib.Path("got.json").read_text(encoding="utf-8")) == [1.5, 0.5, "auto", False]


def test_chance_is_seeded_and_an_instance_s_own(write):
    write(
        """
        class Mine:
            drawn = []
            def __init__(self, rng):
                self.rng = rng
                Mine.drawn.append(rng.random())
                rng.seed(Mine.drawn[-1])
            def schedule(self, request, subflows):
                free = [s for s in subflows if s.can_send]
                return self.rng.choice(free) if free else None
        """
    )
    first, again, other = (anabranch.run(BULK, scheduler="mine.py:Mine", run=run) for run in (0, 0, 1))
    assert first.digest == again.digest
    assert first.tables == again.tables
    assert other.digest != first.digest
    assert first.rows("subflows")[0]["bytes"] > 200_000


def test_every_subflow_has_a_controller_of_its_own(write):
    write(
        """
        class Mine:
            def __init__(self, rng):
                self.seen, self.draw = set(), rng.random()
            def on_ack(self, ack, window):
                self.seen.add(ack.id)
                assert len(self.seen) == 1
                assert [s.id for s in ack.siblings] == []
                window.cwnd = 10 + int(10 * self.draw)
            def on_congestion(self, event, window):
                window.ssthresh = 10
        """
    )
    result = anabranch.run(BULK, congestion="mine.py:Mine")
    windows = {(row["path"], row["cwnd_segments"]) for row in result.rows("samples")}
    assert len({cwnd for path, cwnd in windows if path == "lte"} - {10}) <= 1
    assert result.digest == anabranch.run(BULK, congestion="mine.py:Mine").digest
    assert result.digest != anabranch.run(BULK, congestion="mine.py:Mine", run=1).digest


def test_news_come_to_those_that_ask(write):
    write(
        """
        told = {}
        class Mine:
            wants_idle = True
            def note(self, *what):
                told.setdefault(what[0], []).append(what[1:])
            def schedule(self, request, subflows):
                self.note(request.ask, request, subflows)
                return next((s for s in subflows if s.can_send), None)
            def on_sent(self, subflow, from_byte, sent_bytes):
                self.note("sent", subflow, from_byte, sent_bytes)
            def on_data_ack(self, now_ms, data_una):
                self.note("acked", now_ms, data_una)
        """
    )
    anabranch.run(SMALL, scheduler="mine.py:Mine")
    told = plugged_module("mine").told
    assert {"new-data", "idle", "sent", "acked"} <= set(told)
    server = [row for row in told["sent"] if row[2] > 1000]
    assert server[0][:2] == (0, 0)
    assert all(first[1] + first[2] >= second[1] for first, second in itertools.pairwise(server))
    assert 80_000 < told["acked"][-1][1] <= 100_000
    request, views = told["new-data"][-1]
    assert request.unscheduled_bytes == request.data_end - request.data_next
    assert [view.id for view in views] == list(range(len(views)))
    pairs = [
        (a, b)
        for (_, one), (_, two) in itertools.pairwise(told["new-data"])
        for a, b in zip(one, two, strict=False)
    ]
    kept = [a is b for a, b in pairs]
    assert any(kept), "what has not changed is the same object"
    assert not all(kept)
    assert all(
        repr(a) != repr(b) for (a, b), same in zip(pairs, kept, strict=True) if not same and a.id == b.id
    )


def plugged_module(name):
    """Return the module of the plug-in that was imported last under a name."""
    import sys

    return [
        module
        for key, module in sys.modules.items()
        if re.fullmatch(rf"_anabranch_plugins\.\w+\.{name}", key)
    ][-1]


def test_a_controller_receives_all_that_the_trait_has(write):
    write(
        """
        told = set()
        class Mine:
            wants_siblings = True
            pacing_rate_mbps = published_rate_mbps = None
            send_buffer_factor = 3
            def on_ack(self, ack, window):
                told.add(("siblings", len(ack.siblings)))
                told.update(("published", s.published_rate_mbps) for s in ack.siblings)
                self.published_rate_mbps = 7.5
                window.cwnd = min(window.cwnd + ack.acked_segments, 60)
                self.pacing_rate_mbps = 20
                told.add(("paced", ack.paced))
            def on_congestion(self, event, window):
                told.add(("congestion", event.kind))
                window.ssthresh = max(window.cwnd // 2, 2)
            def on_rto(self, event, window):
                told.add(("rto", event.kind))
                window.ssthresh = 2
            def on_lost(self, segment, window):
                told.add(("lost", segment.to_byte > segment.from_byte and window.cwnd > 0))
            def on_state(self, state, window):
                told.add(("state", state))
            def on_transmit_start(self, start, window):
                told.add(("start", start.now_ms >= start.last_sent_ms))
            def on_window_changed(self, cause, window):
                told.add(("changed", cause))
            def undo_cwnd(self, window, prior_cwnd):
                told.add(("undo", prior_cwnd >= 1))
                return prior_cwnd
        """
    )
    events = [{"at": "2 s", "path": "wifi", "state": "down"}, {"at": "4 s", "path": "wifi", "state": "up"}]
    long = {**BULK, "application": {"kind": "bulk", "duration": "10 s"}, "events": events}
    anabranch.run(long, congestion="mine.py:Mine")
    told = plugged_module("mine").told
    assert {("siblings", 2), ("paced", True), ("congestion", "loss"), ("state", "Recovery"), ("rto", "timeout"),
            ("changed", "reduction"), ("start", True), ("lost", True), ("published", 7.5)} <= told  # fmt: skip


def test_a_pacing_rate_and_owned_recovery_bind(write):
    write(controller("window.cwnd = 400") + "    owns_recovery = True\n    pacing_rate_mbps = 1.0\n")
    one = {**BULK, "paths": [{**BULK["paths"][1]}]}
    assert anabranch.run(one, congestion="mine.py:Mine").qos["goodput_mbps"] == pytest.approx(0.95, abs=0.05)
    write(controller("window.cwnd = 400") + "    owns_recovery = True\n")
    assert anabranch.run(one, congestion="mine.py:Mine").qos["goodput_mbps"] > 3


def test_several_subflows_are_redundancy(write):
    write(scheduler("return [s.id for s in subflows] if all(s.can_send for s in subflows) else None"))
    paths = [{**path, "loss": "0 %"} for path in BULK["paths"]]
    result = anabranch.run({**BULK, "paths": paths}, scheduler="mine.py:Mine")
    carried = [row["bytes"] for row in result.rows("subflows")]
    assert sum(carried) > 1.6 * 2_000_000
    assert result.rows("connections")[0]["bytes_read"] == 2_000_000


def test_a_penalty_halves_a_window(write):
    body = """
        if subflows[0].cwnd_segments > 12 and not self.told:
            return Penalise(subflows[0])
        return next((s for s in subflows if s.can_send), None)
    """
    news = "    told = ()\n    def on_penalised(self, subflow):\n        self.told += (subflow,)\n        Mine.seen = self.told\n"
    write(scheduler(body, before="from anabranch.plugins import Penalise") + news)
    result = anabranch.run(BULK, scheduler="mine.py:Mine")
    assert plugged_module("mine").Mine.seen == (0,)
    assert result.digest != anabranch.run(BULK, scheduler="min-rtt").digest


def test_a_class_may_reinject(write):
    body = """
        Mine.asked.add((request.ask, request.piece is not None))
        return next((s for s in subflows if s.can_send and s.id not in request.carried_by), None)
    """
    write(scheduler(body) + "\n    reinjects = True\n    wants_idle = True\n    asked = set()\n")
    events = [{"at": "2 s", "path": "wifi", "state": "down"}]
    long = {**BULK, "application": {"kind": "bulk", "duration": "8 s"}, "events": events}
    anabranch.run({**long, "transport": {"receive_buffer": "256 kB"}}, scheduler="mine.py:Mine")
    asked = plugged_module("mine").Mine.asked
    assert {("new-data", False), ("reinject", True), ("window-blocked", True)} <= asked


@pytest.mark.parametrize("length_ms", ["1e-6", "0", "1e-9", "0.04"])
def test_a_wait_of_no_length_is_one_of_fifty_microseconds(write, length_ms):
    # docs/reference/plugins.md: a time less than 0.05 ms ahead counts as 0.05 ms from now.
    body = f"""
        told.append(request.now_ms)
        if request.now_ms < 300:
            return Wait(until_ms=request.now_ms + {length_ms})
        return next((s for s in subflows if s.can_send), None)
    """
    write(scheduler(body, before="from anabranch.plugins import Wait\ntold = []"))
    anabranch.run(SMALL, scheduler="mine.py:Mine")
    times = [now for now in plugged_module("mine").told if now < 300]
    gaps = [later - now for now, later in itertools.pairwise(times)]
    assert 1000 < len(times) < 20_000
    assert sum(gap == pytest.approx(0.05, abs=1e-6) for gap in gaps) > 0.9 * len(gaps)


def test_a_wait_ends_at_its_time(write):
    body = "if request.now_ms < 3000: return Wait(until_ms=3000)\nreturn next((s for s in subflows if s.can_send), None)"
    write(scheduler(body, before="from anabranch.plugins import Wait"))
    first = anabranch.run(SMALL, scheduler="mine.py:Mine")
    assert 3.0 < first.duration_s < 4.0
    assert first.rows("connections")[0]["bytes_read"] == 100_000


def test_scheduler_chooses_the_burst_and_the_start_byte(write):
    body = """
        if not subflows[0].can_send: return None
        return Send(subflows[0], burst_bytes=100, from_byte=request.data_una)
    """
    write(scheduler(body, before="from anabranch.plugins import Send"))
    tiny = {**BULK, "application": {"kind": "bulk", "bytes": "1 kB"}}
    result = anabranch.run({**tiny, "time_limit": "5 s"}, scheduler="mine.py:Mine")
    row = result.rows("subflows")[0]
    assert row["bytes"] > result.rows("connections")[0]["bytes_read"]


RAISING = scheduler('limits = {}\nreturn limits["wifi"]')


def test_an_exception_is_the_caller_s_own_with_its_traceback(write):
    file = write(RAISING)
    with pytest.raises(KeyError, match="wifi") as caught:
        anabranch.run(BULK, scheduler="mine.py:Mine")
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1, last.name) == (str(file), 5, "schedule")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "error", ["FileNotFoundError(2, 'gone')", "ValueError('x')", "SystemExit(0)", "RuntimeError()"]
)
def test_any_exception_is_distinguished_from_the_simulators_own(write, error):
    write(controller(f"raise {error}"))
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        anabranch.run(BULK, congestion="mine.py:Mine")
    assert type(caught.value).__name__ == error.partition("(")[0]
    assert caught.traceback[-1].name == "on_ack"


def test_the_command_line_shows_the_traceback_and_nothing_else(write):
    file = write(RAISING)
    scenario = write(
        'name="s"\n[application]\nkind="bulk"\nbytes="1 MB"\n[[paths]]\nname="a"\nrtt="9 ms"\nrate="9 Mb/s"\n[[paths]]\nname="b"\nrtt="9 ms"\nrate="9 Mb/s"\n',
        "s.toml",
    )
    result = CliRunner().invoke(app, ["run", str(scenario), "--scheduler", "mine.py:Mine"])
    assert result.exit_code == 2
    assert result.stdout == ""
    text = re.sub(r"\n +[~^]+", "", result.stderr)
    assert text == (
        "Traceback (most recent call last):\n"
        f'  File "{file}", line 5, in schedule\n'
        '    return limits["wifi"]\n'
        "KeyError: 'wifi'\n"
    )


def test_an_unknown_attribute_of_a_view_is_answered_with_the_nearest(write):
    write(scheduler("return min(subflows, key=lambda one: one.srtt_us)"))
    result = CliRunner().invoke(app, ["run", "bulk-two-paths", "--scheduler", "mine.py:Mine"])
    assert result.exit_code == 2
    # Python has the same sentence from 3.12 on, with other quotation marks.
    assert re.search("[Dd]id you mean:? ['`]srtt_ms['`]", result.stderr)


def test_an_exception_crosses_processes_as_text(write):
    import pickle

    try:
        message = "x"
        raise ValueError(message)
    except ValueError as error:
        raised = pickle.loads(pickle.dumps(PluginError(error)))
    assert raised.error is None
    assert str(raised).endswith("ValueError: x")


def test_an_interrupt_in_a_plug_in_ends_the_run(write):
    write(scheduler("raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        anabranch.run(BULK, scheduler="mine.py:Mine")


ANY = "expected None, a subflow or its id, a tuple of them, Send(...), Penalise(...) or Wait(...)"
ANSWERS = [
    ("'wifi'", f"Mine.schedule returned 'wifi': {ANY}"),
    ("1.0", f"Mine.schedule returned 1.0: {ANY}"),
    ("True", f"Mine.schedule returned True: {ANY}"),
    ("request", ANY),
    ("{0: 1}", ANY),
    ("Mine", ANY),
    ("(0, 'x')", f"Mine.schedule returned (0, 'x'): {ANY}"),
    ("7", "Mine.schedule returned 7: the subflows that can be chosen now are 0"),
    ("-1", "the subflows that can be chosen now are 0"),
    ("2**70", "the subflows that can be chosen now are 0"),
    ("()", "Mine.schedule returned (): no subflow is named; return None to wait"),
    ("[]", "return None to wait"),
    ("SubflowView(id=9)", "the subflows that can be chosen now are 0"),
    ("Send(None)", f"Mine.schedule returned Send(on=None): {ANY}"),
    ("Send(5)", "Mine.schedule returned Send(on=5): the subflows that can be chosen now are 0"),
    ("Send(0, burst_bytes=0)", "burst_bytes is a whole number of bytes, 1 or more"),
    ("Send(0, burst_bytes=-5)", "returned Send(on=0, burst_bytes=-5): burst_bytes is a whole number"),
    ("Send(0, burst_bytes=1.5)", "burst_bytes is a whole number of bytes"),
    ("Send(subflows[0], burst_bytes='x')", "returned Send(on=0, burst_bytes='x'): burst_bytes is a whole"),
    ("Send(0, from_byte=-1)", "from_byte must be from data_una, 0, to below data_end,"),
    ("Send(0, from_byte=10**12)", "from_byte must be from data_una, 0, to below data_end,"),
    ("Penalise('x')", f"Mine.schedule returned Penalise(on='x'): {ANY}"),
    ("Penalise(subflows[0].id + 9)", "Penalise(on=9): the subflows that can be chosen now are 0"),
    ("Wait(until_ms=0)", "Mine.schedule returned Wait(until_ms=0): until_ms is a time in ms, not before now_ms,"),
    ("Wait(until_ms=request.now_ms - 0.001)", "until_ms is a time in ms, not before now_ms,"),
    ("Wait(until_ms=float('-inf'))", "until_ms is a time in ms, not before now_ms,"),
    ("Wait(until_ms='soon')", "returned Wait(until_ms='soon'): until_ms is a time in ms"),
    ("Wait(until_ms=float('nan'))", "until_ms is a time in ms"),
    ("'x' * 500", "x..."),
    ("Odd()", "Odd"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "sentence"), ANSWERS, ids=[answer for answer, _ in ANSWERS])
def test_a_bad_answer_of_a_scheduler_is_a_sentence(write, answer, sentence):
    before = "from anabranch.plugins import *\nclass Odd:\n    def __repr__(self): raise TypeError('odd')\n"
    write(scheduler(f"return {answer}", before=before))
    with pytest.raises(InputError) as caught:
        anabranch.run(SMALL, scheduler="mine.py:Mine")
    (fault,) = caught.value.faults
    assert sentence in fault.message
    assert "\n" not in fault.message
    assert len(fault.message) < 300
    assert (fault.where, fault.line) == ("mine.py", 6)


CONTROLS = [
    ("return 12", "Mine.on_ack returned 12: expected nothing; it sets window"),
    (
        "self.pacing_rate_mbps = -1",
        "Mine.pacing_rate_mbps is -1: expected None or a rate in Mb/s, more than 0",
    ),
    ("self.pacing_rate_mbps = 'fast'", "Mine.pacing_rate_mbps is 'fast': expected None or a rate"),
    ("self.marks_application_limited = 3", "Mine.marks_application_limited is 3: expected True or False"),
]


@pytest.mark.parametrize(("body", "sentence"), CONTROLS)
def test_a_bad_answer_of_a_controller_is_a_sentence(write, body, sentence):
    write(controller(body) + "    pacing_rate_mbps = None\n    marks_application_limited = False\n")
    with pytest.raises(InputError) as caught:
        anabranch.run(SMALL, congestion="mine.py:Mine")
    assert caught.value.faults[0].message.startswith(sentence)


def test_a_lost_segment_does_not_set_the_window(write):
    write(
        controller("window.cwnd = 20") + "    def on_lost(self, segment, window):\n        window.cwnd = 5\n"
    )
    with pytest.raises(InputError, match=r"Mine\.on_lost sets window, which is read-only here"):
        anabranch.run(BULK, congestion="mine.py:Mine")


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "'x'", "None", "True", "2**32"])
@pytest.mark.parametrize("name", ["cwnd", "ssthresh"])
def test_a_window_takes_whole_segments_only(write, name, value):
    write(controller(f"window.{name} = {value}"))
    with pytest.raises(
        TypeError, match=rf"window.{name} is a whole number from 1 to 2\*\*32 - 1, not "
    ) as caught:
        anabranch.run(SMALL, congestion="mine.py:Mine")
    assert caught.traceback[-1].name == "on_ack"


def test_views_are_frozen_copies(write):
    body = """
        for thing in (request, subflows[0]):
            for name in dir(thing):
                if not name.startswith("_"):
                    try:
                        setattr(thing, name, 1)
                    except AttributeError:
                        continue
                    raise RuntimeError(name)
        return next((s for s in subflows if s.can_send), None)
    """
    write(scheduler(body))
    assert anabranch.run(SMALL, scheduler="mine.py:Mine").rows("connections")[0]["finished"]


def test_views_can_be_made_by_hand():
    view = plugins.SubflowView(
        id=1, cwnd_segments=10, in_flight_segments=4, queued_bytes=1500, mss_bytes=1400
    )
    assert (view.window_space_segments, view.can_send, view.can_queue) == (4, True, True)
    assert not plugins.SubflowView(state="Loss").can_send
    assert plugins.SubflowView(state="Loss", repaired=True).can_send
    assert not plugins.SubflowView(queued_memory_bytes=9, send_buffer_bytes=9).can_queue
    assert "srtt_ms=50.0" in repr(view)
    with pytest.raises(TypeError, match="SubflowView has no attribute `srtt`"):
        plugins.SubflowView(srtt=5)
    with pytest.raises(ValueError, match="is not one of"):
        plugins.SubflowView(state="Fine")
    request = plugins.SendRequest(data_next=10, data_end=30, window_end=25)
    assert (request.unscheduled_bytes, request.window_left_bytes) == (20, 15)
    backup = plugins.SubflowView(id=2, backup=True)
    assert plugins.candidates([view, backup]) == (view,)
    assert plugins.candidates((backup,)) == (backup,)
    stale = plugins.SubflowView(id=3, stale=True)
    assert plugins.candidates(iter((stale, backup))) == (backup,)
    assert plugins.candidates((stale, view)) == (stale, view)
    with pytest.raises(TypeError):
        plugins.candidates([1])
    ack = plugins.AckSample(siblings=[plugins.SiblingView(id=3, srtt_ms=2.5)])
    assert ack.siblings[0].srtt_ms == 2.5
    window = plugins.Window(cwnd=3, ssthresh=7)
    assert (repr(window), window.in_slow_start) == ("Window(cwnd=3, ssthresh=7)", True)


def test_the_examples_decide_on_views_made_by_hand():
    from anabranch.plugins.load import Finder

    finder = Finder(EXAMPLES)
    assert finder.check("scheduler", "lowest_rtt.py:LowestRtt") == []
    lowest = finder.found["scheduler"]["lowest_rtt.py:LowestRtt"].build({}, seed=0)
    slow, fast = plugins.SubflowView(id=0, srtt_ms=90.0), plugins.SubflowView(id=1, srtt_ms=40.0)
    full = plugins.SubflowView(id=2, srtt_ms=10.0, in_flight_segments=10)
    assert lowest.schedule(plugins.SendRequest(), (slow, fast, full)) is fast
    assert lowest.schedule(plugins.SendRequest(), (full,)) is None


def test_run_records_the_hashes_of_its_plugin_sources(write, tmp_path):
    write(scheduler("return next((s for s in subflows if s.can_send), None)"))
    first = anabranch.run(SMALL, scheduler="mine.py:Mine")
    assert list(first.plugins) == ["mine.py:Mine"]
    shown = first.to_json()
    assert shown["plugins"] == dict(first.plugins)
    assert shown["identity"] == first.identity
    assert first.plugins["mine.py:Mine"] in report.build(first)
    write(scheduler("# a comment\nreturn next((s for s in subflows if s.can_send), None)"))
    second = anabranch.run(SMALL, scheduler="mine.py:Mine")
    assert second.digest == first.digest
    assert second.plugins != first.plugins
    assert second.identity != first.identity
    plain = anabranch.run(SMALL)
    assert plain.plugins == {}
    assert plain.identity == anabranch.run(SMALL).identity
    assert (
        len({plain.identity, anabranch.run(SMALL, seed=2).identity, anabranch.run(SMALL, run=1).identity})
        == 3
    )


@pytest.mark.parametrize("kind", ["loss", "tail-loss", "timeout", "ecn"])
def test_every_documented_kind_of_a_congestion_event_can_be_created(kind):
    """The kinds are those of docs/reference/plugins.md."""
    assert plugins.CongestionEvent(kind=kind).kind == kind


def test_type_stub_matches_the_extension_classes():
    import ast

    from anabranch import _anabranch

    stub = ast.parse(pathlib.Path(anabranch.__file__).with_name("_anabranch.pyi").read_text(encoding="utf-8"))
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and not node.bases:
            told = {item.name for item in node.body if isinstance(item, ast.FunctionDef)} - {"__init__"}
            told |= {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
            assert told == {name for name in dir(getattr(_anabranch, node.name)) if name[:1] != "_"}, (
                node.name
            )


AGREES = """
    class Mine:
        builds_on = "{base}"

        def __init__(self):
            self.proposals = []

        def schedule(self, request, subflows, proposal):
            return proposal
"""


@pytest.mark.parametrize("base", ["linux", "dft", "rtx-aware(blest)", "lpc"])
def test_a_scheduler_that_agrees_with_one_of_the_table_decides_as_that_does(write, base):
    write(AGREES.format(base=base))
    assert anabranch.run(BULK, scheduler="mine.py:Mine").digest == anabranch.run(BULK, scheduler=base).digest


def test_a_scheduler_may_decide_otherwise_than_the_one_it_builds_on(write):
    write(
        """
        from anabranch.plugins import Send

        class Mine:
            builds_on = "linux"

            def schedule(self, request, subflows, proposal):
                if isinstance(proposal, Send) and proposal.on == (1,):
                    return next((one for one in subflows if one.id == 0 and one.can_send), None)
                return proposal
        """
    )

    def carried(scheduler):
        return [subflow["bytes"] > 0 for subflow in anabranch.run(BULK, scheduler=scheduler).qos["subflows"]]

    assert carried("linux") == [True, True]
    assert carried("mine.py:Mine") == [True, False]


def test_unusable_builds_on_is_rejected(write):
    write(AGREES.format(base="linus"))
    with pytest.raises(InputError, match=r"builds_on.*linus"):
        anabranch.run(SMALL, scheduler="mine.py:Mine")
    write(AGREES.format(base="linux").replace(", proposal", ""))
    with pytest.raises(InputError, match=r"cannot be called with request, subflows, proposal"):
        anabranch.run(SMALL, scheduler="mine.py:Mine")


@pytest.mark.parametrize("answer", ["None", "Wait(until_ms=request.now_ms + 10)"])
def test_a_scheduler_that_always_refuses_is_reported(write, answer):
    write(scheduler(f"return {answer}", before="from anabranch.plugins import Wait\n"))
    with pytest.raises(InputError) as raised:
        anabranch.run(SMALL, scheduler="mine.py:Mine")
    (fault,) = raised.value.faults
    assert "the scheduler sends nothing more: the run stands still from 0." in fault.message
    assert "nothing was sent for 300 s" in fault.message
    assert fault.where.endswith("mine.py")
    assert fault.line
    assert "Wait(until_ms=...)" in fault.hint
