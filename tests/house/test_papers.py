"""The pages of the papers are those that their texts, numbers and the page of claims give."""

from __future__ import annotations

import re
import sys

import pytest

from repository import ROOT, text

sys.path.insert(0, str(ROOT / "docs"))
import papers

NAMES = ("HO20", "LEO24", "PC16", "SD18", "UQ18")


def test_every_paper_has_a_page():
    assert tuple(papers.names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_the_one_that_is_generated(name):
    assert papers.page(name) == text(f"docs/papers/{name}.md"), "`python docs/papers.py` writes it again"


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_with_a_table_has_its_picture(name):
    page = text(f"docs/papers/{name}.md")
    figures = page.split("\n## ")[1:]
    tables = [figure for figure in figures if "--:|" in figure]
    pictures = re.findall(r"\]\(\.\./(images/papers/\w+-\d+\.svg)\)", page)
    assert len(pictures) == len(tables)
    assert all((ROOT / "docs" / picture).is_file() for picture in pictures)
