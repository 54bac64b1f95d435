"""Releases: the reasons for which `make release` refuses, and the files that it writes."""

from __future__ import annotations

import datetime
import importlib.util
import tomllib

import pytest

from repository import ROOT, text

_spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
release = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(release)

CHANGELOG = """\
# Changelog

## [Unreleased]

### Added

### Fixed

- cli: one.

## [0.2.0] - 2026-11-27

### Added

- sim: two.
"""


def test_unreleased_changes_move_under_the_version_and_empty_groups_go():
    changed = release.with_release(CHANGELOG, "0.3.0", datetime.date(2027, 1, 2))
    assert changed == CHANGELOG.replace(
        "## [Unreleased]\n\n### Added\n\n", "## [Unreleased]\n\n## [0.3.0] - 2027-01-02\n\n"
    )
    assert release.unreleased(changed) == ""


def test_every_place_gets_the_version_and_nothing_else_changes():
    old = tomllib.loads(text("Cargo.toml"))["workspace"]["package"]["version"]
    for name in release.PLACES:
        changed = release.with_version(name, text(name), "9.8.7")
        assert "9.8.7" in changed, name
        assert release.with_version(name, changed, old) == text(name), name
    locked = tomllib.loads(release.with_version("Cargo.lock", text("Cargo.lock"), "9.8.7"))["package"]
    own = {one["version"] for one in locked if one["name"].startswith("anabranch")}
    assert own == {"9.8.7"}
    assert {one["version"] for one in locked if not one["name"].startswith("anabranch")}.isdisjoint(own)


def test_a_file_without_a_version_is_refused():
    with pytest.raises(ValueError, match="no version found in README"):
        release.with_version("README.md", "no version here", "0.3.0")


@pytest.mark.parametrize("raised", [KeyboardInterrupt, ValueError("the wheel reports `0.2.0`")])
def test_a_release_that_ends_early_restores_all_files(tmp_path, monkeypatch, capsys, raised):
    def build(_folder):
        assert 'version = "9.8.7"' in (tmp_path / "Cargo.toml").read_text(encoding="utf-8")
        raise raised

    texts = {name: text(name) for name in release.PLACES} | {release.CHANGELOG: CHANGELOG}
    for name, old in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(old, encoding="utf-8")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "_call", lambda *_: "")
    monkeypatch.setattr(release, "_build", build)
    assert release.main("9.8.7") == 1
    assert "hint: all files were restored" in capsys.readouterr().err
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in texts} == texts


@pytest.mark.parametrize(
    ("version", "changelog", "status", "messages"),
    [
        ("0.3.0", CHANGELOG, "", []),
        ("1.0.0", CHANGELOG, "\n", []),
        ("0.10.0", CHANGELOG, "", []),
        ("", CHANGELOG, "", ["not a version: ``"]),
        ("v0.3.0", CHANGELOG, "", ["not a version: `v0.3.0`"]),
        ("0.3", CHANGELOG, "", ["not a version: `0.3`"]),
        ("0.03.0", CHANGELOG, "", ["not a version: `0.03.0`"]),
        ("0.1.9", CHANGELOG, "", ["0.1.9 is not above 0.2.0"]),
        ("0.2.0", CHANGELOG, "", ["0.2.0 is not above 0.2.0", "already has 0.2.0"]),
        ("0.3.0", CHANGELOG.replace("- cli: one.\n", ""), "", ["no unreleased changes"]),
        ("0.3.0", CHANGELOG.replace("[Unreleased]", "[0.2.1]"), "", ["no unreleased changes"]),
        ("0.3.0", CHANGELOG, " M README.md\n", ["uncommitted changes"]),
        ("0.1", "", "?? x\n", ["not a version", "no unreleased changes", "uncommitted changes"]),
    ],
)  # fmt: skip
def test_a_release_reports_every_reason_to_refuse(version, changelog, status, messages):
    found = release.faults(version, "0.2.0", changelog, status)
    assert len(found) == len(messages)
    for fault, message in zip(found, messages, strict=True):
        assert message in fault
        assert fault.startswith("error: ")
        assert "\n  hint: " in fault
