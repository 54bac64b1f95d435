"""The page of claims: its verdicts are not older than the last change of results by more than one release."""

from __future__ import annotations

import re

from repository import text

_BUILD = re.compile(r"; build: `(\d+\.\d+\.\d+)\+[0-9a-f]+`")


def releases(changelog: str) -> list[tuple[str, bool]]:
    """Return each version of a changelog, newest first, and whether it changed results."""
    _, *parts = re.split(r"^## \[", changelog, flags=re.MULTILINE)
    return [(part.partition("]")[0], "\n### Changes results\n" in part) for part in parts]


def too_old(page: str, changelog: str) -> list[str]:
    """Return the papers of a page that are more than one release older than the last change of results."""
    found = releases(changelog)
    names = [name for name, _ in found]
    last = next(place for place, (_, changes) in enumerate(found) if changes)
    old = []
    for section in page.split("\n\n## ")[1:]:
        built = _BUILD.search(section)
        # A build of the development after a release has that release's version.
        if built is None or names.index(built[1]) > last + 1:
            old.append(section.partition("\n")[0])
    return old


def test_the_page_is_not_too_old():
    assert too_old(text("docs/claims.md"), text("CHANGELOG.md")) == [], "`make claims` judges them again"


def test_a_page_that_is_too_old_is_found():
    changelog = "# C\n\n## [Unreleased]\n\n### Fixed\n- x\n\n## [0.3.0] - d\n\n### Changes results\n- y\n"
    changelog += "\n## [0.2.0] - d\n\n### Fixed\n- z\n\n## [0.1.0] - d\n\n### Added\n- a\n"
    page = "# P\n\n## A\n\n30; build: `0.2.0+00ff`.\n\n## B\n\n30; build: `0.1.0+00ff`; inputs: `ab`.\n"
    page += "\n\n## C\n\nnone\n"
    assert too_old(page, changelog) == ["B", "C"]
