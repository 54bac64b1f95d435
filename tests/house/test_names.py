"""Names in the documentation: a file, type, field or function in backticks is there."""

from __future__ import annotations

import functools
import re
import tomllib

import pytest

from repository import bare, closed, files, matching, text

_SPAN = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_PLACE = re.compile(r"[\w./-]*(?:/|\.(?:rs|py|pyi|toml|md|json|html|csv))")

#: Names of other programs that ARCHITECTURE.md has, and the words of Rust.
_FOREIGN = {"icsk_pending", "u64", "mut"}

_DEFINED = re.compile(
    r"\b(?:fn|struct|enum|trait|type|const|static|mod|macro_rules!|def|class)\s+(\w+)"  # both languages
    r"|^\s*(?:pub(?:\([a-z]+\))?\s+)?(\w+):\s*[A-Z&<(\[uibf]",  # fields, and parameters on lines of their own
    re.MULTILINE,
)
_TYPE = re.compile(r"\b(?:struct|enum|trait|union)\s+(\w+)[^;{(]*\{|\bimpl\b[^;{]*?\b(\w+)(?:<[^{;]*>)?\s*\{")

PAGES = [name for name in matching(".md") if name.startswith("docs/") or "/" not in name]


def names(page: str) -> list[str]:
    """Return what stands in backticks in a page, its blocks of code left out."""
    return _SPAN.findall(_FENCE.sub("", page))


@functools.cache
def crates() -> frozenset[str]:
    """Return the short names of the crates."""
    return frozenset(name.split("/")[1] for name in matching("Cargo.toml", under="crates/"))


@functools.cache
def defined() -> frozenset[str]:
    """Return every name that a source defines."""
    sources = (text(name) for name in matching(".rs", ".py", ".pyi"))
    return frozenset(name for source in sources for pair in _DEFINED.findall(source) for name in pair if name)


@functools.cache
def members() -> dict[str, frozenset[str]]:
    """Return what stands in the bodies of each type of Rust: fields, variants, functions."""
    found: dict[str, set[str]] = {}
    for source in map(bare, map(text, matching(".rs", under="crates/"))):
        for opened in _TYPE.finditer(source):
            body = source[opened.end() : closed(source, opened.end())]
            inner = re.findall(
                r"\bfn\s+(\w+)|^\s*(?:pub(?:\([a-z]+\))?\s+)?(\w+)\s*[:,({]", body, re.MULTILINE
            )
            found.setdefault(opened.group(1) or opened.group(2), set()).update(*inner)
    return {name: frozenset(inner) for name, inner in found.items()}


def is_place(name: str) -> bool:
    """Tell whether a file or folder ends in this path, or a program writes a file of that name."""
    wanted = f"/{name.strip('/')}"
    for file in files():
        path = f"/{file}"
        if path.endswith(wanted) or f"{wanted}/" in path:
            return True
    return "/" not in name and any(f'"{name}"' in text(file) for file in matching(".py", under="python/"))


def is_stream(name: str) -> bool:
    """Tell whether a random stream has a name of this form: `link.<name>.loss`."""
    asked = name.split(".")
    for file in matching(".rs", under="crates/"):
        source = text(file)
        for form in re.findall(r'"([a-z_]+(?:\.(?:\{\w*\}|\w+))+)"', source):
            parts = form.split(".")
            if len(parts) == len(asked) and all(map(_is_part, asked, parts)):
                return True
    return False


def _is_part(asked: str, part: str) -> bool:
    """Tell whether a part of a stream's name may stand where a source has this one, a word or `{}`."""
    if not part.startswith("{") or asked.startswith("<"):
        return asked == part or (asked.startswith("<") and part.startswith("{"))
    return any(f'"{asked}"' in text(file) for file in matching(".rs", under="crates/link/src/"))


def is_key(name: str) -> bool:
    """Tell whether a scenario has this key: `host.timer_tick`."""
    from anabranch.scenario import models

    table, _, key = name.partition(".")
    field = models.Scenario.model_fields.get(table)
    return field is not None and key in getattr(field.annotation, "model_fields", {})


def missing(name: str) -> list[str]:
    """Return the parts of a name in backticks that do not occur in the repository."""
    if name.startswith(("make ", "anabranch ")):
        program, command = name.split()[:2]
        pattern = rf"^{command}:" if program == "make" else rf'"{command}": "'
        sources = ["Makefile"] if program == "make" else ["python/anabranch/cli/_app.py"]
        return [] if any(re.search(pattern, text(file), re.MULTILINE) for file in sources) else [name]
    if _PLACE.fullmatch(name):
        return [] if is_place(name) else [name]
    if "<" in name or re.fullmatch(r"[a-z_]+(\.\w+)+", name):
        return [] if is_stream(name) or is_key(name) else [name]
    if name.endswith("*"):
        return [] if any(one.startswith(name[:-1]) for one in defined()) else [name]
    if match := re.fullmatch(r"(\w+)::(\w+)(?:\(\))?", name):
        return [] if match.group(2) in members().get(match.group(1), ()) else [name]
    if match := re.fullmatch(r"(\w+) \{ ([\w, ]+) \}", name):
        inside = members().get(match.group(1), frozenset())
        return [f"{match.group(1)}.{field}" for field in match.group(2).split(", ") if field not in inside]
    known = defined().union(crates(), _FOREIGN, *members().values())
    return [word for word in re.findall(r"[A-Za-z_]\w*", name) if word not in known and not is_place(word)]


def test_names_in_the_architecture_page_exist():
    found = names(text("ARCHITECTURE.md"))
    assert len(found) > 100
    assert [gone for name in found for gone in missing(name)] == []


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("crates/mptcp/src/config.rs", []),
        ("crates/mptcp/src/settings.rs", ["crates/mptcp/src/settings.rs"]),
        ("Window { cwnd, ssthresh }", []),
        ("Window { cwnd, colour }", ["Window.colour"]),
        ("SubflowView::can_send", []),
        ("SubflowView::may_send", ["SubflowView::may_send"]),
        ("in_flight_memory_percent", ["in_flight_memory_percent"]),
        ("poll_*", []),
        ("pull_*", ["pull_*"]),
        ("link.<name>.loss", []),
        ("link.<name>.colour", ["link.<name>.colour"]),
        ("host.timer_tick", []),
        ("host.colour", ["host.colour"]),
        ("make lint", []),
        ("make tea", ["make tea"]),
        ("anabranch tea", ["anabranch tea"]),
        ("units ← whisky", ["whisky"]),
    ],
)
def test_a_name_that_is_not_there_is_reported(name, gone):
    assert missing(name) == gone


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page):
    places = [
        name for name in names(text(page)) if re.fullmatch(r"[\w./-]+/[\w-]+\.(?:rs|py|pyi|toml)", name)
    ]
    assert [name for name in places if "NAME" not in name and not is_place(name)] == []


def test_the_tests_of_the_adversity_page_are_there():
    source = "".join(text(name) for name in matching(".rs", under="crates/"))
    source += "".join(text(name).replace("def ", "fn ") for name in matching(".py", under="tests/live/"))
    tests = [
        name for name in names(text("docs/adversity.md")) if re.fullmatch(r"[a-z]+(?:_[a-z0-9]+){3,}", name)
    ]
    assert len(tests) > 30
    assert [name for name in tests if f"fn {name}(" not in source] == []


def test_every_crate_is_in_the_architecture():
    members_ = tomllib.loads(text("Cargo.toml"))["workspace"]["members"]
    assert members_
    page = text("ARCHITECTURE.md")
    assert [name for name in sorted(crates()) if f"`crates/{name}`" not in page] == []
