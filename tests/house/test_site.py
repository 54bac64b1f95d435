"""The documentation as a site: it is built without a complaint, and the page of commands is current."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest
import typer

from anabranch.figures import goodput
from repository import ROOT, text

_COMMANDS = "docs/reference/commands.md"


def written():
    """Return the page of commands as the command line has it now."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'anabranch'; import generate; print(generate.page(), end='')",
        ],
        cwd=ROOT / "docs",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_command_page_is_up_to_date():
    assert text(_COMMANDS) == written(), "make docs writes it"


def test_the_figure_of_goodputs_shows_the_tables_of_the_calibration():
    assert text("docs/calibration/goodput.svg") == goodput.svg(text("docs/calibration.md"))


def test_the_page_of_commands_has_every_option():
    from anabranch.cli import _app

    page = text(_COMMANDS)
    group = typer.main.get_command(_app.app)
    for name, command in group.commands.items():
        for inner, leaf in getattr(command, "commands", {"": command}).items():
            section = page.partition(f"## `{f'anabranch {name} {inner}'.strip()}`\n")[2].partition("\n## ")[0]
            options = [one for parameter in leaf.params for one in parameter.opts if one.startswith("-")]
            assert [one for one in options if f"`{one}" not in section and f", {one}" not in section] == []
            assert section


@pytest.mark.slow
def test_the_site_is_built_without_a_complaint(tmp_path):
    for part in ("sphinx", "furo", "myst_parser"):
        if importlib.util.find_spec(part) is None:
            pytest.skip(f"no {part}: the site is not built")
    (command,) = re.findall(r"^\t@\$\(BIN\)/python (-m sphinx .*)$", text("Makefile"), re.MULTILINE)
    assert "--fail-on-warning" in command
    arguments = [str(tmp_path / "site") if one == "build/docs" else one for one in command.split()]
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    index = (tmp_path / "site" / "docs" / "index.html").read_text(encoding="utf-8")
    assert 'href="recipes/notebook.html"' in index
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//|<link[^>]*rel="stylesheet"[^>]*href="(?:https?:)?//'
    )
    assert len(pages) > 40
    assert [page.name for page in pages if loads.search(page.read_text(encoding="utf-8"))] == []
