"""Every command in the README does what it says: it runs, and ends well."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from repository import ROOT, files, text

_BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)

#: These would run themselves: only that make knows how is checked.
_RECURSIVE = ("make test", "make test-all")

_SECONDS = 600


def commands(markdown: str) -> list[str]:
    """Return the commands of a text's blocks: in `console` those behind a `$`, in `sh` all lines."""
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


COMMANDS = commands(text("README.md"))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Return a folder that looks like the checkout and takes what the commands write."""
    folder = tmp_path_factory.mktemp("readme")
    for name in {Path(file).parts[0] for file in files()}:
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


def test_the_two_commands_are_there():
    assert "make demo" in COMMANDS
    assert {"make test", "make test-all"} <= set(COMMANDS)
    assert len(COMMANDS) > 4


def test_commands_are_read_from_their_blocks():
    sample = "```console\n$ one \\\n    --two   # why\noutput\n```\n\n```sh\n# note\nthree\n```\n"
    assert commands(sample) == ["one --two", "three"]


def long(command: str) -> bool:
    """Tell whether a command makes a film or simulates, which other tests of the quick suite do for less."""
    return bool(re.search(r"^make demo$|\banabranch (run|sweep) ", command))


EACH = [pytest.param(one, marks=pytest.mark.slow) if long(one) else one for one in COMMANDS]


@pytest.mark.parametrize("command", EACH)
def test_the_command_ends_well(command, elsewhere):
    if command.startswith("make ") and not (Path(sys.prefix) / "stamps" / "module").exists():
        pytest.skip("this environment is not the one that make builds")
    if command in _RECURSIVE:
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
