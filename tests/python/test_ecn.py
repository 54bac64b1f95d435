"""Explicit congestion notification in a scenario: how it is written, what the plan has, what a run tells."""

from __future__ import annotations

import pytest

from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans
from anabranch.scenario._overrides import parse_assignment

pytestmark = pytest.mark.module


def scenario(**transport):
    path = {"name": "p", "rtt": "40 ms", "rate": "5 Mbit/s", "queue": {"name": "codel", "ecn": True}}
    application = {"kind": "bulk", "duration": "5 s"}
    return {"name": "t", "application": application, "paths": [path], "transport": transport}


def transport(*settings, **keys):
    overrides = [parse_assignment(setting) for setting in settings]
    return plans.build(loading.load(scenario(**keys), overrides).scenario, None)["transport"]


def faults(**keys):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(**keys))
    return {fault.key: (fault.message, fault.hint) for fault in caught.value.faults}


def test_default_ecn_is_omitted_from_the_plan():
    for same in (
        transport(),
        transport(ecn="accept"),
        transport(ecn={}),
        transport(ecn={"client": "accept"}),
    ):
        assert "ecn" not in same


def test_a_word_is_of_both_sides_and_a_table_of_each():
    assert transport(ecn="request")["ecn"] == {"client": "request", "server": "request"}
    assert transport(ecn={"server": "off"})["ecn"] == {"client": "accept", "server": "off"}
    assert transport("transport.ecn=off")["ecn"] == {"client": "off", "server": "off"}
    set_one = transport("transport.ecn.server=off", ecn={"client": "request"})
    assert set_one["ecn"] == {"client": "request", "server": "off"}


def test_every_fault_is_reported_with_the_nearest_word():
    assert faults(ecn="reqest")["transport.ecn"] == ("unknown ecn: `reqest`", "did you mean `request`?")
    found = faults(ecn={"client": "on", "serve": "off"})
    assert found["transport.ecn.client"][0] == "unknown client: `on`"
    assert found["transport.ecn.serve"] == ("unknown key: `serve`", "did you mean `server`?")
    assert "expected a string" in faults(ecn=1)["transport.ecn"][0]
