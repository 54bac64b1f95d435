"""Digest of what verdicts depend on besides the build: the plan of each cell, and the stated claims."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from anabranch.claims import statement
from anabranch.results import identity, store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from anabranch.study.models import Study

_LENGTH = 12
#: The build and the inputs of the line about a paper's runs.
_TOLD = re.compile(r"; build: `([^`]*)`(?:; inputs: `([^`]*)`)?\.")


def of_results(folder: Path, place: Path) -> str:
    """Return the digest of stored results, with the claims as they are stated now.

    Parameters
    ----------
    folder
        The study's folder.
    place
        The folder of results.
    """
    found = store.manifest(place)["cells"]
    return _digest(folder, ((one["labels"], one["hash"]) for one in found if "varied" not in one["labels"]))


def of_study(folder: Path, study: Study) -> str:
    """Return the digest that results of a study as it stands would have."""
    from anabranch.study import study as studies
    from anabranch.study import sweep

    what = studies.sweep(folder, study)
    planned = sweep.planned(what)
    return _digest(
        folder, ((dict(one.labels), plan.hash) for one, plan in zip(what.cells, planned, strict=True))
    )


def _digest(folder: Path, cells: Iterable[tuple[Mapping[str, Any], str]]) -> str:
    """Return the digest of the hashes of plans, by labels, and of the claims."""
    plans = sorted(json.dumps([sorted(labels.items()), plan], default=str) for labels, plan in cells)
    claims = (folder / statement.FILE).read_text(encoding="utf-8")
    return hashlib.sha256(json.dumps([plans, claims]).encode()).hexdigest()[:_LENGTH]


def told(code: str, digest: str) -> str:
    """Return the end of the line about a paper's runs."""
    return f"; build: `{code}`" + (f"; inputs: `{digest}`" if digest else "") + "."


def on_page(text: str) -> dict[str, tuple[str, str]]:
    """Return the build and the digest of inputs of each paper on a page; the latter is empty if unknown."""
    found = {}
    for section in text.split("\n\n## ")[1:]:
        name = section.partition("\n")[0]
        match = _TOLD.search(section)
        if match is not None:
            found[name] = (match[1], match[2] or "")
    return found


def is_current(text: str, name: str, folder: Path, study: Study) -> bool:
    """Return whether a page's section of a study has this build and the study's present inputs."""
    code, digest = on_page(text).get(name, ("", ""))
    return code == identity.code() and digest != "" and digest == of_study(folder, study)
