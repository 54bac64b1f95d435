"""Few functions are inlined by force, and each states how often it is called (docs/performance.md)."""

from __future__ import annotations

import re

from repository import matching, text

#: The largest number of functions with `#[inline(always)]`. It only shrinks.
MOST = 20
_FORCED = re.compile(r"^( *)#\[inline\(always\)\]$", re.MULTILINE)
_REASON = r"// A run of 20 MB calls it [\d,]+ times\."
_MEASURED = re.compile(rf"^( *){_REASON}\n\1#\[inline\(always\)\]$", re.MULTILINE)


def _forced() -> tuple[int, list[str]]:
    """Return how many functions are inlined by force, and the files with one that has no measurement."""
    number, bare = 0, []
    for name in matching(".rs", under="crates/"):
        forced = len(_FORCED.findall(text(name)))
        number += forced
        if forced != len(_MEASURED.findall(text(name))):
            bare.append(name)
    return number, bare


def test_few_functions_are_inlined_by_force_and_each_has_a_measurement():
    number, bare = _forced()
    assert bare == []
    assert number == MOST, "lower the limit to the number that is left"


def test_a_forced_function_without_a_measurement_is_found():
    assert _FORCED.findall("    #[inline(always)]\n    fn a() {}\n") == ["    "]
    assert not _MEASURED.findall("    // Short.\n    #[inline(always)]\n    fn a() {}\n")
    assert _MEASURED.findall("  // A run of 20 MB calls it 9,000 times.\n  #[inline(always)]\n  fn a() {}\n")
