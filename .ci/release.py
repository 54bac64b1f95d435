"""Makes a release: `make release VERSION=0.3.0`.

Sets the version in every file that states it, and dates the changelog's unreleased changes. Builds the source
archive and the wheel, and tries the wheel in a fresh environment. Prints the remaining steps: commit, tag,
push and upload are left to a person.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = "CHANGELOG.md"
#: The text around the version in each file: a pattern with the version in group 2.
PLACES = {
    "Cargo.toml": r'(\[workspace\.package\]\nversion = ")([^"]+)()',
    "Cargo.lock": r'(name = "anabranch(?:-[a-z]+)?"\nversion = ")([^"]+)()',
    "fuzz/Cargo.lock": r'(name = "anabranch-(?!fuzz")[a-z]+"\nversion = ")([^"]+)()',
    "CITATION.cff": r"(^version: )(\S+)($)",
    "README.md": r"(\bversion )(\d+\.\d+\.\d+)(;)",
}
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def with_version(name: str, text: str, version: str) -> str:
    """Return a file's text with another version in it."""
    changed, count = re.subn(PLACES[name], rf"\g<1>{version}\g<3>", text, flags=re.MULTILINE)
    if not count:
        message = f"no version found in {name}"
        raise ValueError(message)
    return changed


def unreleased(changelog: str) -> str:
    """Return the changelog's unreleased changes, without headings of groups that have none."""
    section = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    groups = re.split(r"(?=^### )", section[1] if section else "", flags=re.MULTILINE)
    return "\n\n".join(group.strip() for group in groups if re.search(r"^- ", group, re.MULTILINE))


def with_release(changelog: str, version: str, date: datetime.date) -> str:
    """Return the changelog with its unreleased changes under a version, and an empty section above."""
    changes = unreleased(changelog)
    head, _, rest = changelog.partition("## [Unreleased]\n")
    earlier = re.search(r"^## .*", rest, re.MULTILINE | re.DOTALL)
    parts = [f"{head}## [Unreleased]", f"## [{version}] - {date.isoformat()}", changes]
    return "\n\n".join([*parts, earlier[0] if earlier else ""]).rstrip() + "\n"


def faults(version: str, current: str, changelog: str, status: str) -> list[str]:
    """Return the reasons why a version cannot be released, each with its hint.

    Parameters
    ----------
    version, current
        The version to release, and the one that the files state.
    changelog
        The changelog.
    status
        The output of `git status --porcelain`.
    """
    found = []
    wanted, now = _VERSION.fullmatch(version), _VERSION.fullmatch(current)
    if wanted is None:
        found.append(f"error: not a version: `{version}`\n  hint: for example make release VERSION=0.3.0")
    elif now is None or tuple(map(int, wanted.groups())) <= tuple(map(int, now.groups())):
        found.append(f"error: {version} is not above {current}, the version of Cargo.toml\n  hint: raise it")
    if f"## [{version}]" in changelog:
        found.append(f"error: {CHANGELOG} already has {version}\n  hint: choose the next version")
    if not unreleased(changelog):
        found.append(f"error: {CHANGELOG} has no unreleased changes\n  hint: add them under [Unreleased]")
    if status.strip():
        found.append("error: the working tree has uncommitted changes\n  hint: commit or stash them")
    return found


def _call(*command: str | Path, cwd: Path = ROOT) -> str:
    """Run a program outside the current virtual environment; return its output."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout


def _build(folder: Path) -> tuple[Path, Path]:
    """Build the source archive, and the wheel from it as `make wheel` does; return both files.

    Raises
    ------
    ValueError
        If the wheel is at fault.
    """
    import wheel as recipe

    _call(Path(sys.executable).parent / "maturin", "sdist", "--out", folder)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder / "unpacked", filter="data")
    (root,) = (folder / "unpacked").iterdir()
    made = recipe.build(root, folder, recipe.made_engine())
    found = recipe.checked(made)
    if found:
        raise ValueError("; ".join(found))
    return archive, made


def _try(wheel: Path, version: str, folder: Path) -> None:
    """Install the wheel in a fresh environment, compare its version, and run a scenario."""
    _call(sys.executable, "-m", "venv", folder)
    _call(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    program = folder / "bin" / "anabranch"
    printed = _call(program, "--version", cwd=folder).strip()
    if printed != f"anabranch {version}":
        message = f"the wheel reports `{printed}`"
        raise ValueError(message)
    _call(program, "run", "bulk-two-paths", "--set", "application.bytes=1MB", cwd=folder)
    # The film comes from a stored table.
    _call(program, "demo", cwd=folder)
    page = "from anabranch.cli import _play; assert (_play._SOURCE / 'index.html').is_file()"
    _call(folder / "bin" / "python", "-c", page, cwd=folder)


def main(version: str) -> int:
    """Make a release; return the exit code."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in (*PLACES, CHANGELOG)}
    current = tomllib.loads(texts["Cargo.toml"])["workspace"]["package"]["version"]
    found = faults(version, current, texts[CHANGELOG], _call("git", "status", "--porcelain"))
    if found:
        sys.stderr.write("\n\n".join(found) + "\n")
        return 2
    today = datetime.datetime.now(tz=datetime.UTC).date()
    changed = {name: with_version(name, texts[name], version) for name in PLACES}
    changed[CHANGELOG] = with_release(texts[CHANGELOG], version, today)
    for name, text in changed.items():
        (ROOT / name).write_text(text, encoding="utf-8")
    try:
        with tempfile.TemporaryDirectory() as folder:
            built = _build(Path(folder))
            _try(built[1], version, Path(folder) / "environment")
            (ROOT / "dist").mkdir(exist_ok=True)
            kept = [Path(shutil.copy(file, ROOT / "dist")).relative_to(ROOT) for file in built]
    except (OSError, ValueError, subprocess.CalledProcessError, KeyboardInterrupt) as error:
        for name, text in texts.items():
            (ROOT / name).write_text(text, encoding="utf-8")
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else error
        sys.stderr.write(f"error: the release cannot be built: {reason}\n  hint: all files were restored\n")
        return 1
    files = " ".join(map(str, kept))
    sys.stdout.write(
        f"version {version} is set, built and checked. The remaining steps:\n\n"
        f"  make test-all\n  git commit --all --message 'Release {version}'\n"
        f"  git tag --annotate v{version} --message 'Version {version}'\n  git push --follow-tags\n"
        f"  twine upload {files}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) == 2 else ""))
