"""Run the notebook of the documentation and store its outputs: `make notebook`.

Only the values of cells are stored, so that each execution writes the same file.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

PAGE = Path(__file__).resolve().parent / "recipes" / "notebook.ipynb"


def executed(page: Path = PAGE) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a new execution, in an empty folder."""
    notebook = nbformat.read(page, as_version=4)
    metadata = copy.deepcopy(notebook.metadata)
    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        nbclient.NotebookClient(notebook, timeout=600, resources=where).execute()
    # The execution adds the state of widgets, and the version of Python.
    notebook.metadata = metadata
    count = 0
    for cell in notebook.cells:
        cell.metadata = nbformat.NotebookNode()
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            values = [one for one in cell.outputs if one.output_type == "execute_result"]
            cell.outputs = [_stored(one, count) for one in values]
    return notebook


def _stored(output: Any, count: int) -> Any:  # noqa: ANN401
    """Return the value of a cell as HTML alone; its plain text may contain a folder of this host."""
    data = {"text/html": output.data["text/html"]}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=count)


if __name__ == "__main__":
    nbformat.write(executed(), sys.argv[1] if len(sys.argv) == 2 else PAGE)
