"""Texts name only ways to install the project that exist: no package index has it."""

from __future__ import annotations

import re

import pytest

from repository import matching, text

TEXTS = [
    name
    for name in (*matching(".md"), *matching(".py", under="python/"), *matching(".html"), *matching(".ipynb"))
    if name != "CHANGELOG.md"
]


def faults(content: str) -> list[str]:
    """Return the commands in a text that would install the project from an index."""
    found = []
    for line in content.splitlines():
        for after in re.findall(r"pip3? install ([^`\n;#)]*(?:\)[^`\n;#]*)?)", line):
            words = [word.strip("\"',.") for word in after.split() if not word.startswith("-")]
            found += [line.strip() for word in words if word.startswith("anabranch") and ".whl" not in word]
    return found


@pytest.mark.parametrize(
    ("line", "is_fault"),
    [
        ("pip install 'anabranch[media]'", True),
        ("run `pip install anabranch`.", True),
        ("pip install --upgrade anabranch", True),
        ("pip install .", False),
        ("pip install '.[media]'", False),
        ("pip install dist/anabranch-*.whl", False),
        ('pip install "$(echo dist/anabranch-*.whl)[media,figures]"', False),
        ("python -m pip install 'av>=13'", False),
    ],
)
def test_the_index_is_found(line, is_fault):
    assert bool(faults(line)) == is_fault


def test_no_text_installs_the_project_from_an_index():
    assert {name: found for name in TEXTS if (found := faults(text(name)))} == {}
