"""The changelog: short lines, dated versions, known groups."""

from __future__ import annotations

import datetime
import re

from repository import text

MOST_WORDS = 25
GROUPS = ("Added", "Changed", "Fixed", "Changes results")


def sections():
    """Return each version's heading with its lines."""
    _, *parts = re.split(r"^## ", text("CHANGELOG.md"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2].splitlines() for part in parts}


def test_every_change_is_one_line_of_at_most_25_words_that_begins_with_its_module():
    for heading, lines in sections().items():
        for line in filter(None, lines):
            if line.startswith("- "):
                assert len(line.removeprefix("- ").split()) <= MOST_WORDS, line
                assert re.match(r"- [a-z, ]+: ", line), line
            else:
                # A change that is wrapped would continue here.
                assert not line.startswith(" "), f"{heading}: {line}"


def test_groups_are_known_and_in_order():
    for heading, lines in sections().items():
        found = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
        assert found == [group for group in GROUPS if group in found], heading


def test_every_version_but_the_unreleased_one_has_its_date():
    first, *versions = sections()
    dates = []
    for heading in versions if first == "[Unreleased]" else [first, *versions]:
        found = re.fullmatch(r"\[\d+\.\d+\.\d+\] - (\d{4}-\d{2}-\d{2})", heading)
        assert found, heading
        dates.append(datetime.date.fromisoformat(found[1]))
    assert dates == sorted(dates, reverse=True)
