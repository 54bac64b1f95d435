"""Models of links in a scenario: how they are written, what the plan has of them, what can be wrong."""

from __future__ import annotations

import pytest

from anabranch.errors import ScenarioError
from anabranch.scenario import link_models
from anabranch.scenario import load as loading
from anabranch.scenario import plan as plans

pytestmark = pytest.mark.module


def scenario(*paths, **keys):
    application = {"kind": "bulk", "duration": "10 s"}
    return {"name": "t", "application": application, "paths": list(paths), **keys}


def path(model, name="p", **keys):
    return {"name": name, "rtt": "20 ms", "model": model, **keys}


def links(*paths, **keys):
    return plans.build(loading.load(scenario(*paths, **keys)).scenario, None)["links"]


def faults(*paths):
    with pytest.raises(ScenarioError) as caught:
        loading.load(scenario(*paths))
    return {fault.key: (fault.message, fault.hint) for fault in caught.value.faults}


def test_a_name_is_a_model_with_its_defaults():
    down, up = links(path("wifi-ac"))
    assert down["model"] == up["model"]
    assert down["model"]["wifi"] == {
        "channel": "path p",
        "station": "p",
        "standard": "802.11ac",
        "width_mhz": 80,
        "streams": 1,
        "phy_bps": None,
        "aggregate": 64,
        "snr_db": 35.0,
        "fading_db": 3.0,
        "memory_ns": 500_000_000,
    }
    assert (down["rate_bps"], down["queue"], down["delay_ns"]) == (None, {"packets": 100}, 10_000_000)


def test_parameters_have_units():
    model = {"name": "wifi-g", "snr": "12.5 dB", "fading": "0 dB", "phy_rate": "24 Mbit/s", "channel": "6"}
    found = links(path(model))[0]["model"]["wifi"]
    assert (found["standard"], found["width_mhz"]) == ("802.11g", 20)
    assert (found["snr_db"], found["fading_db"], found["phy_bps"]) == (12.5, 0.0, 24_000_000)
    assert found["channel"] == "channel 6"
    found = links(path({"name": "wifi", "standard": "802.11n", "width": "40 MHz", "streams": 2}))
    assert found[0]["model"]["wifi"]["width_mhz"] == 40


def test_directions_differ_where_the_model_does():
    down, up = links(path({"name": "lte", "profile": "ghent", "mean": "20 Mbit/s", "bler": "5 %"}))
    lte = {"profile": "ghent", "mean_bps": 20_000_000, "bler": 0.05}
    assert down["model"]["lte"] == {"direction": "down", **lte}
    assert up["model"]["lte"] == {"direction": "up", **lte}


def test_a_satellite_needs_no_round_trip_time():
    (down, up) = links({"name": "sat", "model": {"name": "starlink", "phase": "3 s", "profile": "moving"}})
    assert down["delay_ns"] == up["delay_ns"] == 0
    assert down["model"]["starlink"] == {
        "direction": "down",
        "terminal": "sat",
        "profile": "moving",
        "phase_ns": 3 * 10**9,
        "mean_bps": None,
    }


def test_a_rate_beside_a_model_is_a_cap_and_a_shared_link_may_have_one():
    assert links(path("lte", rate="3 Mbit/s"))[0]["rate_bps"] == 3_000_000
    shared = [{"name": "dish", "model": "starlink"}]
    found = links({"name": "a", "links": ["dish"]}, {"name": "b", "links": ["dish"]}, links=shared)
    assert [(link["name"], "model" in link) for link in found] == [("dish.down", True), ("dish.up", True)]


def test_every_fault_is_reported_at_once():
    found = faults(
        path({"name": "wifi-g", "streams": 2, "width": "40 MHz", "colour": "red"}, "a"),
        path({"name": "wifi-ac", "phy_rate": "1 Mbit/s", "snr": "20"}, "b"),
        path("starlnk", "c"),
        path({"profile": "ghent"}, "d"),
        path({"name": "starlink", "phase": "15 s"}, "e"),
        path({"name": "lte", "bler": "100 %", "profile": "home"}, "f"),
        path("lte", "g", down={"trace": "a.csv"}),
    )
    assert found["a.model.colour" if "a.model.colour" in found else "paths.a.model.colour"][0] == (
        "unknown key: `colour`"
    )
    assert found["paths.a.model.streams"][0] == "802.11g has at most 1 streams: 2"
    assert found["paths.a.model.width"] == ("802.11g has no channels of 40 MHz", 'valid: "20 MHz"')
    assert found["paths.b.model.phy_rate"][0] == "802.11ac has no rate as low as this: `1 Mbit/s`"
    assert "a bare number where a ratio in decibels is required" in found["paths.b.model.snr"][0]
    assert found["paths.c.model"] == ("unknown model: `starlnk`", "did you mean `starlink`?")
    assert found["paths.d.model"][0] == "a model is a name, or a table with a `name`"
    assert found["paths.e.model.phase"][0] == "must be below 15 s: `15 s`"
    assert found["paths.f.model.bler"][0] == "must be below 100 %: `100 %`"
    assert found["paths.f.model.profile"][0] == "unknown profile: `home`"
    assert "paths.g.down.trace" in found


def test_a_path_without_model_still_needs_its_rate():
    assert set(faults({"name": "p"})) == {"paths.p.rtt", "paths.p.rate"}
    assert set(faults({"name": "p", "model": "lte"})) == {"paths.p.rtt"}


@pytest.mark.module
@pytest.mark.parametrize("model", link_models.SHORT)
def test_the_simulator_knows_every_model(model):
    from anabranch import run

    result = run(scenario(path(model)))
    assert result.qos["goodput_mbps"] > 1
    assert result.digest == run(scenario(path(model))).digest


@pytest.mark.module
def test_events_add_a_rate_cap_and_loss_to_a_link_model():
    from anabranch import run

    capped = [{"at": "0 s", "path": "p", "rate": "1 Mbit/s"}]
    assert run(scenario(path("wifi-ac"), events=capped)).qos["goodput_mbps"] == pytest.approx(0.95, abs=0.05)
    lossy = run(scenario(path("lte"), events=[{"at": "0 s", "path": "p", "loss": "10 %"}]))
    dropped = dict(zip(lossy.tables["links"]["link"], lossy.tables["links"]["dropped_loss"], strict=True))
    assert dropped["p.down"] > 0
    assert dropped["p.up"] == 0


@pytest.mark.module
def test_paths_of_one_channel_share_the_air():
    from anabranch import run

    def goodput(*channels):
        paths = [
            path({"name": "wifi-a", "channel": channel, "fading": "0 dB"}, name=f"p{number}")
            for number, channel in enumerate(channels)
        ]
        return run(scenario(*paths)).qos["goodput_mbps"]

    assert goodput("36", "36") == pytest.approx(goodput("36"), rel=0.2)
    assert goodput("36", "40") > 1.6 * goodput("36")
