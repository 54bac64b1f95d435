"""A study's figures: every one is there with its numbers, and the same each time."""

from __future__ import annotations

import csv
import statistics

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.figures import colours
from anabranch.study import study as studies

STUDY = """
title = "t"
source = "s"
question = "q"
[[parts]]
scenarios = ["one"]
[parts.grid]
"transport.congestion" = ["cubic", "reno"]
"transport.scheduler" = ["min-rtt"]
[assumptions.rate]
what = "w"
why = "y"
set = { "paths.a.rate" = "5 Mbit/s" }
sweep = [{ "paths.a.rate" = "9 Mbit/s" }]
"""


def read(file):
    with file.open(encoding="utf-8", newline="") as rows:
        return list(csv.DictReader(rows))


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "studies" / "mine"
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(STUDY)
    (folder / "one.toml").write_text(
        'name = "one"\n[application]\nfilm = "papers-film"\nduration = "20 s"\n'
        '[[paths]]\nname = "a"\nrtt = "50 ms"\nrate = "5 Mbit/s"\nloss = "1 %"\n'
        '[[paths]]\nname = "b"\nrtt = "80 ms"\nrate = "2 Mbit/s"\n'
    )
    out = tmp_path / "out"
    given = [
        "study",
        "run",
        str(folder),
        "--vary",
        "rate",
        "--trials",
        "3",
        "--workers",
        "1",
        "--out",
        str(out),
    ]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.stderr
    return out


@pytest.mark.module
def test_every_figure_has_its_numbers_beside_it(results, tmp_path):
    for place in ("first", "second"):
        result = CliRunner().invoke(app, ["study", "figures", str(results), "--out", str(tmp_path / place)])
        assert result.exit_code == 0, result.stderr
    first = tmp_path / "first"
    names = {"picture-discards", "buffer-underflows", "retransmissions", "retransmissions-by-flow"}
    names |= {"discards-retransmissions", "throughput-delay"}
    assert {file.name for file in first.iterdir()} == {
        f"{name}.{end}" for name in names for end in ("svg", "png", "csv")
    }
    for name in names:
        assert (first / f"{name}.svg").read_bytes() == (tmp_path / "second" / f"{name}.svg").read_bytes()
    table = read(first / "retransmissions.csv")
    # Runs of another value of the assumption are left out.
    assert [(row["series"], row["run"]) for row in table] == [
        (name, run) for name in ("cubic", "reno") for run in "012"
    ]
    cells = read(first / "discards-retransmissions.csv")
    for cell in cells:
        own = [float(row["retransmissions"]) for row in table if row["series"] == cell["series"]]
        assert float(cell["retransmissions"]) == pytest.approx(statistics.fmean(own))
        # Student's t for three runs.
        half = 4.302653 * statistics.stdev(own) / 3**0.5
        assert float(cell["retransmissions_ci95"]) == pytest.approx(half, rel=1e-5)
    # All connections of a path together are what the run retransmitted.
    flows = read(first / "retransmissions-by-flow.csv")
    for row in table:
        own = [
            float(flow["retransmissions"])
            for flow in flows
            if (flow["series"], flow["run"]) == (row["series"], row["run"])
        ]
        assert len(own) == 2
        assert sum(own) == float(row["retransmissions"])
    svg = (first / "discards-retransmissions.svg").read_text().lower()
    assert colours.CONTROLS["cubic"].lower() in svg
    assert colours.CONTROLS["reno"].lower() in svg


def test_every_control_and_scheduler_of_the_studies_looks_like_itself():
    from anabranch.claims import cells

    for name in ("PC16", "SD18", "HO20", "LEO24", "UQ18"):
        folder = studies.find(name)
        for cell in cells.of_study(folder, studies.read(folder)):
            labels = dict(cell.labels)
            assert labels["transport.scheduler"] in colours.SCHEDULERS
            assert labels.get("transport.congestion", "cubic") in colours.CONTROLS
    assert len(set(colours.CONTROLS.values())) == len(colours.CONTROLS)
    for together in (("spd", "lpc", "let", "spdx", "lpcx", "letx"), ("dft", "gr-sty")):
        assert len({colours.SCHEDULERS[one] for one in together}) == len(together)


def test_a_folder_without_results_is_told(tmp_path):
    result = CliRunner().invoke(app, ["study", "figures", str(tmp_path)])
    assert result.exit_code == 2
    assert "no folder of results" in result.stderr
