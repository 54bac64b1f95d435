"""Dependencies point one way: each crate may name only those that stand in its line of the list."""

from __future__ import annotations

import json
import subprocess

from repository import ROOT

_PREFIX = "anabranch-"

#: The crates that each crate may name, for its code, its tests and its build alike.
ALLOWED = {
    "units": set(),
    "plugin": {"units"},
    "wire": {"units"},
    "congestion": {"units", "plugin"},
    "scheduler": {"units", "plugin"},
    "tcp": {"units", "wire", "congestion"},
    "mptcp": {"units", "plugin", "wire", "congestion", "scheduler", "tcp"},
    "link": {"units", "plugin"},
    "media": {"units", "plugin"},
    "trace": {"units"},
    "capture": {"units", "wire", "trace"},
    "metrics": {"trace"},
    "drill": {"units", "plugin", "wire", "congestion", "scheduler", "mptcp"},
    "host": {"units", "wire", "scheduler", "mptcp", "media", "trace"},
    "plan": {
        *("units", "plugin", "wire", "congestion", "scheduler", "mptcp"),
        *("link", "media", "trace", "host"),
    },
    "network": {"units", "plugin", "mptcp", "link", "trace", "host", "plan"},
    "sim": {
        *("units", "plugin", "wire", "congestion", "scheduler", "mptcp"),
        *("link", "trace", "host", "plan", "network"),
    },
    "live": {"units", "plugin", "wire", "mptcp", "link", "trace", "host", "plan", "network"},
    "web": {
        *("sim", "plan", "metrics", "trace", "mptcp", "congestion", "scheduler", "plugin", "units"),
    },
    "python": {
        *("sim", "live", "plan", "metrics", "trace", "mptcp", "capture"),
        *("congestion", "scheduler", "media", "plugin", "units"),
    },
}

#: Edges of tests alone, each with its argument.
TESTS_ONLY: dict[tuple[str, str], str] = {}


def _edges() -> list[tuple[str, str, str]]:
    """Return every edge inside the workspace: crate, what it names, and for what."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [
        (package["name"].removeprefix(_PREFIX), named["name"].removeprefix(_PREFIX), named["kind"] or "code")
        for package in json.loads(out)["packages"]
        for named in package["dependencies"]
        if named["name"].startswith(_PREFIX)
    ]


def _faults(edges: list[tuple[str, str, str]]) -> list[str]:
    """Return the edges that no rule allows."""
    return [
        f"{crate} -> {named} ({kind})"
        for crate, named, kind in edges
        if named not in ALLOWED.get(crate, set()) and not (kind == "dev" and (crate, named) in TESTS_ONLY)
    ]


def test_crates_depend_one_way():
    edges = _edges()
    assert len(edges) >= len(ALLOWED)
    assert _faults(edges) == []


def test_a_wrong_edge_is_reported():
    assert _faults([("link", "wire", "code")]) == ["link -> wire (code)"]
    assert _faults([("media", "mptcp", "dev")]) == ["media -> mptcp (dev)"]
    assert _faults([("unheard-of", "units", "code")]) == ["unheard-of -> units (code)"]


def test_every_crate_has_a_rule():
    crates = {path.name for path in (ROOT / "crates").iterdir() if (path / "Cargo.toml").is_file()}
    assert crates == set(ALLOWED)


def test_an_argued_edge_exists():
    assert set(TESTS_ONLY) <= {(crate, named) for crate, named, kind in _edges() if kind == "dev"}
