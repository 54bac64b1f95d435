"""Studies: every cell is valid, every assumption has its reason, and a short run of each ends well."""

import json

import pytest
from typer.testing import CliRunner

from anabranch._run import run_loaded
from anabranch.claims import around
from anabranch.claims.cells import of_study as cells_of_study
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.results import load
from anabranch.scenario._overrides import Override
from anabranch.study import execute, grid, runner, sweep
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
    # A path's keys are of the scenarios that have it.
    grids = [grid for part in study.parts for grid in part.grid.items() if not grid[0].startswith("paths.")]
    first = {key: values[0] for key, values in grids}
    axes = [studies.axis_of(key, [value]) for key, value in first.items()]
    what = studies.sweep(folder, study, quick=True, trials=1, axes=axes)
    assert {dict(cell.labels)["row"] for cell in what.cells} == set(study.rows())
    done = runner.run(what, tmp_path / "out", workers=1)
    assert done.complete


@pytest.mark.module
@pytest.mark.parametrize("name", EACH)
def test_every_cell_and_every_other_value_is_valid(name):
    folder = studies.find(name)
    study = studies.read(folder)
    for vary in (None, *(key for key, one in study.assumptions.items() if one.sweep)):
        what = studies.sweep(folder, study, vary=vary)
        assert len({cell.text() for cell in what.cells}) == len({cell.labels for cell in what.cells})
    for key, one in study.assumptions.items():
        assert one.what, key
        assert one.why, key
        # The range has its reason, also where it is a single value.
        assert one.range, key


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
        (
            HEAD + '[[parts]]\nscenarios = ["one"]\n[parts.grid]\n"transport.scheduler" = ["spdx"]\n'
            '[assumptions.q]\nwhat = "w"\nwhy = "y"\nsweep = [{ "transport.scheduler" = { spxd = "spd" } }]',
            "did you mean `spdx`?",
        ),
        (HEAD + 'trails = 3\n[[parts]]\nscenarios = ["one"]', "did you mean `trials`?"),
    ],
)
def test_a_broken_study_is_reported(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        studies.read(broken(tmp_path, text))
    assert message in str(caught.value)


def test_an_unknown_study_or_assumption_has_a_hint():
    assert "did you mean `SD18`?" in call("study", "run", "SD81").stderr
    assert "did you mean `queue`?" in call("study", "run", "SD18", "--vary", "queu").stderr


@pytest.mark.module
def test_an_assumption_is_chosen_by_a_text_of_its_value():
    folder = studies.find("PC16")
    study = studies.read(folder)
    chosen = ["kernel=linux-6.18", "receive-buffer=64 KiB"]
    what = studies.sweep(folder, study, only=["diff"], assume=chosen)
    for cell in what.cells:
        settings = {key: value for key, value, _ in cell.settings}
        assert settings["transport.profile"] == "linux-6.18"
        assert settings["transport.receive_buffer"] == "64 KiB"
        assert settings["application.player.version"] == 2
    assert what.notes["kernel"].endswith("(instead of transport.profile = mptcp-0.94)")
    # Another world, another folder.
    names = {
        studies.sweep(folder, study, assume=one).name for one in ([], chosen, chosen[:1], ["kernel=linux"])
    }
    assert len(names) == 3


@pytest.mark.module
def test_another_value_may_be_about_some_values_of_an_axis(tmp_path):
    text = (
        HEAD + '[[parts]]\nscenarios = ["one"]\n[parts.grid]\n"transport.scheduler" = ["spd", "spdx"]\n'
        '[assumptions.film]\nwhat = "w"\nwhy = "y"\nset = { "application.film" = "demo" }\n'
        '[assumptions.rtx]\nwhat = "w"\nwhy = "y"\n'
        'sweep = [{ "transport.scheduler" = { spdx = "spdx(hold=4)" } }]'
    )
    folder = broken(tmp_path, text)
    study = studies.read(folder)
    cells = studies.sweep(folder, study, vary="rtx").cells
    set_ = [{key: value for key, value, _ in cell.settings}["transport.scheduler"] for cell in cells]
    labels = [dict(cell.labels) for cell in cells]
    assert set_ == ["spd", "spdx", "spdx(hold=4)"]
    # In the results it is still the axis' value, so that a claim finds it; the others are the study's own.
    assert [one["transport.scheduler"] for one in labels] == ["spd", "spdx", "spdx"]
    assert [one.get("varied") for one in labels] == [
        None,
        None,
        "transport.scheduler = spdx(hold=4) for spdx",
    ]
    (world,) = around.worlds(study)
    concerned = [cell.name for cell in cells_of_study(folder, study) if world.concerns(cell)]
    assert concerned == ["one, spdx"]


@pytest.mark.parametrize(
    ("assume", "message"),
    [
        (["kernl=linux-6.18"], "did you mean `kernel`?"),
        (["kernel"], "expected NAME=TEXT"),
        (["receive-buffer=7 MiB"], "0 other values of `receive-buffer` have this: `7 MiB`"),
        (["receive-buffer=KiB"], "2 other values of `receive-buffer` have this: `KiB`"),
        (["kernel=linux", "kernel=linux"], "given twice: `kernel`"),
    ],
)
def test_an_assumption_that_cannot_be_chosen_is_reported(assume, message):
    result = call("study", "run", "PC16", *(part for one in assume for part in ("--assume", one)))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


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

    out = tmp_path / "out"
    arguments = ("--set", "application.bytes=200KB", "--grid", "transport.multipath=false,true")
    result = call("sweep", "bulk-two-paths", *arguments, "--trials", 1, "--workers", 1, "--out", out)
    assert result.exit_code == 0, result.stderr
    frame = load(out)
    assert frame.schema["transport.multipath"] == polars.Boolean
    assert frame["transport.multipath"].to_list() == [False, True]


@pytest.mark.module
def test_rows_and_settings_are_chosen_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ("--quick", "--set", "application.duration=3 s", "--grid", "transport.congestion=cubic")
    arguments = ("--only", "diff*", "--set", "paths.*.loss=2 %", *short, "--workers", 1)
    result = call("study", "run", "PC16", *arguments)
    assert result.exit_code == 0, result.stderr
    folder = tmp_path / "results" / "PC16-quick-diff+diff-swap-set"
    found = json.loads((folder / "manifest.json").read_text())
    assert [cell["labels"]["row"] for cell in found["cells"]] == ["diff", "diff-swap"]
    for cell in found["cells"]:
        assert (cell["settings"]["paths.F1.loss"], cell["settings"]["paths.F2.loss"]) == ("2 %", "2 %")
    assert "paths.*.loss = 2 %" in found["notes"]["--set"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "dif"), "did you mean `diff`?"),
        (("--only", "dif", "--only", "eq33"), "did you mean `eq3`?"),
        (("--set", "transport.congestion=cubic"), "--grid transport.congestion=VALUE"),
        (("--set", "transport.receive_bufer=1 MB"), "did you mean `receive_buffer`?"),
        (("--set", "nothing"), "nothing"),
    ],
)
def test_a_wrong_choice_is_reported(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("study", "run", "PC16", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.module
def test_rows_that_differ_in_nothing_but_their_name_are_run_once(tmp_path, monkeypatch):
    """PC16's two single paths are one: the second row is the first one's, and `verify` finds it right."""
    ran = []
    work = execute.work
    monkeypatch.setattr(execute, "work", lambda job, code: ran.append(job.cell.scenario) or work(job, code))
    out = tmp_path / "out"
    short = (
        "--set",
        "application.duration=3 s",
        "--grid",
        "transport.congestion=cubic",
        "--keep",
        "playback",
    )
    result = call(
        "study", "run", "PC16", "--only", "1p-?", *short, "--trials", 3, "--workers", 1, "--out", out
    )
    assert result.exit_code == 0, result.stderr
    assert ran == ["1p-a"] * 3
    assert "6 runs, 0 were there already" in result.stderr
    frame = load(out)
    assert frame["row"].to_list() == ["1p-a"] * 3 + ["1p-g"] * 3
    assert frame["scenario"].to_list() == frame["row"].to_list()
    assert frame["identity"].n_unique() == 6
    assert frame["digest"].n_unique() == 3
    ran.clear()
    assert call("verify", out).exit_code == 0
    assert ran == ["1p-a", "1p-g"] * 3


@pytest.mark.module
def test_cells_that_draw_nothing_are_run_once_and_say_so(tmp_path):
    out = tmp_path / "out"
    short = ("--set", "application.duration=3 s", "--grid", "transport.congestion=cubic,bbr")
    arguments = ("--only", "lim", "--only", "lim-handoff", "--grid", "transport.scheduler=dft", *short)
    arguments += ("--set", "host.clock_phase=0 s")
    result = call("study", "run", "HO20", *arguments, "--trials", 3, "--workers", 1, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "1 cells draw nothing" in result.stderr
    counts = load(out).group_by("row", "transport.congestion", maintain_order=True).len().rows()
    # BBR draws its phases, and a handoff its moment.
    assert counts == [
        ("lim", "cubic", 1),
        ("lim", "bbr", 3),
        ("lim-handoff", "cubic", 3),
        ("lim-handoff", "bbr", 3),
    ]
    assert call("verify", out).exit_code == 0


@pytest.mark.slow
@pytest.mark.module
@pytest.mark.parametrize("name", NAMES)
def test_plans_that_draw_nothing_give_the_same_in_every_run(name):
    """Each such cell of each study, with the settings of each assumption that take its chance away.

    Without the phase of the clock there is none: two runs of the same plan then differ.
    """
    folder = studies.find(name)
    study = studies.read(folder)
    phase = Override(key="host.clock_phase", value="1 ms", origin="--set")
    seen = {}
    # The phase is of the host, which no assumption sets: one look at the study is enough.
    assert not any(plan.exact for plan in sweep.planned(studies.sweep(folder, study, quick=True)))
    for vary in (None, *(key for key, one in study.assumptions.items() if one.sweep)):
        what = studies.sweep(folder, study, vary=vary, quick=True, sets=[phase])
        for cell, plan in zip(what.cells, sweep.planned(what), strict=True):
            if plan.exact:
                seen[plan.alike] = cell
    assert bool(seen) == (name in ("HO20", "PC16")), len(seen)
    for cell in [*seen.values()][:: max(1, len(seen) // 24)]:
        loaded, film = sweep.afresh(cell.text())
        one, other = (run_loaded(loaded, run=run, film=film) for run in (0, 5))
        assert (one.qoe, one.qos) == (other.qoe, other.qos), cell.labels
