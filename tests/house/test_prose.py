"""Comments, docstrings and documentation are plain English, as far as patterns can tell (`prose.py`)."""

from __future__ import annotations

import pytest

import prose


def test_neither_a_file_nor_the_repository_has_more_mannered_constructions_than_allowed():
    limits = prose.allowed()
    found = {name: (len(hits), lines) for name, hits, lines in prose.judged()}
    assert len(found) > 500
    over = [
        f"{name}: {count} hits in {lines} lines of prose (`python tests/house/prose.py {name}` prints them)"
        for name, (count, lines) in found.items()
        if prose.above_limit(count, lines) and count > limits.get(name, 0)
    ]
    assert over == []
    hits, lines = (sum(column) for column in zip(*found.values(), strict=True))
    assert 1000 * hits <= prose.TOTAL_LIMIT * lines, (
        f"{hits} hits in {lines} lines of prose in all files together"
    )


@pytest.mark.parametrize(
    ("name", "source", "lines"),
    [
        ("a.rs", "/// What is closed goes.\nlet what = 1; // Who knows.\n    //! Fine.\n", [1]),
        ("a.py", '"""Fine.\n\nWhat is closed goes.\n"""\nx = "What is closed."\n#: Nobody waits.\n', [3, 6]),
        ("a.md", "Fine.\n\n```\nnobody\n```\n| nobody |\nIt tells what it is.\n", [7]),
        ("a.md", "What is a path?\n", []),
        ("a.md", "Only then comes the rest.\nA path may come once more.\n", [1, 2]),
    ],
)  # fmt: skip
def test_hits_are_found_in_prose_alone(name, source, lines):
    found, _ = prose.hits(name, source)
    assert [number for number, *_ in found] == lines


def test_a_short_file_is_not_judged_and_a_long_one_by_its_rate():
    assert not prose.above_limit(40, 40)
    assert prose.above_limit(1, 41)
    assert not prose.above_limit(15, 1000)
    assert prose.above_limit(16, 1000)
