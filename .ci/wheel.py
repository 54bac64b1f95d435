"""Builds and checks the wheel: `make wheel`.

The wheel runs on Python 3.11 and newer, and on Linux with glibc 2.28 or newer: zig links the module against
that version, whatever the version of this host. The page's engine is included if `make wasm` built it from
these sources.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: The newest glibc that the wheel may need, and the name of its platform.
GLIBC = (2, 28)
PLATFORM = "manylinux_2_28"
#: The most bytes of the unpacked module.
MOST_BYTES = 10_000_000
#: The module and the page's engine inside a wheel.
MODULE, ENGINE = "anabranch/_anabranch.abi3.so", "anabranch/_play/anabranch.wasm"
_NAME = "anabranch-*.whl"
_POLICY = re.compile(r'platform tag:\s+"manylinux_(\d+)_(\d+)_\w+"')


def sources() -> str:
    """Return the hash of the Rust sources that `make wasm` writes into the engine."""
    command = ["bash", ROOT / ".ci" / "wasm-sources"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def engine(wanted: str, root: Path = ROOT) -> Path | None:
    """Return the page's engine if it was built from the sources with the hash `wanted`."""
    file = root / "build" / "play" / "anabranch.wasm"
    return file if file.is_file() and wanted.encode() in file.read_bytes() else None


def made_engine() -> Path | None:
    """Return the page's engine for this checkout, built if needed; None, with a notice, if that fails."""
    wanted = sources()
    if engine(wanted) is None:
        subprocess.run(["make", "--no-print-directory", "wasm"], cwd=ROOT, check=False)
    found = engine(wanted)
    if found is None:
        sys.stderr.write(
            "notice: the page of this wheel runs on the native simulator and has no editor: no WebAssembly\n"
            "  hint: docs/web.md shows how to build it\n"
        )
    return found


def build(root: Path, out: Path, wasm: Path | None) -> Path:
    """Build the wheel of a source tree into a folder; return its file.

    Parameters
    ----------
    root
        A checkout, or an unpacked source archive.
    out
        The folder for the wheel.
    wasm
        The page's engine; None builds a wheel without it.
    """
    inside = root / "python" / "anabranch" / "_play" / "anabranch.wasm"
    for old in out.glob(_NAME):
        old.unlink()
    programs = Path(sys.executable).parent
    # maturin finds zig as a module of the first Python on the path.
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [programs / "maturin", "build", "--profile", "wheel", "--out", out.resolve()]
    if wasm is not None:
        shutil.copyfile(wasm, inside)
    try:
        subprocess.run(
            [*command, "--zig", "--compatibility", PLATFORM], cwd=root, env=environment, check=True
        )
    finally:
        inside.unlink(missing_ok=True)
    (wheel,) = out.glob(_NAME)
    return wheel


def oldest_glibc(shown: str) -> tuple[int, int] | None:
    """Return the glibc that a wheel needs, from the output of `auditwheel show`, or None."""
    found = _POLICY.search(" ".join(shown.split()))
    return None if found is None else (int(found[1]), int(found[2]))


def faults(wheel: Path, shown: str) -> list[str]:
    """Return what is wrong with a wheel.

    Parameters
    ----------
    wheel
        The file.
    shown
        The output of `auditwheel show` for it.
    """
    with zipfile.ZipFile(wheel) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}
    found = []
    if sizes.get(MODULE, 0) == 0:
        found.append(f"no module in {wheel.name}: {MODULE}")
    if sizes.get(MODULE, 0) > MOST_BYTES:
        found.append(f"the module has {sizes[MODULE]} bytes, more than {MOST_BYTES}")
    found += [
        f"not in {wheel.name}: {name}"
        for name in ("anabranch/_play/index.html", "anabranch/_scenarios/two-paths.toml")
        if name not in sizes
    ]
    needed = oldest_glibc(shown)
    if needed is None or needed > GLIBC:
        found.append(f"auditwheel does not take it for {PLATFORM}:\n{shown.strip()}")
    return found


def checked(wheel: Path) -> list[str]:
    """Return what is wrong with a wheel, also by auditwheel's judgement."""
    environment = {**os.environ, "COLUMNS": "500"}
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return faults(wheel, done.stdout + done.stderr)


def main() -> int:
    """Build the wheel of this checkout into `dist`; return the exit code."""
    try:
        wheel = build(ROOT, ROOT / "dist", made_engine())
    except subprocess.CalledProcessError:
        sys.stderr.write("error: the wheel cannot be built\n")
        return 1
    found = checked(wheel)
    sys.stderr.write("".join(f"error: {fault}\n" for fault in found))
    with zipfile.ZipFile(wheel) as archive:
        module = archive.getinfo(MODULE).file_size if MODULE in archive.namelist() else 0
    sys.stdout.write(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size} bytes; its module has {module}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
