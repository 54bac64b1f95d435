"""Runs of a folder of results, opened again: read where their trace was kept, else run again for their digest."""

from __future__ import annotations

from functools import cache

import polars
import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.results import identity, manifest
from anabranch.study.measure import TRACE

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
bytes = "200 kB"
[expect]
goodput_mbps = { min = 1000 }
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"
loss = "1 %"
"""

pytestmark = pytest.mark.module


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def swept(*options):
    made = call(
        "sweep", "small.toml", "--grid", "paths.wifi.rtt=20ms,40ms", "--trials", 2, "--workers", 1, "--out", "out",
        *options,
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    return anabranch.load("out").rows(named=True)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SCENARIO, encoding="utf-8")
    return tmp_path


def original(row):
    return anabranch.run("small.toml", run=row["run"], set={"paths.wifi.rtt": row["paths.wifi.rtt"]})


@pytest.mark.parametrize("options", [(), ("--keep-trace",)])
def test_stored_run_reopens_identically(options):
    for row in swept(*options):
        opened = anabranch.Run.open("out", row["identity"])
        assert opened == original(row)
        assert opened.digest == row["digest"]
        assert opened.broken
        assert opened.to_json() == original(row).to_json()


def test_without_a_name_it_is_the_first():
    rows = swept()
    opened = anabranch.Run.open("out")
    assert (opened.run, opened.plan["paths"]) == (0, original(rows[0]).plan["paths"])


def test_the_beginning_of_an_identity_is_enough():
    row = swept()[3]
    assert anabranch.Run.open("out", row["identity"][:10]).digest == row["digest"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("zzz", "no run has an identity that begins with this: `zzz`"),
        ("", "4 runs have an identity that begins with this: ``"),
    ],
)
def test_a_name_means_one_run(name, said):
    swept()
    with pytest.raises(anabranch.InputError, match=said):
        anabranch.Run.open("out", name)
    told = call("report", "out", "--run", name)
    assert (told.exit_code, said in told.stderr) == (2, True)


def test_stored_run_with_a_different_digest_is_rejected(here):
    row = swept()[0]
    found = manifest.read(here / "out")
    next(iter(found["scenarios"].values()))["application"]["bytes"] = "201 kB"
    (here / "out" / "manifest.json").write_bytes(manifest.text(found))
    with pytest.raises(anabranch.InputError, match="does not come out as it did") as raised:
        anabranch.Run.open("out")
    assert "has changed" in str(raised.value)
    (here / "out" / "manifest.json").write_bytes(manifest.text({**found, "code": "0.0.1+other"}))
    with pytest.raises(anabranch.InputError, match=r"made by another build: 0\.0\.1"):
        anabranch.Run.open("out", row["identity"])


def test_another_builds_run_is_opened_where_its_digest_is_the_same(monkeypatch):
    row = swept()[1]
    monkeypatch.setattr(identity, "code", cache(lambda: "9.9+later"))
    opened = anabranch.Run.open("out", row["identity"])
    assert (opened.digest, opened.identity) == (row["digest"], row["identity"])


def test_a_kept_trace_is_read_and_not_run(monkeypatch):
    row = swept("--keep-trace")[2]
    monkeypatch.setattr("anabranch._run.run_loaded", lambda *_, **__: pytest.fail("it was run again"))
    monkeypatch.setattr(identity, "code", cache(lambda: "9.9+later"))
    opened = anabranch.Run.open("out", row["identity"])
    assert list(opened.tables) == list(TRACE)
    assert len(opened.rows("samples")) > 1
    assert polars.DataFrame(opened.tables["frames"]).schema["shown_s"] == polars.Float64
    monkeypatch.undo()


def test_a_trace_of_another_run_is_refused(here):
    first, second, *_ = swept("--keep-trace")
    folders = [next((here / "out" / "traces").glob(f"{row['identity']}-*")) for row in (first, second)]
    for file in folders[1].iterdir():
        file.replace(folders[0] / file.name)
    with pytest.raises(anabranch.InputError, match="belongs to another run"):
        anabranch.Run.open("out", first["identity"])


def test_kept_traces_are_verified_and_can_be_queried(here):
    swept("--keep-trace")
    assert call("verify", "out").exit_code == 0
    assert anabranch.query("out", "SELECT count(*) AS n FROM samples")["n"][0] > 8
    kept = next((here / "out" / "traces").glob("*")) / "samples.parquet"
    polars.read_parquet(kept).head(1).write_parquet(kept)
    told = call("verify", "out")
    assert (told.exit_code, "samples: the kept trace differs" in told.stdout) == (1, True)


@pytest.mark.parametrize("options", [(), ("--keep-trace",)])
def test_a_report_of_a_stored_run(here, options):
    row = swept(*options)[2]
    told = call("report", "out", "--run", row["identity"][:12], "--out", "one.html")
    assert told.exit_code == 0, told.stderr
    page = (here / "one.html").read_text()
    assert row["digest"] in page
    told = call("report", "out")
    told_first = "of the cell 20ms, the first of 4: --run ID names another"
    assert (told.exit_code, told_first in told.stderr) == (0, True)
    assert (here / "report.html").exists()


def test_a_report_that_cannot_be_written_is_reported_before_anything_is_run():
    swept()
    told = call("report", "out", "--out", "no/such/folder.html")
    assert (told.exit_code, "no such folder" in told.stderr) == (2, True)
    told = call("report", "elsewhere")
    assert (told.exit_code, "no folder of results: `elsewhere`" in told.stderr) == (2, True)
