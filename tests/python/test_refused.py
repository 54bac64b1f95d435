"""A plan that the simulator refuses is reported at the scenario's key. The key is not derived from the words
of the message.
"""

from __future__ import annotations

import json

import pytest

import anabranch
from anabranch import _run, plugins
from anabranch.scenario import plan as plans
from anabranch.scenario._refused import of_scenario
from anabranch.scenario.load import load

pytestmark = pytest.mark.module

SCENARIO = """\
name = "small"

[application]
kind = "paced"
rate = "1 Mbit/s"
duration = "2 s"

[transport]
receive_buffer = "1 MB"

[transport.scheduler]
name = "blest"
lambda = 1.1

[transport.congestion]
name = "cubic"

[[paths]]
name = "wifi"
rtt = "20 ms"
rate = "8 Mbit/s"

[paths.down]
loss = "1 %"

[[paths]]
name = "lte"
links = ["core"]

[[links]]
name = "core"
delay = "5 ms"
rate = "9 Mbit/s"

[[cross_traffic]]
path = "wifi"
name = "load"

[cross_traffic.congestion]
name = "reno"
"""


@pytest.fixture
def loaded(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO, encoding="utf-8")
    return load(file)


def refused(loaded, change):
    plan = plans.build(loaded.scenario, None)
    change(plan)
    with pytest.raises(anabranch.ScenarioError) as raised:
        _run.simulated(loaded, plan)
    return raised.value.faults


def at(*keys, value):
    def change(plan):
        for key in keys[:-1]:
            plan = plan[key]
        plan[keys[-1]] = value

    return change


def line_of(text):
    return next(number for number, line in enumerate(SCENARIO.splitlines(), 1) if line.startswith(text))


SCHEDULER = '{"name":"blest","lambda":-1}'


@pytest.mark.parametrize(
    ("change", "key", "line", "message"),
    [
        (
            at("transport", "scheduler", value=SCHEDULER),
            "transport.scheduler.lambda",
            line_of("lambda"),
            "`lambda`",
        ),
        # The message contains "scheduler", but the fault is that of the congestion control.
        (
            at("transport", "congestion", value='{"name":"no-scheduler"}'),
            "transport.congestion",
            line_of("[transport.congestion]"),
            "unknown congestion control: `no-scheduler`",
        ),
        (
            at("cross_traffic", 0, "congestion", value='{"name":"cubic","betta":0.7}'),
            "cross_traffic.load.congestion.betta",
            line_of("[cross_traffic.congestion]"),
            "unknown parameter of cubic: `betta`",
        ),
        (at("paths", 1, "down", 0, value="cor.down"), "paths.lte.links", line_of("links"), "unknown link"),
        (at("links", 0, "loss", value={"bernoulli": 2.0}), "paths.wifi", line_of("[[paths]]"), "loss"),
        (
            at("links", 0, "loss", value={"bernoulli": "much"}),
            "paths.wifi.down.loss",
            line_of("loss"),
            "invalid type",
        ),
        (at("links", 2, "delay_ns", value=-1), "links.core.delay", line_of("delay"), "invalid value"),
        (
            at("application", "rate_bps", value=None),
            "application.rate",
            line_of("rate"),
            "a paced application needs a rate",
        ),
        (
            at("transport", "receive_buffer_max", value="wide"),
            "transport.receive_buffer",
            line_of("receive_buffer"),
            "invalid type",
        ),
    ],
)
def test_a_fault_has_its_key_and_its_line(loaded, change, key, line, message):
    (fault,) = refused(loaded, change)
    assert (fault.key, fault.line) == (key, line)
    assert fault.where.endswith("small.toml")
    assert message in fault.message


def test_every_plugin_error_is_reported_with_a_hint(loaded):
    faults = refused(loaded, at("transport", "scheduler", value='{"name":"blest","labda":1,"lambda":-1}'))
    assert {fault.key for fault in faults} == {"transport.scheduler.labda", "transport.scheduler.lambda"}
    (unknown,) = [fault for fault in faults if fault.key.endswith("labda")]
    assert "`lambda`" in unknown.hint


def test_the_error_of_the_module_has_the_keys_of_the_plan(loaded):
    plan = plans.build(loaded.scenario, None)
    plan["events"] = [{"at_ns": 0, "path": "p9", "interface": "up"}]
    with pytest.raises(
        plugins.module().PlanError, match=r"^events\[0\]\.path: unknown path: `p9`$"
    ) as raised:
        plugins.module().simulate(json.dumps(plan))
    assert raised.value.faults == [(("events", 0, "path"), "unknown path: `p9`", [])]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("film",), ("application", "film")),
        (("ladder", "recorded", "chunks"), ("application", "ladder")),
        (("application", "adaptive", "abr", "gamma_p"), ("application", "abr", "gamma_p")),
        (("application", "duration_ns"), ("application", "duration")),
        (("host", "timer_tick_ns"), ("host", "timer_tick")),
        (("time_limit_ns",), ("time_limit",)),
        (("transport", "stack", "rack"), ("transport", "stack", "rack")),
        (("cross_traffic", 0, "start_ns"), ("cross_traffic", 0, "start")),
        (("cross_traffic", 0, "acks", 1), ("cross_traffic", 0, "path")),
        (("links", 0), ("paths", 0)),
        (("clients",), ("clients",)),
        ((), ()),
    ],
)
def test_the_keys_of_a_plan_are_those_of_its_scenario(loaded, path, key):
    assert of_scenario(path, plans.build(loaded.scenario, None), loaded.scenario) == key


CHANGES = """
[[events]]
at = "2 s"
path = "wifi"
rtt = "30 ms"
rate = "1 Mbit/s"

[[events]]
at = "1 s"
path = "wifi"
mtu = "1400 B"

[[events]]
at = "1 s"
link = "core"
direction = "up"
rate = "1 Mbit/s"

[[events]]
at = "1 s"
path = "wifi"
state = "link-down"

[[handoffs]]
path = "wifi"
at = ["3 s", "4 s"]
lasting = "1 s"
"""


@pytest.fixture
def changing(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SCENARIO + CHANGES, encoding="utf-8")
    return load(file)


def test_an_event_of_a_plan_is_one_of_its_scenario(changing):
    plan = plans.build(changing.scenario, None, run=3)
    # Events are sorted by time. Events at one time keep the file's order, and each direction is listed
    # separately.
    keys = [(("events", 1), "mtu")] * 2 + [(("events", 2), "rate"), (("events", 3), "state")]
    keys += [(("events", 0), "rate"), (("events", 0), "rtt")] * 2
    for index, (event, key) in enumerate(keys):
        what = "interface" if key == "state" else "change"
        assert of_scenario(("events", index, what), plan, changing.scenario) == (*event, key)
        assert of_scenario(("events", index), plan, changing.scenario) == event
        target = "link" if event[1] == 2 else "path"
        there = "path" if key == "state" else "link"
        assert of_scenario(("events", index, there), plan, changing.scenario) == (*event, target)
    handed = range(len(keys), len(plan["events"]))
    assert len(handed) == 5, "down and up again, each way, and the interface with them"
    for index in handed:
        assert of_scenario(("events", index, "change"), plan, changing.scenario) == ("handoffs", 0)


def test_a_refused_event_is_reported_at_its_line(changing):
    plan = plans.build(changing.scenario, None)
    number = next(n for n, event in enumerate(plan["events"]) if event.get("interface"))
    plan["paths"][0]["name"] = "wlan"
    with pytest.raises(anabranch.ScenarioError) as raised:
        _run.simulated(changing, plan)
    (fault,) = raised.value.faults
    lines = (SCENARIO + CHANGES).splitlines()
    assert number == 3
    assert fault.key == "events.3.path"
    assert fault.line == lines.index('state = "link-down"')
    assert lines[fault.line - 1] == 'path = "wifi"'
