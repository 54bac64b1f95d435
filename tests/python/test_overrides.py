"""`--set` reaches every key, in every notation."""

from __future__ import annotations

import types
import typing
from pathlib import Path

import pytest

from anabranch.errors import ScenarioError
from anabranch.scenario import load as loading
from anabranch.scenario import models, players
from anabranch.scenario._overrides import parse_assignment, parse_value
from anabranch.scenario.link_models import MODELS, LinkModel, Recording
from anabranch.scenario.profiles import Stack
from anabranch.scenario.queues import Queue

BASE = {
    "name": "base",
    "application": {"kind": "bulk", "duration": "10 s"},
    "links": [{"name": "backbone", "rate": "20 Mbit/s"}],
    "paths": [
        {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s"},
        {"name": "lte", "rtt": "100 ms", "rate": "5 Mbit/s", "links": ["backbone"]},
    ],
    "cross_traffic": [{"links": ["backbone"]}],
    "events": [{"at": "1 s", "path": "wifi", "loss": "1 %"}],
    "handoffs": [{"path": "wifi", "at": "1 s"}],
}

RECORDED = str(Path(__file__).resolve().parents[2] / "scenarios" / "traces" / "lte-driving.csv")

# One value for every key there is, and its parsed form.
VALUES = {
    "name": ("other", "other"),
    "description": ("a b c", "a b c"),
    "clients": ("7", 7),
    "seed": ("42", 42),
    "time_limit": ("90s", 90 * 10**9),
    "record": ('["receiver"]', ("receiver",)),
    "application.kind": ("paced", "paced"),
    "application.film": ("papers-film", "papers-film"),
    "application.rate": ("3Mbit/s", 3_000_000),
    "application.duration": ("60s", 60 * 10**9),
    "application.bytes": ("1 MB", 10**6),
    "application.player.version": ("2", 2),
    "application.player.network_cache": ("2s", 2 * 10**9),
    "application.player.prefetch": ("1MiB", 2**20),
    "application.player.jitter_cap": ("2s", 2 * 10**9),
    "application.player.delay_max": ("2s", 2 * 10**9),
    "application.player.late_threshold": ("1.5 pictures", 1.5),
    "application.player.start_margin": ("20ms", 20 * 10**6),
    "application.player.clock_increment": ("100ms", 10**8),
    "application.player.extra_buffer": ("50ms", 5 * 10**7),
    "application.player.pcr_period": ("40ms", 4 * 10**7),
    "application.player.pcr_lead": ("500ms", 5 * 10**8),
    "application.player.broken_references": ("show", "show"),
    "application.player.probe_end": ("true", True),
    "application.player.probe_after": ("9 ms", 9_000_000),
    "application.player.probe_for": ("1.4 ms", 1_400_000),
    "application.player.cmcd": ("true", True),
    "application.ladder": ("uq18-va", "uq18-va"),
    "application.abr": ("bola", models.Plugin(name="bola")),
    "application.player.model": ("hlsjs", "hlsjs"),
    "application.player.start_buffer": ("2s", 2 * 10**9),
    "application.player.resume_buffer": ("2s", 2 * 10**9),
    "application.player.max_buffer": ("60s", 60 * 10**9),
    "application.player.max_buffer_bytes": ("1 MB", 10**6),
    "application.player.append": ("whole", "whole"),
    "application.player.requests": ("one-at-a-time", "one-at-a-time"),
    "paths.wifi.name": ("wlan", "wlan"),
    "paths.wifi.rtt": ("80ms", 80 * 10**6),
    "paths.wifi.rate": ("1 Mbit/s", 10**6),
    "paths.wifi.jitter": ("3ms", 3 * 10**6),
    "paths.wifi.loss": ("2%", 0.02),
    "paths.wifi.loss_at": ("entry", "entry"),
    "paths.wifi.queue": ("64KiB", {"bytes": 65536}),
    "paths.wifi.down.rate": ("2 Mbit/s", 2 * 10**6),
    "paths.wifi.down.delay": ("9ms", 9 * 10**6),
    "paths.wifi.down.jitter": ("1ms", 10**6),
    "paths.wifi.down.loss": ("3 %", 0.03),
    "paths.wifi.down.loss_at": ("entry", "entry"),
    "paths.wifi.down.queue": ("10 packets", {"packets": 10}),
    "paths.wifi.up.rate": ("2 Mbit/s", 2 * 10**6),
    "paths.wifi.up.delay": ("9ms", 9 * 10**6),
    "paths.wifi.up.jitter": ("1ms", 10**6),
    "paths.wifi.up.loss": ("3 %", 0.03),
    "paths.wifi.up.loss_at": ("entry", "entry"),
    "paths.wifi.up.queue": ("10 packets", {"packets": 10}),
    "paths.wifi.links": ('["backbone"]', ["backbone"]),
    "paths.wifi.links_down": ('["backbone"]', ["backbone"]),
    "paths.wifi.links_up": ('["backbone"]', ["backbone"]),
    "paths.wifi.backup": ("true", True),
    "paths.wifi.price_per_gb": ("2.5", 2.5),
    "paths.wifi.cap_gb_per_month": ("20", 20.0),
    "paths.wifi.weight": ("1", 1.0),
    "paths.wifi.strips_mptcp": ('["syn", "data"]', ["syn", "data"]),
    "paths.wifi.drops_mptcp": ("true", True),
    "paths.wifi.family": ("ipv6", "ipv6"),
    "paths.wifi.emulator_seed": ("224774", 224774),
    "links.backbone.name": ("backbone", "backbone"),
    "links.backbone.rate": ("30 Mb/s", 30 * 10**6),
    "links.backbone.delay": ("7ms", 7 * 10**6),
    "links.backbone.jitter": ("1ms", 10**6),
    "links.backbone.loss": ("1%", 0.01),
    "links.backbone.loss_at": ("entry", "entry"),
    "links.backbone.queue": ("unlimited", None),
    "links.backbone.down.rate": ("2 Mbit/s", 2 * 10**6),
    "links.backbone.down.delay": ("9ms", 9 * 10**6),
    "links.backbone.down.jitter": ("1ms", 10**6),
    "links.backbone.down.loss": ("3 %", 0.03),
    "links.backbone.down.loss_at": ("entry", "entry"),
    "links.backbone.down.queue": ("10 packets", {"packets": 10}),
    "links.backbone.up.rate": ("2 Mbit/s", 2 * 10**6),
    "links.backbone.up.delay": ("9ms", 9 * 10**6),
    "links.backbone.up.jitter": ("1ms", 10**6),
    "links.backbone.up.loss": ("3 %", 0.03),
    "links.backbone.up.loss_at": ("entry", "entry"),
    "links.backbone.up.queue": ("10 packets", {"packets": 10}),
    **{
        f"{table}{way}.{key}": value
        for table in ("paths.wifi", "links.backbone")
        for way in ("", ".down", ".up")
        for key, value in {
            "reorder": ('{ share = "1 %", delay = "4 ms" }', models.Reorder(share="1 %", delay="4 ms")),
            "duplicate": ("1%", 0.01),
            "corrupt": (
                '{ share = "1 %", passes = "5 %" }',
                models.Corrupt(share="1 %", passes="5 %"),
            ),
            "mtu": ("1400 B", 1400),
            "icmp": ("false", False),
        }.items()
    },
    "transport.profile": ("mptcp-0.94", "mptcp-0.94"),
    **{f"transport.stack.{part}": ("false", False) for part in Stack.model_fields if part != "outage"},
    "transport.stack.outage": ("dsack", "dsack"),
    "transport.preset": ("video", "video"),
    "transport.rto_max": ("2s", 2 * 10**9),
    "transport.retries": ("30", 30),
    "transport.first_path": ("race", "race"),
    "transport.attempt_delay": ("250ms", 250 * 10**6),
    "transport.scheduler": ("redundant", models.Plugin(name="redundant")),
    "transport.congestion": ("reno", models.Plugin(name="reno")),
    "transport.path_manager": ("none", models.Plugin(name="none")),
    "transport.multipath": ("false", False),
    "transport.receive_buffer": ("1MiB", 2**20),
    "transport.receive_buffer_initial": ("64KiB", 2**16),
    "transport.send_buffer": ("1MiB", 2**20),
    "transport.mss": ("1400B", 1400),
    "transport.checksum": ("true", True),
    "transport.pacing": ("true", True),
    "transport.ecn": ("request", "request"),
    "paths.wifi.model": (
        '{ name = "wifi-g", snr = "20 dB" }',
        MODELS["wifi"](name="wifi", standard="802.11g", snr="20 dB"),
    ),
    "links.backbone.model": ("starlink", MODELS["starlink"](name="starlink")),
    "paths.wifi.trace": (RECORDED, Recording(file=RECORDED)),
    "paths.wifi.down.trace": (RECORDED, Recording(file=RECORDED)),
    "paths.wifi.up.trace": (RECORDED, Recording(file=RECORDED)),
    "links.backbone.trace": (RECORDED, Recording(file=RECORDED)),
    "links.backbone.down.trace": (RECORDED, Recording(file=RECORDED)),
    "links.backbone.up.trace": (RECORDED, Recording(file=RECORDED)),
    "host.timer_tick": ("1ms", 10**6),
    "cost.currency": ("EUR", "EUR"),
    "cost.hours_per_month": ("60", 60.0),
    "host.clock_phase": ("1ms", 10**6),
    "host.one_processor": ("true", True),
    "host.send_fragment": ("16KiB", 2**14),
    "host.send_memory_per_segment": ("4352B", 4352),
    "host.send_memory_per_buffer": ("1280B", 1280),
    "host.receive_memory_per_segment": ("4352B", 4352),
    "cross_traffic.0.name": ("load", "load"),
    "cross_traffic.0.links": ('["backbone"]', ["backbone"]),
    "cross_traffic.0.path": ("lte", "lte"),
    "cross_traffic.0.family": ("ipv6", "ipv6"),
    "cross_traffic.0.direction": ("up", "up"),
    "cross_traffic.0.rtt": ("9ms", 9 * 10**6),
    "cross_traffic.0.kind": ("paced", "paced"),
    "cross_traffic.0.rate": ("1Mb/s", 10**6),
    "cross_traffic.0.congestion": ("reno", models.Plugin(name="reno")),
    "cross_traffic.0.count": ("7", 7),
    "cross_traffic.0.start": ("30s", 30 * 10**9),
    "cross_traffic.0.duration": ("10s", 10**10),
    "cross_traffic.0.bytes": ("1MB", 10**6),
    "cross_traffic.0.size": ("500B", 500),
    "cross_traffic.0.on": ("2s", 2 * 10**9),
    "cross_traffic.0.off": ("4s", 4 * 10**9),
    "cross_traffic.0.gap": ("3s", 3 * 10**9),
    "events.0.at": ("2s", 2 * 10**9),
    "events.0.path": ("lte", "lte"),
    "events.0.link": ("backbone", "backbone"),
    "events.0.direction": ("up", "up"),
    "events.0.state": ("down", "down"),
    "events.0.rate": ("1Mb/s", 10**6),
    "events.0.rtt": ("1s", 10**9),
    "events.0.delay": ("1s", 10**9),
    "events.0.loss": ("5 %", 0.05),
    "events.0.mtu": ("1200 B", 1200),
    "handoffs.0.path": ("lte", "lte"),
    "handoffs.0.kind": ("fade", "fade"),
    "handoffs.0.at": ('["2s", "4s"]', (2 * 10**9, 4 * 10**9)),
    "handoffs.0.lasting": ("2s", 2 * 10**9),
    "handoffs.0.over": ("2s", 2 * 10**9),
    "handoffs.0.to": ("lte", "lte"),
    "handoffs.0.every": ("2s", 2 * 10**9),
    "handoffs.0.times": ("3", 3),
    "expect.goodput_mbps": ("{ min = 5 }", models.Bounds(min=5)),
    "expect.queue_drops": ("0", models.Bounds(equals=0)),
}

ADAPTIVE = ["application.kind=adaptive", "application.ladder=uq18-jp"]
# Keys that exclude each other need a second assignment to be valid.
ON_OFF = ["cross_traffic.0.kind=on-off", "cross_traffic.0.rate=1Mb/s"]
BESIDE = {
    "application.film": [],
    "application.kind": ["application.rate=1Mb/s"],
    **{f"application.player.{key}": ADAPTIVE for key in players.ADAPTIVE_PLAYER},
    "application.ladder": ["application.kind=adaptive"],
    "application.abr": ADAPTIVE,
    "cross_traffic.0.kind": ["cross_traffic.0.rate=1Mb/s"],
    "cross_traffic.0.rate": ["cross_traffic.0.kind=paced"],
    "cross_traffic.0.size": ["cross_traffic.0.kind=udp", "cross_traffic.0.rate=1Mb/s"],
    "cross_traffic.0.on": [*ON_OFF, "cross_traffic.0.off=1s"],
    "cross_traffic.0.off": [*ON_OFF, "cross_traffic.0.on=1s"],
    "cross_traffic.0.gap": ["cross_traffic.0.kind=transfers", "cross_traffic.0.bytes=1MB"],
    "paths.wifi.name": ["events.0.path=wlan", "handoffs.0.path=wlan"],
    "handoffs.0.over": ["handoffs.0.kind=fade"],
    "handoffs.0.to": ["handoffs.0.kind=ping-pong"],
    "handoffs.0.every": ["handoffs.0.kind=ping-pong", "handoffs.0.to=lte"],
    "handoffs.0.times": ["handoffs.0.kind=ping-pong", "handoffs.0.to=lte"],
    "paths.wifi.links_down": ['paths.wifi.links_up=["backbone"]'],
    "paths.wifi.links_up": ['paths.wifi.links_down=["backbone"]'],
    "paths.wifi.down.loss": [],
}


#: Tables that are set as a whole.
LEAVES = (
    models.Plugin,
    models.GilbertElliott,
    models.Reorder,
    models.Corrupt,
    models.Bounds,
    models.Ecn,
    models.Numbers,
    Recording,
    LinkModel,
    Queue,
)


def keys(model, prefix=()):
    for name, field in model.model_fields.items():
        inner = table_of(field.annotation)
        array = typing.get_origin(field.annotation) is tuple and inner is not None
        element = {
            "paths": "wifi",
            "links": "backbone",
            "events": "0",
            "cross_traffic": "0",
            "handoffs": "0",
        }.get(name)
        here = (*prefix, name, element) if array else (*prefix, name)
        if inner is None or issubclass(inner, LEAVES):
            yield ".".join(here)
        else:
            yield from keys(inner, here)


def table_of(annotation):
    if isinstance(annotation, type) and issubclass(annotation, models.Table):
        return annotation
    if typing.get_origin(annotation) in (tuple, typing.Annotated, types.UnionType, typing.Union):
        return next(filter(None, map(table_of, typing.get_args(annotation))), None)
    return None


def test_the_table_above_has_every_key():
    named = {key for key in VALUES if not key.startswith("expect.")} | {"expect"}
    assert set(keys(models.Scenario)) == named


def value_at(scenario, key):
    node = scenario
    for part in key.split("."):
        if isinstance(node, tuple):
            names = [getattr(item, "name", None) for item in node]
            node = node[names.index(part)] if part in names else node[int(part) if part.isdecimal() else 0]
        elif isinstance(node, dict):
            node = node[part]
        else:
            node = getattr(node, part)
    return node


@pytest.mark.parametrize("key", VALUES)
def test_every_key_can_be_set(key):
    text, expected = VALUES[key]
    base = BASE
    if key == "events.0.link":
        base = {**BASE, "events": [{"at": "1 s", "loss": "1 %"}]}
    if key == "events.0.rtt":
        base = {**BASE, "events": [{"at": "1 s", "path": "wifi"}]}
    if key == "cross_traffic.0.path":
        base = {**BASE, "cross_traffic": [{"count": 2}]}
    settings = [f"{key}={text}", *BESIDE.get(key, [])]
    loaded = loading.load(base, [parse_assignment(setting) for setting in settings])
    found = value_at(loaded.scenario, key.replace("paths.wifi.name", "paths.wlan.name"))
    assert found == expected


def load_with(*settings, base=BASE):
    return loading.load(base, [parse_assignment(setting) for setting in settings]).scenario


def test_elements_go_by_name_or_index():
    assert (
        load_with("paths.1.rtt=7ms").paths[1].rtt == load_with("paths.lte.rtt=7 ms").paths[1].rtt == 7_000_000
    )


def test_an_index_past_the_end_adds_an_element():
    scenario = load_with("paths.2.name=sat", "paths.sat.rtt=600ms", "paths.sat.rate=1Mb/s")
    assert [path.name for path in scenario.paths] == ["wifi", "lte", "sat"]
    bare = {key: value for key, value in BASE.items() if key != "cross_traffic"}
    assert load_with("cross_traffic.0.path=lte", base=bare).cross_traffic[0].path == "lte"


def test_a_plugin_takes_parameters_by_dotted_key_or_table():
    scenario = load_with("transport.congestion.beta=0.7")
    assert scenario.transport.congestion.model_dump() == {"name": "cubic", "beta": 0.7}
    scenario = load_with("transport.congestion=reno", "transport.congestion.beta=0.5")
    assert scenario.transport.congestion.model_dump() == {"name": "reno", "beta": 0.5}
    scenario = load_with("cross_traffic.0.congestion.beta=0.7")
    assert scenario.cross_traffic[0].congestion.model_dump() == {"name": "cubic", "beta": 0.7}
    scenario = load_with('transport.scheduler={ name = "linux", burst = 2 }')
    assert scenario.transport.scheduler.model_dump() == {"name": "linux", "burst": 2}


def test_later_settings_win():
    assert load_with("seed=1", "seed=2").seed == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("80ms", "80ms"),
        ("5 Mbit/s", "5 Mbit/s"),
        ("true", True),
        ("7", 7),
        ('"7"', "7"),
        ("[1, 2]", [1, 2]),
        ("{ a = 1 }", {"a": 1}),
        ("/tmp/film.mp4", "/tmp/film.mp4"),
        ("nan", "nan"),
        ("2026-01-01", "2026-01-01"),
        ("", ""),
        ("a=b", "a=b"),
        ("1\nb = 2", "1\nb = 2"),
    ],
)
def test_values_are_toml_or_else_text(text, value):
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("paths.wfi.rtt=80ms", "no element is named `wfi`"),
        ("paths.9.rtt=80ms", "no element 9"),
        ("paths.wifi.rtt.x=80ms", "not a table"),
        ("novalue", "expected key=value"),
        ("=5", "expected key=value"),
        ("paths..rtt=5ms", "empty part"),
        ("nothing.here=5", "unknown key: `nothing`"),
        ("paths.wifi.rtt=80", "bare number"),
        ("paths=5", "expected an array"),
        ("name.x=5", "not a table"),
    ],
)
def test_bad_settings_name_themselves(setting, message):
    with pytest.raises(ScenarioError) as caught:
        load_with(setting)
    assert message in str(caught.value)
    assert f"--set {setting}" in str(caught.value)


def test_a_name_set_to_one_that_is_taken_names_the_setting():
    with pytest.raises(ScenarioError) as caught:
        load_with("paths.wifi.name=lte")
    found = {fault.message: fault.where for fault in caught.value.faults}
    assert found["duplicate name in paths: `lte`"] == "--set paths.wifi.name=lte"


def test_non_table_value_reports_no_missing_keys():
    with pytest.raises(ScenarioError) as caught:
        load_with("application=true")
    assert [fault.message for fault in caught.value.faults] == ["expected a table, got true"]


def test_names_that_are_empty_or_no_file_are_reported():
    with pytest.raises(ScenarioError, match="an empty name where a film is required"):
        load_with('application.film=""')
    with pytest.raises(ScenarioError, match="an empty name where a scenario is required"):
        loading.load("")
    with pytest.raises(ScenarioError, match="not a device or a pipe: `/dev/null`"):
        loading.load("/dev/null")
