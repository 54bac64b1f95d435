"""Paired differences of a folder's cells: what `results --versus` prints."""

import json

import numpy
import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.results import versus
from anabranch.results.store import Store

KEYS = ("transport.scheduler", "transport.multipath")


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path):
    """Three schedulers by two flags; a run's luck is common, `lpc` loses 3 to `linux`, and `ecf` has no rows for false."""
    random = numpy.random.default_rng(3)
    luck = random.normal(50, 10, 12)
    effects = {
        ("linux", True): 0,
        ("lpc", True): -3,
        ("ecf", True): 1,
        ("linux", False): 5,
        ("lpc", False): 5,
    }
    cells = [
        {
            "cell": f"c{place}",
            "scenario": "s",
            "text": "t",
            "folder": ".",
            "settings": {},
            "labels": dict(zip(KEYS, labels, strict=True)),
        }
        for place, labels in enumerate(effects)
    ]
    manifest = {
        "name": "n",
        "code": "c",
        "trials": 12,
        "keep": [],
        "notes": {},
        "scenarios": {"t": {}},
        "cells": cells,
    }
    store = Store(tmp_path / "out", manifest)
    with store.writing() as journal:
        for cell, effect in zip(cells, effects.values(), strict=True):
            for run in range(12):
                row = {
                    **cell["labels"],
                    "identity": f"{cell['cell']}-{run}",
                    "cell": cell["cell"],
                    "scenario": "s",
                    "scheduler": cell["labels"][KEYS[0]],
                    "congestion": "cubic",
                    "seed": 1,
                    "run": run,
                    "goodput_mbps": float(luck[run] + effect + random.normal(0, 0.1)),
                    # Half the runs have none.
                    "recovery_time_s": float(run) if run % 2 else None,
                }
                journal.add({"runs": [row], "subflows": []}, {})
    store.finish()
    return tmp_path / "out"


def test_differences_are_those_of_runs_with_the_same_luck(folder):
    rows = {(row[KEYS[0]], row[KEYS[1]]): row for row in versus.differences(folder, "linux")}
    assert list(rows) == [("lpc", True), ("ecf", True), ("lpc", False)]
    worse = rows["lpc", True]
    assert worse["goodput_mbps"] == pytest.approx(-3, abs=0.15)
    # The luck's spread of 10 is not in it.
    assert -3.2 < worse["goodput_mbps_low"] < worse["goodput_mbps_high"] < -2.8
    assert worse["goodput_mbps_pairs"] == 12
    assert worse["goodput_mbps_detectable"] < 0.2
    same = rows["lpc", False]
    assert same["goodput_mbps_low"] < 0.05
    assert same["goodput_mbps_high"] > -0.05
    assert (same["recovery_time_s"], same["recovery_time_s_pairs"]) == (0, 6)


def test_the_same_data_have_the_same_interval(folder):
    assert versus.differences(folder, "linux") == versus.differences(folder, "scheduler=linux")


def test_a_flag_is_compared_too(folder):
    rows = versus.differences(folder, "multipath=false", ["goodput_mbps"])
    assert [(row[KEYS[0]], round(row["goodput_mbps"])) for row in rows] == [("linux", -5), ("lpc", -8)]


def test_the_command_prints_a_table_or_json(folder):
    result = call("results", folder, "--versus", "linux", "--metric", "goodput_mbps")
    assert result.exit_code == 0, result.stderr
    assert "[" in result.stdout
    assert "ecf" in result.stdout
    assert "runs of the same number in pairs" in result.stderr
    rows = json.loads(call("results", folder, "--versus", "linux", "--json").stdout)
    assert rows[0]["goodput_mbps_pairs"] == 12


def test_a_table_of_differences_has_headings_and_values_in_words(folder, tmp_path):
    file = tmp_path / "changes.csv"
    result = call("results", folder, "--versus", "linux", "--metric", "goodput_mbps", "--table", file)
    assert result.exit_code == 0, result.stderr
    head, first, *_ = (line.split(",") for line in file.read_text().splitlines())
    assert head[0] == "scheduler"
    assert first[:3] == ["lpc", "true", "12"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--versus", "linus"), "did you mean `linux`?"),
        (("--versus", "scheduler=linus"), "did you mean `linux`?"),
        (("--versus", "linux", "--metric", "godput_mbps"), "did you mean `goodput_mbps`?"),
        (("--versus", "linux", "--by", "scheduler"), "--by cannot be combined with `--versus`"),
        (("--versus", "linux", "--sql", "SELECT 1"), "--sql cannot be combined with `--versus`"),
    ],
)
def test_a_wrong_call_is_reported(folder, arguments, message):
    result = call("results", folder, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
