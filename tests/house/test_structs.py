"""Structs of crates `tcp` and `mptcp` stay small, and their fields are their own (ARCHITECTURE.md)."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from repository import text
from structs import count, counts, first_words, verbs

if TYPE_CHECKING:
    from collections.abc import Mapping

METHODS = 60
#: The largest number of first words of methods that change their struct.
FIRST_WORDS = 80
_ALLOWED = tomllib.loads(text("tests/house/allowlist.toml"))


def _over(found: Mapping[str, int], limit: int, allowed: Mapping[str, int]) -> list[str]:
    """Return the structs above their limit, and the entries of the allowlist that are not needed."""
    above = [
        f"{name}: {number}, at most {max(limit, allowed.get(name, 0))}"
        for name, number in found.items()
        if number > max(limit, allowed.get(name, 0))
    ]
    spare = [f"{name}: remove its entry in allowlist.toml" for name in allowed if found.get(name, 0) <= limit]
    return above + spare


def _vocabulary() -> set[str]:
    """Return the first words of methods that ARCHITECTURE.md lists with their meaning."""
    rows = text("ARCHITECTURE.md").partition("| word | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    words = [row.split("|")[1].replace("(back)", "").strip().split(", ") for row in rows.splitlines()]
    return {word for cell in words for word in cell}


def test_structs_have_few_methods():
    methods, _ = counts()
    assert len(methods) > 50
    assert _over(methods, METHODS, _ALLOWED["methods"]) == []


def test_fields_of_structs_with_behaviour_are_private():
    _, visible = counts()
    assert _over(visible, 0, _ALLOWED["visible_fields"]) == []


def test_methods_that_change_a_struct_begin_with_few_words():
    used = set(first_words())
    assert len(used) <= FIRST_WORDS
    assert used == _vocabulary(), "begin the name with a word of the table in ARCHITECTURE.md"


def test_only_methods_that_change_a_struct_have_a_first_word():
    source = (
        "impl A {\n    pub fn take(&mut self) {}\n    fn take_all<T>(\n        &mut self,\n    ) {}\n"
        "    fn read(&self) {}\n    fn new() {}\n}\nimpl Default for A {\n    fn poll(&mut self) {}\n}\n"
    )
    assert verbs({"a.rs": source}) == {"take": 2}


def test_methods_are_counted_over_files_and_by_the_struct_of_the_file():
    # By hand: a.rs has Big with one method there and one in b.rs; both files have a struct One.
    sources = {
        "a.rs": "pub(crate) struct Big {\n    pub(crate) shown: u8,\n    own: u8,\n}\n"
        "impl Big {\n    pub fn new() -> Self {}\n    const fn in_line() {}\n}\n"
        "impl Default for Big {\n    fn default() -> Self {}\n}\n"
        "struct One {\n    pub(super) value: u8,\n}\nimpl One {\n    fn value(&self) {}\n}\n",
        "b.rs": "impl Big {\n    fn change(&mut self) {\n        fn inner() {}\n    }\n}\n"
        "struct One {\n    pub own: u8,\n}\nimpl<T> One {\n    fn a(&mut self) {}\n    fn b(&self) {}\n}\n",
    }
    assert count(sources) == ({"Big": 3, "One": 2}, {"Big": 1, "One": 1})


def test_an_entry_that_is_not_needed_fails():
    assert _over({"A": 80}, 60, {}) == ["A: 80, at most 60"]
    assert _over({"A": 80}, 60, {"A": 80}) == []
    assert len(_over({"A": 81}, 60, {"A": 80})) == 1
    assert len(_over({"A": 60}, 60, {"A": 80})) == 1
