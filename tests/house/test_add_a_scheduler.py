"""The pages about writing plug-ins, followed to the letter."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys

import pytest

from repository import text

_PAGE = "docs/add-a-scheduler.md"
_MORE = "docs/more-inputs.md"
_PYTHON = re.compile(r"^```python\n# (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_QUOTE = re.compile(r"^<!-- (\S+) -->\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)

FILES = dict(_PYTHON.findall(text(_PAGE)))
MORE_FILES = dict(_PYTHON.findall(text(_MORE)))
QUOTES = _QUOTE.findall(text(_PAGE))
DIGEST = re.compile(r"^  digest (\w+)$", re.MULTILINE)


def _steps(page: str) -> list[tuple[str, str]]:
    """Return each command of a page with the output that it shows, which may be none."""
    found = []
    for block in _CONSOLE.findall(text(page)):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            found.append((command, shown))
    return found


STEPS = _steps(_PAGE)
MORE_STEPS = _steps(_MORE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder to work in, with the pages' files."""
    place = tmp_path_factory.mktemp("page")
    (place / ".venv").symlink_to(sys.prefix)
    for name, source in (FILES | MORE_FILES).items():
        (place / name).write_text(f"# {name}\n{source}", encoding="utf-8")
    return place


@functools.cache
def _run(command, folder):
    """Run one command of the page; each is run once."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_has_files_commands_and_quotations():
    assert list(FILES) == ["mine.py", "patient.py", "wrong.py", "test_mine.py"]
    assert len(STEPS) == 7
    assert len(QUOTES) == 4
    assert text(_PAGE).count("```") == 2 * (len(FILES) + len(QUOTES) + len(_CONSOLE.findall(text(_PAGE))))


def test_the_page_about_inputs_has_a_file_for_each_section():
    assert list(MORE_FILES) == ["wary.py", "thrifty.py", "gentle.py"]
    assert len(MORE_STEPS) == 7
    assert all(sum(file in command for command, _ in MORE_STEPS) >= 2 for file in MORE_FILES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "shown"), STEPS + MORE_STEPS, ids=[command for command, _ in STEPS + MORE_STEPS]
)
def test_every_command_on_the_page_exits_as_shown(command, shown, folder):
    result = _run(command, folder)
    if shown:
        assert (result.returncode, result.stderr) == (2, shown)
    else:
        assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_the_class_decides_as_min_rtt_does(folder):
    runs = [_run(command, folder).stdout for command, _ in STEPS if " run bulk-two-paths" in command][:2]
    digests = [DIGEST.search(output).group(1) for output in runs]
    assert digests[0] == digests[1]
    assert "plug-in mine.py:LowestRtt, source " in runs[0]


@pytest.mark.parametrize(("file", "quoted"), QUOTES, ids=[file for file, _ in QUOTES])
def test_quoted_code_matches_the_repository(file, quoted):
    assert quoted in text(file)
    if file.endswith("min_rtt.rs"):
        assert quoted == text(file)
