"""Summaries of drawn worlds with several runs each: a world is a trial, whatever the number of its runs."""

import json

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.claims import around, cells, gather, measure, page, statement
from anabranch.claims import stored as claimed
from anabranch.cli._app import app
from anabranch.experiments import drawn
from anabranch.experiments.read import PooledWarning
from anabranch.report import _folder
from anabranch.results import summary, versus
from anabranch.results.store import Store
from anabranch.study.variants import Reach

#: Seconds without a moving picture of two runs in each of three worlds, by arm. The means of worlds are 1, 2, 6 and 2, 3, 7.
STILL = {"plain": [(0.0, 2.0), (1.0, 3.0), (6.0, 6.0)], "slow": [(2.0, 2.0), (3.0, 3.0), (7.0, 7.0)]}


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def stored(folder, still=STILL, **more):
    """A folder of results with a row a run; `more` are columns by name: values by arm, world and run."""
    cells = [
        {
            "cell": f"{arm}{world}",
            "scenario": "s",
            "text": "t",
            "folder": ".",
            "settings": {},
            "labels": {"row": "one", "arm": arm, "world": str(world)},
        }
        for arm, worlds in still.items()
        for world in range(len(worlds))
    ]
    manifest = {"name": "n", "code": "c", "trials": 2, "keep": [], "notes": {}, "scenarios": {"t": {}}}
    store = Store(folder, {**manifest, "cells": cells})
    with store.writing() as journal:
        for cell in cells:
            arm, world = cell["labels"]["arm"], int(cell["labels"]["world"])
            for run, value in enumerate(still[arm][world]):
                row = {
                    **cell["labels"],
                    "identity": f"{cell['cell']}-{run}",
                    "cell": cell["cell"],
                    "scenario": "s",
                    "scheduler": "linux",
                    "congestion": "cubic",
                    "seed": 100 + world,
                    "run": run,
                    "still_s": value,
                    **{name: values[arm, world, run] for name, values in more.items()},
                }
                journal.add({"runs": [row], "subflows": []}, {})
    store.finish()
    return folder


@pytest.fixture
def folder(tmp_path):
    return stored(tmp_path / "out")


#: Half the interval of 1, 2 and 6: their standard deviation is the root of (4 + 1 + 9) / 2, and Student's
#: t with two degrees of freedom is 4.303.
HALF = 4.302653 * 7**0.5 / 3**0.5


def test_a_mean_is_over_worlds(folder):
    plain, slow = summary.means(folder, ["row", "arm"])
    assert (plain["arm"], plain["runs"], plain["still_s"]) == ("plain", 6, 3.0)
    assert plain["still_s_ci95"] == pytest.approx(HALF, rel=1e-6)
    assert slow["still_s"] == 4.0


def test_arms_of_one_world_are_one_trial(folder):
    """By row, the worlds have 1.5, 2.5 and 6.5."""
    (row,) = summary.means(folder, ["row"])
    assert (row["runs"], row["still_s"]) == (12, 3.5)
    assert row["still_s_ci95"] == pytest.approx(HALF, rel=1e-6)
    (row,) = summary.means(folder, [])
    assert row["still_s_ci95"] == pytest.approx(HALF, rel=1e-6)


def test_the_runs_of_one_world_are_trials_if_worlds_are_listed(folder):
    """0 and 2: a standard deviation of the root of 2, by the root of 2, and t of one degree of freedom, 12.706."""
    rows = summary.means(folder, ["arm", "world"])
    assert [row["still_s"] for row in rows] == [1.0, 2.0, 6.0, 2.0, 3.0, 7.0]
    assert rows[0]["still_s_ci95"] == pytest.approx(12.7062, rel=1e-5)


def test_a_world_counts_as_much_as_another_one_with_more_runs(tmp_path):
    """Worlds of 1 and 5, and not three runs of 0, 2 and 5."""
    found = stored(tmp_path / "out", {"plain": [(0.0, 2.0), (5.0,)]})
    (row,) = summary.means(found, ["arm"])
    assert (row["runs"], row["still_s"]) == (3, 3.0)


def test_figures_have_a_dot_a_world_and_its_interval(folder):
    rows = drawn.runs(folder)
    (plain, _slow) = drawn.cells(rows, ["still_s"])
    assert (plain["runs"], plain["still_s"]) == (6, 3.0)
    assert plain["still_s_ci95"] == pytest.approx(HALF, rel=1e-6)
    numbers = drawn.bars(rows, "still_s").data
    assert [(one["series"], one["world"], one["still_s"]) for one in numbers] == [
        ("plain", "0", 1.0),
        ("plain", "1", 2.0),
        ("plain", "2", 6.0),
        ("slow", "0", 2.0),
        ("slow", "1", 3.0),
        ("slow", "2", 7.0),
    ]


def test_the_command_prints_the_mean_over_worlds(folder):
    plain = json.loads(call("results", folder, "--json").stdout)[0]
    assert plain["still_s_ci95"] == pytest.approx(HALF, rel=1e-6)


def test_a_report_ranks_arms_over_worlds_and_not_worlds(tmp_path):
    """Goodputs of 1, 2 and 6 against 2, 3 and 7 Mb/s: 1 less in each world, so that `slow` is surely better."""
    rates = {
        (arm, world, run): value
        for arm, worlds in STILL.items()
        for world, runs in enumerate(worlds)
        for run, value in enumerate(runs)
    }
    found = stored(tmp_path / "out", goodput_mbps=rates)
    cells_, _ = _folder.cells(found)
    assert [(one.name, one.setting, one.values["goodput_mbps"]) for one in cells_] == [
        ("arm plain", "", {0: 1.0, 1: 2.0, 2: 6.0}),
        ("arm slow", "", {0: 2.0, 1: 3.0, 2: 7.0}),
    ]
    (sentence,) = _folder.verdicts(found)[0]
    assert sentence.startswith("Best by goodput is arm slow: 4 ")
    assert sentence.endswith("; arm plain has 3 (0 to 9.57) Mb/s (-1)")


def test_tables_in_python_and_on_the_page_have_a_row_an_arm(folder):
    found = anabranch.Results(folder)
    assert found.means()["arm"].to_list() == ["plain", "slow"]
    assert "world" not in found.means().columns
    with pytest.warns(PooledWarning, match="differ in arm"):
        by_world = found.means(by=["world"])
    assert by_world["world"].to_list() == ["0", "1", "2"]
    assert "<th>world" not in found._repr_html_()


def test_worlds_around_a_study_are_compared_by_their_numbers():
    """Over worlds 0 to 2, `left` has 2 and `right` 3. In world 0 alone `left` has 4, and the claim would fail."""

    def runs(sides, varied=None):
        rows = [
            {"row": side, "world": str(world), "run": 0, "cell": f"{side}{world}", "seed": world}
            | {"varied": varied, "still_s": value}
            for side, values in sides.items()
            for world, value in enumerate(values)
        ]
        return claimed.Runs(rows, ["row", "world"], varied=varied)

    left, right = (
        cells.Cell(labels=labels, said=labels, shown=labels, paths=())
        for labels in ((("row", "left"),), (("row", "right"),))
    )
    part = statement.Part(test="less")
    metric = measure.parse("still_s")
    one = statement.Stated(
        claim=statement.Claim(id="A.1", place="p", says="s", parts=[part]),
        comparisons=(
            statement.Comparison(
                test="less", metric=metric, of=left, than=right, within=None, by={"still_s": 0.5}
            ),
        ),
    )
    other = around.World(assumption="a", said="b", reaches=(Reach(rows=frozenset({"right"})),))
    own = runs({"left": (4.0, 1.0, 1.0), "right": (9.0, 9.0, 9.0)})
    varied = runs({"right": (3.0, 3.0, 3.0)}, varied="b")
    assert varied.numbers() == {0, 1, 2}
    assert around.spread(one, own, {other: varied}).worlds == {other: True}


def test_arms_are_comparable_if_both_were_run(folder, tmp_path):
    assert versus.is_comparable(folder, "arm", "plain")
    assert not versus.is_comparable(folder, "arm", "none")
    assert not versus.is_comparable(folder, "variant", "plain")
    assert not versus.is_comparable(stored(tmp_path / "one", {"plain": STILL["plain"]}), "arm", "plain")


WORLDS = """
[scenario.application]
kind = "bulk"
bytes = "200 kB"
[paths]
count = 2
draw = { rtt = { uniform = [10, 20] } }
set = { rtt = "{rtt:.1f} ms", rate = "8 Mbit/s" }
"""
STUDY = """
title = "t"
source = "s"
question = "q"
base = "plain"
[[worlds]]
row = "one"
count = 2
seed = 7
[arms.plain]
what = "as it is"
"""
STOPPING = """
[arms.stopping]
what = "a scheduler that refuses every subflow after 100 kB"
set = { "transport.scheduler" = "stops.py:Stops" }
"""
STOPS = """
class Stops:
    def schedule(self, request, subflows):
        free = [one for one in subflows if one.can_send]
        return free[0] if free and request.data_next <= 100_000 else None
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "mine"
    made.mkdir()
    (made / "worlds.toml").write_text(WORLDS)
    (made / "study.toml").write_text(STUDY)
    (made / "stops.py").write_text(STOPS)
    return made


@pytest.mark.module
def test_changes_are_printed_though_runs_stand_still(study):
    """The exit code is still 3, and two worlds are two pairs."""
    (study / "study.toml").write_text(STUDY + STOPPING)
    done = call("study", "run", study, "--out", "out", "--workers", 1)
    assert done.exit_code == 3, done.stderr
    assert "2 of 4 runs stand still" in done.stderr
    assert "compared with arm=plain" in done.stderr
    assert done.stdout.splitlines()[-1].split()[:3] == ["one", "stopping", "2"]
    shown = call("results", "out", "--versus", "arm=plain")
    assert (shown.exit_code, "warning: 2 of 4 runs stand still" in shown.stderr) == (0, True)
    found = anabranch.Results("out")
    for asked in (found.means, lambda: found.versus("arm=plain")):
        with pytest.warns(summary.StandstillWarning, match="2 of 4 runs stand still") as caught:
            asked()
        assert caught[0].filename == __file__
    with pytest.warns(summary.StandstillWarning, match="2 of 4 runs stand still"):
        anabranch.run_study(study, out="out", workers=1)


@pytest.mark.module
def test_a_study_of_one_arm_has_no_changes(study):
    done = call("study", "run", study, "--out", "out", "--workers", 1)
    assert done.exit_code == 0, done.stderr
    assert "compared with" not in done.stderr


CLAIMS = """
[[claims]]
id = "c"
place = "p"
says = "s"
at = { row = "one" }
parts = [{ test = "ratio", metric = "goodput_mbps", of = { arm = "reno" }, than = { arm = "plain" }, within = [0, 9], why = "w" }]
"""


@pytest.mark.module
def test_a_page_of_claims_states_how_many_worlds_are_asked_for(study):
    """Two of nine worlds; `trials` is left at its default."""
    reno = '[arms.reno]\nwhat = "reno"\nset = { "transport.congestion" = "reno" }\n'
    (study / "study.toml").write_text(STUDY.replace("count = 2", "count = 9") + reno)
    (study / "claims.toml").write_text(CLAIMS)
    found = anabranch.run_study(study, out="out", worlds=2, workers=1)
    section = page.part(gather.judged(found.folder)).section
    assert "trials of a cell: 2, where the study asks for 9; seed: " in section[3]
    (study / "study.toml").write_text(STUDY + reno)
    assert "where the study asks" not in page.part(gather.judged(found.folder)).section[3]


def test_rows_that_ask_for_different_numbers_are_named():
    assert page._asked({"one": 9, "two": 9}) == "9"
    assert page._asked({"one": 30, "two": 9, "three": 9}) == "9 (two, three), 30 (one)"


def test_a_metric_with_fewer_pairs_has_their_number(tmp_path):
    """Two of three worlds have a startup delay: 1 less and 3 less than in `plain`, 2 on average.

    Half the interval of 1 and 3 is the root of 2, by the root of 2, times 12.706.
    """
    delays = dict.fromkeys(
        ((arm, world, run) for arm in STILL for world in range(3) for run in range(2)), 5.0
    )
    delays |= {("slow", 0, run): 4.0 for run in range(2)} | {("slow", 1, run): 2.0 for run in range(2)}
    delays |= {("plain", 2, run): None for run in range(2)}
    found = stored(tmp_path / "out", startup_delay_s=delays)
    done = call(
        "results", found, "--versus", "arm=plain", "--metric", "still_s", "--metric", "startup_delay_s"
    )
    assert done.exit_code == 0, done.stderr
    words = done.stdout.splitlines()[-1].split(maxsplit=6)
    assert words == ["one", "slow", "3", "+1", "[+1,", "+1]", "-2 [-14.7, +10.7], 2 pairs"]
