"""Kernel generations: what a profile sets, and the parts that are switched by themselves."""

from __future__ import annotations

import json
import typing

import pytest
import tomli_w
from typer.testing import CliRunner

import anabranch
from anabranch.cli._app import app
from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans
from anabranch.scenario._overrides import parse_assignment
from anabranch.scenario.profiles import ProfileName, Stack

TWO = {
    "name": "two",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s"},
        {"name": "lte", "rtt": "100 ms", "rate": "5 Mbit/s"},
    ],
}


def scenario(**transport):
    return {**TWO, "transport": transport}


def plan(**transport):
    return plans.build(loading.load(scenario(**transport)).scenario, None)


def test_profile_fills_in_settings_the_scenario_omits():
    default, papers = plan(), plan(profile="mptcp-0.94")
    assert default["transport"]["profile"] == "linux-6.18"
    assert default["transport"]["stack"] == {}
    assert '"name":"linux"' in default["transport"]["scheduler"]
    assert papers["transport"]["profile"] == "mptcp-0.94"
    assert '"name":"dft"' in papers["transport"]["scheduler"]
    assert papers["transport"]["receive_buffer_initial"] == 87_380
    assert papers["host"]["send_fragment"] == 45 * 1428


def test_scenario_settings_override_the_profile():
    given = {**scenario(profile="mptcp-0.94", scheduler="round-robin", receive_buffer_initial="64 KiB")}
    found = plans.build(loading.load({**given, "host": {"send_fragment": "32728 B"}}).scenario, None)
    assert '"name":"round-robin"' in found["transport"]["scheduler"]
    assert found["transport"]["receive_buffer_initial"] == 64 * 1024
    assert found["host"]["send_fragment"] == 32_728


def test_parts_are_passed_on_as_given():
    found = plan(stack={"rack": False, "hystart": True})
    assert found["transport"]["stack"] == {"rack": False, "hystart": True}


@pytest.mark.parametrize(
    ("transport", "message", "hint"),
    [
        ({"profile": "mptcp-0.95"}, "unknown profile", "mptcp-0.94"),
        ({"stack": {"hystrat": False}}, "unknown key: `hystrat`", "hystart"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(transport, message, hint):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(**transport))
    fault = caught.value.faults[0]
    assert message in fault.message
    assert hint in fault.hint


def outages(**transport):
    found = plan(**transport)["transport"]
    return {key: found.get(key) for key in ("outage", "rto_max_ns", "retries")}


def test_preset_fills_in_settings_the_scenario_omits():
    found = plan(preset="video")["transport"]
    assert '"name":"min-rtt-0.9x"' in found["scheduler"]
    assert '"name":"bbr3"' in found["congestion"]
    assert outages(preset="video") == {"outage": "dsack", "rto_max_ns": 10**9, "retries": None}
    kept = plan(preset="video", congestion="cubic", stack={"outage": "kernel", "rack": False})["transport"]
    assert '"name":"cubic"' in kept["congestion"]
    assert kept["stack"] == {"rack": False}
    assert "outage" not in kept
    assert kept["rto_max_ns"] == 10**9


@pytest.mark.module
def test_a_preset_of_the_command_line_replaces_the_keys_of_the_scenario(tmp_path):
    given = tmp_path / "two.toml"
    given.write_text(tomli_w.dumps(scenario(scheduler="linux", congestion="cubic")), encoding="utf-8")

    def planned(*options):
        result = CliRunner().invoke(app, ["check", str(given), "--plan", *options])
        return json.loads(result.stdout)["transport"]

    found = planned("--preset", "video")
    assert (found["scheduler"], found["rto_max_ns"]) == ('{"name":"min-rtt-0.9x"}', 10**9)
    assert planned("--set", "transport.preset=video")["scheduler"] == '{"name":"linux"}'
    found = planned("--preset", "video", "--scheduler", "blest", "--set", "transport.congestion=bbr")
    assert (found["scheduler"], found["congestion"]) == ('{"name":"blest"}', '{"name":"bbr"}')


def test_a_preset_takes_precedence_over_the_profile():
    assert '"name":"bbr3"' in plan(preset="video", profile="mptcp-0.94")["transport"]["congestion"]
    papers = plan(preset="video", profile="mptcp-0.94")["transport"]
    assert papers["receive_buffer_initial"] == 87_380


def test_the_kernels_rules_leave_no_trace_in_the_plan():
    assert plan() == plan(preset="kernel", stack={"outage": "kernel"})
    assert outages() == {"outage": None, "rto_max_ns": None, "retries": None}


@pytest.mark.parametrize(
    ("transport", "warned"),
    [
        ({"rto_max": "1 s"}, "transport.rto_max"),
        ({"retries": 30}, "transport.retries"),
        ({"rto_max": "1 s", "retries": 30}, None),
        ({"preset": "video"}, None),
        # 30 retries last 29.4 s with the preset's timeouts.
        ({"preset": "video", "retries": 30}, "transport.retries"),
        ({"preset": "video", "retries": 30, "rto_max": "1 s"}, None),
        ({"preset": "video", "rto_max": "2 s"}, "transport.rto_max"),
    ],
)
def test_one_of_longest_timeout_and_retries_alone_is_warned_about(transport, warned):
    found = loading.load(scenario(**transport)).warnings
    assert [fault.key for fault in found] == ([] if warned is None else [warned])


def test_retries_warning_states_their_total_duration():
    # tcp_model_timeout: 0.2 + 0.4 + 0.8 = 1.4 s, then 13 of a second; for 5 s 0.2 s doubled four times, 6.2 s, then
    # 11 of 5 s.
    for rto_max, lasts in [("1 s", "15 retries last 14 s"), ("5 s", "15 retries last 61 s")]:
        [fault] = loading.load(scenario(rto_max=rto_max)).warnings
        assert lasts in fault.hint
    [fault] = loading.load(scenario(retries=15)).warnings
    assert "15 retries last 925 s" in fault.message


def test_keys_that_hide_those_of_a_preset_are_warned_about():
    video = [parse_assignment("transport.preset=video")]
    [fault] = loading.load(scenario(scheduler="linux"), video).warnings
    assert fault.message == "the scenario's own scheduler takes precedence over the preset's"
    assert loading.load(scenario(), video).warnings == ()


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        ({"rto_max": "0.9 s"}, "must be at least 1 s"),
        ({"rto_max": "121 s"}, "must be at most 2 min"),
        ({"retries": 0, "rto_max": "1 s"}, "must be at least 1"),
        ({"stack": {"outage": "dsak"}}, "unknown outage"),
        ({"preset": "vido"}, "unknown preset"),
    ],
)
def test_values_that_linux_does_not_have_are_refused(transport, message):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(**transport))
    assert message in caught.value.faults[0].message


@pytest.mark.module
def test_a_path_that_returns_is_found_within_the_longest_timeout():
    # The only path is silent from 2 to 22 s. Timeouts that double from 0.3 s come at about 3, 4, 6, 10, 18 and 34 s.
    silent = {"path": "wifi", "kind": "silent", "at": "2 s", "lasting": "20 s"}
    one = {
        **TWO,
        "paths": TWO["paths"][:1],
        "application": {"kind": "bulk", "bytes": "4 MB"},
        "handoffs": [silent],
    }
    ended = {
        name: anabranch.run({**one, "transport": {"preset": name, "congestion": "cubic"}}).duration_s
        for name in ("kernel", "video")
    }
    # 4 MB at 5 Mb/s take 6.4 s: 26.4 s with the silence. The last timeout is at most a second old, and slow start
    # begins again.
    assert 26.4 < ended["video"] < 28.4
    assert ended["kernel"] > 30


@pytest.mark.module
def test_the_simulator_has_the_profiles_and_parts_that_scenarios_name():
    from anabranch import plugins

    known = plugins.catalogue()
    assert tuple(known.profiles) == typing.get_args(ProfileName)
    assert {*known.parts} == {*Stack.model_fields} - {"outage"}


@pytest.mark.module
def test_a_profile_and_a_part_change_the_run_and_the_default_does_not():
    digest = anabranch.run(TWO).digest
    assert anabranch.run(scenario(profile="linux-6.18", stack={"prr": True})).digest == digest
    papers = anabranch.run(scenario(profile="mptcp-0.94")).digest
    assert papers != digest
    assert anabranch.run(scenario(profile="mptcp-0.94", stack={"receive_autotuning": False})).digest != papers
