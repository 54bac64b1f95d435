"""The notebook of the documentation: ten cells, from a question to a figure, every one of which runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recipes" / "notebook.ipynb"


def cells():
    return json.loads(PAGE.read_text(encoding="utf-8"))["cells"]


def outputs(notebook):
    """Return the stored outputs of each cell of code."""
    return [cell["outputs"] for cell in notebook if cell["cell_type"] == "code"]


def test_the_notebook_has_ten_cells_and_their_values():
    assert len(cells()) == 10
    assert PAGE.stat().st_size < 1_000_000
    # The first cell only names the settings.
    none, *shown = outputs(cells())
    assert none == []
    assert [[one["output_type"] for one in each] for each in shown] == [["execute_result"]] * 6
    text = PAGE.read_text(encoding="utf-8")
    assert "/tmp/" not in text
    assert text.count("<svg") >= 2


@pytest.mark.slow
@pytest.mark.module
@pytest.mark.filterwarnings("ignore")  # those of Jupyter's own parts
def test_every_cell_runs_and_the_last_one_is_the_figure(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="no nbformat: the notebook is not run")
    nbclient = pytest.importorskip("nbclient", reason="no nbclient: the notebook is not run")
    pytest.importorskip("ipykernel", reason="no ipykernel: the notebook is not run")
    notebook = nbformat.read(PAGE, as_version=4)
    stored = ["".join(one["data"]["text/html"] for one in each) for each in outputs(notebook.cells)]
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    values = [
        "".join(one.data["text/html"] for one in each if one.output_type == "execute_result")
        for each in outputs(notebook.cells)
    ]
    assert values == stored, "make notebook stores the outputs again"
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


@pytest.mark.slow
@pytest.mark.module
@pytest.mark.filterwarnings("ignore")
def test_a_class_of_a_cell_is_a_scheduler_in_this_process_and_in_others(tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="no nbformat: no cell is run")
    nbclient = pytest.importorskip("nbclient", reason="no nbclient: no cell is run")
    pytest.importorskip("ipykernel", reason="no ipykernel: no cell is run")
    sources = [
        "import anabranch\nfrom anabranch.plugins import candidates\nsize = {'application.bytes': '100kB'}\nleast = 1.0",
        (
            "class Mine:\n"
            "    def schedule(self, request, subflows):\n"
            "        free = [one for one in candidates(subflows) if one.can_send and one.srtt_ms > least]\n"
            "        return min(free, key=lambda one: one.srtt_ms, default=None)\n"
        ),
        "print(anabranch.run('bulk-two-paths', scheduler=Mine, set=size, progress=False).digest)",
        (
            "grid = {'transport.scheduler': ['linux', Mine]}\n"
            "found = anabranch.sweep('bulk-two-paths', grid=grid, set=size, trials=2, workers=2, progress=False)\n"
            "print(len(found), found.open(found.frame()['identity'].to_list()[-1]).digest)"
        ),
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in sources])
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, resources=where).execute()
    told = [
        "".join(one.text for one in cell.outputs if one.output_type == "stream") for cell in notebook.cells
    ]
    assert len(told[2].strip()) == 64
    assert told[3].split()[0] == "4"
