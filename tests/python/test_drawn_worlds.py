"""Studies with drawn worlds: distributions, faults of their files, pairs of worlds and folders that grow."""

import hashlib
import json
import math
import tomllib
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from anabranch.claims import cells, statement, stored
from anabranch.claims import measure as metrics
from anabranch.cli._app import app
from anabranch.errors import InputError
from anabranch.results import paired, versus
from anabranch.results.worlds import by_pair
from anabranch.study import drawn, draws, read_worlds, runner, sweep, templates
from anabranch.study import study as studies

FILE = """
[draw]
total = { uniform = [4, 8] }

[scenario.application]
kind = "bulk"
bytes = "{size} kB"
[scenario.transport]
congestion = "cubic"

[paths]
count = { choice = [1, 2], weights = [1, 3] }
[paths.draw]
share = { uniform = [1, 3] }
rtt = { log_uniform = [10, 100] }
[[paths.kinds]]
weight = 3
set = { rtt = "{rtt:.1f} ms", rate = "{total * share / sum(share):.3f} Mbit/s" }
[[paths.kinds]]
draw = { loss = { choice = [1, { uniform = [2, 3] }] } }
set = { rtt = "{rtt:.1f} ms", rate = "{total * share / sum(share):.3f} Mbit/s", loss = "{loss:.2f} %" }

[handoffs]
count = { integer = [0, 1] }
draw = { path = { path = "any" }, at = { uniform = [1, 2] } }
set = [
    { path = "{path}", at = "{at:.2f} s", lasting = "500 ms" },
    { path = "{path}", at = "{at + 1:.2f} s", lasting = "500 ms" },
]
""".replace("{size}", "40")
STUDY = """
title = "t"
source = "s"
question = "q"
base = "plain"
[[worlds]]
row = "one"
count = 4
seed = 7
[[worlds]]
row = "calm"
count = 2
seed = 7
without = ["handoffs"]
arms = ["plain"]
[arms.plain]
what = "as it is"
[arms.slow]
what = "longer round trips"
set = { "transport.congestion" = "reno" }
"""


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "mine"
    made.mkdir()
    (made / "worlds.toml").write_text(FILE)
    (made / "study.toml").write_text(STUDY)
    return made


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_draws_follow_their_distributions():
    """Means and quantiles of 4,000 worlds against those of the distributions, within 4 standard errors."""
    count = 4000

    def values(raw):
        one = draws.parse(raw)
        return [one.value("x", draws.chance(1, world), {}, ["a", "b", "c"]) for world in range(count)]

    # The standard deviation of a uniform variable is its width by the root of 12.
    error = 4 * 12**-0.5 / count**0.5
    assert sum(values({"uniform": [2, 3]})) / count == pytest.approx(2.5, abs=error)
    logs = [math.log(value, 10) for value in values({"log_uniform": [1, 10]})]
    assert sum(logs) / count == pytest.approx(0.5, abs=error)
    whole = values({"integer": [3, 5]})
    # The standard deviation of a share p is the root of p (1 - p).
    assert [whole.count(one) / count for one in (3, 4, 5)] == pytest.approx([1 / 3] * 3, abs=0.03)
    chosen = values({"choice": ["a", {"choice": ["b", "c"]}], "weights": [1, 3]})
    assert [chosen.count(one) / count for one in "abc"] == pytest.approx([0.25, 0.375, 0.375], abs=0.031)
    assert {one: values({"path": "any"}).count(one) > 1200 for one in "abc"} == dict.fromkeys("abc", True)
    assert values(7) == [7] * count


def test_another_path_is_never_the_same_one():
    one = draws.parse({"path": "other", "than": "first"})
    known = {"first": "b"}
    found = {one.value("x", draws.chance(1, world), known, ["a", "b", "c"]) for world in range(50)}
    assert found == {"a", "c"}


def test_numbers_do_not_depend_on_the_machine():
    """SHA-256 of `7/3/x`, first 53 bits, by `printf 7/3/x | sha256sum`."""
    first = int("742e9c7ae726e347", 16)
    assert draws.chance(7, 3)("x") == float(Fraction(first >> 11, 2**53))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a}", 3),
        ("{name}", "cubic"),
        ("plain", "plain"),
        ("{{a}}", "{a}"),
        ("{a * 2 + 1:.1f} ms", "7.0 ms"),
        ("{share / sum(share):.3f}", "0.250"),
        ("{max(a, 5)} packets", "5 packets"),
        ("{tiny} %", "0.00000125 %"),
        ("{-a} s", "-3 s"),
    ],
)
def test_templates(text, value):
    known = {"a": 3, "share": 1, "name": "cubic", "tiny": 1.25e-6}
    assert templates.parse(text).value(known, {"share": [1, 3]}) == value


@pytest.mark.parametrize("text", ["{a", "{a.b}", "{a!r}", "{__import__('os')}", "{a ** 2}", "{f(a)}", "{}"])
def test_no_template(text):
    with pytest.raises(templates.TemplateError):
        templates.parse(text)


def test_a_value_that_is_added_changes_no_other(folder):
    before = read_worlds.read(folder / "worlds.toml").tables("w", seed=7, world=2)
    text = FILE.replace("[draw]\n", "[draw]\nearlier = { uniform = [0, 1] }\n")
    (folder / "worlds.toml").write_text(text)
    assert read_worlds.read(folder / "worlds.toml").tables("w", seed=7, world=2) == before
    assert read_worlds.read(folder / "worlds.toml").tables("w", seed=8, world=2) != before


def test_shares_add_up_and_lists_can_be_left_out(folder):
    found = read_worlds.read(folder / "worlds.toml")
    made = [found.tables("w", seed=7, world=world) for world in range(40)]
    for one in made:
        rates = [float(path["rate"].split()[0]) for path in one["paths"]]
        assert 4 - 0.01 <= sum(rates) <= 8 + 0.01
    assert {len(one["paths"]) for one in made} == {1, 2}
    # Two handovers that come together, or none.
    assert {len(one.get("handoffs", [])) for one in made} == {0, 2}
    assert len({one["seed"] for one in made}) == 40
    for world, one in enumerate(made):
        calm = found.tables("w", seed=7, world=world, without=["handoffs"])
        assert calm == {key: value for key, value in one.items() if key != "handoffs"}


def test_every_fault_is_reported_at_once(folder):
    text = FILE.replace("uniform = [4, 8]", "uniform = [8, 4]")
    text = text.replace("weights = [1, 3]", "weights = [1, 3, 2]", 1)
    text = text.replace("log_uniform = [10, 100]", "log_unifrom = [10, 100]")
    text = text.replace('sum(share):.3f} Mbit/s" }', 'sum(shar):.3f} Mbit/s" }', 1)
    text = text.replace('path = "{path}", at = "{at:.2f} s"', 'path = "{pth}", at = "{at:.2f} s"')
    text = text.replace("weight = 3", "wieght = 3").replace("[scenario.transport]", "[scenarios.transport]")
    (folder / "worlds.toml").write_text(text)
    result = call("study", "show", folder)
    assert result.exit_code == 2
    for line, key, message in [
        (3, "draw.total.uniform", "expected two numbers, the lower first"),
        (12, "paths.count.weights", "3 weights of 2 values"),
        (15, "paths.draw.rtt", "no form of a draw"),
        (17, "paths.kinds.0.wieght", "unknown key: `wieght`"),
        (18, "paths.kinds.0.set.rate", "no value of every path to sum up: `shar`"),
        (27, "handoffs.set.0.path", "no such drawn value: `pth`"),
        (8, "scenarios", "unknown key: `scenarios`"),
    ]:
        assert message in result.stderr
        assert f"worlds.toml, line {line})" in result.stderr, (message, result.stderr)
        assert f"key: {key}\n" in result.stderr
    assert "did you mean `log_uniform`?" in result.stderr
    assert "did you mean `share`?" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('rtt = "{rtt:.1f} ms", rate', 'rrt = "{rtt:.1f} ms", rate', "unknown key: `rrt`"),
        ('loss = "{loss:.2f} %"', 'loss = "{loss:.2f} ms"', "loss"),
        ("count = { choice = [1, 2], weights = [1, 3] }", "count = { uniform = [1, 2] }", "whole numbers"),
        (
            "[[paths.kinds]]\nweight = 3",
            "[paths.set]\n[[paths.kinds]]\nweight = 3",
            "either `set` or `kinds`",
        ),
        ("at = { uniform = [1, 2] }", 'to = { path = "other", than = "pth" }', "no such drawn path: `pth`"),
        ("total = {", 'via = { path = "any" }\ntotal = {', "paths are drawn later"),
        ("{at + 1:.2f}", "{path + 1:.2f}", "calculates with a text"),
        ("{at + 1:.2f}", "{at / 0:.2f}", "no number"),
        ("[paths]", "[ways]", "unknown key: `ways`"),
    ],
)
def test_a_broken_file_of_worlds_is_reported(folder, old, new, message):
    assert old in FILE
    (folder / "worlds.toml").write_text(FILE.replace(old, new))
    with pytest.raises(InputError) as caught:
        studies.read(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('arms = ["plain"]', 'arms = ["plian"]', "did you mean `plain`?"),
        ('without = ["handoffs"]', 'without = ["handofs"]', "did you mean `handoffs`?"),
        ('base = "plain"', 'base = "pain"', "did you mean `plain`?"),
        ('row = "calm"', 'row = "one"', "given twice: `one`"),
        ("seed = 7\nwithout", "sead = 7\nwithout", "did you mean `seed`?"),
        ("count = 4", "count = 0", "worlds.0.count"),
        ('what = "as it is"', "", "arms.plain.what"),
        ("seed = 7\nwithout", 'file = "none.toml"\nwithout', "cannot read the file of worlds"),
    ],
)
def test_a_broken_study_of_worlds_is_reported(folder, old, new, message):
    assert old in STUDY
    (folder / "study.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(InputError) as caught:
        studies.read(folder)
    assert message in str(caught.value)


def test_a_key_of_an_arm_that_no_scenario_has_is_reported_once(folder):
    (folder / "study.toml").write_text(STUDY.replace('"transport.congestion" =', '"transport.congestoin" ='))
    with pytest.raises(InputError) as caught:
        studies.sweep(folder, studies.read(folder))
    assert len(caught.value.faults) == 1
    assert "did you mean `congestion`?" in str(caught.value)


@pytest.mark.module
def test_more_worlds_run_only_the_missing_runs(folder, tmp_path):
    study = studies.read(folder)
    out = tmp_path / "out"
    few = runner.run(studies.sweep(folder, study, worlds=2), out, workers=1)
    # Two worlds with two arms, and two worlds with one. Worlds without random draws are run equally often.
    assert (few.total, few.now) == (6, 6)
    more = runner.run(studies.sweep(folder, study, worlds=3), out, workers=1)
    assert (more.total, more.before, more.now) == (9, 6, 3)
    text = call("results", out, "--versus", "arm=plain", "--percent", "--metric", "goodput_mbps", "--json")
    (row,) = json.loads(text.stdout)
    assert (row["row"], row["arm"], row["goodput_mbps_pairs"]) == ("one", "slow", 3)
    assert "drawn worlds in pairs" in text.stderr
    means = json.loads(call("results", out, "--json").stdout)
    assert [(one["row"], one["arm"], one["runs"]) for one in means] == [
        ("one", "plain", 3),
        ("one", "slow", 3),
        ("calm", "plain", 3),
    ]


@pytest.mark.module
def test_a_printed_world_is_that_of_the_study(folder, tmp_path):
    study = studies.read(folder)
    what = studies.sweep(folder, study)
    cell = next(one for one in what.cells if dict(one.labels) == {"row": "one", "arm": "slow", "world": "3"})
    printed = call("study", "show", folder, "--world", "3", "--arm", "slow")
    assert printed.exit_code == 0, printed.stderr
    assert tomllib.loads(printed.stdout)["transport"]["congestion"] == "reno"
    (tmp_path / "alone.toml").write_text(printed.stdout)
    alone = sweep.cells([sweep.Point(path=tmp_path / "alone.toml", settings=(), labels=())])
    plans = sweep.planned(sweep.Sweep(name="w", cells=(cell, *alone), trials=1))
    # Only the scenario's name differs, so the digest of the run is the same.
    assert plans[0].alike == plans[1].alike


def test_show_rejects_unknown_arms_and_rows(folder):
    assert "did you mean `slow`?" in call("study", "show", folder, "--world", 0, "--arm", "slw").stderr
    assert "did you mean `calm`?" in call("study", "show", folder, "--world", 0, "--row", "clam").stderr
    assert "without `--world`" in call("study", "show", folder, "--arm", "slow").stderr
    assert "has no drawn worlds" in call("study", "show", "LEO24", "--world", 0).stderr
    assert "1 worlds" not in call("study", "show", folder).stdout
    assert "row: one: 4 worlds of worlds.toml, seed 7" in call("study", "show", folder).stdout


def test_worlds_are_pairs_and_their_runs_are_averaged():
    assert by_pair({(None, 4): 1.0, (7, 0): 2.0, (7, 1): 4.0}) == {4: 1.0, 7: 3.0}
    rows = [
        {"row": "one", "arm": arm, "world": str(world), "run": run, "cell": f"{arm}{world}", "still_s": value}
        for arm, world, run, value in [
            ("plain", 0, 0, 10.0),
            ("plain", 1, 0, 4.0),
            ("plain", 1, 1, 8.0),
            ("slow", 0, 0, 5.0),
            ("slow", 1, 0, 3.0),
        ]
    ]
    runs = stored.Runs(rows, ["row", "arm", "world"], exact=["plain0"])
    metric = metrics.parse("still_s")
    names = ("row", "arm")
    plain, slow = (
        cells.Cell(labels=labels, said=labels, shown=labels, paths=())
        for labels in (tuple(zip(names, ("one", arm), strict=True)) for arm in ("plain", "slow"))
    )
    assert runs.values(plain, metric) == {0: 10.0, 1: 6.0}
    # A world without random draws inside is still a random draw itself.
    assert not runs.is_exact(plain)
    left, right = paired.matched(runs.values(slow, metric), runs.values(plain, metric))
    assert paired.quotient(left, right).value == pytest.approx(8 / 16)
    assert runs.trials() == (2, 2)


def test_a_change_in_percent_is_that_of_the_means():
    """(5 + 3) / (10 + 6) is a half: 50 % less."""
    import numpy as np

    found = versus._change(np.array([5.0, 3.0]), np.array([10.0, 6.0]))
    assert found.value == pytest.approx(-50)


def test_claims_name_arms(folder):
    (folder / "claims.toml").write_text(
        '[[claims]]\nid = "c"\nplace = "p"\nsays = "s"\nat = { row = "one" }\n'
        'parts = [{ test = "ratio", metric = "goodput_mbps", of = { arm = "slow" }, than = { arm = "plain" }, '
        'within = [0, 0.6], why = "w" }]\n'
    )
    (stated,) = statement.read(folder, studies.read(folder))
    assert [cell.name for cell in stated.cells()] == ["one, slow", "one, plain"]
    text = (folder / "claims.toml").read_text().replace('arm = "slow"', 'arm = "slwo"')
    (folder / "claims.toml").write_text(text)
    with pytest.raises(InputError, match="did you mean `slow`"):
        statement.read(folder, studies.read(folder))


def test_a_drawn_value_may_be_called_kind_or_count(folder):
    """The kind of an element has a separate random number: in 40 worlds every pair of both is drawn."""
    (folder / "worlds.toml").write_text(
        "[scenario.application]\nkind = 'bulk'\nbytes = '1 kB'\n[paths]\ncount = 1\ndraw = { kind = { choice = [10, 20] } }\n"
        '[[paths.kinds]]\nset = { rtt = "{kind} ms", rate = "1 Mbit/s" }\n'
        '[[paths.kinds]]\nset = { rtt = "{kind} ms", rate = "2 Mbit/s" }\n'
    )
    found = read_worlds.read(folder / "worlds.toml")
    made = (found.tables("w", seed=1, world=world)["paths"][0] for world in range(40))
    pairs = {(one["rtt"], one["rate"]) for one in made}
    assert pairs == {(rtt, rate) for rtt in ("10 ms", "20 ms") for rate in ("1 Mbit/s", "2 Mbit/s")}


@pytest.mark.module
def test_figures_take_worlds_as_trials(folder, tmp_path):
    """A bar an arm, not one a world, and over time world 0 alone."""
    from anabranch.experiments import drawn as pictures_of

    out = tmp_path / "out"
    runner.run(studies.sweep(folder, studies.read(folder), worlds=2), out, workers=1)
    assert {(one["row"], one["series"]) for one in pictures_of.runs(out)} == {
        ("one", "plain"),
        ("one", "slow"),
        ("calm", "plain"),
    }
    pictures = pictures_of.first_trials(out, lambda *_: None)
    assert {one["series"] for one in pictures["sequence-numbers-one"].data} == {"plain", "slow"}


KINDS = """
[[kinds]]
weight = 3
set = { application = { kind = "bulk", bytes = "1 kB" } }
[[kinds]]
draw = { ladder = { choice = ["uq18-jp", "uq18-va"] } }
set = { application = { kind = "adaptive", ladder = "{ladder}", duration = "10 s" } }
[paths]
set = { rtt = "10 ms", rate = "1 Mbit/s" }
"""


def test_the_whole_scenario_has_kinds(folder):
    """Three of four worlds are bulk; tables of a kind are set over those of the scenario."""
    text = '[scenario.transport]\ncongestion = "cubic"\n[scenario.application]\nduration = "5 s"\n' + KINDS
    (folder / "worlds.toml").write_text(text)
    found = read_worlds.read(folder / "worlds.toml")
    made = [found.tables("w", seed=1, world=world) for world in range(400)]
    kinds = [one["application"]["kind"] for one in made]
    # Four standard errors: the root of 0.75 x 0.25 / 400 is 0.022.
    assert kinds.count("bulk") / 400 == pytest.approx(0.75, abs=0.087)
    assert {one["application"]["duration"] for one in made} == {"5 s", "10 s"}
    assert {one["application"].get("ladder") for one in made} == {None, "uq18-jp", "uq18-va"}
    assert all(one["transport"] == {"congestion": "cubic"} for one in made)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("weight = 3", "weight = -3", "expected weights"),
        ('"{ladder}"', '"{lader}"', "did you mean `ladder`?"),
        ('"uq18-jp"', '"uq18-jq"', "in a world with kinds.1"),
        ('kind = "bulk"', 'kind = "bulky"', "in a world with kinds.0"),
    ],
)
def test_faults_of_the_kinds_of_a_scenario(folder, old, new, message):
    choice = KINDS.replace(', "uq18-va"', "")
    assert old in choice
    (folder / "worlds.toml").write_text(choice.replace(old, new))
    with pytest.raises(InputError) as caught:
        read_worlds.read(folder / "worlds.toml")
    assert message in str(caught.value)


def test_returning_paths_worlds_match_the_readme_distributions():
    """Ranges and shares of studies/returning-paths/README.md, over its own worlds, within 4 standard errors."""
    folder = studies.find("returning-paths")
    study = studies.read(folder)
    handover, steady = study.worlds
    worlds = [drawn.tables(folder, handover, world) for world in range(handover.count)]
    for world, one in enumerate(worlds):
        rates = [path.get("rate") or path["model"]["mean"] for path in one["paths"]]
        assert 5.79 <= sum(float(rate.split()[0]) for rate in rates) <= 11.05
        calm = drawn.tables(folder, steady, world)
        assert {key: value for key, value in one.items() if key not in ("handoffs", "name")} == {
            key: value for key, value in calm.items() if key != "name"
        }
    kinds = [(one["handoffs"][0]["kind"], len(one["handoffs"])) for one in worlds]
    lost = [
        one
        for one in worlds
        if "lasting" not in one["handoffs"][0] and kinds[worlds.index(one)][0] != "ping-pong"
    ]
    for share, count in [
        (0.75, sum(len(one["paths"]) == 2 for one in worlds)),
        (0.15, sum(number == 2 for _, number in kinds)),
        (0.20, sum(kind == "fade" for kind, _ in kinds)),
        (0.25, sum(kind == "ping-pong" for kind, _ in kinds)),
        (0.05, len(lost)),
    ]:
        error = (share * (1 - share) / len(worlds)) ** 0.5
        assert count / len(worlds) == pytest.approx(share, abs=4 * error)


def test_a_world_is_its_seed_number_and_file(folder):
    """The names of random numbers must not change, so that stored worlds stay the same. By SHA-256, as
    above.
    """
    made = read_worlds.read(folder / "worlds.toml").tables("w", seed=7, world=2)

    def number(name):
        found = hashlib.sha256(f"7/2/{name}".encode()).digest()
        return (int.from_bytes(found[:8], "big") >> 11) / 2**53

    assert made["seed"] == int(number("#seed") * 2**31)
    assert len(made["paths"]) == (1 if number("paths.#count") < 0.25 else 2)
    assert made["paths"][0]["rtt"] == f"{10 * 10 ** number('paths.1.rtt'):.1f} ms"
    assert ("loss" in made["paths"][0]) == (number("paths.1.#kind") >= 0.75)


def test_arms_come_before_assumptions(folder):
    with (folder / "study.toml").open("a") as file:
        file.write(
            '[assumptions.a]\nwhat = "w"\nwhy = "y"\n'
            'set = { "transport.congestion" = "cubic", "paths.*.queue" = "9 packets" }\n'
        )
    what = studies.sweep(folder, studies.read(folder), worlds=1)
    set_ = {dict(cell.labels)["arm"]: [item[:2] for item in cell.settings] for cell in what.cells}
    queues = [
        (f"paths.p{n + 1}.queue", "9 packets") for n in range(len(json.loads(what.cells[0].raw)["paths"]))
    ]
    assert sorted(set_["plain"]) == [*queues, ("transport.congestion", "cubic")]
    assert sorted(set_["slow"]) == [*queues, ("transport.congestion", "reno")]
