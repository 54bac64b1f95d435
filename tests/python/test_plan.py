"""From a scenario to the plan that the simulator takes."""

from __future__ import annotations

import json

import pytest

from anabranch.media.films import open_film
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans
from anabranch.scenario import shipped
from anabranch.scenario._overrides import parse_assignment

TWO = {
    "name": "two",
    "application": {"kind": "bulk", "duration": "60 s"},
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "0.5 %"},
        {"name": "lte", "rtt": "101 ns", "rate": "6 Mbit/s", "queue": "64 KiB"},
    ],
}


def plan_of(scenario, *settings):
    loaded = loading.load(scenario, [parse_assignment(setting) for setting in settings])
    film = open_film(loaded.scenario.application.film, loaded.folders, described=True)
    return plans.build(loaded.scenario, film)


def link(plan, name):
    return next(item for item in plan["links"] if item["name"] == name)


def test_a_path_is_a_link_each_way():
    plan = plan_of(TWO)
    assert plan["paths"][0] == {"name": "wifi", "down": ["wifi.down"], "up": ["wifi.up"], "backup": False}
    assert link(plan, "wifi.down") == {
        "name": "wifi.down",
        "rate_bps": 5_000_000,
        "queue": {"packets": 100},
        "delay_ns": 25_000_000,
        "jitter_ns": 0,
        "loss": {"bernoulli": 0.005},
        "loss_at": "exit",
    }
    assert link(plan, "wifi.up")["loss"] is None
    assert link(plan, "lte.up")["queue"] == {"bytes": 65536}
    assert link(plan, "lte.down")["delay_ns"] + link(plan, "lte.up")["delay_ns"] == 101


def test_direction_overrides_the_common_value():
    plan = plan_of(TWO, "paths.wifi.up.rate=1 Mb/s", "paths.wifi.down.delay=40ms", "paths.wifi.up.loss=1%")
    assert (link(plan, "wifi.down")["rate_bps"], link(plan, "wifi.up")["rate_bps"]) == (5_000_000, 1_000_000)
    assert (link(plan, "wifi.down")["delay_ns"], link(plan, "wifi.up")["delay_ns"]) == (
        40_000_000,
        25_000_000,
    )
    assert (link(plan, "wifi.down")["loss"], link(plan, "wifi.up")["loss"]) == (
        {"bernoulli": 0.005},
        {"bernoulli": 0.01},
    )


def test_bursty_loss():
    setting = 'paths.wifi.loss={model = "gilbert-elliott", p = "1 %", r = "20 %", h = "40 %", k = "99 %"}'
    assert link(plan_of(TWO, setting), "wifi.down")["loss"] == {
        "gilbert_elliott": {"p": 0.01, "r": 0.2, "h": 0.4, "k": 0.99}
    }


def test_one_path_is_plain_tcp_by_default():
    one = {**TWO, "paths": TWO["paths"][:1]}
    assert plan_of(TWO)["transport"]["multipath"] is True
    assert plan_of(one)["transport"]["multipath"] is False
    assert plan_of(one, "transport.multipath=true")["transport"]["multipath"] is True


def test_shared_links_come_before_the_path_s_own():
    shared = {
        **TWO,
        "links": [{"name": "core", "rate": "9 Mb/s", "delay": "5 ms", "loss": "1 %"}, {"name": "unused"}],
        "paths": [
            {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "links": ["core"]},
            {"name": "lte", "links": ["core"]},
            {"name": "oneway", "links_down": ["core"]},
        ],
    }
    plan = plan_of(shared)
    assert [path["down"] for path in plan["paths"]] == [
        ["core.down", "wifi.down"], ["core.down"], ["core.down", "oneway.down"],
    ]  # fmt: skip
    assert [path["up"] for path in plan["paths"]] == [["wifi.up", "core.up"], ["core.up"], ["oneway.up"]]
    assert {item["name"] for item in plan["links"]} == {
        "core.down", "core.up", "wifi.down", "wifi.up", "oneway.down", "oneway.up",
    }  # fmt: skip
    assert link(plan, "oneway.down")["rate_bps"] is None
    assert link(plan, "core.down")["loss"] == {"bernoulli": 0.01}
    assert link(plan, "core.up")["loss"] is None


def test_an_event_on_a_path_that_only_shares_gets_it_a_link_to_act_on():
    shared = {
        **TWO,
        "links": [{"name": "core", "rate": "9 Mb/s"}],
        "paths": [{"name": "wifi", "links": ["core"]}, {"name": "lte", "links": ["core"]}],
        "events": [{"at": "1 s", "path": "lte", "state": "down"}],
    }
    plan = plan_of(shared)
    assert plan["paths"][1]["down"] == ["core.down", "lte.down"]
    assert [event["link"] for event in plan["events"]] == ["lte.down", "lte.up"]


CROSSED = {
    **TWO,
    "links": [
        {"name": "core", "rate": "9 Mb/s"}, {"name": "edge", "rate": "8 Mb/s"}, {"name": "unused", "rate": "1 Mb/s"},
    ],
    "cross_traffic": [
        {"links": ["core", "edge"], "count": 3, "rtt": "21 ns", "congestion": {"name": "reno", "beta": 0.5}},
        {"name": "back", "path": "wifi", "direction": "up", "kind": "paced", "rate": "1 Mb/s", "start": "5 s",
         "duration": "7 s", "bytes": "1 MB"},
    ],
}  # fmt: skip


def test_cross_traffic():
    plan = plan_of(CROSSED)
    first, second = plan["cross_traffic"]
    assert first == {
        "name": "cross-1",
        "data": ["core.down", "edge.down", "cross-1.down"],
        "acks": ["cross-1.up", "edge.up", "core.up"],
        "kind": "bulk",
        "rate_bps": None,
        "congestion": '{"beta":0.5,"name":"reno"}',
        "count": 3,
        "start_ns": 0,
        "duration_ns": None,
        "bytes": None,
    }
    assert (second["data"], second["acks"]) == (["wifi.up"], ["wifi.down"])
    assert (second["kind"], second["rate_bps"], second["bytes"]) == ("paced", 10**6, 10**6)
    assert (second["start_ns"], second["duration_ns"]) == (5 * 10**9, 7 * 10**9)
    names = [item["name"] for item in plan["links"]]
    assert "core.up" in names
    assert not {"unused.down", "back.down"} & set(names)
    assert link(plan, "cross-1.down") == {
        "name": "cross-1.down", "rate_bps": None, "queue": None, "delay_ns": 10, "jitter_ns": 0, "loss": None,
        "loss_at": "exit",
    }  # fmt: skip
    assert link(plan, "cross-1.up")["delay_ns"] == 11


def test_cross_traffic_that_is_no_lasting_tcp_flow():
    kinds = [
        {"kind": "udp", "rate": "1 Mb/s"},
        {"kind": "on-off", "rate": "2 Mb/s", "on": "1 s", "off": "3 s", "size": "200 B", "count": 4},
        {"kind": "transfers", "gap": "500 ms", "bytes": "1 MB"},
    ]
    plan = plan_of({**TWO, "cross_traffic": [{"path": "wifi", **kind} for kind in kinds]})
    udp, bursts, transfers = plan["cross_traffic"]
    assert udp["size"] == 1500
    assert (bursts["size"], bursts["on_ns"], bursts["off_ns"], bursts["count"]) == (200, 10**9, 3 * 10**9, 4)
    assert (transfers["gap_ns"], transfers["bytes"]) == (5 * 10**8, 10**6)
    assert ["congestion" in group for group in plan["cross_traffic"]] == [False, False, True]
    # 1 Mb/s, four flows of 2 Mb/s for a quarter of the time, and 16 Mb/s need the path. The client gets the
    # rest.
    sized = {
        **TWO,
        "application": {"kind": "bulk", "bytes": "100 MB"},
        "paths": [{**TWO["paths"][0], "rate": "25 Mb/s"}],
    }
    limits = [
        plan_of({**sized, "cross_traffic": flows})["time_limit_ns"] - 300 * 10**9
        for flows in ([], [{"path": "wifi", **kind} for kind in kinds])
    ]
    assert limits[1] == pytest.approx(limits[0] * 25 / 6)


def test_an_event_of_a_link_that_only_cross_traffic_uses_takes_place():
    plan = plan_of({**CROSSED, "events": [{"at": "1 s", "link": "core", "state": "down"}]})
    assert [event["link"] for event in plan["events"]] == ["core.down", "core.up"]


def test_cross_traffic_adds_to_the_time_limit_and_leaves_the_rest_of_the_plan():
    alone, beside = plan_of(TWO), plan_of({**TWO, "cross_traffic": [{"path": "wifi", "count": 9}]})
    assert alone["cross_traffic"] == []
    changed = {key for key in alone if alone[key] != beside[key]}
    assert changed == {"cross_traffic"}, "a session with a duration ends with it"
    size = {"application": {"kind": "bulk", "bytes": "100 MB"}}
    one = {**TWO, **size, "paths": TWO["paths"][:1]}
    limit, longer = (
        plan_of({**one, "cross_traffic": flows})["time_limit_ns"] - 300 * 10**9
        for flows in ([], [{"path": "wifi", "count": 9}])
    )
    assert longer == pytest.approx(10 * limit)


def test_events():
    events = [
        {"at": "20 s", "path": "lte", "rtt": "80 ms"},
        {"at": "10 s", "path": "wifi", "state": "down"},
        {"at": "10 s", "path": "wifi", "loss": "2 %"},
        {"at": "30 s", "path": "wifi", "loss": "0 %", "direction": "both"},
        {"at": "40 s", "path": "wifi", "rate": "1 Mb/s", "direction": "up"},
    ]
    assert [tuple(event.values()) for event in plan_of({**TWO, "events": events})["events"]] == [
        (10_000_000_000, "wifi.down", "down"),
        (10_000_000_000, "wifi.up", "down"),
        (10_000_000_000, "wifi.down", {"loss": {"bernoulli": 0.02}}),
        (20_000_000_000, "lte.down", {"delay_ns": 40_000_000}),
        (20_000_000_000, "lte.up", {"delay_ns": 40_000_000}),
        (30_000_000_000, "wifi.down", {"loss": None}),
        (30_000_000_000, "wifi.up", {"loss": None}),
        (40_000_000_000, "wifi.up", {"rate_bps": 1_000_000}),
    ]


def test_applications():
    assert plan_of(TWO)["film"] is None
    assert plan_of(TWO)["application"]["bytes"] is None
    plan = plan_of({**TWO, "application": {"kind": "bulk", "film": "papers-film"}})
    assert (plan["film"], plan["application"]["bytes"]) == (None, 409_000_000)
    plan = plan_of({**TWO, "application": {"kind": "paced", "film": "papers-film"}})
    assert plan["application"]["rate_bps"] == round(409_000_000 * 8 / 624)
    plan = plan_of({**TWO, "application": {"film": "papers-film"}})
    assert plan["film"] == {"synthetic": {"name": "papers-film"}}
    assert plan["time_limit_ns"] > 624 * 10**9
    assert plan_of({**TWO, "time_limit": "7 s"})["time_limit_ns"] == 7 * 10**9


def test_plug_ins_cross_as_json():
    transport = plan_of(TWO, "transport.scheduler=redundant")["transport"]
    assert json.loads(transport["scheduler"]) == {"name": "redundant"}
    transport = plan_of(TWO, 'transport.congestion={name = "reno", beta = 0.7}')["transport"]
    assert json.loads(transport["congestion"]) == {"name": "reno", "beta": 0.7}


def test_equal_scenarios_make_equal_plans():
    assert plans.encode(plan_of(TWO)) == plans.encode(plan_of(json.loads(json.dumps(TWO))))


@pytest.mark.parametrize("name", shipped.names())
def test_every_shipped_scenario_is_valid_and_described(name):
    loaded = loading.load(name)
    assert loaded.scenario.name == name
    assert loaded.scenario.description
    assert plan_of(name)["paths"]


def test_the_starter_is_valid_with_every_comment_taken_out(tmp_path):
    import re
    from importlib.resources import files

    text = files("anabranch.cli").joinpath("starter.toml").read_text(encoding="utf-8")
    keys = re.compile(r"^# (\[+[\w.]+\]+|\w+ = )", re.MULTILINE)
    for name, variant in (("plain", text), ("whole", keys.sub(r"\1", text))):
        file = tmp_path / f"{name}.toml"
        file.write_text(variant, encoding="utf-8")
        assert loading.load(file).scenario.name == "my-scenario"


def events_of(*states, **more):
    events = [{"at": f"{index + 1} s", "path": "wifi", "state": state} for index, state in enumerate(states)]
    return plan_of({**TWO, "events": events, **more})["events"]


def test_a_silent_cut_is_of_the_links_and_the_rest_of_the_interface():
    assert events_of("removed", "up") == [
        {"at_ns": 10**9, "path": "wifi", "interface": "removed"},
        {"at_ns": 2 * 10**9, "path": "wifi", "interface": "up"},
    ]
    assert events_of("link-down")[0]["interface"] == "down"
    assert [(event["link"], event["change"]) for event in events_of("down", "up")] == [
        ("wifi.down", "down"), ("wifi.up", "down"), ("wifi.down", "up"), ("wifi.up", "up"),
    ]  # fmt: skip


def test_a_return_undoes_all_that_took_the_path_away():
    back = events_of("down", "link-down", "up")[-3:]
    assert [event.get("link", event.get("interface")) for event in back] == ["wifi.down", "wifi.up", "up"]
    assert len(events_of("removed", "up", "up")) == 4, "the second one finds no interface to bring back"


def test_an_interface_needs_no_link_of_its_own():
    shared = {
        **TWO,
        "links": [{"name": "backbone", "rate": "20 Mbit/s"}],
        "paths": [{"name": "wifi", "links": ["backbone"]}, TWO["paths"][1]],
        "events": [{"at": "1 s", "path": "wifi", "state": "removed"}],
    }
    plan = plan_of(shared)
    assert plan["paths"][0]["down"] == ["backbone.down"]
    assert plan["events"] == [{"at_ns": 10**9, "path": "wifi", "interface": "removed"}]
