"""The base installation: what works without any extra, and the errors of what does not.

Every installed package that a base installation would not have is hidden from the program and its processes.
Expected values: the commands that the documentation promises for a base installation (docs/recipes/install-with-pip.md),
exit code 4 for something missing (docs/reference/cli.md), and the packages that pyproject.toml names.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anabranch import _extras

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: Hides modules, as if their packages were not installed.
HIDING = """\
import sys

HIDDEN = frozenset({names!r})


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Hidden())
"""


def base():
    """Return the names of the packages that a base installation has."""
    found, waiting = set(), [re.split(r"[<>=!~\[; ]", one)[0] for one in PROJECT["dependencies"]]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        found.add(name)
        for required in importlib.metadata.requires(name) or ():
            wanted, _, marker = required.partition(";")
            own = re.split(r"[<>=!~\[; (]", wanted.strip())[0]
            if "extra" not in marker and own.lower().replace("_", "-") not in found:
                try:
                    importlib.metadata.version(own)
                except importlib.metadata.PackageNotFoundError:
                    continue
                waiting.append(own)
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return a function that runs the command line as a base installation would."""
    folder = tmp_path_factory.mktemp("bare")
    kept = {*base(), "anabranch", "pip", "setuptools"}
    hidden = {
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if not {package.lower().replace("_", "-") for package in packages} & kept
    }
    assert {"av", "altair", "duckdb", "scipy", "vl_convert", "distributed"} <= hidden
    assert not {"numpy", "polars", "pydantic", "rich", "jinja2", "anabranch"} & hidden
    (folder / "sitecustomize.py").write_text(HIDING.format(names=sorted(hidden)), encoding="utf-8")

    def call(*words, cwd, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "anabranch", *words],
            cwd=cwd,
            env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    return call


def test_the_extras_of_the_hints_are_those_of_the_package():
    stated = {
        name: tuple(packages)
        for name, packages in PROJECT["optional-dependencies"].items()
        if name not in ("all", "dev")
    }
    assert {name: extra.requirements for name, extra in _extras.EXTRAS.items()} == stated
    (whole,) = PROJECT["optional-dependencies"]["all"]
    assert whole == f"anabranch[{','.join(stated)}]"


def test_a_hint_names_this_interpreter_and_every_package_of_the_extra(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/my env/bin/python")
    assert _extras.command("figures") == (
        "'/opt/my env/bin/python' -m pip install 'altair>=5.4' 'vl-convert-python>=1.6'"
    )


def test_a_module_that_lacks_a_part_of_its_own_is_installed_again(tmp_path, monkeypatch):
    (tmp_path / "duckdb.py").write_text("import no_such_module_at_all", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "duckdb", raising=False)
    with pytest.raises(_extras.MissingError, match=r"SQL needs DuckDB.*\n.*--force-reinstall"):
        _extras.need("duckdb", for_="SQL")


@pytest.mark.slow
@pytest.mark.module
def test_the_promised_commands_work(bare, tmp_path):
    small = ("--set", "application.bytes=300kB")
    assert "two-paths" in bare("list", "scenarios", cwd=tmp_path).stdout
    bare("check", "two-paths", cwd=tmp_path)
    bare("run", "two-paths", "--report", "run.html", cwd=tmp_path)
    assert (tmp_path / "run.html").read_text(encoding="utf-8").count("<svg") > 3
    bare("compare", "bulk-two-paths", *small, "--trials", "13", "--report", "compare.html", cwd=tmp_path)
    assert "<svg" in (tmp_path / "compare.html").read_text(encoding="utf-8")
    bare("sweep", "bulk-two-paths", *small, "--trials", "13", "--out", "out", cwd=tmp_path)
    assert "goodput_mbps" in bare("results", "out", "--json", cwd=tmp_path).stdout
    bare("results", "out", "--report", "folder.html", cwd=tmp_path)
    page = (tmp_path / "folder.html").read_text(encoding="utf-8")
    assert "This page has no figures: Drawing a figure needs Altair" in page
    bare("demo", "--report", "demo.html", cwd=tmp_path)
    assert (tmp_path / "demo.html").stat().st_size > 50_000
    few = ("--controllers", "cubic", "--schedulers", "linux,min-rtt", "--trials", "2")
    bare("advise", "bulk-two-paths", *small, *few, "--report", "advice.html", cwd=tmp_path)
    row = ("--only", "2p-d")
    bare("study", "run", "SD18", "--quick", *row, "--out", "study", cwd=tmp_path)
    assert "undecided" in bare("study", "claims", "SD18", "study", cwd=tmp_path).stdout
    bare("doctor", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.module
def test_other_commands_name_the_package_and_how_to_install_it(bare, tmp_path):
    small = ("--set", "application.bytes=300kB")
    bare("sweep", "bulk-two-paths", *small, "--trials", "2", "--out", "out", cwd=tmp_path)
    (tmp_path / "film.mp4").write_bytes(b"x")
    for words, says, extra in (
        (("media", "probe", "film.mp4"), "reading a film needs PyAV", "media"),
        (("media", "make", "new.mp4", "--duration", "2s"), "making a film needs PyAV", "media"),
        (("results", "out", "--sql", "SELECT 1"), "SQL over results needs DuckDB", "sql"),
        (("results", "out", "--figure", "a.svg"), "drawing a figure needs Altair", "figures"),
        (("study", "figures", "out", "--out", "figures"), "drawing a figure needs Altair", "figures"),
        (
            ("sweep", "bulk-two-paths", *small, "--trials", "3", "--dask", "x:1"),
            "a cluster needs Dask",
            "dask",
        ),
    ):
        told = bare(*words, cwd=tmp_path, code=4).stderr
        assert f"error: {says}" in told, told
        assert f"hint: {_extras.command(extra)}" in told, told
    found = {row["name"]: row for row in json.loads(bare("doctor", "--json", cwd=tmp_path).stdout)}
    for extra in ("figures", "sql", "dask", "notebook"):
        assert not found[f"extra {extra}"]["found"]
        assert found[f"extra {extra}"]["install"] == [_extras.command(extra)]
