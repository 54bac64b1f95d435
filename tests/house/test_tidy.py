"""The house rules that no linter knows."""

from __future__ import annotations

import re
import tomllib

import pytest

from repository import ROOT, bare, before_tests, files, functions, is_test, matching, rust_functions, text

FILE_LINES = 500
FUNCTION_LINES = 70
FILE_BYTES = 1_000_000

#: Crates that never read a clock, open a socket or start a thread.
SANS_IO = (
    *("units", "plugin", "wire", "congestion", "scheduler", "tcp", "mptcp"),
    *("link", "media", "trace", "capture", "host", "plan", "network", "sim"),
)

_ALLOWED = tomllib.loads(text("tests/house/allowlist.toml"))


def _sources() -> list[str]:
    """Return the sources that the limits hold for: all but tests."""
    return [name for name in matching(".rs", ".py") if not is_test(name)]


def _over(found: dict[str, int], limit: int, allowed: dict[str, int]) -> list[str]:
    """Return what breaks a limit, and which allowances are not needed any more."""
    broken = [
        f"{name}: {lines} lines, at most {allowed.get(name, limit)}"
        for name, lines in found.items()
        if lines > max(limit, allowed.get(name, limit))
    ]
    loose = [
        f"{name}: {found.get(name, 0)} lines: remove its entry in allowlist.toml"
        for name in allowed
        if found.get(name, 0) <= limit
    ]
    return broken + loose


def test_files_are_short():
    lengths = {
        name: (before_tests(text(name)) if name.endswith(".rs") else text(name)).count("\n")
        for name in _sources()
    }
    assert _over(lengths, FILE_LINES, _ALLOWED["files"]) == []


def test_functions_are_short():
    lengths: dict[str, int] = {}
    for name in _sources():
        for function in functions(name):
            key = f"{name}::{function.name}"
            lengths[key] = max(lengths.get(key, 0), function.lines)
    assert len(lengths) > 100
    assert _over(lengths, FUNCTION_LINES, _ALLOWED["functions"]) == []


def test_an_allowance_that_is_not_needed_is_reported():
    assert _over({"a": 80}, 70, {}) == ["a: 80 lines, at most 70"]
    assert _over({"a": 80}, 70, {"a": 80}) == []
    assert len(_over({"a": 80}, 70, {"a": 75})) == 1
    assert len(_over({"a": 60}, 70, {"a": 80})) == 1
    assert len(_over({}, 70, {"gone": 80})) == 1


def test_functions_are_found_past_strings_and_signatures():
    source = 'fn a<T>(f: fn(u8) -> [u8; 2]) -> T\nwhere T: X {\n let s = "}"; // }\n {}\n}\nfn b();\n'
    assert [(f.name, f.line, f.lines) for f in rust_functions(source)] == [("a", 1, 5)]
    lifetimes = "fn c<'a>(x: &'a str) -> char {\n match x { _ => '{' }\n}\nfn d() { r#\"}\"# }\n"
    assert [(f.name, f.lines) for f in rust_functions(lifetimes)] == [("c", 3), ("d", 1)]


def test_nothing_is_left_undone():
    macro = re.compile(r"\b(todo|unimplemented)!\s*[(\[{]")
    note = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\(#\d+\))")
    found = [name for name in matching(".rs") if macro.search(bare(text(name)))]
    found += [
        f"{name}: a note without its issue, which follows in parentheses"
        for name in matching(".rs", ".py", ".toml", ".md")
        if name != "tests/house/test_tidy.py" and note.search(text(name))
    ]
    assert found == []


@pytest.mark.parametrize("crate", SANS_IO)
def test_the_core_reads_no_clock_and_iterates_in_order(crate):
    banned = {
        "a hash map's order is no order": r"\bHash(Map|Set)\b",
        "time is an argument": r"\b(Instant|SystemTime)::now\b",
        "the core never waits or starts a thread": r"\bthread::(spawn|sleep|scope)\b",
        "the core opens no socket": r"\b(TcpStream|TcpListener|UdpSocket)\b",
        "randomness comes from a named stream": r"\b(OsRng|thread_rng|getrandom)\b",
    }
    names = matching(".rs", under=f"crates/{crate}/src/")
    assert names
    found = [
        f"{name}: {why}"
        for name in names
        for why, pattern in banned.items()
        if re.search(pattern, bare(before_tests(text(name))))
    ]
    assert found == []


def test_clippy_bans_the_same():
    banned = text("clippy.toml")
    for path in ("time::Instant::now", "time::SystemTime::now", "thread::spawn", "collections::HashMap"):
        assert f"std::{path}" in banned


def test_no_file_is_large():
    assert [name for name in files() if (ROOT / name).stat().st_size > FILE_BYTES] == []


def test_no_text_names_a_place_on_somebodys_machine():
    place = re.compile(r"(?<![\w.$}>)])/(?:home|root|work|Users|mnt)/[\w.]")
    assert [name for name in files() if name != "Cargo.lock" and place.search(text(name))] == []


def test_lint_exceptions_have_reasons():
    exception = re.compile(r"#!?\[(?:expect|allow)\((?:[^()\[\]]|\([^()]*\))*\)\]", re.DOTALL)
    found = [
        f"{name}: {attribute}"
        for name in matching(".rs")
        for attribute in exception.findall(bare(text(name)))
        if "reason" not in attribute
    ]
    assert found == []


def test_the_licence_is_here():
    licence = text("LICENSE")
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence


def _unsafe(source: str) -> list[str]:
    """Return where code is unsafe, or the lint against it is named, in the order of the text."""
    return re.findall(r"\bunsafe(?:_code)?\b", bare(source))


def test_unsafe_code_is_where_packets_are_written_and_at_the_border_of_the_page():
    found = {name: words for name in matching(".rs") if (words := _unsafe(text(name)))}
    assert found == {
        "crates/live/src/entrance/ring.rs": ["unsafe_code", "unsafe"],
        # The declaration of imports, and that of an exported name.
        "crates/web/src/abi.rs": ["unsafe_code", "unsafe", "unsafe_code", "unsafe"],
    }


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("#[allow(dead_code, unsafe_code)]\nfn a() {}\n", ["unsafe_code"]),
        ("#![cfg_attr(test, allow(\n    unsafe_code,\n))]\n", ["unsafe_code"]),
        ("fn a() { unsafe{ b() } }\n", ["unsafe"]),
        ("unsafe impl Send for A {}\nunsafe extern {}\n", ["unsafe", "unsafe"]),
        ('// unsafe\nlet a = "unsafe"; /* unsafe */ let unsafely = 1;\n', []),
    ],
)
def test_unsafe_code_is_found_in_whatever_form(source, words):
    assert _unsafe(source) == words
