"""Kinds of queue and impairments in a scenario: how they are written, what the plan has, what can be wrong."""

from __future__ import annotations

import pytest

from anabranch.cli import _commands
from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans
from anabranch.scenario import queues
from anabranch.scenario._overrides import parse_assignment

pytestmark = pytest.mark.module


def scenario(**keys):
    path = {"name": "p", "rtt": "20 ms", "rate": "5 Mbit/s", **keys}
    return {"name": "t", "application": {"kind": "bulk", "duration": "10 s"}, "paths": [path]}


def links(*settings, **keys):
    overrides = [parse_assignment(setting) for setting in settings]
    return plans.build(loading.load(scenario(**keys), overrides).scenario, None)["links"]


def faults(**keys):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(**keys))
    return {fault.key: (fault.message, fault.hint) for fault in caught.value.faults}


def test_old_queue_forms_give_the_same_plan():
    for down in (
        links(),
        links(queue={"name": "drop-tail"}),
        links(queue={"name": "drop-tail", "limit": "100 packets"}),
    ):
        assert (down[0]["queue"], "discipline" in down[0]) == ({"packets": 100}, False)
    assert links(queue="64 KiB")[0]["queue"] == {"bytes": 65536}
    assert links(queue="unlimited")[0]["queue"] is None
    assert not {"reorder", "duplicate", "corrupt"} & links(duplicate="0 %")[0].keys()


def test_a_name_brings_its_defaults():
    # RFC 8289 sections 4.3 and 4.4, RFC 8290 section 5.2; tc-codel(8) and tc-fq_codel(8).
    down, up = links(queue={"name": "codel"})
    assert down["queue"] == {"packets": 1000}
    codel = {"target": 5_000_000, "interval": 100_000_000, "ecn": 0}
    assert down["discipline"] == up["discipline"] == {"name": "codel", "values": codel}
    down, _ = links(queue={"name": "fq-codel"})
    assert down["queue"] == {"packets": 10240}
    assert down["discipline"]["values"] == {**codel, "quantum": 1514, "flows": 1024}


def test_parameters_have_units_and_directions_their_own():
    queue = {
        "name": "fq-codel",
        "limit": "1 MiB",
        "target": "10 ms",
        "quantum": "300 B",
        "flows": 16,
        "ecn": True,
    }
    down, up = links(queue="50 packets", down={"queue": queue})
    assert down["queue"] == {"bytes": 2**20}
    values = {"target": 10_000_000, "interval": 100_000_000, "ecn": 1, "quantum": 300, "flows": 16}
    assert down["discipline"] == {"name": "fq-codel", "values": values}
    assert (up["queue"], "discipline" in up) == ({"packets": 50}, False)
    assert links(queue={"name": "codel", "limit": "unlimited"})[0]["queue"] is None


def test_overrides_reach_into_a_queue():
    down, _ = links("paths.p.queue.target=1ms", queue={"name": "codel"})
    assert down["discipline"]["values"]["target"] == 1_000_000
    down, _ = links('paths.p.queue={name="codel", interval="50 ms"}')
    assert down["discipline"]["values"]["interval"] == 50_000_000


def test_impairments_are_of_the_way_to_the_client_by_default():
    reorder = {"share": "1 %", "delay": "4 ms"}
    down, up = links(reorder=reorder, duplicate="2 %", corrupt="0.5 %")
    assert down["reorder"] == {"share": 0.01, "by_ns": 4_000_000, "gap": 1}
    assert (down["duplicate"], down["corrupt"]) == (0.02, 0.005)
    assert not {"reorder", "duplicate", "corrupt"} & up.keys()
    down, up = links(up={"reorder": {**reorder, "gap": 5}, "corrupt": "1 %"})
    assert (up["reorder"]["gap"], up["corrupt"]) == (5, 0.01)
    assert not {"reorder", "corrupt"} & down.keys()


def test_corruption_is_a_share_or_a_table_that_lets_some_through():
    down, up = links(corrupt={"share": "2 %", "passes": "10 %"}, up={"corrupt": {"share": "1 %"}})
    assert (down["corrupt"], down["corrupt_passes"]) == (0.02, 0.1)
    assert (up["corrupt"], "corrupt_passes" in up) == (0.01, False)
    down, _ = links(corrupt={"share": "0 %", "passes": "10 %"})
    assert not {"corrupt", "corrupt_passes"} & down.keys()
    down, _ = links("paths.p.corrupt.passes=100%", corrupt={"share": "100 %"})
    assert down["corrupt_passes"] == 1.0
    # If all packets are wrong, the receiver still gets data.
    plan = plans.build(loading.load(scenario(corrupt={"share": "100 %", "passes": "1 %"})).scenario, None)
    assert plans.delivers(plan)
    plan = plans.build(loading.load(scenario(corrupt={"share": "100 %"})).scenario, None)
    assert not plans.delivers(plan)


def test_faults_of_corruption_are_at_their_key():
    found = faults(
        corrupt={"shar": "1 %", "passes": "101 %"},
        down={"corrupt": {"share": "1 %", "pases": "1 %"}},
        up={"corrupt": {"share": 0.5}},
    )
    assert found["paths.p.corrupt.shar"] == ("unknown key: `shar`", "did you mean `share`?")
    assert "paths.p.corrupt.share" not in found, "it is misspelt, not missing"
    assert found["paths.p.corrupt.passes"][0].startswith("a percentage must not be above 100 %")
    assert found["paths.p.down.corrupt.pases"] == ("unknown key: `pases`", "did you mean `passes`?")
    assert found["paths.p.up.corrupt.share"][1] == 'add a unit: 0.5 -> "0.5 %", or "50 %" if a share is meant'
    assert "given twice" in found["paths.p.corrupt"][0]
    assert list(faults(corrupt=[1])) == ["paths.p.corrupt"]


def test_every_fault_at_once_with_the_nearest_name():
    found = faults(
        queue={"name": "codle", "limit": "3"},
        down={"queue": {"name": "codel", "tarrget": "5 ms", "interval": 5, "ecn": 1, "target": "11 s"}},
        up={"queue": {"name": "fq-codel", "flows": 0, "quantum": "1 B"}},
        reorder={"shar": "1 %", "gap": 0},
        duplicate="101 %",
    )
    assert found["paths.p.queue.name"] == ("unknown queue: `codle`", "did you mean `codel`?")
    assert found["paths.p.queue.limit"][0].startswith("a bare number where a queue length is required")
    assert found["paths.p.down.queue.tarrget"] == ("unknown key: `tarrget`", "did you mean `target`?")
    assert found["paths.p.down.queue.interval"][1] == 'add a unit: 5 -> "5 ms"'
    assert found["paths.p.down.queue.ecn"][0] == "expected true or false, got `1`"
    assert found["paths.p.down.queue.target"][0] == "must be at most 10 s: `11 s`"
    assert found["paths.p.up.queue.flows"][0] == "must be at least 1: `0`"
    assert found["paths.p.up.queue.quantum"][0] == "must be at least 256 B: `1 B`"
    assert found["paths.p.reorder.shar"] == ("unknown key: `shar`", "did you mean `share`?")
    assert found["paths.p.reorder.gap"][0] == "must be at least 1: `0`"
    assert found["paths.p.duplicate"][0].startswith("a percentage must not be above 100 %")
    assert found["paths.p.reorder.delay"][0] == "missing key: `delay`"
    assert "paths.p.reorder.share" not in found, "it is misspelt, not missing"
    assert faults(corrupt={"passes": "1 %"})["paths.p.corrupt.share"] == (
        "missing key: `share`", 'share = "1 %"'
    )  # fmt: skip


def test_a_queue_is_a_limit_or_a_table_with_a_name():
    assert faults(queue={"target": "5 ms"})["paths.p.queue.name"] == (
        "missing key: `name`", 'for example name = "codel"'
    )  # fmt: skip
    assert "whole number" in faults(queue={"name": "fq-codel", "flows": True})["paths.p.queue.flows"][0]
    assert faults(queue=["codel"])["paths.p.queue"][0] == "expected a queue length, got an array"
    assert "given twice" in faults(corrupt="1 %", down={"corrupt": "1 %"})["paths.p.corrupt"][0]


def test_an_emulators_seed_is_of_both_directions():
    down, up = links(emulator_seed=224774)
    assert down["emulator"] == {"seed": 224774, "down": True}
    assert up["emulator"] == {"seed": 224774, "down": False}
    assert "emulator" not in links()[0]


def test_emulator_seed_excludes_features_the_emulator_lacks():
    found = faults(
        emulator_seed=1,
        queue={"name": "codel"},
        duplicate="1 %",
        down={"reorder": {"share": "1 %", "delay": "4 ms"}},
    )
    assert {key: message for key, (message, _) in found.items()} == {
        "paths.p.queue": "both `emulator_seed` and `queue` are given",
        "paths.p.duplicate": "both `emulator_seed` and `duplicate` are given",
        "paths.p.down.reorder": "both `emulator_seed` and `reorder` are given",
    }
    assert list(faults(emulator_seed=1, model="starlink")) == ["paths.p.model"]
    assert list(faults(emulator_seed=-1)) == ["paths.p.emulator_seed"]


def test_the_command_line_lists_them(capsys):
    _commands.list_names("queues", as_json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "codel Drops from the head while the standing delay exceeds a target (RFC 8289)." in lines
    assert "target = 5 ms: standing delay that is acceptable, 1 ns to 10 s" in lines
    assert any(line.startswith("ecn = false: ") and line.endswith("true or false") for line in lines)


@pytest.mark.filterwarnings("error")
def test_a_scenario_with_either_form_can_be_written_out():
    for queue in ("64 KiB", {"name": "codel", "target": "1 ms"}):
        loaded = loading.load(scenario(queue=queue)).scenario
        assert loaded.model_dump()["paths"][0]["queue"] in (
            {"bytes": 65536},
            {"name": "codel", "limit": None, "target": "1 ms"},
        )
    assert "expected a queue length" in faults(queue={"packets": 5})["paths.p.queue"][0]


def test_every_kind_of_queue_is_described():
    found = queues.disciplines()
    assert next(iter(found)) == queues.PLAIN
    assert {"codel", "fq-codel"} < found.keys()
    for kind in found.values():
        assert kind.summary.endswith(".")
        for parameter in kind.parameters.values():
            assert parameter.least <= parameter.default <= parameter.most
            assert parameter.unit in ("count", "flag", "size", "time")
