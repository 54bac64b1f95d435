"""The lessons of the page: every link is a run, and gives the number printed next to it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

import anabranch
from anabranch.play import links

pytestmark = pytest.mark.module
_FOLDER = Path(__file__).parents[2] / "play" / "lessons"
_ROW = re.compile(r'<a href="\.\./index\.html(#[^"]+)">[^<]+</a></td><td data-metric="(\w+)">([\d.]+) ')
_LESSONS = sorted(path.stem for path in _FOLDER.glob("*.html") if path.stem != "index")


def rows(lesson):
    """Return the link, the metric and the number of each row of a lesson."""
    text = (_FOLDER / f"{lesson}.html").read_text(encoding="utf-8")
    return [(unescape(link), metric, number) for link, metric, number in _ROW.findall(text)]


def test_there_are_five_lessons_and_the_first_page_has_them_all():
    text = (_FOLDER / "index.html").read_text(encoding="utf-8")
    assert len(_LESSONS) == 5
    assert all(f'href="{lesson}.html"' in text for lesson in _LESSONS)


@pytest.mark.parametrize("lesson", _LESSONS)
def test_every_link_of_a_lesson_is_a_run(lesson):
    text = (_FOLDER / f"{lesson}.html").read_text(encoding="utf-8")
    assert len(rows(lesson)) == text.count("index.html#") == 4
    for link, _, _ in rows(lesson):
        links.read(link)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", _LESSONS)
def test_the_numbers_of_a_lesson_are_those_of_its_links(lesson):
    for link, metric, number in rows(lesson):
        run = anabranch.run(links.read(link).tables())
        found = {**(run.qoe or {}), **run.qos}[metric]
        # As many digits as the lesson has.
        assert float(number) == round(found, len(number.partition(".")[2])), link
