"""A folder of results grows and never mixes programs. Inputs are edited between sweeps.

After an edit, a summary must equal that of the same command in an empty folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.results import identity, store
from anabranch.results.read import LeftOutWarning
from anabranch.results.tables import Tables

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
bytes = "300 kB"
[[paths]]
name = "wifi"
rtt = "20 ms"
trace = "wifi.csv"
loss = "2 %"
[[paths]]
name = "lte"
rtt = "60 ms"
rate = "8 Mbit/s"
"""
RECORDING = "t_s,rate_mbps\n0,8\n1,4\n2,8\n"
FIRST = """\
import pathlib
from helper import pick
STEP = int((pathlib.Path(__file__).parent / "step.txt").read_text())
class V:
    def schedule(self, request, subflows):
        return pick(subflows[::STEP])
"""
SECOND = """\
import pathlib
from helper import pick
class V:
    def __init__(self, file: str):
        self.step = int((pathlib.Path(__file__).parent / file).read_text())
    def schedule(self, request, subflows):
        return pick(subflows[::self.step])
"""
HELPER = "def pick(subflows):\n    free = [one for one in subflows if one.can_send]\n    return free[{}] if free else None\n"

pytestmark = pytest.mark.module


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "small.toml": SCENARIO,
        "wifi.csv": RECORDING,
        "v.py": FIRST,
        "helper.py": HELPER.format(0),
        "step.txt": "1",
    }.items():
        Path(name).write_text(text, encoding="utf-8")


def swept(*options, out="out", trials=2, values="linux,v.py:V"):
    grid = ("--grid", f"transport.scheduler={values}")
    found = call("sweep", "small.toml", *grid, "--trials", trials, "--workers", 1, "--out", out, *options)
    assert found.exit_code == 0, found.stderr
    return found


def counted(found):
    """Return how many runs a sweep made, and how many existed already."""
    line = next(line for line in found.stderr.splitlines() if " were there already" in line)
    words = line.replace(",", "").split()
    return int(words[0]), int(words[2])


def shown(out="out", *options):
    found = call("results", out, "--json", *options)
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)


def afresh(*options, **named):
    """Return the results of the same sweep in an empty folder."""
    Path("afresh").mkdir(exist_ok=True)
    out = f"afresh/{len(list(Path('afresh').iterdir()))}"
    swept(*options, out=out, **named)
    return shown(out)


def edit(file, before, after):
    """Change a file but keep its modification time, as `cp -p` does."""
    text, then = Path(file).read_text(encoding="utf-8"), Path(file).stat().st_mtime_ns
    assert before in text
    Path(file).write_text(text.replace(before, after), encoding="utf-8")
    os.utime(file, ns=(then, then))


EDITS = {
    "plug-in": ("v.py", "[::STEP]", "[::-STEP]", 2),
    "data file": ("step.txt", "1", "-1", 2),
    "local import": ("helper.py", "free[0]", "free[-1]", 2),
    "recording": ("wifi.csv", "0,8", "0,2", 4),
    "scenario": ("small.toml", "300 kB", "200 kB", 4),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("plug-in", marks=pytest.mark.slow),
        pytest.param("data file", marks=pytest.mark.slow),
        "local import",
        pytest.param("recording", marks=pytest.mark.slow),
        pytest.param("scenario", marks=pytest.mark.slow),
    ],
)
def test_an_edit_leaves_the_earlier_runs_out_and_going_back_finds_them(name):
    file, before, after, runs = EDITS[name]
    first = swept()
    assert counted(first) == (4, 0)
    old = shown()
    edit(file, before, after)
    # Until the next sweep, no run has the present inputs.
    told = call("results", "out")
    assert f"{runs} runs of earlier sources left out (--earlier shows them)" in told.stderr
    named = f"{Path('v.py').resolve()} or what it imports" if runs == 2 else Path(file).resolve()
    assert f"changed since the last sweep: {named}: repeat" in told.stderr
    with pytest.warns(LeftOutWarning, match=f"{runs} runs of earlier sources left out"):
        assert len(anabranch.load("out")) == 4 - runs
    assert counted(swept()) == (runs, 4 - runs)
    assert shown() == afresh() != old
    assert [row["runs"] for row in shown("out", "--earlier")] == [2] * (2 + runs // 2)
    assert call("verify", "out").exit_code == 0
    edit(file, after, before)
    assert shown() == old
    assert counted(swept()) == (0, 4)
    assert shown() == old


def test_each_cell_has_the_data_files_that_its_parameters_name():
    """Two cells use the same plug-in. An edit of one cell's data file does not affect the other."""
    Path("v.py").write_text(SECOND, encoding="utf-8")
    Path("back.txt").write_text("-1", encoding="utf-8")
    values = "v.py:V(file=step.txt),v.py:V(file=back.txt)"
    swept(values=values)
    assert [row["runs"] for row in shown()] == [2, 2]
    edit("back.txt", "-1", "-2")
    assert [row["runs"] for row in shown()] == [2]
    assert counted(swept(values=values)) == (2, 2)


@pytest.mark.slow
def test_growing_a_grid_runs_only_the_missing_runs():
    swept(values="linux")
    assert counted(swept()) == (2, 2)
    assert shown() == afresh()
    # The scenario's value is one of the values of the new axis, so its runs exist already.
    axis = ("--grid", "paths.lte.rtt=60 ms,90 ms")
    assert counted(swept(*axis)) == (4, 4)
    assert shown() == afresh(*axis)
    assert "4 runs of other cells left out (--earlier shows them)" in call("results", "out").stderr
    assert counted(swept(*axis, trials=3)) == (4, 8)
    assert shown() == afresh(*axis, trials=3)
    assert counted(swept(trials=3)) == (0, 6)
    assert shown() == afresh(trials=3)
    assert call("verify", "out").exit_code == 0


def test_a_cell_that_is_called_otherwise_is_not_run_again():
    swept("--grid", "paths.lte.rtt=60 ms")
    assert counted(swept("--grid", "paths.lte.rtt=0.06 s")) == (0, 4)
    assert [row["paths.lte.rtt"] for row in shown()] == ["0.06 s"] * 2
    Path("small.toml").rename("other.toml")
    grid = ("--grid", "transport.scheduler=linux,v.py:V", "--trials", 2, "--workers", 1, "--out", "out")
    assert counted(call("sweep", "other.toml", *grid)) == (0, 4)
    assert [row["runs"] for row in shown()] == [2, 2]


@pytest.mark.slow
def test_a_key_that_is_set_otherwise_makes_other_runs():
    swept("--set", "application.bytes=50 kB")
    assert counted(swept("--set", "application.bytes=70 kB")) == (4, 0)
    assert shown() == afresh("--set", "application.bytes=70 kB")
    assert counted(swept("--set", "application.bytes=50 kB")) == (0, 4)


def test_tables_of_the_trace_that_are_wanted_later_are_made():
    swept()
    assert counted(swept("--keep", "samples")) == (4, 0)
    assert anabranch.load("out", "samples")["identity"].n_unique() == 4
    assert counted(swept()) == (0, 4)


def test_a_source_that_is_gone_counts_as_unchanged():
    swept()
    before = shown()
    Path("v.py").unlink()
    told = call("results", "out", "--json")
    assert json.loads(told.stdout) == before
    assert f"gone since the last sweep, and taken as unchanged: {Path('v.py').resolve()}" in told.stderr


def test_an_edit_in_the_same_process_is_seen():
    """The same process sweeps twice, as a notebook does."""
    grid = {"transport.scheduler": ["v.py:V"]}
    first = anabranch.sweep("small.toml", grid=grid, trials=1, out="out", workers=1).frame()
    edit("helper.py", "free[0]", "free[-1]")
    with pytest.warns(LeftOutWarning):
        second = anabranch.sweep("small.toml", grid=grid, trials=1, out="out", workers=1).frame()
    assert len(second) == 1
    assert second["digest"][0] != first["digest"][0]
    assert second["digest"][0] == anabranch.run("small.toml", scheduler="v.py:V").digest


def test_a_file_that_is_edited_during_a_sweep_ends_it():
    from anabranch.errors import MissingError
    from anabranch.experiments.make import _axes, sweep_of
    from anabranch.study import sweep

    what = sweep_of(
        "small.toml", _axes({"transport.scheduler": ["v.py:V"]}, (), trials=1), (), trials=1, keep=()
    )
    (job,) = what.jobs(sweep.planned(what))
    sweep._READY.clear()
    edit("helper.py", "free[0]", "free[-1]")
    with pytest.raises(MissingError, match="not what it was when the sweep began"):
        job.ready()


def test_verify_finds_pooled_and_foreign_runs():
    """A foreign run under the name of a cell, as earlier versions pooled them."""
    swept(values="linux")
    out = Path("out")
    first = {
        table: Tables(out, None).rows_of(table).to_dicts()[0] | {"identity": "f" * 20}
        for table in store.TABLES
    }
    with store.Store(out, store.manifest(out), part="x").writing() as journal:
        journal.add({table: [row] for table, row in first.items()}, {})
    assert [row["runs"] for row in shown()] == [2]
    told = call("verify", "out")
    lines = told.stdout.splitlines()
    own = anabranch.load("out", earlier=True).filter(run=0)["identity"].to_list()
    assert told.exit_code == 1
    assert sum("foreign: no run of cell" in line and line.startswith("f" * 20) for line in lines) == 1
    assert {line.split()[0] for line in lines if "has 2 runs with number 0" in line} == set(own)


def test_a_sweep_without_a_subflow_keeps_the_subflows_of_earlier_runs():
    """The second sweep has no row of `subflows`: no subflow is established on paths that lose everything."""
    swept(values="linux")
    before = anabranch.load("out", "subflows").height
    keys = ("paths.wifi.loss=100 %", "paths.lte.loss=100 %", "application.duration=3 s")
    options = [option for key in keys for option in ("--set", key)]
    assert counted(swept(*options, values="linux")) == (2, 0)
    assert not store.journals(Path("out"))
    assert counted(swept(*options, values="linux")) == (0, 2)
    with pytest.warns(LeftOutWarning):
        assert [len(anabranch.load("out", table)) for table in store.TABLES] == [2, 0]
    assert anabranch.load("out", "subflows", earlier=True).height == before > 0
    assert call("verify", "out").exit_code == 0


def test_runs_of_a_grid_over_seeds_count_for_a_sweep_of_one_seed():
    """`seed` is a label of the first sweep's cells and a column of every row."""
    seeds = ("--grid", "seed=1,2")
    swept(*seeds, values="linux")
    found = swept("--set", "seed=1", values="linux")
    assert counted(found) == (0, 2)
    assert not store.journals(Path("out"))
    with pytest.warns(LeftOutWarning):
        rows = anabranch.load("out")
    assert rows["seed"].to_list() == [1, 1]
    assert shown() == afresh("--set", "seed=1", values="linux")
    assert counted(swept(*seeds, values="linux")) == (0, 4)
    with pytest.warns(LeftOutWarning, match="2 runs of other cells left out"):
        assert sorted(anabranch.load("out")["seed"]) == [1, 1, 2, 2]
    assert call("verify", "out").exit_code == 0


def test_the_build_contains_the_files_that_hand_a_run_to_the_module(monkeypatch):
    """An edit of any of these changes runs, so it changes the build too."""
    seen = []
    monkeypatch.setattr(identity, "_kept", lambda files, _root: str(seen.extend(files)))
    identity.code.cache_clear()
    identity.code()
    root = Path(anabranch.__file__).parent
    names = {path.relative_to(root).as_posix() for path in seen if path.is_relative_to(root)}
    assert {"_run.py", "_rust.py", "plugins/load.py", "study/measure.py"} <= names
