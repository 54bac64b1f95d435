"""Handoffs: what each kind changes of the world, and when."""

import pytest

import anabranch
from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans

BASE = {
    "name": "moving",
    "application": {"kind": "bulk", "duration": "60 s"},
    "paths": [
        {"name": "wifi", "rtt": "20 ms", "rate": "10 Mbit/s", "loss": "1 %"},
        {"name": "lte", "rtt": "60 ms", "rate": "10 Mbit/s"},
    ],
}
SECOND = 10**9


def events(run=0, **handoff):
    loaded = loading.load({**BASE, "handoffs": [{"path": "wifi", **handoff}]})
    found = plans.build(loaded.scenario, None, run=run)["events"]
    return [(event["at_ns"] / SECOND, event.get("link") or event.get("path"), event.get("change") or event["interface"])
            for event in found]  # fmt: skip


def test_a_silent_cut_takes_both_ways_and_may_end():
    assert events(at="20 s", lasting="5 s") == [
        (20, "wifi.down", "down"), (20, "wifi.up", "down"), (25, "wifi.down", "up"), (25, "wifi.up", "up"),
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "what"), [("link-down", "down"), ("removed", "removed")])
def test_an_interface_goes_down_with_or_without_its_end_point(kind, what):
    assert events(kind=kind, at="20 s", lasting="5 s") == [(20, "wifi", what), (25, "wifi", "up")]


def test_a_fade_takes_rate_and_adds_loss_step_by_step():
    found = events(kind="fade", at="20 s", over="2 s", lasting="5 s")
    rates = [
        (at, change["rate_bps"]) for at, link, change in found if link == "wifi.down" and "rate_bps" in change
    ]
    assert [at for at, _ in rates[:10]] == pytest.approx([20 + step / 5 for step in range(10)])
    assert [rate for _, rate in rates[:10]] == pytest.approx(
        [1e7 * (1 - 0.09 * step) for step in range(1, 11)]
    )
    assert rates[-1] == (pytest.approx(28.8), 10**7)
    losses = [change["loss"] for _, link, change in found if link == "wifi.down" and "loss" in change]
    assert losses[9] == {"bernoulli": pytest.approx(0.21)}
    assert losses[-1] == {"bernoulli": pytest.approx(0.01)}
    assert (22, "wifi.down", "down") in found
    assert (27, "wifi.down", "up") in found


def test_a_ping_pong_goes_to_and_fro_and_ends_with_both():
    found = events(kind="ping-pong", to="lte", at="20 s", every="5 s", times=3)
    down = [(at, link, change) for at, link, change in found if link.endswith(".down")]
    assert down == [
        (20, "wifi.down", "down"),
        (25, "wifi.down", "up"), (25, "lte.down", "down"),
        (30, "lte.down", "up"), (30, "wifi.down", "down"),
        (35, "wifi.down", "up"),
    ]  # fmt: skip


def test_a_moment_is_drawn_from_its_range_again_in_each_run():
    moments = [events(run=run, at=["20 s", "40 s"])[0][0] for run in range(200)]
    assert all(20 <= at <= 40 for at in moments)
    assert len(set(moments)) == 200
    assert sum(moments) / 200 == pytest.approx(30, abs=4 * (20 / 12**0.5) / 200**0.5)
    assert moments[3] == events(run=3, at=["20 s", "40 s"])[0][0]


@pytest.mark.module
def test_the_path_is_gone_in_the_world():
    run = anabranch.run({**BASE, "handoffs": [{"path": "wifi", "at": "20 s"}]})
    last = {row["path"]: 0 for row in run.rows("subflows")}
    before = dict(last)
    for row in run.rows("samples"):
        last[row["path"]] = row["bytes_acked"]
        if row["t_s"] <= 21:
            before[row["path"]] = row["bytes_acked"]
    assert last["wifi"] == before["wifi"] > 0
    assert last["lte"] > before["lte"]
    assert sum(run.tables["links"]["dropped_down"]) > 0


def test_every_fault_of_a_handoff_is_reported():
    broken = [
        {"path": "wify", "at": "20 s"},
        {"path": "wifi", "at": ["40 s", "20 s"], "over": "2 s"},
        {"path": "wifi", "kind": "ping-pong", "at": "20 s", "lasting": "2 s"},
        {"path": "wifi", "kind": "silend", "at": ["1 s", "2 s", "3 s"]},
    ]
    with pytest.raises(ScenarioError) as caught:
        loading.load({**BASE, "handoffs": broken})
    found = {fault.key: fault.message for fault in caught.value.faults}
    assert found == {
        "handoffs.0.path": "unknown path: `wify`",
        "handoffs.1.at": "the range ends before it begins",
        "handoffs.1.over": "`over` belongs to a fade",
        "handoffs.2.to": "a ping-pong goes between two paths",
        "handoffs.2.lasting": "a ping-pong has no `lasting`: it ends after `times` changes, one per `every`",
        "handoffs.3.kind": "unknown kind: `silend`",
        "handoffs.3.at": "a range is two times",
    }


def test_a_loss_may_be_repeated():
    found = events(at="20 s", lasting="5 s", every="60 s", times=3)
    cuts = [(at, change) for at, link, change in found if link == "wifi.down"]
    assert cuts == [(20, "down"), (25, "up"), (80, "down"), (85, "up"), (140, "down"), (145, "up")]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"every": "60 s"}, {"times", "lasting"}),
        ({"times": 3, "lasting": "5 s"}, {"every"}),
        ({"every": "5 s", "times": 3, "lasting": "5 s"}, {"every"}),
        # Two fades of 3 s each and 5 s of silence end after 11 s.
        ({"kind": "fade", "every": "11 s", "times": 3, "lasting": "5 s"}, {"every"}),
    ],
)
def test_a_repeated_loss_needs_its_keys_and_an_end_before_the_next(keys, expected):
    with pytest.raises(ScenarioError) as caught:
        events(at="20 s", **keys)
    assert {fault.key for fault in caught.value.faults} == {f"handoffs.0.{key}" for key in expected}
