"""Folders of results that are damaged, and queries over them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app

SCENARIO = """\
name = "small"
[application]
kind = "bulk"
bytes = "20 kB"
[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"
"""

pytestmark = pytest.mark.module


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SCENARIO, encoding="utf-8")
    made = call("sweep", "small.toml", "--trials", 2, "--workers", 1, "--out", "out")
    assert made.exit_code == 0, made.stderr
    return tmp_path / "out"


def test_a_broken_manifest_is_reported(folder):
    manifest = folder / "manifest.json"
    whole = manifest.read_text()
    sound = json.loads(whole)
    for text, said, is_mended in (
        ("{", "cannot read the manifest: no JSON: expecting property name", True),
        ("[]", "cannot read the manifest: it says no `format`", True),
        (json.dumps({**sound, "name": "x"}, indent=1), "cannot read the manifest: its checksum is", True),
        (json.dumps({**sound, "format": 9, "sha256": ""}), "format 9, this one reads up to", False),
    ):
        manifest.write_text(text)
        for command in (("results", "out"), ("verify", "out")):
            result = call(*command)
            told = (result.exit_code, said in result.stderr, "manifest.json" in result.stderr)
            assert told == (2, True, True)
        again = call("sweep", "small.toml", "--trials", 2, "--workers", 1, "--out", "out")
        assert (again.exit_code, said in again.stderr) == (0 if is_mended else 2, True)
        if is_mended:
            # `SHA256SUMS` also has the checksums of the tables, so no run is repeated.
            assert "0 runs, 2 were there already" in again.stderr
            assert manifest.read_text() == whole
    manifest.unlink()
    assert "no folder of results: `out`" in call("results", "out").stderr


def test_a_missing_table_is_reported(folder):
    (folder / "runs.parquet").unlink()
    for more in ((), ("--sql", "SELECT * FROM runs")):
        result = call("results", "out", *more)
        assert (result.exit_code, "the table is missing: `runs.parquet` (out)" in result.stderr) == (2, True)


def test_questions_are_answered_or_refused_in_a_sentence(folder):
    result = call(
        "results", "out", "--sql", "SELECT NULL AS a, [1,2] AS b, TIMESTAMPTZ '2020-01-02 03:04:05+00' AS c"
    )
    assert (result.exit_code, "[1, 2]" in result.stdout) == (0, True), result.stderr
    assert "2020-01-0" in result.stdout
    empty = call("results", "out", "--sql", "SELECT run, seed FROM runs WHERE false")
    assert (empty.exit_code, empty.stdout.split(), empty.stderr) == (0, ["run", "seed"], "no rows\n")
    assert call("results", "out", "--sql", "SELECT 1 AS x_ci95").stdout.split() == ["x_ci95", "1"]
    refused = call("results", "out", "--sql", "SELECT 1", "--by", "run", "--metric", "goodput_mbps")
    assert (refused.exit_code, "--by and --metric cannot be combined with --sql" in refused.stderr) == (
        2,
        True,
    )
    hint = call("results", "out", "--metric", "nope").stderr
    assert "`goodput_mbps`" in hint
    assert "`run`" not in hint
    assert "`seed`" not in hint


def test_runs_cut_off_are_reported_beside_the_means(folder):
    assert "had finished" not in call("results", "out").stderr
    arguments = ("--set", "paths.wifi.loss=100 %")
    dead = call("sweep", "small.toml", *arguments, "--trials", 2, "--workers", 1, "--out", "dead")
    assert dead.exit_code == 0
    assert "the simulation ended before the sessions of 2 of 2 runs had finished" in dead.stderr
