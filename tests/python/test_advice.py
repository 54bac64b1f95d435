"""What to use: how runs are spent, what is chosen, and what carries it out."""

from __future__ import annotations

import json
import random
import tomllib

import pytest
from typer.testing import CliRunner

import anabranch
from anabranch.advice import halving
from anabranch.cli._app import app
from anabranch.errors import InputError, ScenarioError

# WiFi does all; LTE has a tenth of its rate, and its queue holds up what goes there.
HURTS = {
    "name": "hurts",
    "application": {"kind": "bulk", "bytes": "400 kB"},
    "transport": {"receive_buffer": "256 KiB"},
    "paths": [
        {"name": "wifi", "rtt": "20 ms", "rate": "20 Mbit/s", "jitter": "1 ms"},
        {"name": "lte", "rtt": "900 ms", "rate": "300 kbit/s", "loss": "2 %"},
    ],
}
# Two alike, each too slow by itself.
HELPS = {
    "name": "helps",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [
        {"name": "wifi", "rtt": "30 ms", "rate": "4 Mbit/s", "jitter": "1 ms"},
        {"name": "lte", "rtt": "40 ms", "rate": "4 Mbit/s"},
    ],
}


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# -- how runs are spent ------------------------------------------------------------------------------


def spent(values, budget, trials, noise=0.0):
    """Let halving choose among candidates of these means; return the places it kept and the runs it took."""
    draw = random.Random(7)
    luck = [draw.gauss(0, noise) for _ in range(trials)]
    own = [[draw.gauss(0, noise / 100) for _ in range(trials)] for _ in values]
    scores = {place: {} for place in range(len(values))}
    exact = [False] * len(values)
    runs = 0
    for step in halving.asked(halving.rounds(len(values), budget, trials), scores, exact):
        for place, run in step:
            if run not in scores[place]:
                scores[place][run] = values[place] + luck[run] + own[place][run]
                runs += 1
    left = [
        place for place in scores if halving.count(scores[place]) == max(map(halving.count, scores.values()))
    ]
    return halving.better(left, scores, exact), runs


@pytest.mark.parametrize("number", [1, 2, 3, 7, 18])
def test_the_best_stays_and_the_budget_holds(number):
    values = [float(place) for place in range(number)]
    kept, runs = spent(values, budget=8 * number, trials=40)
    assert kept[0] == number - 1
    assert number <= runs <= 8 * number
    if number > 2:
        assert len(kept) < number, "some went out early"


def test_common_luck_cancels_out():
    # Luck is thirty times what two candidates differ by; in each trial all have the same.
    kept, _ = spent([1.0, 1.1, 0.9, 1.0], budget=60, trials=30, noise=3.0)
    assert kept[0] == 1


def test_no_candidate_goes_without_a_run():
    assert halving.rounds(10, 10, 5)[0].trials == 1
    assert halving.rounds(1, 3, 30) == [halving.Round(candidates=1, trials=3)]


# -- what is chosen ----------------------------------------------------------------------------------


@pytest.mark.module
def test_a_path_that_hurts_is_left_out():
    found = anabranch.advise(HURTS, controllers=["cubic"], schedulers=["linux"], trials=6, budget=18)
    assert found.choice.candidate.paths == ("wifi",)
    lte = next(one for one in found.of_paths if one.path == "lte")
    assert lte.verdict == "do not add"
    assert lte.sentence.startswith("do not add lte")
    assert lte.effect.high < 0
    assert found.runs <= 18 == found.exhaustive


@pytest.mark.module
def test_a_path_that_helps_is_added_and_the_scenario_runs():
    found = anabranch.advise(HELPS, controllers=["cubic"], schedulers=["linux"], trials=6, budget=18)
    assert found.choice.candidate.paths == ("wifi", "lte")
    assert all(one.verdict == "use" for one in found.of_paths)
    again = anabranch.run(tomllib.loads(found.toml))
    assert again.to_json()["qos"]["goodput_mbps"] > 5
    assert "ip mptcp limits set subflow 1" in found.settings
    assert "net.ipv4.tcp_congestion_control=cubic" in found.settings
    assert found.gateway == "", "a mainline kernel has all of it"


@pytest.mark.module
def test_what_no_kernel_has_goes_to_the_gateway():
    found = anabranch.advise(HELPS, controllers=["olia"], schedulers=["min-rtt"], trials=2)
    assert "--scheduler min-rtt --congestion olia" in found.gateway
    assert found.kernel is None
    assert found.settings == ""


# -- the command -------------------------------------------------------------------------------------


@pytest.mark.module
def test_the_command_says_what_it_will_do_and_goes_on(tmp_path):
    file = tmp_path / "helps.json.toml"
    file.write_text(anabranch.advise(HELPS, controllers=["cubic"], schedulers=["linux"], trials=2).toml)
    ask = (
        "advise",
        file,
        "--controllers",
        "cubic",
        "--schedulers",
        "linux",
        "--trials",
        "4",
        "--budget",
        "12",
    )
    ask += ("--workers", "1", "--out", tmp_path / "out")
    # The advised scenario has both paths again.
    first = call(*ask)
    assert first.exit_code == 0, first.output
    assert "3 candidates over 3 sets of paths: at most 12 runs, instead of 12" in first.output
    assert "use wifi + lte" in first.output
    again = call(*ask, "--json")
    assert again.exit_code == 0
    told = json.loads(again.stdout)
    assert told["choice"]["paths"] == ["wifi", "lte"]
    assert told["runs"] == told["exhaustive_runs"] == 12


def test_faults_are_named_together():
    with pytest.raises(ScenarioError) as told:
        anabranch.advise(HELPS, controllers=["cubix"], schedulers=["linx"])
    assert "cubix" in str(told.value)
    assert "linx" in str(told.value)
    with pytest.raises(InputError, match="lte2"):
        anabranch.advise(HELPS, paths=["lte2"])
    with pytest.raises(InputError):
        anabranch.advise(HELPS, budget=1)
    faulty = call("advise", "wifi-lte", "--controllers", "cubix")
    assert faulty.exit_code == 2
    assert "Traceback" not in faulty.output
