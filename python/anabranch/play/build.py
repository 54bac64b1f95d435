"""Write the page as static files: `python -m anabranch.play.build SOURCE TARGET`.

SOURCE is the folder `play` of the repository. The engine (`anabranch.wasm`) is built separately (`make wasm`)
and stays in TARGET.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch import _cache, _files, plugins
from anabranch.play import fixed, keys, policy, presets, templates

if TYPE_CHECKING:
    from collections.abc import Callable

#: The kinds of files of the page.
_SUFFIXES = {".html", ".css", ".js", ".svg"}
_PACKAGE = Path(__file__).resolve().parents[1]


def write(
    source: Path,
    target: Path,
    progress: Callable[[float, float], None] | None = None,
    *,
    engine: Literal["wasm", "native"] = "wasm",
) -> None:
    """Write the page, its tables and the films that it offers into a folder.

    `progress` is called with the seconds of a film that are made, and its length. `engine` runs the plans.
    """
    from anabranch.scenario import plan

    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.rglob("*")):
        if path.suffix in _SUFFIXES:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".html":
                text = path.read_text(encoding="utf-8")
                _files.write(copy, policy.written(text, is_lesson=path.parent != source), "the page")
            else:
                shutil.copyfile(path, copy)
    made = _tables()
    films = templates.films(progress, more=made["more"])
    (target / "films").mkdir(exist_ok=True)
    for name, film in films.items():
        assert film.plan is not None
        _files.write(target / "films" / f"{name}.json", plan.encode(film.plan), "a film of the page")
    (target / "scenarios").mkdir(exist_ok=True)
    for name, text in made["scenarios"].items():
        _files.write(target / name, text, "a scenario of the page")
    _files.write(target / "engine.json", json.dumps({"engine": engine}), "the name of the engine")
    _files.write(target / "tables.json", made["tables"], "the tables of the page")


def _tables() -> dict[str, Any]:
    """Return the tables and the files of scenarios as texts, and the films of these scenarios.

    They depend on this program only, so they are kept between starts.
    """
    name = f"page-{_cache.key(sources=_sources())}.json"
    kept = _cache.recall(name)
    if kept is not None:
        with contextlib.suppress(ValueError):
            found: dict[str, Any] = json.loads(kept)
            return found
    found = _made()
    _cache.keep(name, json.dumps(found))
    return found


def _sources() -> str:
    """Return a hash of the names, sizes and times of the program's files. To read them would take longer."""
    total = hashlib.sha256()
    shipped = (presets.SHIPPED / "_scenarios" / "traces").glob("*")
    for path in sorted([*_PACKAGE.rglob("*"), *shipped]):
        if path.suffix in (".py", ".so", ".csv", ".gz"):
            total.update(f"{path} {_state(path)}\n".encode())
    for name, path in presets.files():
        total.update(f"{name} {path} {_state(path)}\n".encode())
    return total.hexdigest()


def _state(path: Path) -> str:
    """Return the size of a file and the time of its last change."""
    found = path.stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _made() -> dict[str, Any]:
    shipped = list(fixed.offered().values())
    more = [name for one in shipped for name in one.films()]
    films = templates.films(None, more=more)
    made = tables() | {
        "films": {name: f"films/{name}.json" for name in films},
        "lengths": {name: film.duration_ns / 1e9 for name, film in films.items()},
        "presets": [asdict(preset) for preset in [*presets.offered(films), *map(_preset, shipped)]],
    }
    return {
        "tables": _compact(made),
        "scenarios": {one.file: _compact(one.for_plans()) for one in shipped},
        "more": more,
    }


def _compact(made: object) -> str:
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False)


def tables() -> dict[str, Any]:
    """Return the tables of keys and of their effects on plans."""
    by_section = {
        section: [{**asdict(key), "kind": key.kind} for key in keys.of(section)] for section in keys.SECTIONS
    }
    return {
        "keys": by_section,
        "templates": templates.made(),
        "cuts": dict(keys.CUTS),
        "pathNames": list(keys.PATH_NAMES),
        "mostPaths": keys.MOST_PATHS,
        "fixed": {one.name: one.for_page() for one in fixed.offered().values()},
        "parameters": {kind: _parameters(kind) for kind in ("scheduler", "congestion")},
    }


def _preset(one: fixed.Fixed) -> presets.Preset:
    """Return a scenario with a fixed network as a preset."""
    return presets.Preset(
        name=one.path.stem, group=one.group, description=one.description(), setup={"scenario": one.name}
    )


def _parameters(kind: Literal["scheduler", "congestion"]) -> dict[str, list[dict[str, str]]]:
    """Return the parameters of the plug-ins of a kind by name, for those that have some."""
    named = {name: plugins.parameters(kind, name) for name, _ in keys.BY_ID["transport", kind].choices}
    return {name: [asdict(one) for one in found] for name, found in named.items() if found}


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
