"""Statements of pages and tables about a run are true."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch import report
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.results import identity, store
from anabranch.results.read import LeftOutWarning

WIFI = {"name": "wifi", "rtt": "20 ms", "rate": "10 Mbit/s"}
FILM = {"name": "film", "application": {"film": "leo24-film"}, "paths": [WIFI]}
ADAPTIVE = {"name": "hls", "application": {"kind": "adaptive", "ladder": "uq18-jp"}, "paths": [WIFI]}


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def text_of(page):
    """Return the text of a page without tags and without the plan."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.partition("<pre>")[0]))


# -- a duration shorter than the film ----------------------------------------------------------------


@pytest.mark.module
@pytest.mark.parametrize("scenario", [FILM, ADAPTIVE], ids=["progressive", "adaptive"])
def test_a_session_that_was_cut_short_was_not_played_to_the_end(scenario, tmp_path):
    cut = anabranch.run(scenario, set={"application.duration": "10 s"})
    assert cut.qoe["finished"] is False
    (note,) = cut.notes
    assert note.startswith("The session ended after 10 s, as application.duration has it")
    assert note in report.build(cut)
    file = tmp_path / "s.json"
    file.write_text(json.dumps(cut.to_json()), encoding="utf-8")
    assert json.loads(file.read_text(encoding="utf-8"))["notes"] == [note]


@pytest.mark.module
def test_table_gives_the_reason_a_session_ended():
    base = ("run", "two-paths", "--set", "application.film=leo24-film", "--set")
    short = call(*base, "application.duration=10s").stdout
    assert re.search(r"played to the end +no: the session ended after 10 s \(application.duration\)", short)
    whole = call(*base, "application.duration=10min").stdout
    assert re.search(r"played to the end +yes", whole)


# -- links -------------------------------------------------------------------------------------------


def links_of(run):
    return {link["name"]: (link["rate"], link["delay"], link["loss"]) for link in report._build._links(run)}


def test_link_properties_from_a_recording_are_labelled(tmp_path):
    whole, bare, ticks = tmp_path / "whole.csv", tmp_path / "bare.csv", tmp_path / "ticks.down"
    whole.write_text("t_s,rate_mbps,delay_ms,loss\n0,5,20,0.01\n1,6,30,0\n", encoding="utf-8")
    bare.write_text("t_s,rate_mbps\n0,5\n1,6\n", encoding="utf-8")
    ticks.write_text("1\n2\n3\n", encoding="utf-8")
    paths = [
        {"name": "whole", "trace": str(whole), "rtt": "10 ms"},
        {"name": "bare", "trace": str(bare), "rtt": "10 ms", "loss": "1 %"},
        {"name": "ticks", "trace": str(ticks), "rtt": "10 ms"},
        {"name": "lte", "model": "lte", "rtt": "10 ms"},
        {"name": "fixed", "rate": "1 Mbit/s", "rtt": "10 ms"},
    ]
    bulk = {"name": "x", "application": {"kind": "bulk", "duration": "1 s"}, "paths": paths}
    links = links_of(anabranch.run(bulk))
    assert links["whole.down"] == ("recording", "5 ms and the recording's", "the recording's")
    # A page does not claim properties that a recording lacks.
    assert links["bare.down"] == ("recording", "5 ms", "1 %")
    assert links["bare.up"] == ("recording", "5 ms", "none")
    assert links["ticks.down"] == ("recording", "5 ms", "none")
    assert links["lte.down"] == ("LTE", "5 ms and the model's", "the model's")
    assert links["fixed.down"] == ("1 Mbit/s", "5 ms", "none")


# -- the startup delay -------------------------------------------------------------------------------


@pytest.mark.module
def test_a_page_has_one_startup_delay(tmp_path):
    run = anabranch.run(ADAPTIVE, set={"application.duration": "30 s"})
    assert run.qoe["startup_s"] < run.qoe["startup_delay_s"]  # less the connect, as UQ18 has it
    page = text_of(report.build(run))
    delays = re.findall(r"([\d.]+) s startup delay", page)
    assert delays == [f"{run.qoe['startup_delay_s']:.2f}"]
    assert f"{run.qoe['startup_s']:.2f} s" not in page
    assert "startup delay from the connect to the first picture" in page


# -- a ladder's rates --------------------------------------------------------------------------------


def test_a_rung_that_misses_its_rate_is_reported(tmp_path):
    from anabranch.media.make import make_film

    film = make_film(tmp_path / "f.mp4", duration_s=2.0, rate_bps=700_000, size=(160, 90)).path
    rungs = ("--rung", "90=400kbit/s", "--rung", "64=8Mbit/s")
    result = call("media", "ladder", film, tmp_path / "ladder", *rungs, "--chunk", "1s")
    assert result.exit_code == 0
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    (warning,) = [line for line in warnings if "64p" in line]
    told = re.fullmatch(
        r"warning: 64p has ([\d.]+) Mb/s, not the 8 Mb/s asked for: the film has too little detail for this rate at that size",
        warning,
    )
    # The rate that the chunks themselves come to.
    chunks = list((tmp_path / "ladder" / "64p").glob("*.ts"))
    assert float(told[1]) == pytest.approx(sum(chunk.stat().st_size for chunk in chunks) * 8 / 2e6, rel=0.05)
    assert float(told[1]) < 6


def test_a_ladder_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    from anabranch.media import make_ladder
    from anabranch.media.make import make_film

    film = make_film(tmp_path / "f.mp4", duration_s=1.0, rate_bps=700_000, size=(160, 90)).path
    full = OSError(28, "No space left on device")

    def refuse(*_, **__):
        raise full

    for part in ("_pictures", "_sound", "_master"):
        with monkeypatch.context() as patched:
            patched.setattr(make_ladder, part, refuse)
            result = call("media", "ladder", film, tmp_path / part, "--rung", "64=200kbit/s")
        assert result.exit_code == 4, part
        assert "error: cannot write the ladder: No space left on device" in result.stderr
        assert list((tmp_path / part).iterdir()) == []  # the same command finds the folder as it was


# -- results -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return a folder with a scenario and its results, once there are any."""
    return tmp_path_factory.mktemp("swept")


@pytest.fixture
def results(swept, tmp_path, monkeypatch):
    """Return a folder of results of four runs: a copy for one test of a folder that is made once."""
    if not (swept / "results").exists():
        monkeypatch.chdir(swept)
        sweep_small(swept)
    shutil.copytree(swept, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results" / "small"


def sweep_small(folder):
    """Run a scenario four times in the working folder."""
    bulk = {"name": "x", "application": {"kind": "bulk", "duration": "1 s"}, "paths": [WIFI]}
    lines = ['name = "small"', "[application]", 'kind = "bulk"', 'duration = "1 s"', "[[paths]]"]
    lines += [f'{key} = "{value}"' for key, value in bulk["paths"][0].items()]
    (folder / "small.toml").write_text("\n".join(lines), encoding="utf-8")
    grid = ("--grid", "transport.scheduler=min-rtt,linux")
    assert call("sweep", "small.toml", *grid, "--trials", 2, "--workers", 1).exit_code == 0


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE runs",
        "DELETE FROM runs",
        "INSERT INTO runs SELECT * FROM runs",
        "UPDATE runs SET seed = 2",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; DROP TABLE runs",
        "COPY runs TO 'copy.csv'",
        "SET threads = 1",
        "ATTACH 'x.db'",
        "",
        ";",
        "-- nothing",
    ],
)
def test_a_statement_that_asks_nothing_is_refused(results, sql):
    result = call("results", results, "--sql", sql)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM runs",
        "FROM runs",
        "WITH a AS (FROM runs) SELECT seed FROM a;",
        "DESCRIBE runs",
        "SUMMARIZE runs",
        "PIVOT runs ON seed",
        "EXPLAIN SELECT 1",
    ],
)
def test_anything_that_asks_is_answered(results, sql):
    result = call("results", results, "--sql", sql, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)


def test_results_of_another_build_are_left_out_and_added_to(results, monkeypatch):
    again = (
        "sweep",
        "small.toml",
        "--grid",
        "transport.scheduler=min-rtt,linux",
        "--trials",
        3,
        "--workers",
        1,
    )
    before = json.loads(call("results", results, "--json", "--by", "scheduler").stdout)
    code = identity.code
    monkeypatch.setattr(identity, "code", cache(lambda: "9.9+later"))
    shown = call("results", results, "--json")
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, [])
    assert "4 runs of earlier sources left out (--earlier shows them)" in shown.stderr
    assert "the last sweep was of another build of this program" in shown.stderr
    with pytest.warns(LeftOutWarning, match="4 runs of earlier sources left out"):
        assert len(anabranch.load(results)) == 0
    earlier = json.loads(call("results", results, "--json", "--by", "scheduler", "--earlier").stdout)
    assert earlier == before
    assert "6 runs, 0 were there already" in call(*again).stderr
    assert [row["runs"] for row in json.loads(call("results", results, "--json").stdout)] == [3, 3]
    monkeypatch.setattr(identity, "code", code)
    assert "2 runs, 4 were there already" in call(*again).stderr


def test_results_of_an_older_form_can_be_looked_at_and_not_added_to(results):
    before = json.loads(call("results", results, "--json", "--by", "scheduler").stdout)
    manifest = results / store.MANIFEST
    said = json.loads(manifest.read_text(encoding="utf-8"))
    del said["sha256"]
    manifest.write_text(json.dumps({**said, "format": 1}), encoding="utf-8")
    shown = call("results", results, "--json", "--by", "scheduler", "--earlier")
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, before)
    assert len(anabranch.load(results, earlier=True)) == 4
    count = anabranch.query(results, "SELECT count(*) AS n FROM subflows", earlier=True)
    assert count["n"].to_list() == [4]
    kept = {path.name: path.read_bytes() for path in results.iterdir() if path.is_file()}
    again = call("sweep", "small.toml", "--grid", "transport.scheduler=min-rtt,linux", "--trials", 3)
    assert again.exit_code == 2
    assert f"`anabranch results {results.relative_to(results.parents[1])} --earlier`" in again.stderr
    assert call("verify", results).exit_code == 2
    assert {path.name: path.read_bytes() for path in results.iterdir() if path.is_file()} == kept


def test_a_folder_that_holds_no_results_is_reported(results, tmp_path):
    for name in ("nowhere", "small.toml", "."):
        result = call("results", tmp_path / name)
        assert result.exit_code == 2
        assert "no folder of results" in result.stderr
    (results / store.MANIFEST).write_text("[]", encoding="utf-8")
    assert call("results", results).exit_code == 2
    shutil.rmtree(results)
    assert call("verify", results).exit_code == 2


def test_a_table_of_the_results_can_be_kept_in_the_terminal_s_width(results, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    narrow = call("results", results).stdout
    assert max(map(len, narrow.splitlines())) <= 60
    monkeypatch.delenv("COLUMNS")
    (headers, *_) = call("results", results).stdout.splitlines()
    for name in headers.split():
        assert name in narrow


def test_faults_of_reading_are_input_errors(results):
    (results / "runs.parquet").write_bytes(b"x")
    with pytest.raises(InputError, match="a damaged table"):
        anabranch.load(results)


def test_columns_with_equal_names_are_distinguished(results):
    rows = json.loads(call("results", results, "--sql", "SELECT 1 a, 2 a, 3 a_1, 4 a", "--json").stdout)
    assert rows == [{"a": 1, "a_1": 2, "a_1_1": 3, "a_2": 4}]


def test_every_sql_type_is_converted_to_json(results):
    sql = "SELECT 'nan'::DOUBLE n, 1.5::DECIMAL(4, 2) d, DATE '2020-01-02' t, [1, 2] l, {'a': 1} s"
    (row,) = json.loads(call("results", results, "--sql", sql, "--json").stdout)
    assert row == {"n": None, "d": 1.5, "t": "2020-01-02", "l": [1, 2], "s": {"a": 1}}
