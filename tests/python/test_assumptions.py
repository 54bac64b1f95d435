"""Assumptions for some cells only, for several keys together, and over ranges."""

import json

import pytest
from typer.testing import CliRunner

from anabranch.claims import around, inputs
from anabranch.claims.cells import of_study
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.results import identity
from anabranch.study import ranges
from anabranch.study import study as studies

STUDY = """
title = "t"
source = "s"
question = "q"
trials = 3
[[parts]]
scenarios = ["one", "two"]
[parts.grid]
"transport.multipath" = [false, true]
"transport.scheduler" = ["linux"]
[assumptions.queue]
what = "queue"
why = "y"
set = { "shared.queue" = "60 packets" }
sweep = [{ "shared.queue" = "30 packets" }, { draw = { n = { log_uniform = [25, 250] } }, "shared.queue" = "{n:.0f} packets" }]
[assumptions.wire]
what = "where the queue is"
why = "y"
set = { "paths.a.queue" = { as = "shared.queue" } }
[assumptions.autotuning]
what = "whether MPTCP's buffer grows"
why = "y"
set = { "transport.stack.receive_autotuning" = true }
sweep = [{ "transport.stack.receive_autotuning" = false }]
at = { "transport.multipath" = true }
chosen_by = ["A"]
[assumptions.delay]
what = "delay"
why = "y"
set = { "paths.a.rtt" = "10 ms" }
sweep = [{ "paths.a.rtt" = "30 ms" }]
scenarios = ["two"]
contradicts = "Table 1 prints 10 ms"
[joint.testbed]
what = "both"
why = "y"
values = { autotuning = "false", delay = "30 ms" }
chosen_by = ["B"]
"""


def made(tmp_path, text=STUDY):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "study.toml").write_text(text)
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\n[application]\nkind = "bulk"\nbytes = "100 kB"\n'
            '[[paths]]\nname = "a"\nrtt = "9 ms"\nrate = "100 Mbit/s"\n'
        )
    return folder, studies.read(folder)


def settings(what):
    """Return by row and multipath the settings of a sweep's cells, for each label `varied`."""
    return {
        (labels.get("varied"), labels["row"], labels["transport.multipath"]): {
            key: value for key, value, _ in cell.settings
        }
        for cell in what.cells
        for labels in [dict(cell.labels)]
    }


@pytest.mark.module
def test_an_assumption_may_be_about_one_arm(tmp_path):
    folder, study = made(tmp_path)
    own = settings(studies.sweep(folder, study))
    key = "transport.stack.receive_autotuning"
    assert {labels[2]: found.get(key) for labels, found in own.items()} == {True: True, False: None}
    varied = settings(studies.sweep(folder, study, vary="autotuning"))
    changed = {labels[1:]: found[key] for labels, found in varied.items() if labels[0] is not None}
    # TCP has no such cell: its runs are those of the unchanged study.
    assert changed == {("one", True): False, ("two", True): False}


@pytest.mark.module
def test_a_shared_value_sets_every_key_that_takes_it(tmp_path):
    folder, study = made(tmp_path)
    found = settings(studies.sweep(folder, study, assume=["queue=30 packets"]))
    assert {one["paths.a.queue"] for one in found.values()} == {"30 packets"}
    assert not any(key.startswith("shared.") for one in found.values() for key in one)


@pytest.mark.module
def test_worlds_around_a_study_use_the_ends_of_a_range(tmp_path):
    folder, study = made(tmp_path)
    found = settings(studies.sweep(folder, study, vary="queue"))
    queues = {labels[0]: one["paths.a.queue"] for labels, one in found.items()}
    assert queues == {
        None: "60 packets",
        **{f"shared.queue = {n} packets": f"{n} packets" for n in (30, 25, 250)},
    }


@pytest.mark.module
def test_a_joint_assumption_changes_several_at_once(tmp_path):
    folder, study = made(tmp_path)
    found = settings(studies.sweep(folder, study, vary="testbed"))
    key = "transport.stack.receive_autotuning"
    changed = {
        labels[1:]: (one.get("paths.a.rtt"), one.get(key))
        for labels, one in found.items()
        if labels[0] == "testbed"
    }
    # TCP of row one is reached by neither of the two.
    assert changed == {
        ("one", True): (None, False),
        ("two", True): ("30 ms", False),
        ("two", False): ("30 ms", None),
    }
    (world,) = [one for one in around.worlds(study) if one.assumption == "testbed"]
    cells = {
        (dict(cell.labels)["row"], dict(cell.labels)["transport.multipath"]): cell
        for cell in of_study(folder, study)
    }
    assert {labels for labels, cell in cells.items() if world.concerns(cell)} == set(changed)
    chosen = studies.sweep(folder, study, assume=["testbed"])
    assert chosen.name == "mine-testbed"
    assert {
        labels[1:]: one["paths.a.rtt"] for labels, one in settings(chosen).items() if labels[1] == "two"
    } == {
        ("two", False): "30 ms",
        ("two", True): "30 ms",
    }
    assert study.inferred("testbed") == ["Table 1 prints 10 ms"]
    assert study.chosen_by("testbed") == ["B", "A"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'at = { "transport.multipath" = true }',
            'at = { "transport.mulipath" = true }',
            "did you mean `transport.multipath`?",
        ),
        (
            'at = { "transport.multipath" = true }',
            'at = { "transport.multipath" = 1 }',
            "no such value of `transport.multipath`: `1`",
        ),
        ('{ as = "shared.queue" }', '{ as = "shared.quue" }', "did you mean `shared.queue`?"),
        ('"{n:.0f} packets"', '"{m:.0f} packets"', "no such draw: 'm'"),
        ("log_uniform = [25, 250]", "log_uniform = [250, 25]", "expected two positive numbers"),
        ('delay = "30 ms" }', 'delay = "40 ms" }', "0 other values of `delay` have this: `40 ms`"),
        ("[joint.testbed]", "[joint.delay]", "an assumption has this name: `delay`"),
        (
            'chosen_by = ["A"]',
            'like = "wire"',
            "no assumption with as many other values or more: `wire`",
        ),
    ],
)
def test_a_broken_assumption_is_reported(tmp_path, old, new, message):
    assert old in STUDY
    with pytest.raises(InputError) as caught:
        made(tmp_path, STUDY.replace(old, new))
    assert message in str(caught.value)


def test_draws_of_one_name_share_a_random_number():
    """A uniform draw from 0 to 10 at a random number of 0.25 is 2.5."""
    value = {"draw": {"x": {"uniform": [0, 10]}}, "a": "{x:.1f}", "b": {"spdx": "spdx(hold={x:.0f})"}}
    assert ranges.drawn(value, {"x": 0.25}.get) == {"a": "2.5", "b": {"spdx": "spdx(hold=2)"}}
    assert ranges.ends({"a": 1}) == [{"a": 1}]


CLAIMS = "".join(
    f"""
[[claims]]
id = "{name}"
place = "p"
says = "s"
at = {{ row = "two", multipath = true }}
parts = [{{ test = "between", metric = "duration_s", within = [0.08, inf], why = "w" }}]
"""
    for name in "AC"
)


def called(folder, tmp_path, *more):
    command = ["study", "claims", str(folder), str(tmp_path / "out"), "--run", "--trials", "20"]
    return CliRunner().invoke(app, [*command, "--around-trials", "20", "--workers", "1", *more])


@pytest.mark.module
def test_a_joint_world_is_tested_beside_the_study_and_claims_that_chose_it_are_inferred(tmp_path):
    """A handshake and windows of 10, 20 and 40 segments for 100 kB: four round trips, and at most six.

    They are below 0.08 s at 10 ms, and above it at 30 ms.
    """
    folder, _ = made(tmp_path)
    (folder / "claims.toml").write_text(CLAIMS)
    page = tmp_path / "claims.md"
    result = called(folder, tmp_path, "--around", "testbed", "--docs", str(page), "--json")
    assert result.exit_code == 0, result.stderr
    first, second = json.loads(result.stdout)
    assert first["by_means"]["own"] is False
    assert first["by_means"]["worlds"] == [{"assumption": "testbed", "set": "testbed", "holds": True}]
    assert [first["verdict"], second["verdict"]] == ["not reproduced"] * 2
    # A was used to choose the assumption `autotuning`, C was not.
    assert [first["joint"], second["joint"]] == [{"testbed": "inferred"}, {"testbed": "reproduced"}]
    text = page.read_text()
    assert "| in | the study as it stands | testbed |" in text
    assert "| `A` | not reproduced | inferred |" in text
    assert "| reproduced | 0 | 1 |" in text
    assert "*Inferred from the testbed*, against the paper: Table 1 prints 10 ms" in text


@pytest.mark.module
def test_only_papers_with_another_build_other_plans_or_other_claims_are_judged_again(tmp_path):
    folder, study = made(tmp_path)
    (folder / "claims.toml").write_text(CLAIMS)
    page = tmp_path / "claims.md"
    assert called(folder, tmp_path, "--docs", str(page)).exit_code == 0
    built = identity.code()
    assert inputs.on_page(page.read_text()) == {"mine": (built, inputs.of_study(folder, study))}
    again = called(folder, tmp_path, "--docs", str(page), "--changed")
    assert "has this build and these inputs" in again.stderr
    # A changed reason of an assumption does not change any plan.
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text.replace('why = "y"', 'why = "z"'))
    assert inputs.is_current(page.read_text(), "mine", folder, studies.read(folder))
    (folder / "study.toml").write_text(text.replace('"10 ms"', '"11 ms"'))
    assert not inputs.is_current(page.read_text(), "mine", folder, studies.read(folder))
    (folder / "study.toml").write_text(text)
    (folder / "claims.toml").write_text(CLAIMS.replace("0.08", "0.09"))
    assert not inputs.is_current(page.read_text(), "mine", folder, studies.read(folder))
    (folder / "claims.toml").write_text(CLAIMS)
    other = page.read_text().replace(built, "0.1.0+000000000000")
    assert not inputs.is_current(other, "mine", folder, studies.read(folder))
    assert called(folder, tmp_path, "--changed").exit_code == 2
