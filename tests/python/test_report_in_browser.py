"""The report in a browser: at three widths, with the mouse, and printed."""

from __future__ import annotations

import re

import pytest

import anabranch
import browser
from anabranch import report

pytestmark = [
    pytest.mark.skipif(browser.found() is None, reason="no Chromium: reports are not opened in one"),
    pytest.mark.module,
    pytest.mark.slow,
]

WIDTHS = (360, 768, 1280)
NASTY = "</script><script>document.title='broken'</script><img src=//a.b>"
PATHS = [
    {"name": "wifi", "rtt": "50 ms", "rate": "5 Mbit/s", "loss": "1 %"},
    {"name": "lte", "rtt": "100 ms", "rate": "2 Mbit/s"},
]
#: A film with freezes, whose reasons are listed in a table.
FILM = {
    "name": "film",
    "application": {"film": "papers-film", "duration": "25 s"},
    "paths": PATHS,
    "events": [
        {"at": "5 s", "path": "wifi", "state": "down"},
        {"at": "9 s", "path": "wifi", "rate": "300 kbit/s"},
        {"at": "9 s", "path": "wifi", "state": "up"},
    ],
}
REPORTS = {
    "film": FILM,
    "bulk": {"name": "bulk", "application": {"kind": "bulk", "duration": "10 s"}, "paths": PATHS},
    "clients": {**FILM, "clients": 3},
    "names": {
        **FILM,
        "name": NASTY,
        "paths": [{**PATHS[0], "name": NASTY}, {**PATHS[1], "name": "l" * 64}],
        "events": [{"at": "5 s", "path": NASTY, "state": "down"}],
    },
}


def written(path, name):
    """Write the report of a run, or that of an advice, and return its address."""
    # Before the tests' own fixtures, which would skip.
    pytest.importorskip("anabranch._anabranch")
    if name == "advice":
        few = {"controllers": ["cubic", "balia"], "schedulers": ["linux", "ecf"], "trials": 3, "workers": 1}
        film = {**REPORTS["names"], "application": {"film": "papers-film", "duration": "3 s"}, "events": []}
        advice = anabranch.advise(film, **few)
        # Otherwise the table would have no column of risk.
        assert advice.choice.risk is not None
        return advice.report(path).as_uri()
    run = anabranch.run(REPORTS[name])
    report.write(path, run)
    # Otherwise no page would have the table of freezes.
    assert run.qoe is None or run.qoe["buffer_underflows"] > 0
    return path.as_uri()


@pytest.fixture(scope="module", params=REPORTS)
def address(request, tmp_path_factory):
    """Return the address of a run's report."""
    return written(tmp_path_factory.mktemp("report") / "report.html", request.param)


@pytest.fixture(scope="module", params=[*REPORTS, "advice"])
def any_address(request, tmp_path_factory):
    """Return the address of any report."""
    return written(tmp_path_factory.mktemp("report") / "report.html", request.param)


def check_fit(address, tmp_path):
    """Open a page at every width, in light and dark."""

    async def look(page):
        found = []
        for width in WIDTHS:
            for dark in (False, True):
                await page.open(address, width=width, dark=dark)
                wide = await page.value("document.documentElement.scrollWidth")
                found.append((width, wide <= width))
                # A reader has to look for text that a card hides beyond its edge.
                hidden = "[...document.querySelectorAll('.card')].filter(c => c.scrollWidth > c.clientWidth + 1).length"
                assert await page.value(hidden) == 0
                ground = await page.value("getComputedStyle(document.body).backgroundColor")
                light = sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128
                assert light != dark
        return found, page.errors, page.requests

    fits, errors, requests = browser.in_page(tmp_path / "browser", look)
    assert [width for width, is_whole in fits if not is_whole] == []
    assert errors == []
    assert set(requests) <= {address, "data:,"}


def test_it_fits_every_width_in_light_and_dark(any_address, tmp_path):
    check_fit(any_address, tmp_path)


def test_the_page_of_a_folder_fits_every_width_in_light_and_dark(tmp_path):
    film = {**REPORTS["names"], "application": {"film": "papers-film", "duration": "5 s"}, "events": []}
    grid = {"paths.0.rate": ["5 Mbit/s", "1 Mbit/s"], "transport.scheduler": ["linux", "min-rtt"]}
    found = anabranch.sweep(film, grid=grid, trials=2, workers=1, out=tmp_path / "out")
    check_fit(found.report(tmp_path / "report.html").as_uri(), tmp_path)


def test_letters_are_as_large_on_a_phone_as_on_a_desk(any_address, tmp_path):
    smallest = """Math.min(...[...document.querySelectorAll('main *')].filter(e => e.checkVisibility() &&
        [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
        .map(e => parseFloat(getComputedStyle(e).fontSize)))"""

    async def look(page):
        sizes = []
        for width in WIDTHS:
            await page.open(any_address, width=width)
            sizes.append(await page.value(smallest))
            assert await page.value("document.querySelectorAll('svg text').length") == 0
        return sizes

    assert min(browser.in_page(tmp_path / "browser", look)) >= 10


CENTRE = """(() => { const b = [...document.querySelectorAll('.plot')].pop();
    b.scrollIntoView({block: 'center'}); const r = b.getBoundingClientRect();
    return [r.left, r.top + r.height / 2, r.width]; })()"""
TOLD = "document.querySelector('.over output').textContent"
SHOWN = """[...[...document.querySelectorAll('.panel')].pop().querySelectorAll('.legend b')]
    .map(b => b.textContent)"""
VIEW = "document.querySelector('.plot svg').getAttribute('viewBox').split(' ').map(Number)"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_mouse_reads_values_and_looks_closer(address, tmp_path, width):
    async def look(page):
        await page.open(address, width=width)
        at_rest = await page.value(TOLD)
        left, y, wide = await page.value(CENTRE)
        until = (await page.value(VIEW))[2]

        await page.mouse("mouseMoved", left + wide / 4, y)
        assert float((await page.value(TOLD)).split(" s")[0]) == pytest.approx(until / 4, abs=until / 50)
        assert any(await page.value(SHOWN))
        cursors = "[...document.querySelectorAll('.cursor')].every(c => !c.hidden)"
        assert await page.value(cursors)

        await page.mouse("mousePressed", left + wide / 4, y, clicks=1)
        await page.mouse("mouseMoved", left + wide / 2, y, clicks=1)
        await page.mouse("mouseReleased", left + wide / 2, y, clicks=1)
        begin, _, length, _ = await page.value(VIEW)
        assert begin == pytest.approx(until / 4, abs=until / 50)
        assert length == pytest.approx(until / 4, abs=until / 50)
        assert not await page.value("document.querySelector('.over button').hidden")

        await page.value("document.querySelector('.over button').click()")
        assert (await page.value(VIEW))[::2] == [0, until]
        await page.value("[...document.querySelectorAll('.plot')].pop().focus()")
        await page.key("+")
        assert (await page.value(VIEW))[2] == pytest.approx(until / 2)
        await page.key("ArrowRight")
        assert await page.value(TOLD) != at_rest
        await page.key("Escape")
        assert (await page.value(VIEW))[::2] == [0, until]
        assert await page.value(TOLD) == at_rest
        await page.value("document.querySelector('summary').click()")
        assert await page.value("document.querySelector('details').open")
        assert await page.value("document.title") != "broken"
        return page.errors, page.requests

    errors, requests = browser.in_page(tmp_path / "browser", look)
    assert errors == []
    assert set(requests) <= {address, "data:,"}


#: Links to the top and the bottom of everything that must not be split across pages. The browser writes their
#: positions into the PDF.
ANCHORS = """(() => { let number = 0;
    for (const one of document.querySelectorAll('.panel, .tile, .verdicts, tr')) {
        // Heads of tables are not there on narrow paper.
        if (!one.checkVisibility() || one.classList.contains('head')) continue;
        const inside = one.tagName === 'TR' ? [one.cells[0], one.cells[one.cells.length - 1]] : [one, one];
        for (const [end, place] of [['top', 0], ['end', 1]]) {
            const mark = document.createElement('a'), link = document.createElement('a');
            mark.id = `${end}-${number}`; link.href = `#${mark.id}`; link.textContent = '.';
            mark.style.cssText = `position: absolute; ${end === 'top' ? 'top' : 'bottom'}: 0; left: 0; width: 1px; height: 1px`;
            one.style.position = 'relative';
            inside[place].append(mark); document.querySelector('h1').append(link);
        }
        number += 1;
    }
    return number; })()"""


#: A4 and A5, in inches; on the latter every report has several pages.
PAPERS = {"A4": (8.27, 11.69), "A5": (5.83, 8.27)}


@pytest.mark.parametrize("paper", PAPERS)
def test_paper_cuts_nothing_in_two(any_address, tmp_path, paper):
    async def look(page):
        await page.open(any_address, width=1280)
        await page.call("Emulation.setEmulatedMedia", media="print")
        count = await page.value(ANCHORS)
        await page.call("Emulation.setEmulatedMedia", media="")
        return count, await page.pdf(*PAPERS[paper]), page.errors, page.requests

    count, printed, errors, requests = browser.in_page(tmp_path / "browser", look)
    assert errors == []
    assert set(requests) <= {any_address, "data:,"}
    place = dict(re.findall(rb"/((?:top|end)-\d+) \[(\d+) 0 R", printed))
    assert len(place) == 2 * count > 10
    cut = [number for number in range(count) if place[b"top-%d" % number] != place[b"end-%d" % number]]
    assert cut == []
    assert paper == "A4" or len(set(place.values())) > 1
