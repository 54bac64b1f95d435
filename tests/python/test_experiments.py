"""Sweeps and studies from Python make the same runs as the command line; results, figures and pages."""

from __future__ import annotations

import csv
import html
import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import _html, _progress, report
from anabranch.cli._app import app
from anabranch.errors import InputError, ScenarioError
from anabranch.figures import picture
from anabranch.media.make import make_film
from anabranch.study.measure import TRACE

BULK = {
    "name": "small<b>",
    "application": {"kind": "bulk", "bytes": "300 kB"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "1 %"},
        {"name": "lte&", "rtt": "60 ms", "rate": "5 Mbit/s"},
    ],
}
GRID = {"transport.scheduler": ["min-rtt", "linux"]}
SIZE = {"application.bytes": "300kB"}


def call(*given):
    return CliRunner().invoke(app, [str(one) for one in given])


def content(folder):
    """Return the bytes of a sweep's files, except for the time that it took."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.suffix in (".parquet", ".json")
            and file.name != "cost.json"}  # fmt: skip


def swept(**more):
    return anabranch.sweep("bulk-two-paths", **{"grid": GRID, "trials": 3, "set": SIZE, "workers": 1, **more})


@pytest.fixture
def found(tmp_path):
    return swept(out=tmp_path / "found")


# -- run -------------------------------------------------------------------------------------------------


@pytest.mark.module
def test_a_sweep_is_that_of_the_command_line_byte_for_byte(tmp_path):
    swept(out=tmp_path / "python", grid={**GRID, "paths.wifi.rtt": ["50ms", "80ms"]})
    given = ("--grid", "transport.scheduler=min-rtt,linux", "--grid", "paths.wifi.rtt=50ms,80ms")
    options = ("--set", "application.bytes=300kB", "--trials", "3", "--workers", "1")
    told = call("sweep", "bulk-two-paths", *given, *options, "--out", tmp_path / "line")
    assert told.exit_code == 0, told.stderr
    assert len(anabranch.load(tmp_path / "line")) == 12
    assert content(tmp_path / "python") == content(tmp_path / "line")


@pytest.mark.module
def test_command_line_continues_a_sweep_started_in_python(tmp_path):
    swept(out=tmp_path / "out", trials=1)
    options = ("--grid", "transport.scheduler=min-rtt,linux", "--set", "application.bytes=300kB")
    told = call(
        "sweep", "bulk-two-paths", *options, "--trials", "3", "--workers", "1", "--out", tmp_path / "out"
    )
    assert "4 runs, 2 were there already" in told.stderr
    swept(out=tmp_path / "whole")
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def test_an_interrupted_sweep_goes_on(tmp_path):
    def interrupt(done, _total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(out=tmp_path / "out", progress=interrupt)
    told = []
    result = swept(out=tmp_path / "out", progress=lambda done, total: told.append((done, total)))
    assert told[0] == (4, 6)
    assert told[-1] == (6, 6)
    assert len(result) == 6


@pytest.mark.slow
@pytest.mark.module
def test_a_study_is_that_of_the_command_line(tmp_path):
    found = anabranch.run_study(
        "SD18", quick=True, only=["2p-e"], trials=1, workers=1, out=tmp_path / "python"
    )
    options = ("--quick", "--only", "2p-e", "--trials", "1", "--workers", "1", "--out", tmp_path / "line")
    assert call("study", "run", "SD18", *options).exit_code == 0
    assert content(tmp_path / "python") == content(tmp_path / "line")
    assert found.name == "SD18-quick-2p-e"
    assert "row" in found.labels
    assert found.notes


def test_the_old_name_of_run_study_warns_and_still_works():
    assert "study" not in anabranch.__all__
    with (
        pytest.warns(DeprecationWarning, match=r"call `anabranch\.run_study\(\.\.\.\)`"),
        pytest.raises(InputError, match="did you mean `SD18`"),
    ):
        anabranch.study("SD81")
    assert anabranch.__version__.startswith(("0.1.", "0.2.")), "the alias was to be removed in version 0.3"


class _Reached(Exception):  # noqa: N818 - a signal of these tests
    """The driver was called."""


@pytest.mark.module
@pytest.mark.parametrize("name", ["sweep", "compare", "study"])
def test_the_command_line_and_python_use_one_driver(name, tmp_path, monkeypatch):
    from anabranch.study import drive

    calls = []

    def recorder(what, folder, **_):
        calls.append((what, folder))
        raise _Reached

    monkeypatch.setattr(drive, "drive", recorder)
    lines, functions = {
        "sweep": (("sweep", "bulk-two-paths", "--grid", "clients=1,2"),
                  lambda out: anabranch.sweep("bulk-two-paths", grid={"clients": [1, 2]}, out=out)),
        "compare": (("compare", "bulk-two-paths"), lambda out: anabranch.compare("bulk-two-paths", out=out)),
        "study": (("study", "run", "SD18", "--quick", "--only", "2p-e"),
                  lambda out: anabranch.run_study("SD18", quick=True, only=["2p-e"], out=out)),
    }[name]  # fmt: skip
    answer = call(*lines, "--out", tmp_path)
    assert answer.exit_code == 70, answer.stderr
    with pytest.raises(_Reached):
        functions(tmp_path)
    (line, where), (function, same) = calls
    assert where == same == tmp_path
    assert [(cell.name, cell.raw, cell.labels) for cell in line.cells] == [
        (cell.name, cell.raw, cell.labels) for cell in function.cells
    ]


@pytest.mark.slow
@pytest.mark.module
def test_a_script_without_a_guard_sweeps_over_processes(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "import anabranch\n"
        "print('once')\n"
        "found = anabranch.sweep('bulk-two-paths', set={'application.bytes': '100kB'}, trials=2, workers=2)\n"
        "print(len(found), __file__.endswith('mine.py'))\n"
    )
    command = [sys.executable, "mine.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.stdout, told.stderr) == ("once\n2 True\n", "")


def test_a_scenario_may_be_tables_and_values_numpys():
    found = anabranch.sweep(BULK, grid={"clients": np.array([1, 2])}, trials=1, workers=1)
    assert found.frame()["clients"].to_list() == ["1", "2"]
    assert found.name == "small<b>"


def test_a_folder_without_a_name_goes_with_the_results():
    found = swept(trials=1)
    folder = found.folder
    assert folder.exists()
    del found
    assert not folder.exists()


def test_all_faults_of_a_call_are_reported_at_once(tmp_path):
    with pytest.raises(InputError) as caught:
        swept(
            grid={"a": "min-rtt", "b": ["x", "x"], "c": []}, keep=["sampels"], trials=0, out=tmp_path / "out"
        )
    text = str(caught.value)
    assert text.count("expected a list of values") == 2
    assert "given twice: `x`" in text
    assert "did you mean `samples`" in text
    assert "expected 1 or more: 0" in text
    with pytest.raises(ScenarioError, match="did you mean"):
        swept(grid={"paths.wifi.rrt": ["50 ms"]})
    assert not (tmp_path / "out").exists()


# -- read ------------------------------------------------------------------------------------------------


def test_frames_of_a_run_are_its_tables():
    run = anabranch.run(BULK)
    for name in run.tables:
        assert run.frame(name).to_dicts() == run.rows(name)
    with pytest.raises(InputError, match="did you mean `samples`"):
        run.frame("sampels")


@pytest.mark.module
@pytest.mark.slow
def test_every_table_of_a_real_trace_is_a_frame(tmp_path):
    film = tmp_path / "film.mp4"
    make_film(film, duration_s=3.0, rate_bps=900_000, size=(320, 180))
    run = anabranch.run("two-paths", set={"application.film": str(film), "record": ["receiver"]})
    assert set(run.tables) <= set(TRACE)
    for name in run.tables:
        frame = run.frame(name)
        assert frame.columns == list(run.tables[name])
        assert frame.to_dicts() == run.rows(name)
    assert run.frame("samples")["t_s"].dtype == polars.Float64


def test_means_and_differences_are_those_of_the_tables(found):
    frame = found.frame()
    for row in found.means(metrics=["goodput_mbps"]).iter_rows(named=True):
        own = frame.filter(polars.col("transport.scheduler") == row["transport.scheduler"])["goodput_mbps"]
        assert row["goodput_mbps"] == pytest.approx(sum(own) / 3)
        assert row["runs"] == 3
    (versus,) = found.versus("linux", metrics=["goodput_mbps"]).to_dicts()
    assert versus["transport.scheduler"] == "min-rtt"
    assert versus["goodput_mbps_pairs"] == 3
    with pytest.raises(InputError, match="did you mean `goodput_mbps`"):
        found.means(metrics=["goodput_mpbs"])
    with pytest.raises(InputError, match="did you mean `linux`"):
        found.versus("linus")
    assert swept(trials=1).means()["goodput_mbps_ci95"].dtype == polars.Float64
    assert found.query("SELECT count(*) AS n FROM runs")["n"].item() == 6
    assert found.open().identity == frame["identity"][0]
    with pytest.raises(InputError, match="no folder of results"):
        anabranch.Results("nowhere")
    with pytest.raises(InputError, match="no study that states claims"):
        found.claims()


# -- show ------------------------------------------------------------------------------------------------


def parsed(text):
    """Return HTML that is XML as well."""
    return ET.fromstring(f"<all>{text.replace('&nbsp;', ' ')}</all>")


def test_notebook_html_is_small_and_escaped():
    run = anabranch.run({**BULK, "application": {"film": "papers-film"}})
    found = anabranch.sweep(BULK, grid=GRID, trials=2, workers=1)
    compared = anabranch.compare(BULK, trials=2, workers=1)
    for one in (run, found, compared):
        text = one._repr_html_()
        parsed(text)
        assert len(text) < 20_000
        assert "small<b>" not in text
        assert "small&lt;b&gt;" in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "<svg" in run._repr_html_()
    assert "lte&amp;" in run._repr_html_()
    assert all(sentence.replace("&", "&amp;") in compared._repr_html_() for sentence in compared.sentences)
    means = found.means()
    assert all(f"{value:.4g}" in found._repr_html_() for value in means["goodput_mbps"])


def test_a_bar_is_as_long_as_its_parts():
    svg = parsed(_html.strip([("a", 0.0, 1.0, "#fff"), ("b", 1.0, 4.0, "#000")], 4.0, "x")).find(".//{*}svg")
    widths = [float(rect.get("width")) for rect in svg.findall(".//{*}rect")]
    assert widths == [120.0, 360.0]


@pytest.mark.slow
@pytest.mark.module
def test_figures_have_their_numbers_beside_them(found, tmp_path):
    files = found.plot("goodput_mbps", "retransmissions").save_all(tmp_path / "figure.svg")
    assert [file.suffix for file in files] == [".svg", ".png", ".csv"]
    rows = list(csv.DictReader(io.StringIO(files[2].read_text())))
    assert [float(row["goodput_mbps"]) for row in rows] == found.frame()["goodput_mbps"].to_list()
    assert files[1].read_bytes()[:4] == b"\x89PNG"
    text = files[0].read_text()
    assert "goodput, Mb/s" in text
    assert "retransmissions" in text
    with pytest.raises(InputError, match="did you mean `goodput_mbps`"):
        found.plot("goodput_mpbs")
    with pytest.raises(InputError, match="not a form of a figure"):
        found.plot().save(tmp_path / "figure.eps")
    run = found.open()
    assert "throughput" in run.plot().svg.lower()
    with pytest.raises(InputError, match="no such client: 1, of 1"):
        run.plot(client=1)
    assert run.report(tmp_path / "run.html").stat().st_size > 10_000


@pytest.mark.module
def test_figures_in_one_page_have_names_of_their_own(found):
    texts = [found.plot(metric).inline() for metric in ("goodput_mbps", "retransmissions")]
    names = [set(re.findall(r'\bid="([^"]+)"', text)) for text in texts]
    used = [set(re.findall(r"url\(#([^)]+)\)", text)) for text in texts]
    assert not names[0] & names[1]
    assert all(mine <= own for mine, own in zip(used, names, strict=True))
    for text in texts:
        ET.fromstring(text)
        assert len(text) < 0.8 * len(found.plot("goodput_mbps").svg)


# -- pages -----------------------------------------------------------------------------------------------


def outside(page):
    """Return the addresses that a page would load; an empty icon loads nothing."""
    return re.findall(r"""(?:src|href)=["'](?!#|data:,")[^"']+|@import|url\((?!#)""", page)


def on_top(page):
    """Return the sentences above everything else, as they are read."""
    said = re.findall(r"<p>(.*?)</p>", page.partition("</header>")[0])
    return [html.unescape(re.sub(r"<.*?>", "", one)) for one in said]


@pytest.mark.slow
@pytest.mark.module
def test_results_are_drawn_and_reported_from_the_command_line(found, tmp_path):
    options = ("--metric", "goodput_mbps", "--figure", tmp_path / "g.svg", "--report", tmp_path / "r.html")
    told = call("results", found.folder, *options)
    assert told.exit_code == 0, told.stderr
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} == {
        "g.svg",
        "g.png",
        "g.csv",
        "r.html",
    }
    page = (tmp_path / "r.html").read_text()
    assert outside(page) == []
    assert len(page) < 300_000
    for mean in found.means()["goodput_mbps"]:
        assert f"{mean:.4g}" in page
    assert page.count("<svg") == len(found.figures())
    assert "goodput-mbps" in found.figures(), "nothing is played"
    assert (tmp_path / "r.html").read_text() == found.report(tmp_path / "again.html").read_text()


def test_faults_of_all_files_are_reported_before_any_work(found, tmp_path):
    told = call(
        "results", found.folder, "--figure", tmp_path / "g.eps", "--report", tmp_path / "no" / "r.html"
    )
    assert told.exit_code == 2
    assert "not a form of a figure" in told.stderr
    assert "no such folder" in told.stderr
    assert told.stdout == ""
    told = call("results", found.folder, "--figure", tmp_path / "g.csv", "--report", tmp_path / "g.svg")
    assert "two outputs into one file" in told.stderr


@pytest.mark.module
def test_a_comparison_has_its_verdicts_on_its_page(tmp_path):
    compared = anabranch.compare(BULK, trials=2, workers=1, out=tmp_path / "out")
    page = anabranch.Results(tmp_path / "out").report(tmp_path / "r.html").read_text()
    sentences = [*compared.sentences, compared.fidelity.sentence]
    assert [one.lower() for one in on_top(page)] == [f"{one}.".lower() for one in sentences]


@pytest.mark.slow
@pytest.mark.module
def test_a_sweep_has_its_best_cell_on_top_and_names_stay_text(tmp_path):
    nasty = "</td><script>alert(1)</script>"
    grid = {"paths.0.rate": ["5 Mbit/s", "1 Mbit/s"], "description": [nasty, "plain"]}
    found = anabranch.sweep(BULK, grid=grid, trials=3, workers=1, out=tmp_path / "out")
    page = found.report(tmp_path / "r.html").read_text()
    assert page.count("<script>") == 1, "the page's own"
    assert html.escape(nasty) in page
    assert "small&lt;b&gt;" in page.partition("</header>")[0]
    said = on_top(page)
    assert said == [f"{one}." for one in report.verdicts(found.folder)[0]]
    assert any("best by goodput is" in one.lower() for one in said)
    # Of each measure a bar a cell.
    assert page.count('class="bar"') == 4 * len(report.verdicts(found.folder)[1]) > 0


@pytest.mark.slow
@pytest.mark.module
def test_a_study_has_its_claims_on_one_page(tmp_path):
    grid = {"transport.congestion": ["cubic"]}
    found = anabranch.run_study("SD18", quick=True, trials=2, grid=grid, out=tmp_path / "out")
    told = call("study", "report", tmp_path / "out", "--out", tmp_path / "r.html")
    assert told.exit_code == 0, told.stderr
    page = (tmp_path / "r.html").read_text()
    claims = found.claims()
    assert claims.height == 20
    for row in claims.iter_rows(named=True):
        assert f"<td>{row['claim']}<br>" in page
    for verdict, count in claims["verdict"].value_counts().iter_rows():
        assert f"{count} {verdict}" in page
    assert all(f"<dt>{name}</dt>" in page for name in found.notes)
    assert "other settings than the study as it stands" in page
    assert outside(page) == []
    assert len(page) < 300_000


# -- progress --------------------------------------------------------------------------------------------


def test_without_a_terminal_nothing_is_shown_unless_asked(capsys, monkeypatch):
    for asked, expected in ((None, ""), (False, ""), (True, "running x: 1 of 2 runs\n")):
        monkeypatch.setattr(_progress, "_FIRST_S", 0.0)
        with _progress.shown(asked, "running x", unit="runs") as told:
            told(1, 2)
        assert capsys.readouterr() == ("", expected)
    heard = []
    with _progress.shown(lambda done, total: heard.append((done, total)), "x", unit="runs") as told:
        told(1, 2)
    assert heard == [(1, 2)]


def test_lines_come_soon_and_tell_how_long_it_will_take(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    heard = []
    told = _progress.lines("running x", "runs", heard.append)
    # Of 1,000 runs 400 were there already; 20 a second come now.
    for tick in range(1, 301):
        clock[0] = tick / 10
        told(400 + 2 * (tick - 1), 1000)
    assert heard[:2] == [
        "running x: 418 of 1,000 runs, about 29 s to go",
        "running x: 518 of 1,000 runs, about 24 s to go",
    ]
    assert len(heard) == 6
    quick = _progress.lines("running x", "runs", heard.append)
    quick(1, 2)
    quick(2, 2)
    assert len(heard) == 6, "what takes less than a second is not told of"


def test_forms_of_a_figure_are_reported():
    assert picture.unfit(Path("a.svg"), "x") is None
    assert ".png" in picture.unfit(Path("svg"), "x").hint
