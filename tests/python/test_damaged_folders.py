"""Damaged bytes in a folder of results: no silent change of values, and the next sweep repairs the damage."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from pathlib import Path

import polars
import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.results import sealed, store
from anabranch.results.read import LeftOutWarning

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
bytes = "30 kB"
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"
loss = "2 %"
[[paths]]
name = "lte"
rtt = "60 ms"
rate = "8 Mbit/s"
"""

pytestmark = pytest.mark.module


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def swept(*options):
    grid = ("--grid", "transport.scheduler=linux,min-rtt", "--keep", "samples")
    return call("sweep", "small.toml", *grid, "--trials", 2, "--workers", 1, "--out", "out", *options)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the path of a folder of results with earlier runs and traces."""
    place = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        (place / "small.toml").write_text(SCENARIO, encoding="utf-8")
        for size in ("30 kB", "40 kB"):
            assert swept("--set", f"application.bytes={size}").exit_code == 0
    return place


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


def files(folder):
    names = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
    return [path for path in names if path.stat().st_size]


def flipped(path, at, bit):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def seen():
    """Return all tables of the folder; None if an error or a warning reports damage."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            frames = [anabranch.load("out", table) for table in (*store.TABLES, "samples")]
            frames += [anabranch.load("out", table, earlier=True) for table in (*store.TABLES, "samples")]
        except anabranch.InputError:
            return None
    words = {str(one.message) for one in told}
    return None if words != {"4 runs of earlier sources left out (earlier=True shows them)"} else frames


def test_no_flipped_bit_gives_other_values_without_a_word(here):
    """In two files, damage may stay unnoticed: `SHA256SUMS`, which is a second copy, and `cost.json`, which
    has only the cost.
    """
    whole = seen()
    assert whole is not None
    luck = random.Random(34)
    every = files(here)
    for path in [*every, *luck.choices(every, k=12)]:
        before = path.read_bytes()
        flipped(path, luck.randrange(len(before)), luck.randrange(8))
        found = seen()
        assert found is None or all(one.equals(two) for one, two in zip(found, whole, strict=True)), path
        if path.name not in (sealed.SUMS, "cost.json"):
            assert found is None, path
        path.write_bytes(before)


@pytest.mark.parametrize(
    "name", ["runs.parquet", "subflows.parquet", "manifest.json", "SHA256SUMS", "traces"]
)
@pytest.mark.parametrize(
    "how",
    ["flip", pytest.param("cut", marks=pytest.mark.slow), pytest.param("gone", marks=pytest.mark.slow)],
)
def test_next_sweep_repairs_a_damaged_folder(here, name, how):
    before = seen()
    # Only traces of the last sweep's runs can be made again.
    identity = polars.read_parquet(here / "runs.parquet").get_column("identity")[0]
    path = here / name if name != "traces" else next((here / "traces").glob(f"{identity}-*/samples.parquet"))
    if how == "flip":
        flipped(path, path.stat().st_size // 2, 3)
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:400])
    else:
        path.unlink()
    again = swept("--set", "application.bytes=40 kB")
    assert again.exit_code == 0, again.stderr
    now = seen()
    assert now is not None
    # Only the manifest records the sources of earlier runs.
    same = slice(3) if name == "manifest.json" else slice(None)
    assert all(one.equals(two) for one, two in zip(now[same], before[same], strict=True))
    assert call("verify", "out").exit_code == 0


def test_a_changed_digit_of_a_journal_is_run_again(here):
    shutil.rmtree(here)
    found = store.Store(
        here, {"name": "n", "code": "", "trials": 1, "keep": [], "notes": {}, "scenarios": {}, "cells": []}
    )
    row = dict.fromkeys(store.HEAD, "x") | {"seed": 1, "run": 0, "goodput_mbps": 4.25}
    with found.writing() as journal:
        for run in range(3):
            journal.add({"runs": [row | {"run": run, "identity": str(run)}], "subflows": []}, {})
    (journal,) = store.journals(here)
    text = journal.read_bytes()
    assert len(found.done()) == 3
    journal.write_bytes(text.replace(b"4.25", b"9.25", 1))
    assert {name for _, name in found.done()} == {"1", "2"}
    with pytest.warns(LeftOutWarning, match="line 1: a damaged record in a journal"):
        anabranch.load(here)


def test_a_folder_of_version_2_is_shown_and_upgraded(here):
    """The tables have no checksums, and the runs come from another build. No such run is used, and none is
    lost.
    """
    now = json.loads((here / "manifest.json").read_text())
    cells = [
        {name: cell[name] for name in ("cell", "scenario", "settings", "labels")} for cell in now["cells"]
    ]
    old = {"format": 2, "name": "small", "code": "0.0.1+x", "trials": 2, "keep": ["samples"], "notes": {},
           "folders": {"small": str(Path.cwd())}, "scenarios": {"small": next(iter(now["scenarios"].values()))},
           "cells": cells}  # fmt: skip
    (here / "manifest.json").write_text(json.dumps(old))
    for path in here.rglob(sealed.SUMS):
        path.unlink()
    shutil.rmtree(here / "earlier")
    shown = call("results", "out", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, [])
    assert "4 runs of earlier sources left out (--earlier shows them)" in shown.stderr
    assert [row["runs"] for row in json.loads(call("results", "out", "--json", "--earlier").stdout)] == [2, 2]
    assert "4 runs, 4 were there already" not in swept("--set", "application.bytes=50 kB").stderr
    assert sorted(
        json.loads(call("results", "out", "--json", "--earlier", "--by", "sources").stdout)[1].items()
    )
    assert len(anabranch.load("out", earlier=True)) == 8
    assert call("verify", "out").exit_code == 0


def lengths(*, earlier):
    """Return the number of rows of each table."""
    with warnings.catch_warnings(action="ignore"):
        return {table: len(anabranch.load("out", table, earlier=earlier)) for table in store.TABLES}


@pytest.mark.parametrize("name", ["runs", pytest.param("subflows", marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["flip", pytest.param("gone", marks=pytest.mark.slow)])
def test_a_damaged_table_of_earlier_runs_does_not_take_the_other_one_along(here, name, how):
    whole, own = lengths(earlier=True), lengths(earlier=False)
    path = here / "earlier" / f"{name}.parquet"
    if how == "flip":
        flipped(path, path.stat().st_size // 2, 3)
    else:
        path.unlink()
    again = swept("--set", "application.bytes=40 kB")
    assert again.exit_code == 0, again.stderr
    assert "these rows of earlier runs are lost" in again.stderr
    assert "damaged" not in swept("--set", "application.bytes=40 kB").stderr
    assert lengths(earlier=True) == {**whole, name: own[name]}
    # A run without its subflows is repeated, and then complete.
    assert "4 runs, 0 were there already" in swept("--set", "application.bytes=30 kB").stderr
    assert lengths(earlier=True) == whole
    assert "0 runs, 4 were there already" in swept("--set", "application.bytes=30 kB").stderr


@pytest.mark.parametrize("form", [1, 2, 7])
def test_another_number_in_place_of_the_format_is_damage(here, form):
    """Each of these differs from `3` in one bit."""
    manifest = here / "manifest.json"
    text = manifest.read_text()
    assert '"format": 3,' in text
    manifest.write_text(text.replace('"format": 3,', f'"format": {form},'))
    shown = call("results", "out")
    assert shown.exit_code == 2
    assert "cannot read the manifest: its checksum is another" in shown.stderr
    again = swept("--set", "application.bytes=40 kB")
    assert again.exit_code == 0, again.stderr
    assert "0 runs, 4 were there already" in again.stderr


def test_a_journal_with_checksums_stays_as_it_is_in_a_folder_that_is_upgraded(here):
    """A folder of version 2 whose journal has the form of version 3."""
    empty = {"name": "n", "code": "", "trials": 1, "keep": [], "notes": {}, "scenarios": {}, "cells": []}
    shutil.rmtree(here)
    row = dict.fromkeys(store.HEAD, "x") | {"seed": 1, "run": 0}
    with store.Store(here, empty).writing() as journal:
        journal.add({"runs": [row], "subflows": []}, {})
    (here / "manifest.json").write_text(json.dumps({**empty, "format": 2, "folders": {}}))
    assert store.Store(here, empty).done() == {("x", "x")}


def test_a_sweep_of_other_cells_leaves_the_manifest_of_a_running_one(tmp_path):
    """Another shard of the running sweep may start, though."""

    def opened(cell, part="all"):
        one = {
            "cell": cell,
            "scenario": "n",
            "labels": {},
            "settings": {},
            "text": "n",
            "folder": "",
            "hash": "",
        }
        return store.Store(
            tmp_path,
            {"name": "n", "code": "", "trials": 1, "keep": [], "notes": {}, "scenarios": {}, "cells": [one]},
            part=part,
        )

    early = opened("a", "1of2")
    with opened("a", "2of2").writing():
        before = (tmp_path / "manifest.json").read_bytes()
        with pytest.raises(anabranch.InputError, match="another process is writing"):
            opened("b")
        assert (tmp_path / "manifest.json").read_bytes() == before
        with early.writing():
            pass
    # The other sweep began between the opening of the folder and of the journal.
    opened("b")
    with pytest.raises(anabranch.InputError, match="another process is writing"), early.writing():
        pass


@pytest.mark.parametrize("how", ["flip", "gone"])
def test_a_file_of_the_user_beside_the_results_does_not_prevent_the_repair(here, how):
    """The opening of a folder repairs the manifest; runs of the last sweep count as before."""
    manifest = json.loads((here / "manifest.json").read_text())
    done = store.Store(here, manifest).done()
    (here / "first.svg").write_text("<svg/>")
    if how == "flip":
        flipped(here / "manifest.json", 300, 3)
    else:
        (here / "manifest.json").unlink()
    again = store.Store(here, manifest)
    assert "written again" in again.notes[0]
    assert again.done() == done
    assert len(done) == 8
