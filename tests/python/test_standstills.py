"""Sweeps in which the sessions of some runs stand still, because their scheduler refuses every subflow."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.errors import InputError

pytestmark = pytest.mark.module

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
bytes = "200 kB"
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"
[[paths]]
name = "lte"
rtt = "60 ms"
rate = "8 Mbit/s"
"""
#: It sends the first 100 kB and then refuses every subflow.
STOPS = """\
class Stops:
    def schedule(self, request, subflows):
        free = [one for one in subflows if one.can_send]
        if request.data_next > 100_000:
            return None
        return free[0] if free else None
"""


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SCENARIO, encoding="utf-8")
    Path("stops.py").write_text(STOPS, encoding="utf-8")


def swept(*options):
    grid = ("--grid", "transport.scheduler=stops.py:Stops,linux", "--set", "paths.wifi.loss=1 %")
    return call("sweep", "small.toml", *grid, "--out", "out", "--workers", 1, *options)


def test_a_run_that_stands_still_is_stored_and_the_others_are_run():
    done = swept("--trials", 2)
    assert done.exit_code == 3
    assert "4 runs, 0 were there already" in done.stderr
    assert "warning: 2 of 4 runs stand still, the first one with seed 1, run 0, of " in done.stderr
    assert "the run stands still from 0." in done.stderr
    assert "segments in flight" in done.stderr
    rows = polars.read_parquet("out/runs.parquet")
    stands = rows["scheduler"].str.contains("Stops")
    assert rows["standstill_s"].is_not_null().to_list() == stands.to_list()
    assert rows["unfinished_sessions"].to_list() == stands.cast(int).to_list()
    # The folder is complete: a repeat runs nothing, and stored runs can be repeated.
    again = swept("--trials", 2)
    assert (again.exit_code, "0 runs, 4 were there already" in again.stderr) == (3, True)
    assert call("verify", "out").exit_code == 0


def test_results_reports_and_python_show_it():
    assert swept("--trials", 1).exit_code == 3
    shown = call("results", "out", "--report", "page.html")
    assert shown.exit_code == 0
    assert "warning: 1 of 2 runs stand still" in shown.stderr
    assert "1 of 2 runs stand still" in Path("page.html").read_text(encoding="utf-8")
    query = "SELECT scheduler, standstill FROM runs WHERE standstill_s < 1"
    (row,) = json.loads(call("results", "out", "--sql", query, "--json").stdout)
    assert "0 of" in row["standstill"]
    stored = anabranch.open_run("out")
    assert any("stands still from" in note for note in stored.notes)


def test_a_sweep_without_such_runs_has_no_such_columns():
    done = call("sweep", "small.toml", "--trials", 1, "--out", "out", "--workers", 1)
    assert done.exit_code == 0
    assert "standstill" not in polars.read_parquet("out/runs.parquet").columns


def test_a_single_run_is_still_refused():
    with pytest.raises(InputError, match="the scheduler sends nothing more: the run stands still"):
        anabranch.run("small.toml", scheduler="stops.py:Stops")
