"""Kernel generations: what a profile sets, and the parts that are switched by themselves."""

from __future__ import annotations

import typing

import pytest

import anabranch
from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans
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


def test_a_profile_sets_what_the_scenario_leaves_out():
    default, papers = plan(), plan(profile="mptcp-0.94")
    assert default["transport"]["profile"] == "linux-6.18"
    assert default["transport"]["stack"] == {}
    assert '"name":"linux"' in default["transport"]["scheduler"]
    assert papers["transport"]["profile"] == "mptcp-0.94"
    assert '"name":"dft"' in papers["transport"]["scheduler"]
    assert papers["transport"]["receive_buffer_initial"] == 87_380
    assert papers["host"]["send_fragment"] == 45 * 1428


def test_what_the_scenario_says_itself_wins():
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


@pytest.mark.module
def test_the_simulator_has_the_profiles_and_parts_that_scenarios_name():
    from anabranch import plugins

    known = plugins.catalogue()
    assert tuple(known.profiles) == typing.get_args(ProfileName)
    assert tuple(known.parts) == tuple(Stack.model_fields)


@pytest.mark.module
def test_a_profile_and_a_part_change_the_run_and_the_default_does_not():
    digest = anabranch.run(TWO).digest
    assert anabranch.run(scenario(profile="linux-6.18", stack={"prr": True})).digest == digest
    papers = anabranch.run(scenario(profile="mptcp-0.94")).digest
    assert papers != digest
    assert anabranch.run(scenario(profile="mptcp-0.94", stack={"receive_autotuning": False})).digest != papers
