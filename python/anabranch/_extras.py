"""The optional packages: which extra installs each, and the error if one is missing.

The project is in no package index. A hint therefore installs the packages of the extra, which are in a
package index. It names the interpreter that runs the program, so it is right for a clone and for a wheel.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass

from anabranch import _pieces
from anabranch.errors import MissingError


@dataclass(frozen=True, kw_only=True)
class Extra:
    """A group of optional packages, as in `pyproject.toml`.

    Attributes
    ----------
    modules
        The name of each module, and its name for people.
    requirements
        The packages to install.
    unlocks
        The features that need it.
    """

    modules: dict[str, str]
    requirements: tuple[str, ...]
    unlocks: str


#: The extras by name. `all` and `dev` contain the others.
EXTRAS = {
    "media": Extra(
        modules={"av": "PyAV"},
        requirements=("av>=13",),
        unlocks="films of one's own, and real packets with a film",
    ),
    "figures": Extra(
        modules={"altair": "Altair", "vl_convert": "vl-convert"},
        requirements=("altair>=5.4", "vl-convert-python>=1.6"),
        unlocks="Run.plot, study figures, --figure, figures of a folder's report",
    ),
    "sql": Extra(modules={"duckdb": "DuckDB"}, requirements=("duckdb>=1.1",), unlocks="results --sql"),
    "live": Extra(
        modules={"pyroute2": "pyroute2", "vlc": "python-vlc"},
        requirements=("pyroute2>=0.9", "python-vlc>=3.0"),
        unlocks="network namespaces of real packets",
    ),
    "dask": Extra(
        modules={"distributed": "Dask's package distributed"},
        requirements=("distributed>=2024.8",),
        unlocks="sweeps on a cluster (--dask)",
    ),
    "notebook": Extra(
        modules={"ipykernel": "ipykernel", "ipywidgets": "ipywidgets"},
        requirements=("ipykernel>=6.29", "ipywidgets>=8"),
        unlocks="progress bars and sliders in a notebook",
    ),
}


def command(extra: str, *, again: bool = False) -> str:
    """Return the command that installs an extra's packages. With `again`, it replaces broken ones."""
    forced = ["--force-reinstall"] if again else []
    return shlex.join([sys.executable, "-m", "pip", "install", *forced, *EXTRAS[extra].requirements])


def need(*modules: str, for_: str) -> None:
    """Make sure that optional modules can be imported.

    Parameters
    ----------
    modules
        Names of modules of one extra.
    for_
        The task that needs them, as a noun: `drawing a figure`.

    Raises
    ------
    MissingError
        If one of them is missing or broken.
    """
    for module in modules:
        name = next(name for name, extra in EXTRAS.items() if module in extra.modules)
        why = _pieces.unimportable(module)
        if why is not None:
            message = f"{for_} needs {EXTRAS[name].modules[module]}, which is missing or broken ({why})"
            # A module that is installed but lacks a part is installed again.
            absent = f"No module named {module!r}" in why or f"import of {module} halted" in why
            raise MissingError(message, hint=command(name, again=not absent))


def figures() -> None:
    """Make sure that figures can be drawn and written.

    Raises
    ------
    MissingError
        If Altair or vl-convert is missing or broken.
    """
    need("altair", "vl_convert", for_="drawing a figure")
