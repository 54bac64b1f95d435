"""A middlebox that takes MPTCP's options out: how it is written, what the plan has, what comes of it."""

from __future__ import annotations

import pytest

import anabranch
from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans
from anabranch.scenario._overrides import parse_assignment

pytestmark = pytest.mark.module

KINDS = ["syn", "syn-ack", "third-ack", "data"]


def scenario(first, **second):
    path = {"rtt": "20 ms", "rate": "5 Mbit/s"}
    paths = [{"name": "p0", **path, "strips_mptcp": first}, {"name": "p1", **path, **second}]
    return {"name": "t", "application": {"kind": "bulk", "bytes": "300 kB"}, "paths": paths}


def planned(first, *settings):
    overrides = [parse_assignment(setting) for setting in settings]
    return plans.build(loading.load(scenario(first), overrides).scenario, None)["paths"][0]


def faults(first, **second):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(first, **second))
    return {fault.key: (fault.message, fault.hint) for fault in caught.value.faults}


def test_disabled_stripping_is_omitted_from_the_plan():
    assert "strips_mptcp" not in planned(False)
    assert "strips_mptcp" not in planned([])


def test_all_or_these_kinds():
    assert planned(True)["strips_mptcp"] is True
    assert planned(["syn-ack", "data"])["strips_mptcp"] == ["syn-ack", "data"]
    assert planned(True, 'paths.p0.strips_mptcp=["syn"]')["strips_mptcp"] == ["syn"]
    assert planned(["syn"], "paths.p0.strips_mptcp=true")["strips_mptcp"] is True


def test_every_wrong_word_is_reported_at_once_with_the_nearest_one():
    found = faults(["syn", "syn-akc", "third_ack"], strips_mptcp="all")
    assert found["paths.p0.strips_mptcp.1"][1] == "did you mean `syn-ack`?"
    assert found["paths.p0.strips_mptcp.2"][1] == "did you mean `third-ack`?"
    assert "paths.p1.strips_mptcp" in found
    assert len(found) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_on_the_first_path_leaves_plain_tcp(kind):
    # RFC 8684 section 3.7: no MP_CAPABLE in the SYN, the SYN/ACK or the third packet, or data without
    # a DSS before the first DATA_ACK, and both hosts fall back.
    run = anabranch.run(scenario([kind]))
    connection = run.rows("connections")[0]
    assert (connection["finished"], connection["fallback"]) == (True, True)
    assert connection["bytes_read"] == 300_000
    carried = {row["path"]: row["bytes"] for row in run.rows("subflows")}
    assert carried.get("p1", 0) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_on_another_path_the_join_alone_fails(kind):
    # Section 3.7: a subflow of a connection with others is closed, not fallen back.
    run = anabranch.run(scenario(False, strips_mptcp=[kind]))
    connection = run.rows("connections")[0]
    assert (connection["finished"], connection["fallback"]) == (True, False)
    assert connection["bytes_read"] == 300_000


def test_a_firewall_is_in_the_plan_only_if_it_is_enabled():
    assert planned(False, "paths.p0.drops_mptcp=true")["drops_mptcp"] is True
    assert "drops_mptcp" not in planned(False, "paths.p0.drops_mptcp=false")


def test_behind_a_firewall_the_fourth_syn_opens_plain_tcp():
    # Linux's packetdrill test v1_mp_capable_connect_drop_fallback: MP_CAPABLE at 0, 1 and 2 s, a plain SYN
    # at 3 s. Its SYN/ACK arrives a round trip of 20 ms later. Linux's timer wheel rounds each second up by
    # at most 64 ms.
    run = anabranch.run(scenario(False), set={"paths.p0.drops_mptcp": True})
    connection = run.rows("connections")[0]
    assert (connection["finished"], connection["fallback"]) == (True, True)
    assert 3.02 <= connection["connect_s"] <= 3.02 + 3 * 0.064
    assert {row["path"] for row in run.rows("subflows") if row["bytes"]} == {"p0"}


def test_a_firewall_on_another_path_costs_only_the_join():
    run = anabranch.run(scenario(False, drops_mptcp=True))
    connection = run.rows("connections")[0]
    assert (connection["finished"], connection["fallback"]) == (True, False)
    assert connection["connect_s"] == pytest.approx(0.02, abs=0.002)
    assert {row["path"] for row in run.rows("subflows") if row["bytes"]} == {"p0"}
