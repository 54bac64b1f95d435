"""IPv6 in a scenario: the plan, the faults, and the packets of a capture."""

from __future__ import annotations

import ipaddress
import struct

import pytest

import anabranch
from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans

pytestmark = pytest.mark.module


def scenario(*families, **keys):
    paths = [
        {"name": f"p{index}", "rtt": "20 ms", "rate": "5 Mbit/s"} | ({"family": family} if family else {})
        for index, family in enumerate(families)
    ]
    return {"name": "t", "application": {"kind": "bulk", "duration": "3 s"}, "paths": paths, **keys}


def plan(*families, **keys):
    return plans.build(loading.load(scenario(*families, **keys)).scenario, None)


def faults(*families, **keys):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(*families, **keys))
    return {fault.key: (fault.message, fault.hint) for fault in caught.value.faults}


def packets(capture):
    """Yield the interface and bytes of each packet of a little-endian pcapng file."""
    data, at = capture.read_bytes(), 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:  # an enhanced packet block
            interface, _, _, captured = struct.unpack_from("<IIII", data, at + 8)
            yield interface, data[at + 28 : at + 28 + captured]
        at += length


def test_ipv4_is_the_same_plan_as_before_and_ipv6_is_named():
    assert plan("ipv4", None) == plan(None, None)
    assert not any("family" in path for path in plan(None)["paths"])
    assert [path.get("family") for path in plan(None, "ipv6")["paths"]] == [None, "ipv6"]


def test_an_ipv6_path_has_the_least_mtu_of_ipv6():
    def found(**keys):
        paths = [{"name": "p", "rtt": "20 ms", "rate": "5 Mbit/s", "family": "ipv6", **keys}]
        with pytest.raises(ScenarioError) as caught:
            loading.load(scenario() | {"paths": paths})
        return [fault.key for fault in caught.value.faults]

    assert found(mtu="1279 B") == ["paths.p.mtu"]
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario("ipv6") | {"events": [{"at": "1 s", "path": "p0", "mtu": "1279 B"}]})
    assert [fault.key for fault in caught.value.faults] == ["events.0.mtu"]
    assert found(up={"mtu": "600 B"}, down={"mtu": "1000 B"}) == ["paths.p.down.mtu", "paths.p.up.mtu"]
    keys = {"name": "p", "rtt": "20 ms", "rate": "5 Mbit/s", "family": "ipv6", "mtu": "1280 B"}
    assert loading.load(scenario() | {"paths": [keys]}).scenario.paths[0].mtu == 1280


def test_cross_traffic_has_its_paths_family_by_default():
    flows = [
        {"path": "p1"},
        {"path": "p1", "family": "ipv4"},
        {"path": "p0", "family": "ipv6"},
        {"path": "p0"},
    ]
    groups = plan("ipv4", "ipv6", cross_traffic=flows)["cross_traffic"]
    assert [group.get("family") for group in groups] == ["ipv6", None, "ipv6", None]


def test_every_family_error_is_reported_with_a_hint():
    told = faults("ipv5", "ipv6", transport={"mss": "1239 B"}, cross_traffic=[{"path": "p0", "family": "v6"}])
    assert told == {
        "paths.p0.family": ("unknown family: `ipv5`", "did you mean `ipv6`?"),
        "cross_traffic.0.family": ("unknown family: `v6`", "did you mean `ipv6`?"),
        "paths.p1.family": (
            "IPv6 needs an MTU of 1280 bytes, and `transport.mss` makes one of 1279",
            'transport.mss = "1240 B" at least',
        ),
    }
    assert plan("ipv6", transport={"mss": "1240 B"})["transport"]["mss"] == 1240


def test_a_shared_link_with_ipv6_has_its_least_mtu_too():
    def run(family, mtu, *events):
        raw = scenario(family, links=[{"name": "l", "mtu": mtu}], events=list(events))
        raw["paths"][0]["links"] = ["l"]
        return anabranch.run(raw)

    def refused(*given):
        with pytest.raises(ScenarioError) as caught:
            run("ipv6", *given)
        return {fault.message for fault in caught.value.faults}

    for family, mtu in (("ipv6", 1280), ("ipv4", 1279)):
        tables = run(family, f"{mtu} B").tables["links"]
        link = tables["link"].index("l.down")
        assert tables["dropped_mtu"][link] > 0
        assert 0 <= mtu - tables["bytes_delivered"][link] / tables["delivered"][link] < 20
    message = {"the MTU of a link with IPv6 must be at least 1280 bytes"}
    assert refused("1279 B") == message
    assert refused("1500 B", {"at": "1 s", "link": "l", "mtu": "600 B"}) == message


def test_a_capture_has_each_path_in_its_family(tmp_path):
    capture = tmp_path / "mixed.pcapng"
    run = anabranch.run(scenario("ipv4", "ipv6"), pcapng=capture)
    assert all(bytes_ > 500_000 for bytes_ in run.tables["subflows"]["bytes"])
    longest = {}
    for interface, packet in packets(capture):
        version = packet[0] >> 4
        assert version == (4, 6)[interface]
        if version == 4:
            assert (packet[12], packet[16]) == (10, 10)
            length = int.from_bytes(packet[2:4], "big")
        else:
            ends = [ipaddress.IPv6Address(packet[start : start + 16]) for start in (8, 24)]
            assert all(end in ipaddress.ip_network("fd00:0:0:2::/64") for end in ends)
            length = 40 + int.from_bytes(packet[4:6], "big")
        assert length == len(packet)
        longest[version] = max(longest.get(version, 0), length)
    assert longest == {4: 1500, 6: 1500}
