"""The notebook of the documentation: ten cells, from a question to a figure, every one of which runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes" / "notebook.ipynb"


def cells():
    return json.loads(PAGE.read_text(encoding="utf-8"))["cells"]


def test_the_notebook_has_ten_cells_and_no_outputs():
    assert len(cells()) == 10
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None for cell in cells() if "outputs" in cell
    )


@pytest.mark.slow
@pytest.mark.module
@pytest.mark.filterwarnings("ignore")  # those of Jupyter's own parts
def test_every_cell_runs_and_the_last_one_is_the_figure(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="no nbformat: the notebook is not run")
    nbclient = pytest.importorskip("nbclient", reason="no nbclient: the notebook is not run")
    pytest.importorskip("ipykernel", reason="no ipykernel: the notebook is not run")
    notebook = nbformat.read(PAGE, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [
        "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    _, compared, found, versus, frame, session, figure = shown
    assert "adding lte to wifi" in compared
    assert compared.count("<rect") == 2
    assert all(name in found for name in ("linux", "min-rtt", "redundant", "round-robin"))
    assert "goodput_mbps_low" in versus
    assert "srtt_ms" in frame
    assert "throughput" in session.lower()
    assert "goodput, Mb/s" in figure
    assert "retransmissions" in figure
    assert {file.name for file in tmp_path.iterdir()} == {
        f"schedulers.{end}" for end in ("svg", "png", "csv")
    }
    assert len((tmp_path / "schedulers.csv").read_text().splitlines()) == 1 + 4 * 4


@pytest.mark.slow
@pytest.mark.module
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_has_a_bar_of_progress(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="no nbformat: the bar is not drawn")
    nbclient = pytest.importorskip("nbclient", reason="no nbclient: the bar is not drawn")
    pytest.importorskip("ipykernel", reason="no ipykernel: the bar is not drawn")
    pytest.importorskip("ipywidgets", reason="no ipywidgets: the bar is not drawn")
    # The bar goes when all is done: it is looked for while it is there.
    source = (
        "import ipywidgets, anabranch\n"
        "seen = []\n"
        "show = ipywidgets.Output.__init__\n"
        "def noted(self, *arguments, **named):\n"
        "    seen.append(True)\n"
        "    show(self, *arguments, **named)\n"
        "ipywidgets.Output.__init__ = noted\n"
        "size = {'application.bytes': '100kB'}\n"
        "for asked in (None, False):\n"
        "    seen.clear()\n"
        "    anabranch.sweep('bulk-two-paths', set=size, trials=2, workers=1, progress=asked)\n"
        "    print(bool(seen))\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    told = [output.text for output in notebook.cells[0].outputs if output.output_type == "stream"]
    assert "".join(told).split() == ["True", "False"]
