"""The recipes: every command runs, and every example of Python prints the output on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: This recipe is also a guide and has thirty whole films, so only its place in the index is tested.
GUIDE = DOCS / "guide" / "second-path.md"
PAGES = sorted((DOCS / "recipes").glob("*.md"))
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DOCTEST = re.compile(r"^```python\n(>>>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Return what a page has to run, in its order: kind and text."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.fixture
def place(tmp_path):
    """Return a folder in which the program is called `anabranch`, as after an installation."""
    program = tmp_path / ".venv" / "bin" / "anabranch"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anabranch "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run(place, *command):
    path = f"{place / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=place,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_recipes_are_found():
    assert len(PAGES) == 6
    assert all(blocks(page) for page in PAGES)


def test_the_index_begins_with_every_recipe():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    first = re.findall(r"^## .*?(?=^## |\Z)", index, re.MULTILINE | re.DOTALL)[0]
    assert {page.relative_to(DOCS).as_posix() for page in (GUIDE, *PAGES)} == set(
        re.findall(r"\]\((.*?)\)", first)
    )


@pytest.mark.slow
@pytest.mark.module
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_everything_in_a_recipe_runs_in_its_order(page, place):
    for number, (kind, text) in enumerate(blocks(page)):
        if kind == "sh":
            done = run(place, "bash", "-e", "-c", text)
        else:
            script = place / f"example-{number}.{'txt' if text.startswith('>>>') else 'py'}"
            script.write_text(text)
            tested = ("-m", "doctest") if script.suffix == ".txt" else ()
            done = run(place, sys.executable, *tested, script.name)
        # `doctor` exits with 0 even if something is missing. Notes go to stderr, and there is never a
        # traceback.
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.module
def test_recipe_table_matches_its_command_output(place):
    page = (DOCS / "recipes" / "which-scheduler.md").read_text(encoding="utf-8")
    command, table = re.search(
        r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    ).groups()
    printed = run(place, "bash", "-e", "-c", command).stdout.splitlines()[-3:]
    number = r"[+-]?[\d.]+"
    for told, line in zip(table.splitlines()[1:], printed[1:], strict=True):
        assert told.split()[:2] == line.split()[:2]
        # A detail of another controller or scheduler changes the numbers, but not the answer.
        low, high = map(float, re.search(rf"\[({number}), ({number})\]", line).groups())
        assert low <= float(told.split()[2]) <= high


def test_examples_with_answers_are_tried():
    assert any(_DOCTEST.search(page.read_text(encoding="utf-8")) for page in PAGES)


@pytest.mark.module
@pytest.mark.parametrize(
    "page",
    [page for page in sorted(DOCS.rglob("*.md")) if _DOCTEST.search(page.read_text(encoding="utf-8"))],
    ids=lambda page: page.stem,
)
def test_doctest_examples_of_the_pages_pass(page, place):
    for number, text in enumerate(_DOCTEST.findall(page.read_text(encoding="utf-8"))):
        script = place / f"answers-{number}.txt"
        script.write_text(text)
        done = run(place, sys.executable, "-m", "doctest", script.name)
        assert (done.returncode, done.stdout) == (0, "")
