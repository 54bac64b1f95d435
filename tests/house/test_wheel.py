"""The recipe of wheels: the checks that refuse one, and the engine that it takes.

Expected values: the limits of the issue (10 MB for the module), and the texts of auditwheel 6.
"""

from __future__ import annotations

import importlib.util
import re
import zipfile

import pytest

from repository import ROOT, text

_spec = importlib.util.spec_from_file_location("wheel", ROOT / ".ci" / "wheel.py")
wheel = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(wheel)

GOOD = """
anabranch-0.2.0-cp311-abi3-manylinux_2_28_x86_64.whl is consistent with
the following platform tag: "manylinux_2_{}_x86_64".
"""


@pytest.fixture
def made(tmp_path):
    """Return a function that writes a wheel with a module of a size."""

    def write(size, *, page=True):
        file = tmp_path / "anabranch-0.2.0-cp311-abi3-manylinux_2_28_x86_64.whl"
        with zipfile.ZipFile(file, "w", compression=zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(wheel.MODULE, bytes(size))
            archive.writestr("anabranch/_scenarios/two-paths.toml", "")
            if page:
                archive.writestr("anabranch/_play/index.html", "")
        return file

    return write


def test_a_small_wheel_for_an_old_glibc_is_accepted(made):
    assert wheel.faults(made(10_000_000), GOOD.format(17)) == []
    assert wheel.faults(made(1), GOOD.format(28)) == []


@pytest.mark.parametrize(
    ("size", "page", "shown", "says"),
    [
        (0, True, GOOD.format(17), "no module"),
        (10_000_001, True, GOOD.format(17), "10000001 bytes"),
        (1, False, GOOD.format(17), "_play/index.html"),
        (1, True, GOOD.format(34), "manylinux_2_28"),
        (1, True, 'the following platform tag: "linux_x86_64".', "manylinux_2_28"),
    ],
)
def test_other_wheels_are_refused(made, size, page, shown, says):
    (fault,) = wheel.faults(made(size, page=page), shown)
    assert says in fault


def test_an_engine_of_other_sources_is_left_out(tmp_path):
    file = tmp_path / "build" / "play" / "anabranch.wasm"
    assert wheel.engine("0123456789ab", tmp_path) is None
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\0asm" + b"0123456789ab")
    assert wheel.engine("0123456789ab", tmp_path) == file
    assert wheel.engine("ba9876543210", tmp_path) is None


def test_the_hash_of_the_sources_is_that_of_the_makefile():
    (line,) = [one for one in text("Makefile").splitlines() if "ANABRANCH_SOURCES=$$(" in one]
    command = line.partition("$$(")[2].partition(")")[0]
    assert command == "bash .ci/wasm-sources"
    assert re.fullmatch("[0-9a-f]{12}", wheel.sources())
