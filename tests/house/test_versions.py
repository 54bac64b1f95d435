"""One version, wherever it is written."""

from __future__ import annotations

import re
import tomllib

import anabranch
from repository import matching, text

VERSION = tomllib.loads(text("Cargo.toml"))["workspace"]["package"]["version"]


def test_every_crate_has_the_workspaces_version():
    for name in matching("Cargo.toml", under="crates/"):
        assert tomllib.loads(text(name))["package"]["version"] == {"workspace": True}, name


def test_python_takes_its_version_from_cargo():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert "version" in project["dynamic"]
    assert "version" not in project
    assert anabranch.__version__ == VERSION


def test_the_texts_name_this_version():
    assert re.search(rf"\bversion {re.escape(VERSION)}\b", text("README.md"), re.IGNORECASE)
    assert f"version: {VERSION}\n" in text("CITATION.cff")
    assert f"## [{VERSION}]" in text("CHANGELOG.md")


def test_the_makefile_and_readme_ask_for_the_rust_that_cargo_does():
    least = tomllib.loads(text("Cargo.toml"))["workspace"]["package"]["rust-version"]
    assert f"RUST_LEAST := {least}\n" in text("Makefile")
    assert f"Rust {least}" in text("README.md")


def test_the_lockfile_of_the_fuzz_targets_has_every_crate_that_they_need():
    """Outside the workspace, so that no build of the workspace updates it."""
    locked = {one["name"]: one for one in tomllib.loads(text("fuzz/Cargo.lock"))["package"]}
    left, needed = ["anabranch-drill", "anabranch-capture"], set()
    while left:
        name = left.pop()
        if name in needed:
            continue
        needed.add(name)
        manifest = tomllib.loads(text(f"crates/{name.removeprefix('anabranch-')}/Cargo.toml"))
        own = list(manifest.get("dependencies", {}))
        # A dependency has its version behind its name if the file has two of them.
        found = {one.split()[0] for one in locked[name].get("dependencies", [])}
        assert set(own) <= found, f"{name}: run `cargo update -w` in fuzz/"
        assert locked[name]["version"] == VERSION
        left += [one for one in own if one.startswith("anabranch-")]
    assert needed == {name for name in locked if name.startswith("anabranch-")} - {"anabranch-fuzz"}
