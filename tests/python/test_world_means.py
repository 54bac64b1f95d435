"""Summaries of drawn worlds with several runs each: a world is a trial, whatever the number of its runs."""

import json

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.experiments import drawn
from anabranch.results import summary
from anabranch.results.store import Store

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
