"""`anabranch doctor` and the viewers on hosts with missing or broken components.

Expected values: exit code 4 means that something is missing (docs/reference/cli.md). The NameError is the
error of python-vlc without libvlc ("no function 'libvlc_new'").
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch import _pieces
from anabranch.cli import _doctor
from anabranch.cli._app import app
from anabranch.errors import MissingError
from anabranch.live import testbed
from anabranch.live.viewers import hlsjs, origin, vlc
from anabranch.media import probe
from anabranch.plugins import catalogue, module

#: Ways in which a broken module may fail, and a word that the message must contain.
BROKEN = {
    "name": (
        "def Instance(*_):\n    raise NameError(\"no function 'libvlc_new'\")",
        "no function 'libvlc_new'",
    ),
    "library": (
        "raise OSError('libvlc.so.5: cannot open shared object file')",
        "cannot open shared object file",
    ),
    "import": ("import no_such_module_at_all", "no_such_module_at_all"),
    "exit": ("raise SystemExit('gone')", "gone"),
    "base": ("class Odd(BaseException):\n    pass\nraise Odd('odd')", "odd"),
    "syntax": ("def", "invalid syntax"),
    "empty": ("", "Instance"),
}


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Return a function that replaces a module by a broken one, in this process and its children."""

    def put(name, text):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        for loaded in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, loaded)

    return put


def program(folder, name, text):
    """Write a program into a folder."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(("text", "word"), BROKEN.values(), ids=BROKEN)
def test_vlc_without_a_working_library_is_lacking(broken, text, word):
    broken("vlc", text)
    lacks = vlc.lacks()
    assert word in lacks
    assert "apt install libvlc5" in lacks


def test_vlc_that_crashes_its_process_is_lacking(broken):
    broken("vlc", "import os\nos.abort()")
    assert "exit code -6" in vlc.lacks()


def test_vlc_without_plugins_is_lacking(broken):
    broken("vlc", "def Instance(*_):\n    return None")
    assert vlc.lacks().startswith("libvlc has no plug-ins")


def test_vlc_that_is_not_installed_is_lacking(monkeypatch):
    monkeypatch.setitem(sys.modules, "vlc", None)
    assert vlc.lacks().startswith("python-vlc is not installed")


@pytest.mark.parametrize(("text", "word"), [BROKEN[name] for name in ("library", "exit", "base", "syntax")])
def test_a_broken_module_is_reported_with_its_error(broken, text, word):
    broken("pyroute2", text)
    assert word in _pieces.unimportable("pyroute2")
    if os.geteuid() == 0 and Path("/dev/net/tun").exists():
        assert word in testbed.missing()


def test_an_interrupt_of_an_import_is_passed_on(broken):
    broken("pyroute2", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        _pieces.unimportable("pyroute2")


def test_films_without_pyav_are_4(broken, tmp_path):
    broken("av", "raise OSError('libavcodec.so is missing')")
    (tmp_path / "film.mp4").write_bytes(b"x")
    with pytest.raises(
        MissingError, match=r"libavcodec.so is missing.*\n.*hint: .*pip install --force-reinstall 'av>=13'"
    ):
        probe.probe(tmp_path / "film.mp4")
    result = CliRunner().invoke(app, ["media", "probe", str(tmp_path / "film.mp4")])
    assert result.exit_code == 4
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "lacks"),
    [("nginx", origin.lacks), ("mptcpize", origin.lacks_mptcp), ("chromium", hlsjs.lacks)],
)
def test_programs_that_do_not_run_are_lacking(tmp_path, monkeypatch, name, lacks):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(origin, "program", lambda: str(tmp_path / "nginx"))
    program(tmp_path, name, "echo 'error while loading shared libraries: libz.so.1' >&2; exit 127")
    assert "does not run (error while loading shared libraries: libz.so.1)" in lacks()
    (tmp_path / name).write_bytes(b"\x7fELF")
    assert "does not run (OSError: [Errno 8] Exec format error" in lacks()


def test_hlsjs_that_is_missing_or_empty_is_lacking(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path / "cache"))
    program(tmp_path, "chromium", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hlsjs.lacks().startswith("hls.js is not installed: npm install")
    hlsjs.library().parent.mkdir(parents=True)
    hlsjs.library().touch()
    assert hlsjs.lacks().startswith("hls.js is an empty file: npm install")
    hlsjs.library().write_text("x", encoding="utf-8")
    assert hlsjs.lacks() is None


@pytest.mark.module
def test_doctor_lists_every_piece_when_all_optional_ones_are_broken(broken, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(origin, "program", lambda: None)
    for name in ("vlc", "pyroute2"):
        broken(name, "raise RuntimeError('broken on purpose')")
    for name in ("tshark", "nft", "mptcpize", "chromium", "unshare"):
        program(tmp_path, name, "exit 3")
    monkeypatch.setattr(testbed, "missing", lambda: 1 / 0)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    found = {row["name"]: row for row in json.loads(result.stdout)}
    assert [name for look in _doctor._LOOKS for name in look.names] == list(found)
    lacking = {"tshark", "nft", "pyroute2", "real packets", "nginx", "mptcpize", "VLC", "hls.js"}
    assert {name for name, row in found.items() if not row["found"]} >= lacking
    assert found["real packets"]["detail"] == "broken: ZeroDivisionError: division by zero"
    assert found["pyroute2"]["detail"] == "RuntimeError: broken on purpose"
    assert "broken on purpose" in found["VLC"]["detail"]
    assert found["nft"]["detail"].endswith("does not run: exit code 3")


def test_an_extra_is_reported_by_its_packages_without_importing_them(monkeypatch):
    versions = {"altair": "5.5.0", "vl-convert-python": "1.8.0"}
    monkeypatch.setattr(_pieces.importlib.metadata, "version", versions.__getitem__)
    monkeypatch.setattr(_pieces.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(_pieces, "unimportable", lambda name: pytest.fail(f"{name} was imported"))
    (found,) = _doctor._extra("figures")
    assert (found.found, found.detail) == (True, "Altair 5.5.0, vl-convert 1.8.0")
    monkeypatch.setattr(_pieces.importlib.util, "find_spec", lambda name: None if name == "altair" else name)
    (found,) = _doctor._extra("figures")
    assert (found.found, found.detail) == (False, "no Altair")


@pytest.mark.module
def test_doctor_without_pyav_reports_it_and_lists_the_rest(broken):
    # PyAV is in no base installation: simulated runs of the shipped films need no codec.
    broken("av", "raise SystemExit(0)")
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 0
    found = {row["name"]: row for row in json.loads(result.stdout)}
    assert found["codec h264"]["detail"] == "PyAV is missing or broken: SystemExit: 0"
    assert not found["codec h264"]["found"]
    assert "hls.js" in found


def test_a_module_that_cannot_be_loaded_is_reported_with_its_reason(monkeypatch):
    catalogue.cache_clear()
    monkeypatch.setitem(sys.modules, "anabranch._anabranch", None)
    monkeypatch.delattr("anabranch._anabranch", raising=False)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 4
    found = {row["name"]: row for row in json.loads(result.stdout)}["simulator"]
    assert not found["found"]
    # The first is for a checkout, the second for an installed wheel.
    assert "make build" in found["detail"]
    assert "install anabranch again" in found["detail"]
    with pytest.raises(MissingError, match="import of anabranch"):
        module()


def test_live_without_a_working_vlc_is_4(broken, monkeypatch):
    monkeypatch.setattr(testbed, "needed", lambda: None)
    broken("vlc", BROKEN["name"][0])
    result = CliRunner().invoke(app, ["live", "two-paths", "--application", "vlc"])
    assert result.exit_code == 4, result.stderr
    assert "no function 'libvlc_new'" in result.stderr
    assert "hint: `anabranch doctor`" in result.stderr
