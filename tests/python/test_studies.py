"""Studies: every cell is valid, every assumption has its reason, and a short run of each ends well."""

import pytest
from typer.testing import CliRunner

from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.study import grid, runner
from anabranch.study import study as studies

NAMES = list(studies.folders())
# The smallest speaks for all in the quick suite.
EACH = [name if name == "LEO24" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_papers_studies_are_there():
    assert {"PC16", "SD18", "UQ18", "HO20", "LEO24"} <= set(NAMES)


@pytest.mark.module
@pytest.mark.parametrize("name", EACH)
def test_a_short_run_of_the_study_ends_well(name, tmp_path):
    """One cell of each scenario: what `--quick` runs, without most of the grid."""
    folder = studies.find(name)
    study = studies.read(folder)
    first = {key: values[0] for part in study.parts for key, values in part.grid.items()}
    axes = [studies.axis_of(key, [value]) for key, value in first.items()]
    what = studies.sweep(folder, study, quick=True, trials=1, axes=axes)
    assert {cell.scenario for cell in what.cells} == {one for part in study.parts for one in part.scenarios}
    done = runner.run(what, tmp_path / "out", workers=1)
    assert done.complete


@pytest.mark.module
@pytest.mark.parametrize("name", EACH)
def test_every_cell_and_every_other_value_is_valid(name):
    folder = studies.find(name)
    study = studies.read(folder)
    for vary in (None, *study.assumptions):
        what = studies.sweep(folder, study, vary=vary)
        assert len({cell.text() for cell in what.cells}) == len({cell.labels for cell in what.cells})
    assert all(one.what and one.why and one.sweep for one in study.assumptions.values() if one.set), name


def broken(tmp_path, text):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.toml").write_text(text)
    (tmp_path / "mine" / "one.toml").write_text(
        'name = "one"\n[[paths]]\nname = "a"\nrtt = "9 ms"\nrate = "1 Mbit/s"'
    )
    return tmp_path / "mine"


HEAD = 'title = "t"\nsource = "s"\nquestion = "q"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "not valid TOML"),
        (HEAD, "parts"),
        (HEAD + '[[parts]]\nscenarios = ["two"]', "no such scenario: `two`"),
        (HEAD + '[[parts]]\nscenarios = ["one"]\n[assumptions.q]\nwhat = "w"', "assumptions.q.why"),
        (HEAD + 'trails = 3\n[[parts]]\nscenarios = ["one"]', "did you mean `trials`?"),
    ],
)
def test_a_broken_study_is_told(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        studies.read(broken(tmp_path, text))
    assert message in str(caught.value)


def test_an_unknown_study_or_assumption_has_a_hint():
    assert "did you mean `SD18`?" in call("study", "run", "SD81").stderr
    assert "did you mean `queue`?" in call("study", "run", "SD18", "--vary", "queu").stderr


@pytest.mark.module
def test_an_axis_of_the_command_line_replaces_the_studys(tmp_path):
    folder = studies.find("SD18")
    axes = [grid.parse("transport.congestion=reno"), grid.parse("transport.scheduler=linux")]
    what = studies.sweep(folder, studies.read(folder), axes=axes)
    assert [dict(cell.labels)["row"] for cell in what.cells] == ["2p-e", "2p-d", "3p-e", "3p-d"]
    out = tmp_path / "out"
    arguments = ("--grid", "transport.congestion=reno", "--grid", "transport.scheduler=linux")
    result = call("study", "run", "SD18", "--quick", *arguments, "--workers", 1, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "assumption: queue" in result.stderr
    assert "4 runs" in result.stderr


@pytest.mark.parametrize("text", ["this is no TOML", HEAD])
def test_a_broken_study_hides_no_other(tmp_path, monkeypatch, text):
    (tmp_path / "studies" / "B").mkdir(parents=True)
    (tmp_path / "studies" / "B" / "study.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    for extra in ([], ["--json"]):
        result = call("study", "list", *extra)
        assert result.exit_code == 0, result.stderr
        assert "SD18" in result.stdout
        assert "study.toml" in result.stderr
        assert "error: " in result.stderr


@pytest.mark.module
def test_flags_stay_flags_in_the_results(tmp_path):
    import polars

    from anabranch.results import load

    out = tmp_path / "out"
    arguments = ("--set", "application.bytes=200KB", "--grid", "transport.multipath=false,true")
    result = call("sweep", "bulk-two-paths", *arguments, "--trials", 1, "--workers", 1, "--out", out)
    assert result.exit_code == 0, result.stderr
    frame = load(out)
    assert frame.schema["transport.multipath"] == polars.Boolean
    assert frame["transport.multipath"].to_list() == [False, True]
