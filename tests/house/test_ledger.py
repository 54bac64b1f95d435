"""The ledger of RFC 8684: every requirement once, each with tests that there are, or a reason."""

from __future__ import annotations

import re
import tomllib

from repository import files, matching, text

LEDGER = "specs/rfc8684.toml"

#: Requirements that the RFC has, as numbered in the ledger.
COUNT = 90

_KEYS = {"number", "level", "section", "text"}
_RUST_TEST = r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn {name}\("
_PYTHON_TEST = r"^def {name}\("


def requirements() -> list[dict]:
    """Return every entry, of the ledger and of the parts that it may be in."""
    parts = [LEDGER, *matching(".toml", under="specs/rfc8684/")]
    return [entry for part in parts for entry in tomllib.loads(text(part))["requirement"]]


def names(entry: dict) -> list[str]:
    """Return the tests that an entry names."""
    named = entry.get("test", [])
    return [named] if isinstance(named, str) else named


def exists(test: str) -> bool:
    """Tell whether a test, `path::name`, is there."""
    path, _, name = test.partition("::")
    pattern = _RUST_TEST if path.endswith(".rs") else _PYTHON_TEST
    found = (
        re.search(pattern.format(name=re.escape(name)), text(path), re.MULTILINE) if path in files() else None
    )
    return bool(name) and found is not None


def faults(entry: dict) -> list[str]:
    """Return what is wrong with an entry."""
    number = entry.get("number")
    found = [f"{number}: no {key}" for key in sorted(_KEYS - entry.keys())]
    found += [f"{number}: what is {key}?" for key in sorted(entry.keys() - _KEYS - {"test", "exception"})]
    if entry.get("level") not in ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT"):
        found.append(f"{number}: level {entry.get('level')}")
    if not re.fullmatch(r"\d(\.\d+)*(, \d(\.\d+)*)*", entry.get("section", "")):
        found.append(f"{number}: section {entry.get('section')}")
    if ("test" in entry) == ("exception" in entry) or (not names(entry) and not entry.get("exception")):
        found.append(f"{number}: either tests or a reason why there is none")
    if len(entry.get("exception", "x" * 20)) < 20:
        found.append(f"{number}: no reason that says why")
    found += [f"{number}: no test {test}" for test in names(entry) if not exists(test)]
    return found


def test_every_requirement_is_there_once():
    numbers = [entry["number"] for entry in requirements()]
    assert sorted(numbers) == list(range(1, COUNT + 1))


def test_every_requirement_has_its_tests_or_its_reason():
    assert [fault for entry in requirements() for fault in faults(entry)] == []


def test_a_fault_is_reported():
    here = "tests/house/test_ledger.py::test_a_fault_is_reported"
    good = {"number": 1, "level": "MUST", "section": "3.1, 4", "text": "so", "test": here}
    assert faults(good) == []
    reason = "the kernel does it otherwise, and so do we"
    without = {key: good[key] for key in _KEYS}
    assert faults({**without, "exception": reason}) == []
    for bad in (
        without,
        {**good, "exception": reason},
        {**without, "exception": "no"},
        {**without, "test": []},
        {**good, "test": "tests/house/test_ledger.py::test_gone"},
        {**good, "test": "tests/gone.rs::test_a_fault_is_reported"},
        {**good, "test": "crates/mptcp/src/endpoint.rs::find"},
        {**good, "level": "MAY"},
        {**good, "section": "three"},
        {**good, "note": "more"},
        {key: good[key] for key in good if key != "text"},
    ):
        assert len(faults(bad)) == 1, bad
