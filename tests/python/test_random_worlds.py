"""Random worlds of a study: draws, effects of assumptions, the skill of a choice, and the command."""

import json
import re

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from anabranch.claims import worlds
from anabranch.cli._app import app
from anabranch.study import joint_worlds
from anabranch.study import study as studies

STUDY = """
title = "t"
source = "s"
question = "q"
[[parts]]
scenarios = ["one"]
[parts.grid]
"transport.congestion" = ["cubic", "reno"]
"transport.scheduler" = ["linux"]
[assumptions.rate]
what = "rate"
why = "y"
set = { "paths.a.rate" = "8 Mbit/s" }
sweep = [{ "paths.a.rate" = "2 Mbit/s" }]
range = "r"
contradicts = "Table 1 prints 8 Mbit/s"
[assumptions.delay]
what = "delay"
why = "y"
set = { "paths.a.rtt" = "10 ms" }
sweep = [{ draw = { ms = { uniform = [20, 40] } }, "paths.a.rtt" = "{ms:.1f} ms" }]
range = "r"
[assumptions.same]
what = "queue"
why = "y"
set = { "paths.a.queue" = "100 packets" }
sweep = [{ draw = { ms = { uniform = [20, 40] } }, "paths.a.queue" = "{ms:.0f} packets" }]
like = "delay"
range = "r"
"""
CLAIMS = """
[[claims]]
id = "FAST"
place = "p"
says = "at 8 Mb/s, 100 kB take less than half a second"
at = { row = "one", congestion = "cubic" }
parts = [{ test = "between", metric = "duration_s", within = [0, 0.4], why = "w" }]
[[claims]]
id = "SLOW"
place = "p"
says = "the opposite"
at = { row = "one", congestion = "cubic" }
parts = [{ test = "between", metric = "duration_s", within = [0.4, inf], why = "w" }]
[[claims]]
id = "NOT"
place = "p"
says = "cannot be tested"
missing = "m"
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    (folder / "claims.toml").write_text(CLAIMS)
    (folder / "one.toml").write_text(
        'name = "one"\n[application]\nkind = "bulk"\nbytes = "100 kB"\n'
        '[[paths]]\nname = "a"\nrtt = "9 ms"\nrate = "8 Mbit/s"\n'
    )
    return folder


def test_each_value_is_equally_likely_and_a_range_counts_once(folder):
    study = studies.read(folder)
    found = [joint_worlds.world(study, seed=1, number=number) for number in range(2000)]
    # Two values each: half of 2,000, within five standard deviations of 22.
    for name in ("rate", "delay"):
        assert abs(sum(name in one.settings for one in found) - 1000) < 112
    both = sum("rate" in one.settings and "delay" in one.settings for one in found)
    assert abs(both - 500) < 100
    for one in found:
        # `same` is drawn like `delay`, and draws of one name are one number.
        assert ("same" in one.settings) == ("delay" in one.settings)
        if "delay" in one.settings:
            ms = float(one.settings["delay"]["paths.a.rtt"].split()[0])
            assert 20 <= ms <= 40
            assert one.settings["same"]["paths.a.queue"] == f"{ms:.0f} packets" or abs(ms % 1 - 0.5) < 0.06
            half = ("20.0 ms", "30.0 ms") if ms < 30 else ("30.0 ms", "40.0 ms")
            # The setting is rounded, the half is not.
            assert abs(ms - 30) < 0.06 or one.levels["delay"] == " to ".join(
                f"paths.a.rtt = {end}" for end in half
            )
    assert joint_worlds.factors(study) == {"rate": ["rate"], "delay": ["delay", "same"]}
    assert joint_worlds.world(study, seed=1, number=7) == found[7]
    others = [joint_worlds.world(study, seed=2, number=number) for number in range(20)]
    assert others != found[:20]


def test_the_explained_share_is_corrected_for_the_number_of_groups():
    """Epsilon squared by hand, for two groups of two worlds: 1 - (1 - R^2) * 3 / 2, and at least zero.

    The p-value is that of scipy's F-test.
    """
    table = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=float)
    values = np.array([[0, 0, 0, 5, 0], [0, 1, 1, 5, 2], [1, 0, 1, 5, 4], [1, 1, 1, 5, 6]], dtype=float)
    # R^2: 1; 0; 1/3; nothing varies; (0, 2, 4, 6) have a variance of 20, of which 16 lie between the groups.
    ratios = worlds.explained(table, values)
    assert ratios == pytest.approx([1.0, 0.0, 1 / 3, 0.0, 0.8])
    shares = [worlds.tested(float(ratio), 4, 2)[0] for ratio in ratios]
    assert shares == pytest.approx([1.0, 0.0, 0.0, 0.0, 1 - 0.2 * 1.5])
    for place in (1, 2, 4):
        wanted = stats.f_oneway(values[:2, place], values[2:, place]).pvalue
        assert worlds.tested(float(ratios[place]), 4, 2)[1] == pytest.approx(wanted)
    assert worlds.tested(0.9, 4, 4) == (0.0, 1.0)


def test_the_left_out_claim_is_judged_where_the_others_hold():
    """Three worlds by hand.

    Without A, world 2 is the best, and A fails there. Without B, worlds 1 and 2 are equal, and B holds in both.
    Without C, world 1 is the best, and C fails there.
    """
    holds = {"A": [True, False, False], "B": [True, True, None], "C": [False, True, False]}
    rows = {"A": frozenset("x"), "B": frozenset("y"), "C": frozenset("xy")}
    found = worlds.skill(holds, rows)
    assert found.best == pytest.approx(1 / 3)
    assert found.prior == pytest.approx(4 / 9)
    # A and B are about other rows, C is about both. B chooses worlds 1 and 2 for A, which holds in one of
    # them; A chooses world 1 for B, which holds there. In a random world A holds in 1/3, B in 2/3.
    assert found.apart == pytest.approx((1 / 2 + 1) / 2)
    assert found.apart_prior == pytest.approx(1 / 2)
    assert not found.is_there


def test_skill_is_found_where_claims_hold_together_and_not_where_they_are_independent():
    chance = np.random.default_rng(5)
    together = [bool(one) for one in chance.random(60) < 0.4]
    rows = {name: frozenset(name) for name in "ABCDEF"}
    found = worlds.skill(dict.fromkeys("ABCDEF", together), rows)
    assert found.best == 1
    assert found.is_there
    independent = {name: [bool(one) for one in chance.random(60) < 0.4] for name in "ABCDEF"}
    assert not worlds.skill(independent, rows).is_there
    # Claims about the same row agree without skill, so that there is nothing to go by but the others.
    alike = {name: frozenset("x") for name in "ABCDEF"}
    assert worlds.skill(independent, alike).apart is None


@pytest.mark.module
def test_worlds_command_finds_the_cause_but_reproduces_no_claim(folder, tmp_path):
    page = tmp_path / "worlds.md"
    out = ["--out", str(tmp_path / "out"), "--workers", "1", "--json"]

    def called(*more):
        result = CliRunner().invoke(app, ["study", "worlds", str(folder), *out, *more])
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout), result.stderr

    called("--worlds", "10", "--confirm", "0")
    found, told = called("--worlds", "16", "--confirm", "20", "--docs", str(page))
    assert (page.parent / "images" / f"{page.stem}-map.svg").exists() == ("![Mean number" in page.read_text())
    # The claims need one cell, with two runs in each of ten worlds. Worlds with equal values are not run again.
    now, before = map(int, re.findall(r"(\d+) runs, (\d+) were there already", told)[0])
    assert before >= 20
    assert now + before == 32
    study = studies.read(folder)
    # 100 kB take 0.4 s at 2 Mbit/s, and 0.1 s and some round trips of at most 40 ms at 8 Mbit/s.
    for number, one in enumerate(found["worlds"]):
        fast = "rate" not in joint_worlds.world(study, seed=1, number=number).settings
        assert one["holds"] == {"FAST": fast, "SLOW": not fast}
    (first, *_) = found["effects"]["FAST"]
    assert first == {"assumption": "rate", "share": 1.0, "decided": True}
    # One of the two holds in every world, so the first world is the best. It was chosen by the claims.
    assert found["best"]["world"] == 0
    assert sorted(found["best"]["verdicts"].values()) == ["inferred", "not reproduced"]
    text = page.read_text()
    assert "**There is no skill**" in text
    assert "| rate 1.00 |" in text
    _, told = called("--worlds", "16", "--confirm", "20")
    assert "0 runs, 32 were there already" in told


def test_a_study_without_other_values_is_reported(folder):
    text = (folder / "study.toml").read_text().partition("[assumptions.rate]")[0]
    (folder / "study.toml").write_text(text)
    result = CliRunner().invoke(app, ["study", "worlds", str(folder)])
    assert result.exit_code == 2
    assert "no assumption with other values" in result.stderr


def test_the_map_has_the_mean_of_each_pair_of_values():
    """Two worlds with 2 and 3 claims have the mean 2.5, and a dark cell a white number."""
    from anabranch.figures import worlds_map
    from anabranch.figures.picture import Picture

    counts = {("a, b", "x"): [2, 3], ("a, b", "y"): [4], ("c", "x"): []}
    chart = worlds_map.chart(counts, ("down", "across"), 5)
    svg = Picture(chart=chart, data=[]).svg
    assert re.findall(r">(\d\.\d \(\d\))</text>", svg) == ["2.5 (2)", "4.0 (1)"]
    # The scale of colours ends at the number of claims: 4 of 5 is above 60 % of it, 2.5 is not.
    assert re.findall(r'fill="(\w+|#\w+)"[^>]*>\d\.\d \(', svg) == ["#222222", "white"]
    # A comma separates the lines of a label, and the two values of a key are not in one line.
    assert "a, b" not in svg
