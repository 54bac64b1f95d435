"""Fixtures of all tests: a simulator of plausible tables, a separate cache, and no terminal."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import pathlib
import sys
import types

import pytest
import typer.testing

# These modules read the Rust module's tables when they are imported. They are imported here, before any test
# replaces the module.
import anabranch.scenario.limits
import anabranch.scenario.link_models
import anabranch.scenario.models  # noqa: F401

try:
    _REAL = importlib.import_module("anabranch._anabranch")
except ImportError:
    _REAL = None

# Otherwise a runner would build all commands and their options again for every call.
typer.testing._get_command = functools.cache(typer.testing._get_command)

SCHEDULERS = {
    "min-rtt": "Smallest srtt among the subflows with window space.",
    "spd": "The papers' name for min-rtt.",
    "linux": "Upstream Linux since 6.6.",
    "round-robin": "Subflows in turn.",
    "redundant": "Every subflow carries all data.",
}
CONGESTION = {"reno": "NewReno as in Linux.", "cubic": "CUBIC as in Linux."}
PATH_MANAGERS = {"full-mesh": "A subflow for every path.", "none": "The initial subflow only."}
METRICS = (
    "client_metrics",
    "mean_metrics",
    "whole_metrics",
    "strips",
    "renditions",
    "standing_times",
    "stall_times",
)
PROFILES = {"linux-6.18": "In the kernel itself.", "mptcp-0.94": "Out of tree."}
PARTS = {"sack": "Selective.", "rack": "By time."}
ABR = {
    "vlc-nearoptimal": "VLC 3's default.",
    "hlsjs": "As hls.js.",
    "bola": "Utility against buffer.",
    "throughput": "Within nine tenths.",
}


class PlanError(ValueError):
    """Like the class of this name in the Rust module."""


class SimulationError(RuntimeError):
    """Like the class of this name in the Rust module."""


class RaisedError(RuntimeError):
    """Like the class of this name in the Rust module."""


class AnswerError(RuntimeError):
    """Like the class of this name in the Rust module."""


def _samples(plan, seconds):
    columns = {
        name: []
        for name in (
            "t_s", "client", "subflow", "path", "cwnd_segments", "ssthresh_segments", "in_flight_segments",
            "srtt_ms", "min_rtt_ms", "delivery_rate_mbps", "pacing_rate_mbps", "bytes_acked",
            "unsent_bytes", "retransmissions", "state",
        )
    }  # fmt: skip
    for step in range(int(seconds * 10)):
        for client in range(plan["clients"]):
            for number, path in enumerate(plan["paths"]):
                row = (
                    step / 10, client, number, path["name"], 10 + (step * (number + 3)) % 40, 20, 8,
                    50.0 * (number + 1), 50.0, 4.8, 0.0, step * 60_000, 0, step // 50, "open",
                )  # fmt: skip
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    return columns


def _player(plan, seconds):
    columns = {"t_s": [], "client": [], "bytes_read": [], "buffer_s": [], "buffer_bytes": []}
    for step in range(int(seconds * 10)):
        for client in range(plan["clients"]):
            row = (step / 10, client, step * 65_000, max(0.0, 8 - abs(step / 10 - 20)), 100_000)
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    return columns


def _frames(plan, seconds):
    names = ("client", "index", "pts_s", "kind", "size", "fate", "why", "due_s", "shown_s")
    columns = {name: [] for name in names}
    if plan["application"]["kind"] != "progressive":
        return columns
    for client in range(plan["clients"]):
        for index in range(int(seconds * 30)):
            fate, why = "displayed", ""
            if 600 <= index < 620:
                fate = "flushed"
            elif 620 <= index < 630:
                fate, why = "discarded", "late"
            pts = index / 30
            due = pts + 1.2 + (2.5 if index >= 600 else 0)
            shown = due if fate == "displayed" else None
            row = (client, index, pts, "IPBB"[index % 4], 20_000, fate, why, due, shown)
            for name, value in zip(names, row, strict=True):
                columns[name].append(value)
    return columns


def _playback(plan, seconds):
    names = ("client", "t_s", "event", "pts_s", "delay_ms")
    columns = {name: [] for name in names}
    if plan["application"]["kind"] == "progressive":
        for client in range(plan["clients"]):
            for row in (
                (client, 1.2, "start", 0.0, 1000.0),
                (client, 21.2, "underflow", 20.0, 1000.0),
                (client, 23.7, "resume", 20.7, 1500.0),
                (client, seconds + 3.7, "end", seconds, 1500.0),
            ):
                for name, value in zip(names, row, strict=True):
                    columns[name].append(value)
    return columns


def _crossing(plan, seconds):
    names = ("flow", "name", "congestion", "start_s", "connect_s", "end_s", "fate", "bytes_read",
             "goodput_mbps", "data_segments", "retransmissions", "timeouts")  # fmt: skip
    columns = {name: [] for name in names}
    for group in plan["cross_traffic"]:
        control, start = json.loads(group["congestion"])["name"], group["start_ns"] / 1e9
        for _ in range(group["count"]):
            row = (len(columns["flow"]), group["name"], control, start, 0.05, start + seconds, "running",
                   int(seconds * 125_000), 1.0, 900, 5, 0)  # fmt: skip
            for name, value in zip(names, row, strict=True):
                columns[name].append(value)
    return {"cross_traffic": columns}


def fake_simulate(plan_json, pcapng=None, progress=None, plugins=None, at_server=False, start_ns=0):
    """Return tables of the right form with invented values for a plan."""
    plan = json.loads(plan_json)
    seconds = (plan["application"]["duration_ns"] or 40_000_000_000) / 1e9
    if progress is not None:
        progress(0.0, seconds)
        progress(seconds, seconds)
    if pcapng is not None:
        pathlib.Path(pcapng).write_bytes(b"\x0a\x0d\x0d\x0a")
    clients, paths = range(plan["clients"]), plan["paths"]
    per_client, per_subflow = len(clients), len(clients) * len(paths)
    tables = {
        "connections": {
            "client": list(clients),
            "connect_s": [0.05] * per_client,
            "duration_s": [seconds + 4] * per_client,
            "bytes_read": [int(seconds * 600_000)] * per_client,
            "reinjected_bytes": [14_000] * per_client,
            "max_read_gap_s": [0.4] * per_client,
            "fallback": [False] * per_client,
            "finished": [True] * per_client,
        },
        "subflows": {
            "client": [client for client in clients for _ in paths],
            "subflow": [number for _ in clients for number in range(len(paths))],
            "path": [path["name"] for _ in clients for path in paths],
            "established": [True] * per_subflow,
            "bytes": [int(seconds * 300_000)] * per_subflow,
            "bytes_sent": [int(seconds * 301_000)] * per_subflow,
            "retransmissions": [12] * per_subflow,
            "bytes_retransmitted": [17_000] * per_subflow,
            "data_segments": [20_000] * per_subflow,
            "queue_full_events": [3] * per_subflow,
        },
        "samples": _samples(plan, seconds),
        "player": _player(plan, seconds),
        "frames": _frames(plan, seconds),
        "playback": _playback(plan, seconds),
        "requests": {"client": [0], "id": [0], "t_s": [0.05], "resource": ["film"], "first_byte_s": [0.1],
                     "done_s": [seconds], "bytes": [1000]},
        "links": {
            "link": [link["name"] for link in plan["links"]],
            **{
                name: [value] * len(plan["links"])
                for name, value in {
                    "enqueued": 1000, "delivered": 990, "dropped_queue": 7, "dropped_loss": 3,
                    "dropped_down": 0, "bytes_delivered": 1_400_000, "queued_at_end": 0,
                }.items()
            },
        },
        "events": {
            "t_s": [event["at_ns"] / 1e9 for event in plan["events"]],
            "link": [event["link"] for event in plan["events"]],
            "what": [json.dumps(event["change"]) for event in plan["events"]],
        },
    }  # fmt: skip
    digest = hashlib.sha256(plan_json.encode()).hexdigest()
    tables |= _crossing(plan, seconds)
    summary = {"digest": digest, "duration_s": seconds + 4, "steps": 1000, "world": "simulated"}
    return {"summary": summary, "tables": tables}


PARAMETERS = {"beta", "burst"}


def fake_check_plugin(kind, text, plugins=None):
    """Return the faults of a plug-in. Names are looked up, and every plug-in has the same few parameters."""
    tables = {"scheduler": SCHEDULERS, "congestion": CONGESTION, "path_manager": PATH_MANAGERS, "abr": ABR}
    known = tables[kind]
    given = json.loads(text)
    name = given.pop("name")
    if name not in known:
        noun = {"congestion": "congestion control"}.get(kind, kind.replace("_", " "))
        return [([], f"unknown {noun}: `{name}`", list(known))]
    return [([key], f"unknown parameter of {name}: `{key}`", []) for key in given if key not in PARAMETERS]


def fake_ladder(_plan):
    """Return a ladder of one rendition and one chunk."""
    chunk = {"path": "0.ts", "offset": None, "bytes": 1000, "duration_ns": 10**10}
    return json.dumps({"renditions": [{"chunks": [chunk]}], "audio": None}), []


def _fake_module():
    module = types.ModuleType("anabranch._anabranch")
    module.__file__ = __file__
    module.PlanError = PlanError
    module.SimulationError = SimulationError
    module.simulate = fake_simulate
    module.schedulers = lambda: list(SCHEDULERS.items())
    module.congestion_controls = lambda: list(CONGESTION.items())
    module.path_managers = lambda: list(PATH_MANAGERS.items())
    module.abr_rules = lambda: list(ABR.items())
    module.profiles = lambda: list(PROFILES.items())
    module.profile_parts = lambda: list(PARTS.items())
    module.host_defaults = lambda: [("timer_tick_ns", 4_000_000), ("send_fragment", 32_728)]
    module.transport_defaults = lambda: [
        ("receive_buffer", 6 << 20), ("receive_buffer_initial", 1 << 17), ("send_buffer", 4 << 20), ("mss", 1460)
    ]  # fmt: skip
    module.plugin_defaults = lambda: [
        ("scheduler", "linux"), ("congestion", "cubic"), ("path_manager", "full-mesh")
    ]  # fmt: skip
    module.link_model_faults = lambda _model: []
    module.likely_bps = lambda _model: 6e6
    module.queue_disciplines = lambda: [("drop-tail", "Plain.", ("packets", 100), [])]
    module.ladder = fake_ladder
    module.check_plugin = fake_check_plugin
    module.plugin_parts = lambda _text: []
    module.RaisedError = RaisedError
    module.AnswerError = AnswerError
    module.plugin_parameters = lambda _kind, _name: []
    # The values of metrics are computed, not invented.
    for name in METRICS:
        setattr(module, name, getattr(_REAL, name, None))
    return module


@pytest.fixture(autouse=True)
def simulator(request, monkeypatch, tmp_path_factory):
    """Replace the Rust module by the fake simulator, except in tests marked `module`."""
    from anabranch import plugins
    from anabranch.results import identity

    # All workers of pytest-xdist share this folder, so a film is made only once.
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    monkeypatch.setenv("ANABRANCH_CACHE", str(shared / "cache"))
    plugins.catalogue.cache_clear()
    identity.code.cache_clear()
    if request.node.get_closest_marker("module"):
        sys.modules.pop("anabranch._anabranch", None)
        try:
            module = importlib.import_module("anabranch._anabranch")
        except ImportError:
            pytest.skip("the Rust module anabranch._anabranch is not built")
        yield module
    else:
        import anabranch

        module = _fake_module()
        monkeypatch.setitem(sys.modules, "anabranch._anabranch", module)
        monkeypatch.setattr(anabranch, "_anabranch", module, raising=False)
        yield module
    plugins.catalogue.cache_clear()
    identity.code.cache_clear()
