"""Sets of paths: the remaining scenario, the compared measures, and the verdicts."""

from __future__ import annotations

import json
import re

import numpy
import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import comparison
from anabranch.cli._app import app
from anabranch.comparison import measures, paths, price, verdict
from anabranch.comparison.used import Used
from anabranch.errors import InputError
from anabranch.metrics import score
from anabranch.results import paired
from anabranch.results.paired import Effect

BULK = {
    "name": "small",
    "application": {"kind": "bulk", "bytes": "300 kB"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "1 %"},
        {"name": "lte", "rtt": "60 ms", "rate": "5 Mbit/s", "price_per_gb": 1000.0},
    ],
}
FILE = """\
name = "small"
[application]
kind = "bulk"
bytes = "300 kB"
[[paths]]
name = "wifi"
rtt = "50 ms"
rate = "5 Mbit/s"
[[paths]]
name = "lte"
rtt = "60 ms"
rate = "5 Mbit/s"
"""


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def effect(value, low, high):
    return Effect(value=value, low=low, high=high, pairs=10, detectable=None)


@pytest.mark.module
def test_each_set_beyond_a_cap_is_named_with_its_settings():
    # 300 kB within seconds are far more than a gigabyte in an hour, and 30 hours are used.
    capped = {**BULK, "paths": [BULK["paths"][0], {**BULK["paths"][1], "cap_gb_per_month": 0.001}]}
    found = anabranch.compare(capped, trials=1, workers=1)
    beyond = [one for one in found.sentences if "the cap lasts" in one]
    assert [one.partition(" would carry")[0] for one in beyond] == [
        "lte alone with cubic: lte",
        "wifi + lte with linux and cubic: lte",
    ]


# -- what is run -------------------------------------------------------------------------------------


def test_sets_are_each_alone_every_pair_all_but_one_and_all():
    assert paths.sets("ab") == [("a",), ("b",), ("a", "b")]
    assert len(paths.sets("abc")) == 3 + 3 + 1
    sets = paths.sets("abcde")
    assert len(sets) == 5 + 10 + 5 + 1
    assert sets[-1] == tuple("abcde")
    with pytest.raises(InputError, match="one path"):
        paths.sets("a")


def test_restricting_a_scenario_drops_other_paths():
    raw = {
        **BULK,
        "links": [{"name": "cell", "rate": "9 Mbit/s"}, {"name": "cable", "rate": "9 Mbit/s"}],
        "paths": [{**BULK["paths"][0], "links": ["cable"]}, {**BULK["paths"][1], "links": ["cell"]}],
        "events": [
            {"at": "1 s", "path": "wifi", "state": "down"},
            {"at": "2 s", "path": "lte", "state": "down"},
            {"at": "3 s", "link": "cell", "rate": "1 Mbit/s"},
        ],
        "handoffs": [{"path": "wifi", "kind": "ping-pong", "to": "lte", "at": "4 s"}],
        "cross_traffic": [{"path": "lte"}, {"links": ["cable"]}],
        "expect": {"goodput_mbps": {"min": 8}},
    }
    before = json.dumps(raw)
    left = paths.only(raw, ["wifi"])
    assert [path["name"] for path in left["paths"]] == ["wifi"]
    assert [link["name"] for link in left["links"]] == ["cable"]
    assert [event["at"] for event in left["events"]] == ["1 s"]
    assert left["handoffs"] == []
    assert left["cross_traffic"] == [{"links": ["cable"]}]
    assert "expect" not in left
    assert left["transport"]["multipath"] is False
    both = paths.only(raw, ["wifi", "lte"])
    assert {name: both[name] for name in both} == {key: raw[key] for key in raw if key != "expect"}
    assert json.dumps(raw) == before, "the scenario itself is as it was"


# -- what is judged ----------------------------------------------------------------------------------


def test_a_difference_counts_when_it_is_seen_and_matters():
    (frozen,) = (one for one in measures.PROGRESSIVE if one.column == "still_s")
    assert frozen.judged(effect(-2.0, -3.0, -1.0), 5.0) == 1
    assert frozen.judged(effect(2.0, 1.0, 3.0), 5.0) == -1
    assert frozen.judged(effect(-2.0, -5.0, 1.0), 5.0) == 0, "the interval holds zero"
    assert frozen.judged(effect(-0.05, -0.06, -0.04), 5.0) == 0, "nobody sees a twentieth of a second"
    assert frozen.judged(effect(-2.0, None, None), 5.0) == 0, "one run tells nothing"
    goodput = measures.TRANSFER[0]
    assert goodput.judged(effect(0.2, 0.1, 0.3), 5.0) == 1
    assert goodput.judged(effect(0.2, 0.1, 0.3), 50.0) == 0, "less than a hundredth"


def test_numbers_are_short_and_not_scientific():
    one = measures.TRANSFER[0]
    values = (1234.5, 135.4, 12.34, 1.234, 0.0, 2.0)
    assert [one.number(value) for value in values] == ["1,234", "135", "12.3", "1.23", "0", "2"]
    assert one.number(-0.5, signed=True) == "-0.5"
    assert one.with_interval(effect(5.0, 4.8, 5.1)) == "5 ± 0.2"
    assert one.with_interval(effect(5.0, 4.999, 5.001)) == "5"
    assert one.with_interval(effect(5.0, 4.8, 5.1), level=0.975) == "5 ± 0.2 at 97.5 %"
    assert one.with_interval(effect(5.0, 4.999, 5.001), level=0.975) == "5"
    # Zero is inside: not even the sign is known. No count is below zero.
    assert one.with_interval(effect(2.0, -1.5, 12.0), signed=True) == "-1.5 to +12"
    assert one.with_interval(effect(0.0, -0.02, 0.02), signed=True) == "-0.02 to +0.02"
    assert one.with_interval(effect(0.0, 0.0, 0.0), signed=True) == "no difference"
    assert measures.PROGRESSIVE[3].with_interval(effect(2.0, -1.5, 5.5)) == "2 (0 to 5.5)"
    assert measures.PROGRESSIVE[3].with_interval(effect(-2.5, -7.5, 2.5)) == "-2.5 (-7.5 to 2.5)"
    kinds = [
        one.shown(effect(*ends), signed=True).kind
        for ends in ((5, 4.8, 5.1), (2, -1.5, 12), (5, None, None), (0, 0, 0))
    ]
    assert kinds == [measures.PLUS_MINUS, measures.INTERVAL, measures.NUMBER, measures.WORDS]
    assert measures.score_text(effect(2.0, -1.5, 5.5), "s", level=0.975) == "2 (-1.5 to 5.5) s at 97.5 %"
    assert measures.score_text(effect(2.0, -1.5, 5.5), "s", signed=True) == "-1.5 to +5.5 s"
    assert measures.score_text(effect(0.0, 0.0, 0.0), "s", signed=True) == "no difference"
    assert measures.score_text(effect(5.0, 4.8, 5.1), "s", level=0.975) == "5 ± 0.2 s at 97.5 %"
    assert measures.score_text(effect(5.0, 4.999, 5.001), "s", level=0.975) == "5 s"


def test_a_number_of_a_page_is_not_broken_at_its_interval():
    from anabranch.report import _page

    source = (
        '{% from "macros.html.j2" import table %}{{ table(["a", "b"], [["x (1 to 2)", "4 (0 to 11)"]], 1) }}'
    )
    page = _page._environment().from_string(source).render()
    assert ">4\u00a0(0\u00a0to\u00a011)<" in page
    assert ">x (1 to 2)<" in page


# -- verdicts ----------------------------------------------------------------------------------------


def used(names, waits, *, unstarted=0, unreached=None):
    """The results of a set of paths, with the waiting of each run; the last runs never start or end."""
    runs = len(waits)
    values = {
        "waiting_s": dict(enumerate(waits)),
        "unstarted_sessions": {run: float(run >= runs - unstarted) for run in range(runs)},
    }
    means = {column: paired.difference(numpy.array(list(own.values()))) for column, own in values.items()}
    shares = {name: 1 / len(names) for name in names}
    unreached = unstarted if unreached is None else unreached
    return Used(
        paths=names, runs=runs, exact=False, means=means, shares=shares, cost=None,
        use=price.NONE.use([], names), unfinished=unreached,
        unstarted=unstarted, unreached=unreached, values=values,
    )  # fmt: skip


#: Values of waiting for a film of 60 s: only the start, a session that ends early, and a session that never
#: starts in 70 s.
FINE, DIES, NEVER = 2.0, 60.0, 130.0


def test_sessions_that_never_start_do_not_win():
    # Half of the runs with both paths never start; the other runs wait for less.
    one = used(("wifi",), [7.0] * 10)
    both = used(("wifi", "lte"), [3.0] * 5 + [NEVER] * 5, unstarted=5)
    other = used(("lte",), [NEVER] * 10, unstarted=10)
    to_lte, to_wifi = verdict.added([one, other, both], measures.PROGRESSIVE)
    assert (to_wifi.path, to_wifi.verdict) == ("lte", verdict.HURTS)
    assert "5 of 10 runs never start with it, 0 of 10 without it" in to_wifi.sentence
    # Over lte alone, no run ever starts.
    assert (to_lte.path, to_lte.verdict) == ("wifi", verdict.HELPS)


@pytest.mark.parametrize(
    ("without", "with_it", "expected"),
    [
        # One run of 30 never starts without the path, and with it all start and die.
        ([FINE] * 29 + [NEVER], [DIES] * 30, verdict.HURTS),
        # More runs start, and none plays to the end: -6 s with a standard error of 12 s.
        ([FINE] * 15 + [NEVER] * 15, [DIES] * 30, verdict.UNDECIDED),
        ([FINE] * 15 + [NEVER] * 15, [FINE] * 30, verdict.HELPS),
        # One run more, or one run fewer, starts.
        ([FINE] * 29 + [NEVER], [FINE] * 29 + [DIES], verdict.UNDECIDED),
        ([FINE] * 30, [FINE] * 29 + [NEVER], verdict.HURTS),
        # All runs wait for less, and one ends early.
        ([20.0] * 30, [FINE] * 29 + [DIES], verdict.BOTH),
    ],
)
def test_a_path_with_which_more_runs_start_and_die_does_not_win(without, with_it, expected):
    def ended(waits):
        never = waits.count(NEVER)
        return {"unstarted": never, "unreached": never + waits.count(DIES)}

    one, other = (used((name,), without, **ended(without)) for name in ("wifi", "lte"))
    both = used(("wifi", "lte"), with_it, **ended(with_it))
    found = list(verdict.added([one, other, both], measures.PROGRESSIVE))
    assert [one.verdict for one in found] == [expected] * 2


def test_ten_kilobits_near_a_score_of_zero_matter_in_no_adaptive_film():
    # From 0.5 to 10.5 kbit/s is 21 times as much, but 50 kbit/s are the least that matters.
    (rate,) = (one for one in measures.ADAPTIVE if one.is_score)
    exact = (True, True)
    assert rate.judge({0: 0.0105}, {0: 0.0005}, exact=exact).verdict == verdict.NOTHING
    assert rate.judge({0: 0.0505}, {0: 0.0005}, exact=exact).verdict == verdict.HELPS
    # 1 % of 8 Mb/s.
    assert rate.least(8.0) == pytest.approx(0.08)
    scored = score.Score(kind="adaptive", film_s=60.0, top_mbps=6.0)
    assert [scored.matters(value) for value in (0.0005, -0.0005, 8.0)] == pytest.approx([0.05, 0.05, 0.08])


def test_a_verdict_by_endings_needs_no_more_trials():
    # 128 s in one pair of 30 are undecided by waiting, but one run more never starts.
    one, other = (used((name,), [FINE] * 30) for name in ("wifi", "lte"))
    both = used(("wifi", "lte"), [FINE] * 29 + [NEVER], unstarted=1)
    for found in verdict.added([one, other, both], measures.PROGRESSIVE):
        assert found.verdict == verdict.HURTS
        assert (found.judgement.verdict, found.judgement.needed) == (verdict.HURTS, None)
        assert "trials" not in found.sentence


def test_an_undecided_verdict_names_the_trials_that_decide():
    one, other = (used((name,), [10.0, 12.0, 8.0, 10.0]) for name in ("wifi", "lte"))
    both = used(("wifi", "lte"), [9.0, 12.5, 7.0, 9.5])
    for found in verdict.added([one, other, both], measures.PROGRESSIVE, "linux and cubic"):
        assert found.verdict == verdict.UNDECIDED
        assert found.sentence.startswith(
            f"adding {found.path} to {found.to[0]} is undecided: waiting from 10 to 9.5 s"
        )
        # Student's t of 3 degrees at 0.05 / 2 has 4.18: 4.18 * 0.707 / 2 = 1.48.
        assert "(-1.98 to +0.98)" in found.sentence
        assert found.sentence.count("; the interval has 97.5 %; ") == 1
        # Differences -1, 0.5, -1, -0.5 have the standard deviation 0.71; two comparisons need z = 2.24.
        wanted = ((2.24 + 0.84) * 0.707 / 0.5) ** 2
        assert wanted < found.judgement.needed < wanted + 5
        assert f"about {found.judgement.needed} trials would decide" in found.sentence
        assert found.sentence.endswith("; with linux and cubic")


@pytest.mark.module
def test_a_second_path_that_helps():
    found = comparison.compare(BULK, trials=4, workers=1)
    assert [used.paths for used in found.used] == [("wifi",), ("lte",), ("wifi", "lte")]
    wifi, lte, both = found.used
    assert (wifi.cost, both.runs) == (None, 4)
    # 300 kB at 1,000 per gigabyte. Data that was not yet acknowledged when the client had everything is not
    # counted.
    assert 0.25 < lte.cost <= 0.3
    assert sum(both.shares.values()) == pytest.approx(1)
    assert both.cost == pytest.approx(0.3 * both.shares["lte"], rel=0.2)
    to_wifi = next(one for one in found.added if one.path == "lte")
    assert to_wifi.verdict in {verdict.HELPS, verdict.BOTH}
    change = to_wifi.effects["goodput_mbps"]
    assert change.value == pytest.approx(both.means["goodput_mbps"].value - wifi.means["goodput_mbps"].value)
    assert to_wifi.sentence.startswith("adding lte to wifi helps")
    assert "at a cost of" not in to_wifi.sentence
    # The cost of a transfer of some hundred milliseconds, by the hour.
    hour = both.cost * 3600 / both.means["duration_s"].value
    assert both.use.per_hour == pytest.approx(hour, rel=0.01)
    assert to_wifi.sentence.endswith(f"; it costs {both.use.per_hour:.2f} an hour")


@pytest.mark.module
def test_paths_may_have_any_names():
    named = [{**path, "name": f"{path['name']} + more"} for path in BULK["paths"]]
    found = comparison.compare({**BULK, "paths": named}, trials=1, workers=1)
    assert [used.paths for used in found.used[:2]] == [("wifi + more",), ("lte + more",)]
    assert found.used[2].paths == ("wifi + more", "lte + more")
    assert [one.to for one in found.added] == [("lte + more",), ("wifi + more",)]


@pytest.mark.module
def test_a_second_path_that_does_not():
    slow = {"name": "lte", "rtt": "900 ms", "rate": "64 kbit/s"}
    setting = {"paths.wifi.loss": "0 %"}
    found = anabranch.compare({**BULK, "paths": [BULK["paths"][0], slow]}, set=setting, trials=1, workers=1)
    to_wifi = next(one for one in found.added if one.path == "lte")
    assert to_wifi.effects["goodput_mbps"].value < 0
    assert to_wifi.verdict == verdict.UNDECIDED, "one trial of a world with chance decides nothing"
    assert "at least 3 trials are needed" in to_wifi.sentence


@pytest.mark.module
def test_a_world_that_draws_nothing_has_a_verdict_after_one_run():
    still = {
        **BULK,
        "host": {"clock_phase": "0 s"},
        "paths": [{key: path[key] for key in ("name", "rtt", "rate")} for path in BULK["paths"]],
    }
    found = comparison.compare(still, trials=5, workers=1)
    assert [used.runs for used in found.used] == [1, 1, 1]
    assert {one.verdict for one in found.added} == {verdict.HELPS}


@pytest.mark.slow
@pytest.mark.module
def test_the_command_keeps_its_runs_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(FILE, encoding="utf-8")
    first = call("compare", "small.toml", "--trials", 2, "--workers", 1)
    assert first.exit_code == 0, first.output
    assert "6 runs, 0 were there already; results in results/small-paths" in first.stderr
    assert re.search(r"wifi \+ lte +\d", first.stdout)
    more = ("--trials", 3, "--workers", 1, "--report", "r.html", "--json")
    again = call("compare", "small.toml", *more)
    assert "3 runs, 6 were there already" in again.stderr
    told = json.loads(again.stdout)
    assert [one["paths"] for one in told["sets"]] == [["wifi"], ["lte"], ["wifi", "lte"]]
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    # No line breaks inside a value.
    assert re.search(r"<td[^>]*>\d[\d.]*\u00a0±\u00a0\d", page)
    assert not re.search(r"<td[^>]*>[^<]* ±", page)
    for one in told["added"]:
        assert one["score"]["level"] == 0.975, "5 % for two paths together"
        assert one["sentence"].partition(":")[2] in page
    assert call("results", "results/small-paths", "--report", "folder.html").exit_code == 0
    page = (tmp_path / "folder.html").read_text(encoding="utf-8")
    assert "<h1>small: which paths</h1>" in page
    assert ">wifi + lte<" in page
    assert "paths wifi" not in page


@pytest.mark.module
def test_settings_hold_in_every_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(FILE, encoding="utf-8")
    settings = ("--set", "paths.lte.rate=100kbit/s", "--set", "application.bytes=50kB")
    done = call("compare", "small.toml", *settings, "--trials", 1, "--workers", 1, "--json")
    assert done.exit_code == 0, done.output
    sets = {"+".join(one["paths"]): one["means"] for one in json.loads(done.stdout)["sets"]}
    assert sets["lte"]["goodput_mbps"]["value"] < 0.1 < 1 < sets["wifi"]["goodput_mbps"]["value"]


def test_all_faults_are_reported_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(FILE, encoding="utf-8")
    settings = ("--set", "paths.lte.rat=1", "--set", "transport.scheduler=linus")
    done = call("compare", "small.toml", *settings, "--report", "nowhere/r.html")
    assert done.exit_code == 2
    for text in ("rat", "linus", "--report"):
        assert text in done.stderr
    alone = call("compare", "single-path")
    assert alone.exit_code == 2
    assert "one path" in alone.stderr


@pytest.mark.slow
@pytest.mark.module
def test_demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(FILE, encoding="utf-8")
    done = call("demo", "--scenario", "small.toml")
    assert done.exit_code == 0, done.output
    for text in ("What each subflow did", "small: which paths", "adding lte to wifi helps"):
        assert text in done.stdout
    assert done.stdout.splitlines()[-1] == f"report: {tmp_path / 'report.html'}"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Adding lte to wifi helps:" in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "small.toml"]


@pytest.mark.module
def test_a_player_that_has_all_of_its_film_plays_on():
    # When the last chunk has arrived, 365 s of film are left. Nothing happens on the network until the end.
    from anabranch.scenario import shipped
    from anabranch.scenario.load import tables

    raw = paths.only(tables(shipped.resolve("adaptive-two-paths")), ["lte"])
    run = anabranch.run(raw)
    assert run.qoe["finished"]
    last = max(row["done_s"] for row in run.rows("requests"))
    assert run.duration_s - last > 300


@pytest.mark.module
def test_files_that_are_set_are_found_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drive.csv").write_text("t_s,rate_mbps\n0,2\n1,4\n")
    (tmp_path / "mine.py").write_text(
        "class Last:\n    def schedule(self, send, subflows):\n        return subflows[-1]\n"
    )
    size = {"application.bytes": "100 kB", "paths.lte.trace": "drive.csv"}
    found = anabranch.compare("bulk-two-paths", scheduler="mine.py:Last", set=size, trials=1, workers=1)
    run = anabranch.run("bulk-two-paths", scheduler="mine.py:Last", set=size)
    assert found.used[-1].means["goodput_mbps"].value == run.qos["goodput_mbps"]
