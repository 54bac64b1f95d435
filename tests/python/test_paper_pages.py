"""The pages of the papers: their numbers and verdicts are those of the stored measurements and of the claims."""

from __future__ import annotations

import runpy
import tomllib
import types
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def papers():
    tool = runpy.run_path(str(DOCS / "papers.py"))
    return types.SimpleNamespace(**tool)


@pytest.mark.parametrize("name", ["HO20", "LEO24", "PC16", "SD18", "UQ18"])
def test_a_page_is_what_its_command_writes(papers, name):
    text = (DOCS / "papers" / f"{name}.md").read_text(encoding="utf-8")
    assert text == papers.page(name), "`python docs/papers.py` writes the pages again"


@pytest.mark.parametrize("name", ["HO20", "LEO24", "PC16", "SD18", "UQ18"])
def test_each_picture_is_of_the_present_numbers_and_on_its_page(papers, name):
    page = (DOCS / "papers" / f"{name}.md").read_text(encoding="utf-8")
    found = list(papers.drawn(name))
    assert len(found) > 4
    for file, _, last in found:
        assert f"](../images/papers/{file.name})" in page
        assert file.read_text(encoding="utf-8").splitlines()[-1] == last, (
            "`python docs/papers.py` draws it again"
        )


@pytest.mark.parametrize("name", ["HO20", "LEO24", "PC16", "SD18", "UQ18"])
def test_each_claim_of_a_paper_is_at_one_figure_of_its_page(papers, name):
    texts = tomllib.loads((DOCS / "papers" / f"{name}.toml").read_text(encoding="utf-8"))
    claims = tomllib.loads((DOCS.parent / "studies" / name / "claims.toml").read_text(encoding="utf-8"))
    shown = [one for figure in texts["figures"] for one in figure.get("claims", ())]
    assert sorted(shown) == sorted(one["id"] for one in claims["claims"])


def test_verdicts_are_read_as_printed_and_as_inferred(papers):
    page = "# P\n\n## A\n\nt; build: `0.1.0+00`; inputs: `ab`.\n\n| A.1 (Fig. 2) | less x \\| y | **reproduced** | here | | z |\n"
    page += "| A.2 (Fig. 3) | more | undecided | here | | z |\n\n| `A.2` | undecided | inferred |\n\n## B\n\nnone\n"
    claims, build = papers.verdicts(page, "A")
    assert build == "0.1.0+00"
    assert {name: (one.verdict, one.inferred) for name, one in claims.items()} == {
        "A.1": ("reproduced", ""),
        "A.2": ("undecided", "inferred"),
    }


def test_a_table_shows_mean_and_extremes_in_the_given_order(papers):
    cell = {"row": "one", "scheduler": "dft", "settings": "", "runs": "3", "build": "b"}
    numbers = [
        {
            **cell,
            "world": world,
            "congestion": control,
            "metric": metric,
            "mean": mean,
            "least": least,
            "most": "9",
        }
        for world in ("as printed", "far")
        for control, mean, least in (("lia", "4.5", "1"), ("cubic", "9", "9"))
        for metric in ("startup_s", "lte.retransmissions")
    ]
    wanted = {
        "down": ["metric"],
        "across": "congestion",
        "congestion": ["cubic", "lia"],
        "metric": ["startup_s"],
    }
    assert list(papers._table(wanted, numbers)) == [
        "|  |  | cubic | lia |",
        "|---|---|--:|--:|",
        "| start, s | as printed | 9 | 4.5 [1, 9] |",
        "| start, s | far | 9 | 4.5 [1, 9] |",
    ]
    assert papers._word("lte.retransmissions") == "lte: retransmissions"
    assert [papers._number(one) for one in (0.01234, 99.94, 1234.5)] == ["0.0123", "99.9", "1,234"]


# -- the ideas that the papers announce ----------------------------------------------------------------


@pytest.fixture(scope="module")
def announced():
    return types.SimpleNamespace(**runpy.run_path(str(DOCS.parent / "examples" / "python" / "announced.py")))


@pytest.mark.module
def test_admission_refuses_far_slow_and_unsteady_subflows(announced):
    from anabranch.plugins import SendRequest, SubflowView

    full = SubflowView(
        id=0, srtt_ms=50.0, rttvar_ms=5.0, delivery_rate_mbps=8.0, cwnd_segments=9, in_flight_segments=9
    )

    def chosen(**other):
        values = {"srtt_ms": 100.0, "rttvar_ms": 10.0, "delivery_rate_mbps": 4.0}
        second = SubflowView(id=1, **{**values, **other})
        found = announced.Admitted().schedule(SendRequest(), (full, second))
        return None if found is None else found.id

    assert chosen() == 1
    assert chosen(srtt_ms=151.0) is None, "more than three times the RTT of the nearest"
    assert chosen(delivery_rate_mbps=1.9) is None, "less than a quarter of the fastest"
    assert chosen(rttvar_ms=101.0) is None, "the RTT varies by more than itself"
    assert chosen(delivery_rate_mbps=0.0) == 1, "no rate is known yet"


@pytest.mark.module
def test_a_subflow_that_retransmits_is_the_second_choice_but_a_choice(announced):
    from anabranch.plugins import SendRequest, SubflowView

    near = SubflowView(id=0, srtt_ms=50.0, state="Recovery")
    far = SubflowView(id=1, srtt_ms=100.0)
    full = SubflowView(id=1, srtt_ms=100.0, cwnd_segments=9, in_flight_segments=9)
    scheduler = announced.Prefers()
    assert scheduler.schedule(SendRequest(), (near, far)) is far
    assert scheduler.schedule(SendRequest(), (near, full)) is near


@pytest.mark.module
def test_a_coupled_control_grows_like_reno_after_the_loss_of_a_path(announced):
    """Two equal windows of 10 segments: RFC 6356's alpha is 1/2, so an ACK adds 1/40, and Reno's 1/10."""
    window = types.SimpleNamespace(cwnd=10, in_slow_start=False)

    def growth(timeouts, *, uncouples=True):
        siblings = [
            types.SimpleNamespace(
                id=one, usable=True, srtt_ms=50.0, cwnd_segments=10, consecutive_timeouts=lost
            )
            for one, lost in ((0, 0), (1, timeouts))
        ]
        ack = types.SimpleNamespace(id=0, siblings=siblings)
        return announced.Survivor(uncouples=uncouples).per_segment(ack, window)

    assert growth(0) == pytest.approx(1 / 40)
    assert growth(1) == pytest.approx(1 / 10)
    assert growth(1, uncouples=False) == pytest.approx(1 / 40)
