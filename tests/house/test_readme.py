"""The README and the pages to begin with: commands and Python run, and the numbers are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from repository import ROOT, files, text

_BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)

_PYTHON = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)

#: Targets whose recipes would run these tests again, or take minutes: that make knows them is checked.
_DRY = re.compile(r"make (?!demo)")

_SECONDS = 600

#: The file that `make build` touches once the module is built.
STAMP = Path(sys.prefix) / "stamps" / "module"


def commands(markdown: str) -> list[str]:
    """Return the commands of a text's blocks: in `console` those behind a `$`, in `sh` all lines."""
    markdown = re.sub(r"^ +(?=\S)", "", markdown, flags=re.MULTILINE)
    result = []
    for found in _BLOCK.finditer(markdown):
        lines = found.group(1).replace("\\\n", " ").splitlines()
        console = found.group().startswith("```console")
        for line in lines:
            if console and line.startswith("$ "):
                result.append(line[2:])
            elif not console and line.strip() and not line.startswith("#"):
                result.append(line)
    return [re.sub(r" +", " ", re.sub(r"\s+#\s.*$", "", command)).strip() for command in result]


PAGES = ("README.md", "CONTRIBUTING.md", "docs/guide/getting-started.md")
COMMANDS = list(dict.fromkeys(command for page in PAGES for command in commands(text(page))))
SNIPPETS = [
    pytest.param(textwrap.dedent(code), id=page)
    for page in (*PAGES, "docs/reference/trace.md")
    for code in _PYTHON.findall(text(page))
]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Return a folder that looks like the checkout and takes what the commands write."""
    if STAMP.exists():
        # Built from the folder below, the program would be installed for that one.
        environment = {**os.environ, "MAKEFLAGS": "", "MAKELEVEL": ""}
        subprocess.run(["make", "--silent", "build"], cwd=ROOT, env=environment, timeout=_SECONDS, check=True)
    folder = tmp_path_factory.mktemp("readme")
    for name in {Path(file).parts[0] for file in files()}:
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


def test_the_readme_has_at_most_seventy_lines():
    assert len(text("README.md").splitlines()) <= 70


def test_the_two_commands_are_there():
    assert len(commands(text("README.md"))) == 2
    assert {"make demo", "make build", "make test", "make test-all", "make lint"} <= set(COMMANDS)


def test_commands_are_read_from_their_blocks():
    sample = "```console\n$ one \\\n    --two   # why\noutput\n```\n\n  ```sh\n  # note\n  three\n  ```\n"
    assert commands(sample) == ["one --two", "three"]


def long(command: str) -> bool:
    """Tell whether a command makes a film or simulates, or writes what such a one reads."""
    return bool(re.search(r"^make demo$|\banabranch (run|sweep|init) ", command))


EACH = [pytest.param(one, marks=pytest.mark.slow) if long(one) else one for one in COMMANDS]


# One after the other: a command reads what those before it wrote.
@pytest.mark.parametrize("command", EACH)
def test_the_command_ends_well(command, elsewhere):
    if command.startswith("make ") and not STAMP.exists():
        pytest.skip("this environment is not the one that make builds")
    if _DRY.match(command):
        command += " --dry-run"
    environment = {**os.environ, "NO_COLOR": "1", "MAKEFLAGS": "", "MAKELEVEL": ""}
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=elsewhere,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_there_are_five_lines_of_python():
    (code,) = _PYTHON.findall(text("README.md"))
    assert len([line for line in code.splitlines() if line]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("code", SNIPPETS)
def test_the_python_runs(code, elsewhere):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=elsewhere, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def _result(page):
    """Return the numbers of the README's table of results by its paths."""
    rows = re.findall(r"^\| \**(WiFi|LTE|WiFi \+ LTE)\** \|(.*)\|$", page, re.MULTILINE)
    cells = {name: re.findall(r"[\d.]+|never", row) for name, row in rows}
    return {name: [0.0 if one == "never" else float(one) for one in row] for name, row in cells.items()}


@pytest.mark.slow
def test_readme_result_matches_the_demo_output(elsewhere):
    program = Path(sys.executable).parent / "anabranch"
    wide = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    done = subprocess.run(
        [program, "demo"], cwd=elsewhere, env=wide, capture_output=True, text=True, check=True
    )
    table = done.stdout.partition("which paths\n")[2]
    rows = re.findall(r"^ *(wifi \+ lte|wifi|lte)  +([\d.].*)$", table, re.MULTILINE)
    paths = {"wifi + lte": "WiFi + LTE", "wifi": "WiFi", "lte": "LTE"}
    # Waiting, still time, film not shown, discarded pictures, freezes, start, goodput. The next column is no
    # number.
    printed = {
        paths[name]: [float(one) for one in re.findall(r"(?<![\d.])([\d.]+)(?: ± [\d.]+)?(?=  |$)", row)]
        for name, row in rows
    }
    told = _result(text("README.md"))
    assert set(told) == set(printed) == set(paths.values())
    for name, (start, stalls, seconds, goodput) in told.items():
        # Another build of the encoder makes another film, whose packets meet other losses.
        _, frozen, _, _, freezes, started, carried = printed[name]
        assert stalls == pytest.approx(freezes, abs=1), name
        others = [started, frozen, carried]
        assert [start, seconds, goodput] == pytest.approx(others, rel=0.1), name


def _sums(lines):
    """Return the counts of several lines together: `goodput 35 of 36, all figures 285 of 304`."""
    counts = [
        re.search(r"goodput (\d+) of (\d+), all figures (\d+) of (\d+)", line).groups() for line in lines
    ]
    return [f"{sum(map(int, column)):,}" for column in zip(*counts, strict=True)]


def _share(inside, of):
    """Return a share in whole percent: `1,102` of `1,151` is 96."""
    return round(100 * int(inside.replace(",", "")) / int(of.replace(",", "")))


def test_the_share_of_figures_is_that_of_the_calibration():
    # `make fidelity` and `calibrate --docs` change the page; a sentence that fails here is the one to write.
    page = text("docs/calibration.md")
    _, _, inside, of = _sums(re.findall(r"^- [\w-]+: goodput .*$", page, re.MULTILINE))
    chosen = f"Of {of} values measured on Linux, {_share(inside, of)} % are within their targets"
    _, _, inside, of = _sums(re.findall(r"^\d+ settings, .*$", page, re.MULTILINE))
    drawn = f"{_share(inside, of)} % of its {of} values are within their targets"
    told = text("README.md").replace("\n", " ")
    assert [sentence for sentence in (chosen, drawn) if sentence not in told] == []
