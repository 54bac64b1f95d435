"""Examples in help texts can be pasted and work."""

from __future__ import annotations

import functools
import json
import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from anabranch.cli import _app, _console
from anabranch.scenario import shipped
from anabranch.study import study

#: Examples that take too long or produce too much for a test. They are only parsed.
HEAVY = (
    "run",
    "demo",
    "compare",
    "advise",
    "calibrate",
    "capture",  # needs the packets of a run
    "log",  # needs the reports of a run
    "measure",  # needs a server on the Internet
    "study run",
    "study claims all",
    "study live",  # real films take their time
    "study pilot",  # takes hundreds of runs
    "study worlds",  # as well
    "study figures results",  # needs a study's results, as the next two need films that were played
    "study why results",
    "study report results",
    "why results",
    "live",  # over real packets: tests/live runs these
    "parity",
    "emulate",
    "play",  # serves until it is interrupted
    "shell",
    "gateway",
    "sweep two-paths",
    "sweep adaptive-two-paths",
    "sweep bulk-two-paths --grid transport.congestion",
)


@functools.cache
def commands():
    """Return every command with its words."""
    group = typer.main.get_command(_app.app)
    return {
        f"{name} {inner}".strip(): leaf
        for name, command in group.commands.items()
        for inner, leaf in getattr(command, "commands", {"": command}).items()
    }


def shown(words, columns="80"):
    return CliRunner().invoke(_app.app, [*words.split(), "--help"], env={"COLUMNS": columns}).stdout


@functools.cache
def examples(words):
    return re.findall(r"^ +(anabranch .*)$", shown(words), re.MULTILINE)


EXAMPLES = [(words, line) for words in ["", *commands()] for line in examples(words)]


def test_every_command_has_examples_of_itself():
    for words in commands():
        assert any(line.startswith(f"anabranch {words}") for line in examples(words)), words


def test_command_list_matches_each_commands_own_help():
    """The list of commands is written from the table, without importing the commands."""
    told = {name: line for names in _app.COMMANDS.values() for name, line in names.items()}
    group = typer.main.get_command(_app.app)
    whole = 10**6  # characters, more than any sentence has
    assert {name: command.get_short_help_str(whole) for name, command in group.commands.items()} == told


def test_no_summary_of_a_command_is_cut():
    whole = 10**6
    for words in ("", "media", "study", "trace"):
        group = typer.main.get_command(_app.app)
        group = group.commands[words] if words else group
        listed = " ".join(shown(words).split())
        for name, command in group.commands.items():
            assert f"{name} {command.get_short_help_str(whole)}" in listed


def test_list_without_a_kind_prints_the_kinds():
    result = CliRunner().invoke(_app.app, ["list"])
    assert result.exit_code == 0
    kinds = json.loads(CliRunner().invoke(_app.app, ["list", "--json"]).stdout)
    for kind in kinds:
        assert f"{kind['name']} " in result.stdout
        assert kind["description"] in result.stdout
        assert CliRunner().invoke(_app.app, ["list", kind["name"]]).exit_code == 0
    nearest = CliRunner().invoke(_app.app, ["list", "schedulrs"]).stderr
    assert f"nothing to list: `schedulrs`\n  hint: did you mean `{kinds[0]['name']}`?" in nearest


def test_a_misspelt_command_is_reported_with_the_nearest():
    result = CliRunner().invoke(_app.app, ["rnu"])
    assert result.exit_code == 2
    assert "No such command 'rnu'" in result.stderr


def test_examples_are_whole_lines_however_narrow_the_terminal():
    for words in commands():
        narrow = re.findall(r"^ +(anabranch .*)$", shown(words, "40"), re.MULTILINE)
        assert narrow == examples(words)


@pytest.mark.parametrize("line", sorted({line for _, line in EXAMPLES}))
def test_every_example_is_understood(line):
    """Options and arguments are those of the command, and scenarios, studies and names are there."""
    words = shlex.split(line)[1:]
    known = commands()
    name = next(name for name in known if words[: len(name.split())] == name.split())
    with known[name].make_context(name, words[len(name.split()) :]) as context:
        given = context.params
    if "scenario" in given and name != "capture":  # There it is the file to write.
        assert given["scenario"] in (*shipped.names(), "scenario.toml", "my.toml")
    if name == "study run":
        assert given["name"] in study.folders()


@pytest.mark.module
@pytest.mark.slow
def test_help_examples_succeed_in_order(tmp_path, monkeypatch):
    for words in ["", *commands()]:
        folder = tmp_path / (words.replace(" ", "-") or "root")
        folder.mkdir()
        monkeypatch.chdir(folder)
        for line in examples(words):
            arguments = line.removeprefix("anabranch ")
            if not arguments.startswith(HEAVY):
                given = shlex.split(arguments)
                # Sessions and films of one second are long enough to test the line.
                films = {"media": ["--duration", "1s"]} if given[1:2] == ["make"] else {}
                short = {"sweep": ["--set", "application.bytes=100 kB"], **films}.get(given[0], [])
                result = CliRunner().invoke(_app.app, [*given, *short])
                assert result.exit_code == 0, f"{line}\n{result.stderr}"


def test_lists_are_called_arrays(monkeypatch):
    for words in commands():
        told = re.search(r"--json +Print one JSON (\w+)", shown(words, "200"))
        if words in ("list", "doctor", "study list"):
            assert told[1] == "array"
    assert isinstance(json.loads(CliRunner().invoke(_app.app, ["list", "films", "--json"]).stdout), list)
    assert isinstance(json.loads(CliRunner().invoke(_app.app, ["doctor", "--json"]).stdout), list)


def test_a_program_that_is_not_on_the_path_is_called_by_its_place(monkeypatch, tmp_path):
    (tmp_path / "anabranch").touch()
    monkeypatch.setattr(_console.sys, "argv", ["my folder/anabranch", "--help"])
    monkeypatch.setenv("PATH", str(tmp_path))
    _console.program.cache_clear()
    try:
        assert _console.pastable("Do.\n\n  anabranch demo") == "Do.\n\n\b\n  'my folder/anabranch' demo"
    finally:
        _console.program.cache_clear()
