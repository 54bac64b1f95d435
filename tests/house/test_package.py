"""The package: a source archive, the wheel made of it, and the wheel in a fresh environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from repository import ROOT

pytestmark = pytest.mark.slow

#: Quick to build, and the same simulation: a digest hangs on no optimisation.
_PROFILE = {
    "CARGO_PROFILE_RELEASE_LTO": "false",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_DEBUG": "0",
    "CARGO_TARGET_DIR": str(ROOT / "target" / "package"),
}


def call(*command, cwd, **more):
    """Run a program without anything of this environment, and return what it printed."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV") and not name.startswith("PIP_REQUIRE")
    }
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdist")
    call(Path(sys.executable).parent / "maturin", "sdist", "--out", folder, cwd=ROOT, **_PROFILE)
    (file,) = folder.glob("*.tar.gz")
    return file


@pytest.fixture(scope="module")
def wheel(sdist):
    folder = sdist.parent / "wheel"
    # An archive's files are all of one old date, by which cargo takes what it built of others for theirs.
    for built in Path(_PROFILE["CARGO_TARGET_DIR"]).glob("*/.fingerprint/anabranch*"):
        shutil.rmtree(built)
    call(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, sdist, cwd=sdist.parent, **_PROFILE)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel):
    """Return the folder of programs of an environment that has the wheel and its dependencies."""
    folder = wheel.parent / "environment"
    call(sys.executable, "-m", "venv", folder, cwd=wheel.parent)
    call(
        folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile", wheel, cwd=wheel.parent
    )
    return folder / "bin"


def _inside(names):
    """Return the package's files, by their place in it."""
    return {name.partition("anabranch/")[2] for name in names if "/anabranch/" in f"/{name}"}


def test_sdist_and_wheel_contain_exactly_the_data_files(sdist, wheel):
    with zipfile.ZipFile(wheel) as archive:
        of_wheel = _inside(archive.namelist())
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    of_sdist = {name.partition("/python/anabranch/")[2] for name in names}
    for folder, ending in (("scenarios", "*.toml"), ("scenarios/traces", "*.csv"), ("studies", "**/*.toml")):
        for path in (ROOT / folder).glob(ending):
            assert f"_{path.relative_to(ROOT).as_posix()}" in of_wheel & of_sdist
    measured = {name for name in of_wheel if name.startswith("_groundtruth/") and not name.endswith("/")}
    tables = {
        path.relative_to(ROOT)
        for part in ("", "odd", "papers-kernel", "returning-paths")
        for path in (ROOT / "groundtruth" / part).glob("*.*")
    }
    assert measured == {f"_{path.as_posix()}" for path in tables}
    assert measured <= of_sdist
    assert not [
        name for name in (*of_wheel, *names) if "/ts/" in name or "/aside/" in name or "/tests/python" in name
    ]
    assert any(name.endswith("crates/trace/src/lib.rs") for name in names)


def test_installed_program_gives_the_same_results(installed, tmp_path):
    here = Path(sys.executable).parent
    run = ("run", "bulk-two-paths", "--set", "application.bytes=1MB", "--json")
    there, ours = (json.loads(call(folder / "anabranch", *run, cwd=tmp_path)) for folder in (installed, here))
    assert there["digest"] == ours["digest"]
    assert there["qos"] == ours["qos"]
    for listed in (
        ("list", "scenarios", "--json"),
        ("study", "list", "--json"),
        ("list", "schedulers", "--json"),
    ):
        there, ours = (
            json.loads(call(folder / "anabranch", *listed, cwd=tmp_path)) for folder in (installed, here)
        )
        assert there == ours
    call(installed / "anabranch", "check", "recorded-lte", cwd=tmp_path)


def test_an_installed_program_writes_reports_and_calibrates(installed, tmp_path):
    program = installed / "anabranch"
    sweep = ("sweep", "bulk-two-paths", "--set", "application.bytes=1MB", "--trials", "2", "--out", "out")
    call(program, *sweep, cwd=tmp_path)
    call(program, "report", "out", cwd=tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    found = json.loads(call(program, "calibrate", "--only", "bulk/S2/reno", "--json", cwd=tmp_path))
    assert "S2" in json.dumps(found)
