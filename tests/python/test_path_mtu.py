"""A link's largest packet in a scenario: how it is written, what the plan has, what can be wrong."""

from __future__ import annotations

import pytest

from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans

pytestmark = pytest.mark.module


def scenario(events=(), **keys):
    path = {"name": "p", "rtt": "20 ms", "rate": "5 Mbit/s", **keys}
    application = {"kind": "bulk", "duration": "10 s"}
    return {"name": "t", "application": application, "paths": [path], "events": list(events)}


def plan(events=(), **keys):
    return plans.build(loading.load(scenario(events, **keys)).scenario, None)


def faults(events=(), **keys):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(events, **keys))
    return {fault.key: (fault.message, fault.hint) for fault in caught.value.faults}


def told(link):
    return link.get("mtu"), link.get("icmp")


def test_links_without_an_mtu_limit_omit_it():
    assert [told(link) for link in plan()["links"]] == [(None, None)] * 2
    assert [told(link) for link in plan(icmp=True)["links"]] == [(None, None)] * 2


def test_it_is_of_both_directions_or_of_each():
    assert [told(link) for link in plan(mtu="1400 B")["links"]] == [(1400, None)] * 2
    assert [told(link) for link in plan(mtu="1400 B", icmp=False)["links"]] == [(1400, False)] * 2
    down, up = plan(mtu="1400 B", down={"mtu": "1300 B", "icmp": False})["links"]
    assert (told(down), told(up)) == ((1300, False), (1400, None))
    down, up = plan(up={"mtu": "1 KiB"})["links"]
    assert (told(down), told(up)) == ((None, None), (1024, None))


def test_an_event_changes_it():
    changes = [
        (event["link"], event["change"])
        for event in plan([{"at": "1 s", "path": "p", "mtu": "1200 B", "direction": "down"}])["events"]
    ]
    assert changes == [("p.down", {"mtu": 1200})]


def test_a_path_over_shared_links_with_one_has_a_link_of_its_own():
    raw = scenario()
    raw["links"] = [{"name": "backbone", "rate": "5 Mbit/s"}]
    raw["paths"] = [{"name": "p", "links": ["backbone"], "mtu": "1400 B"}]
    links = plans.build(loading.load(raw).scenario, None)["links"]
    assert {link["name"]: told(link)[0] for link in links if link["name"].endswith("down")} == {
        "backbone.down": None, "p.down": 1400,
    }  # fmt: skip


def test_every_fault_is_reported():
    found = faults([{"at": "1 s", "path": "p", "mtu": "70 kB"}], mtu="575 B", icmp="no", down={"mtu": 1400})
    assert found["paths.p.mtu"][0] == "must be at least 576 B: `575 B`"
    assert found["paths.p.icmp"][0] == "expected true or false, got `no`"
    assert found["paths.p.down.mtu"][0].startswith("a bare number where a size is required")
    assert found["events.0.mtu"][0] == "must be at most 65,535 B: `70 kB`"
    both = {"mtu": "1300 B"}
    assert "for each direction" in faults(mtu="1400 B", down=both, up=both)["paths.p.mtu"][0]
