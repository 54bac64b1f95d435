"""The simulator as WebAssembly gives the native digest and metrics: every plug-in, every model, both players."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch import metrics
from anabranch.metrics._rows import of_each
from anabranch.metrics._still import strips
from anabranch.plugins import catalogue, module
from anabranch.scenario import plan
from anabranch.scenario.link_models import MODELS
from anabranch.scenario.load import load

_ROOT = Path(__file__).resolve().parents[2]
_WASM = _ROOT / "build" / "play" / "anabranch.wasm"
_FIRST = {"name": "wifi", "rate": "8 Mbit/s", "rtt": "30 ms", "loss": "0.5 %", "queue": "40 packets"}
_SECOND = {"name": "lte", "rate": "5 Mbit/s", "rtt": "80 ms", "jitter": "5 ms", "queue": "60 packets"}
_FILM = {"synthetic": {"name": "film", "rate_bps": 1_500_000, "duration_ns": 6 * 10**9}}
_LADDER = {"synthetic": {"name": "uq18-jp", "duration_ns": 12 * 10**9, "chunk_ns": 2 * 10**9}}
pytestmark = [
    pytest.mark.module,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not _WASM.is_file(), reason="`make wasm` has not built the simulator"),
]


def _plan(*, paths=(_FIRST, _SECOND), **tables):
    """Return a plan of some tables of a scenario: by default 400 kB over two paths."""
    given = {
        "name": "web",
        "seed": 7,
        "application": {"kind": "bulk", "bytes": "400 kB"},
        "paths": list(paths),
    }
    return plan.build(load(given | tables).scenario, None)


def _film(made):
    return made | {"application": {"kind": "progressive", "duration_ns": 20 * 10**9}, "film": _FILM}


def _ladder(made, rule):
    application = {"kind": "adaptive", "duration_ns": 20 * 10**9, "adaptive": {"abr": {"name": rule}}}
    return made | {"application": application, "ladder": _LADDER}


def plans_of_everything():
    """Return plans by name: every plug-in once, every model of a link, both players, and the rest of a scenario."""
    known = catalogue()
    kinds = {
        "scheduler": known.schedulers,
        "congestion": known.congestion,
        "path_manager": known.path_managers,
        "profile": known.profiles,
    }
    plans = {
        f"{kind} {name}": _plan(transport={kind: name}) for kind, names in kinds.items() for name in names
    }
    plans |= {f"abr {rule}": _ladder(_plan(), rule) for rule in known.abr if rule != "fixed"}
    for model in MODELS:
        varying = {"name": "a", "rtt": "40 ms", "model": model}
        plans[f"model {model}"] = _film(_plan(paths=[varying, _SECOND]))
    trace = {"name": "a", "trace": str(_ROOT / "scenarios" / "traces" / "lte-driving.csv")}
    plans["recording"] = _film(_plan(paths=[trace, _SECOND]))
    plans["film"] = _film(_plan())
    cut = [{"at": "1 s", "path": "wifi", "state": "down"}, {"at": "3 s", "path": "wifi", "state": "up"}]
    plans["film with a cut"] = _film(_plan(events=cut))
    plans["two clients"] = _film(_plan(clients=2))
    flows = [{"name": "other", "path": "wifi", "congestion": "reno"}]
    flows.append({"name": "call", "path": "lte", "kind": "paced", "rate": "1 Mbit/s", "duration": "5 s"})
    plans["cross traffic"] = _plan(cross_traffic=flows)
    plans["recorded segments"] = _plan(record=["receiver"])
    return plans


def _native(made):
    """Return the native digest of a plan, its metrics and the rows of its tables."""
    trace = module().simulate(json.dumps(made), None, None, {})
    tables = trace["tables"]
    clients = metrics.by_client(tables, paths=[path["name"] for path in made["paths"]])
    found = {
        "qoe": metrics.qoe(tables, clients),
        "qos": metrics.qos(tables, clients),
        "duration_s": metrics.duration_s(tables),
        "strips": strips(tables),
        "renditions": [module().renditions(own) for _, own in of_each(tables)],
    }
    rows = {name: len(next(iter(table.values()))) for name, table in tables.items()}
    return trace["summary"]["digest"], found, rows


def _in_node(plans, *, program="web_plans.mjs"):
    """Return what a program in node answers to plans, in order."""
    done = subprocess.run(
        [
            shutil.which("node") or "node",
            str(Path(__file__).parent / program),
            str(_WASM),
            str(_ROOT / "play" / "engine.js"),
        ],
        input="".join(f"{json.dumps(made)}\n" for made in plans),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _compare(plans):
    for (name, made), found in zip(plans.items(), _in_node(plans.values()), strict=True):
        digest, numbers, rows = _native(made)
        assert found.get("digest") == digest, f"{name}: {found.get('error')}"
        assert found["rows"] == rows, name
        assert found["progress"] > 0, name
        # The data held back by a receiver is computed in Python only.
        if "record" not in made:
            assert found["metrics"] == numbers, name


def test_a_film_and_a_transfer_have_the_native_digest():
    plans = plans_of_everything()
    _compare({name: plans[name] for name in ("film", "scheduler linux", "cross traffic")})


@pytest.mark.slow
def test_every_plug_in_model_and_player_has_the_native_digest():
    plans = plans_of_everything()
    assert len(plans) >= 50
    _compare(plans)


class _Counting:
    """The last scheduler of web_scheduler.mjs that builds on min-rtt, in Python."""

    builds_on = "min-rtt"

    def __init__(self):
        self.seen = {"sent": 0, "events": 0, "data_una": 0, "calls": 0, "views": 0, "requests": 0}

    def build(self, _parameters, _seed):
        return self

    def schedule(self, request, views, proposal):
        seen = self.seen
        seen["calls"] += 1
        for view in views:
            seen["views"] += view.srtt_ms + view.cwnd_segments + view.queued_bytes + view.can_send
            seen["views"] += (view.oldest_sent_ms or 0) + (view.next_timeout_ms or 0) + view.last_ack_ms
        seen["requests"] += request.now_ms + request.data_next + request.window_left_bytes
        return proposal

    def on_sent(self, _id, _from, count):
        self.seen["sent"] += count

    def on_data_ack(self, _now_ms, data_una):
        self.seen["data_una"] = max(self.seen["data_una"], data_una)

    def on_event(self, _now_ms, _id, event):
        if event.kind == "delivered":
            self.seen["events"] += event.segments


def _counted(made):
    """Return what the callbacks of a scheduler in Python are called with, in the same run."""
    one = _Counting()
    given = made | {"transport": made["transport"] | {"scheduler": "js:mine"}}
    module().simulate(json.dumps(given), None, None, {"scheduler": {"js:mine": one}})
    return one.seen


def test_a_scheduler_in_javascript_decides_as_the_built_in_one():
    """The program has min-rtt in JavaScript, alone and as the proposal of a base."""
    made = _plan(transport={"scheduler": "min-rtt"})
    own, proposed, counted, other = _in_node([made], program="web_scheduler.mjs")
    native = _native(made)[0]
    assert own["digest"] == proposed["digest"] == native
    assert counted == _counted(made)
    assert counted["sent"] > 0 < counted["events"]
    assert other["digest"] != native


def test_javascript_scheduler_errors_name_the_cause():
    found = _in_node([_plan()], program="web_faults.mjs")
    thrown, unknown, before, shape, base, unbuilt, after = found
    assert thrown == {"message": "RangeError: no idea", "key": "transport.scheduler", "cause": "RangeError"}
    assert unknown["message"] == "js:mine.schedule returned 9: the subflows that can be chosen now are 0"
    assert "until_ms is a time in ms, not before now_ms" in before["message"]
    assert "expected null, a subflow or its id" in shape["message"]
    assert 'js:mine.builds_on is "min-rt": unknown scheduler' in base["message"]
    assert unbuilt["message"] == "TypeError: js:mine has no method schedule(request, views)"
    assert after["digest"] == _native(_plan())[0]


def test_the_faults_of_a_plan_have_their_keys():
    made, misnamed = _plan(), _plan()
    made["paths"][1]["down"][0] = 5
    misnamed["transport"]["scheduler"] = "min-rt"
    wrong, other = _in_node([made, misnamed])
    assert wrong["faults"][0]["key"] == "paths[1].down[0]"
    assert other["faults"][0]["key"].startswith("transport.scheduler")
    assert "min-rtt" in other["faults"][0]["hint"]
    assert _in_node(["no plan"])[0]["faults"][0]["key"] == ""
