"""Drawn worlds: values that are refused, and which of two settings of a key takes precedence."""

import pytest

import anabranch
from anabranch.errors import InputError
from anabranch.scenario._overrides import parse_assignment
from anabranch.study import grid, read_worlds
from anabranch.study import study as studies
from test_drawn_worlds import FILE, STUDY, folder

__all__ = ["folder"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at = { uniform = [1, 2] }", 'to = { path = "other", than = "path" }', "one path only"),
        ("at = {", 'to = { path = "other", than = "share" }, at = {', "no such drawn path: `share`"),
        (
            "[scenario.transport]",
            "[scenario]\nseed = 3\n[scenario.transport]",
            "each world has its own `seed`",
        ),
        (
            "[scenario.transport]",
            "[scenario]\nname = 'a'\n[scenario.transport]",
            "each world has its own `name`",
        ),
        ("[paths]", "[[kinds]]\nset = { seed = 3 }\n[paths]", "key: kinds.0.set.seed"),
        ("uniform = [4, 8]", f"uniform = [4, 1{'0' * 400}]", "expected two numbers"),
        ("uniform = [4, 8]", "uniform = [-1.7e308, 1.7e308]", "less far apart"),
        ("log_uniform = [10, 100]", "log_uniform = [1e-300, 1e300]", "less far apart"),
        ("weights = [1, 3]", "weights = [1e308, 1e308]", "expected numbers of zero or more"),
        ("weights = [1, 3]", f"weights = [1, 1{'0' * 400}]", "expected numbers of zero or more"),
        (
            "weight = 3\n",
            "weight = 1e308\nset = { loss = '1 %' }\n[[paths.kinds]]\nweight = 1e308\n",
            "expected weights",
        ),
        ("{ uniform = [4, 8] }", f"1{'0' * 400}", "no number"),
        ("{rtt:.1f}", f"{{1{'0' * 400}:.1f}}", "does not fit"),
    ],
)
def test_a_file_of_worlds_that_would_draw_something_else_is_refused(folder, old, new, message):
    assert old in FILE
    (folder / "worlds.toml").write_text(FILE.replace(old, new))
    with pytest.raises(InputError) as caught:
        studies.read(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("of_arm", "key"),
    [
        ('"transport.congestion" = "reno"', "transport.congestion"),
        ('"transport.preset" = "video"', "transport.rto_max"),
        ('"paths.*.queue" = "9 packets"', "paths.p1.queue"),
        ('"paths.p1.queue" = "9 packets"', "paths.*.queue"),
    ],
)
def test_neither_grid_nor_set_overrides_a_key_of_an_arm(folder, of_arm, key):
    (folder / "study.toml").write_text(STUDY.replace('"transport.congestion" = "reno"', of_arm))
    study = studies.read(folder)
    for option, given in [("axes", grid.parse(f"{key}=1,2")), ("sets", parse_assignment(f"{key}=1"))]:
        with pytest.raises(InputError, match="an arm of the study sets this key"):
            studies.sweep(folder, study, worlds=1, **{option: [given]})
    assert studies.sweep(folder, study, worlds=1, axes=[grid.parse("clients=1,2")])


def test_a_preset_of_an_arm_comes_before_assumptions(folder):
    """The preset video has a congestion control, a timeout and rules for outages, but no `retries`."""
    text = STUDY.replace('"transport.congestion" = "reno"', '"transport.preset" = "video"')
    settings = (
        '"transport.congestion" = "cubic", "transport.stack.outage" = "kernel", "transport.retries" = 9'
    )
    text += f'[assumptions.a]\nwhat = "w"\nwhy = "y"\nset = {{ {settings} }}\n'
    (folder / "study.toml").write_text(text)
    what = studies.sweep(folder, studies.read(folder), worlds=1)
    set_ = {dict(cell.labels)["arm"]: {key: value for key, value, *_ in cell.settings} for cell in what.cells}
    assert set_["slow"] == {"transport.retries": 9, "transport.preset": "video"}
    assert set_["plain"]["transport.congestion"] == "cubic"


@pytest.mark.parametrize(
    ("draws_", "message"),
    [
        ('at = { uniform = [1, 2] }, path = { path = "any" }, to = { path = "other", than = "at" }', "`at`"),
        ('path = { path = "any" }, at = 1.5, to = { path = "other", than = "at" }', "`at`"),
        ('path = { path = "any" }, to = { path = "other", than = "path" }', ""),
        ('path = { choice = [{ path = "any" }] }, to = { path = "other", than = "path" }', ""),
        ('path = { choice = [{ path = "any" }, 3] }, to = { path = "other", than = "path" }', "`path`"),
    ],
)
def test_another_path_differs_from_a_drawn_path_alone(folder, draws_, message):
    """With two or more paths, the other path always differs."""
    old = 'path = { path = "any" }, at = { uniform = [1, 2] }'
    text = FILE.replace("choice = [1, 2], weights = [1, 3]", "choice = [1, 2], weights = [0, 3]")
    text = text.replace("{at:.2f}", "1").replace("{at + 1:.2f}", "2").replace("{ integer = [0, 1] }", "1")
    text = text.replace('{ path = "{path}", at = "2 s"', '{ path = "{to}", at = "2 s"')
    assert old in text
    (folder / "worlds.toml").write_text(text.replace(old, draws_))
    if message:
        with pytest.raises(InputError, match=f"no such drawn path: {message}"):
            studies.read(folder)
        return
    found = read_worlds.read(folder / "worlds.toml")
    pairs = [found.tables("w", seed=7, world=world)["handoffs"] for world in range(30)]
    assert {(one["path"], other["path"]) for one, other in pairs} == {("p1", "p2"), ("p2", "p1")}


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_python_refuses_counts_below_one(folder, count):
    with pytest.raises(InputError) as caught:
        anabranch.run_study(folder, worlds=count, trials=count, progress=False)
    assert [fault.where for fault in caught.value.faults] == [f"trials={count}", f"worlds={count}"]
