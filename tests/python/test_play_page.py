"""The page in a browser: set-up, timeline, packets, comparison and links, at three widths."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics

import pytest

pytest.importorskip("tornado", reason="the browser is driven over tornado's WebSocket")

import anabranch
import browser
from anabranch.cli import _play
from anabranch.live.viewers import hlsjs
from anabranch.play import links, server

pytestmark = [
    pytest.mark.module,
    pytest.mark.slow,
    pytest.mark.skipif(hlsjs.browser() is None, reason="chromium is not installed"),
]

_DONE = "!document.body.classList.contains('busy') && document.body.dataset.digest"


@pytest.fixture(scope="module", params=["native", "wasm"])
def address(request, tmp_path_factory):
    """Yield the address of the page with each of its engines."""
    if request.param == "wasm" and _play.engine() is None:
        pytest.skip("there is no WebAssembly build: make wasm")
    folder = tmp_path_factory.mktemp("play")
    _play.written(folder, native=request.param == "native")
    with server.serving(folder) as found:
        yield found


class Driven:
    """The page, with methods for the actions of a user."""

    def __init__(self, page, address):
        self.page, self.address = page, address

    async def open(self, fragment="", *, width=1280):
        await self.page.open("about:blank", width=width)
        await self.page.open(f"{self.address}{fragment}", width=width)
        return await self.until(_DONE)

    async def until(self, expression):
        """Return the value of an expression as soon as it is true."""
        for _ in range(600):
            value = await self.page.value(expression)
            if value:
                return value
            await asyncio.sleep(0.05)
        raise AssertionError(f"never true: {expression}; {await self.text('fault')}")

    async def text(self, name):
        return await self.page.value(f"document.getElementById('{name}').textContent")

    async def fill(self, name, value):
        """Change a control of the form and wait for the result."""
        before = await self.page.value("document.body.dataset.digest")
        await self.page.value(
            f"(() => {{ const one = document.querySelector('[data-key=\"{name}\"]'); one.value = {json.dumps(value)};"
            " one.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        return await self.until(f"document.body.dataset.digest !== '{before}' && {_DONE}")

    async def click(self, name):
        await self.page.value(f"document.getElementById('{name}').click()")

    async def box(self, selector):
        keys = "[box.x, box.y, box.width, box.height]"
        found = f"(() => {{ const box = document.querySelector('{selector}').getBoundingClientRect(); return {keys}; }})()"
        return await self.page.value(found)

    async def drag(self, selector, begin, end):
        """Drag along an element, from one share of its width to another."""
        x, y, width, height = await self.box(selector)
        middle = y + height / 2
        await self.page.mouse("mouseMoved", x + begin * width, middle)
        await self.page.mouse("mousePressed", x + begin * width, middle, clicks=1)
        await self.page.mouse("mouseMoved", x + (begin + end) / 2 * width, middle, clicks=1)
        await self.page.mouse("mouseMoved", x + end * width, middle, clicks=1)
        await self.page.mouse("mouseReleased", x + end * width, middle, clicks=1)

    def clean(self):
        """No error in the console, and no request to another host."""
        own = self.address.rpartition("/")[0]
        assert self.page.errors == []
        assert [
            url for url in self.page.requests if not url.startswith((own, "data:", "about:", "blob:"))
        ] == []


def driven(tmp_path, address, what):
    """Return the result of a coroutine function of the page."""

    async def run(page):
        made = Driven(page, address)
        result = await what(made)
        made.clean()
        return result

    return browser.in_page(tmp_path, run)


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_the_first_result_is_that_of_the_command_line(tmp_path, address, width):
    async def look(page):
        digest = await page.open(width=width)
        views = {}
        for view in ("result", "packets", "compare"):
            await page.click(f"tab-{view}")
            await asyncio.sleep(0.3)
            views[view] = await page.page.value("document.documentElement.scrollWidth - innerWidth")
        return digest, views, await page.text("verdict")

    digest, views, verdict = driven(tmp_path, address, look)
    assert digest == anabranch.run("two-paths").summary["digest"]
    # No view is wider than the window.
    assert all(wider <= 0 for wider in views.values()), views
    assert verdict == "The film starts after 2 s and plays to its end without a freeze."


def test_a_changed_set_up_gives_the_result_of_its_link(tmp_path, address):
    async def change(page):
        await page.open()
        await page.fill("paths.0.rate", "3")
        await page.fill("transport.scheduler", "round-robin")
        digest = await page.fill("application.kind", "bulk")
        return digest, await page.page.value("location.hash")

    digest, fragment = driven(tmp_path, address, change)
    found = links.read(fragment)
    assert anabranch.run(found.tables()).summary["digest"] == digest
    assert digest.startswith(found.digest)
    assert found.setup["paths"][0]["rate"] == 3


def test_a_cut_is_made_by_dragging_and_removed_by_a_key(tmp_path, address):
    async def cut(page):
        whole = await page.open()
        await page.drag(".track.p0", 0.25, 0.5)
        await page.until(f"document.body.dataset.digest !== '{whole}' && {_DONE}")
        made = links.read(await page.page.value("location.hash")).setup["paths"][0]["cuts"]
        await page.page.value("document.querySelector('.cut').focus()")
        await page.page.key("Delete")
        await page.until(f"document.body.dataset.digest === '{whole}' && {_DONE}")
        return made

    ((begin, end),) = driven(tmp_path, address, cut)
    # A quarter and a half of a session of 62 s, in steps of half a second.
    assert (begin, end) == (15.5, 31)


def test_packets_move_stop_and_go_one_by_one(tmp_path, address):
    async def watch(page):
        await page.open()
        await page.click("tab-packets")
        await page.until("document.getElementById('packets-play')?.getAttribute('aria-label') === 'Pause'")
        begun = float((await page.text("packets-clock")).split()[0])
        await page.until(f"parseFloat(document.getElementById('packets-clock').textContent) > {begun}")
        await page.click("packets-play")
        shown = [await page.text("packets-clock")]
        # Several hundred packets leave or come in a second, so many steps are shorter than 0.1 ms.
        for _ in range(40):
            await page.click("packets-step")
            shown.append(await page.text("packets-clock"))
        return shown, await page.text("packets-words")

    shown, words = driven(tmp_path, address, watch)
    times = [float(text.split()[0]) for text in shown]
    assert all(0 < after - before < 0.1 for before, after in itertools.pairwise(times))
    assert words.startswith("The receiver ")


def test_two_settings_are_compared_on_the_same_luck(tmp_path, address):
    async def compare(page):
        await page.open()
        await page.click("tab-compare")
        await page.until("document.querySelectorAll('#compare-table tr').length > 2")
        return await page.page.value(
            "[...document.querySelectorAll('#compare-table tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
        )

    table = driven(tmp_path, address, compare)
    assert table[0] == ["", "this", "wifi alone", "difference"]
    both, one = anabranch.run("two-paths").qoe, anabranch.run("single-path").qoe
    empty = next(row for row in table if row[0] == "Buffer empty")
    assert empty[1:3] == [f"{run['buffer_underflows']} times" for run in (both, one)]


def test_a_scenario_with_a_fixed_network_runs_and_prints_why(tmp_path, address):
    async def look(page):
        digest = await page.open("#v=1&scenario=recorded-lte", width=390)
        preset = await page.page.value("document.getElementById('preset').value")
        await page.click("tab-setup")
        changed = await page.fill("transport.scheduler", "round-robin")
        return digest, preset, await page.text("fixed"), changed

    digest, preset, fixed, changed = driven(tmp_path, address, look)
    assert digest == anabranch.run("recorded-lte").summary["digest"]
    assert preset == "Scenarios/recorded-lte"
    assert "what no slider shows: recordings" in fixed
    assert changed == anabranch.run("recorded-lte", scheduler="round-robin").summary["digest"]


_ROWS = "[...document.querySelectorAll('#compare-table tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
_SHOWN = "document.querySelectorAll('#compare-table tr').length > 2"


def test_the_address_of_a_comparison_opens_both_sides(tmp_path, address):
    start = "#v=1&paths.0.name=wifi&paths.1.name=lte&application.kind=bulk&application.bytes=1"

    async def compare(page):
        await page.open(start)
        await page.click("tab-compare")
        await page.until(_SHOWN)
        # The first setting is kept, and the second one has another scheduler.
        await page.click("compare-keep")
        await page.fill("transport.scheduler", "redundant")
        await page.until(f"{_SHOWN} && location.hash.includes('redundant')")
        await page.until("decodeURIComponent(location.hash).includes('compare=kept:')")
        await asyncio.sleep(1)
        first = await page.page.value(_ROWS), await page.page.value("location.hash")
        await page.open(first[1])
        await page.until(_SHOWN)
        again = await page.page.value(_ROWS), await page.page.value("location.hash")
        # A link that is opened in the same page brings its own comparison.
        await page.page.value(f"location.hash = '{start}&compare=scheduler:redundant'")
        await page.until("document.body.dataset.digest && !location.hash.includes('kept')")
        await asyncio.sleep(1)
        chosen = await page.page.value("document.getElementById('compare-with').value")
        await page.click("tab-result")
        return first, again, chosen, await page.page.value("location.hash")

    first, again, chosen, plain = driven(tmp_path, address, compare)
    assert again == first
    assert first[0][1][1] != ""
    assert chosen == "scheduler:redundant"
    assert "compare" not in plain
    # The command line runs this side of it.
    assert links.read(first[1]).setup["transport"] == {"scheduler": "redundant"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("", ""),
        (
            "&digest=0123456789abcdef&build=0.0.1",
            "The link promises the result 0123456789abcdef, made by build 0.0.1.",
        ),
        ("&paths.0.colour=red", "This page does not know paths.0.colour."),
        ("&paths.0.loss=90", "This page does not know paths.0.loss=90."),
    ],
)
def test_a_link_that_gives_something_else_is_reported(tmp_path, address, change, message):
    fragment = f"#v=1&paths.0.name=wifi&application.kind=bulk&application.bytes=1{change}"

    async def look(page):
        await page.open(fragment)
        hidden = await page.page.value("document.getElementById('notice').hidden")
        return hidden, await page.text("notice")

    hidden, notice = driven(tmp_path, address, look)
    assert hidden == (message == "")
    assert notice.startswith(message)


def test_a_result_that_the_link_does_not_promise_is_shown_on_request(tmp_path, address):
    fragment = (
        "#v=1&paths.0.name=wifi&application.kind=bulk&application.bytes=1&digest=0123456789abcdef&build=0.0.1"
    )

    async def look(page):
        await page.open(fragment)
        shown = "document.getElementById('result').offsetHeight > 0"
        before = await page.page.value(shown)
        await page.page.value("document.getElementById('accept').click()")
        return before, await page.page.value(shown), await page.text("notice")

    before, after, notice = driven(tmp_path, address, look)
    assert (before, after) == (False, True)
    assert notice.startswith("The link promises the result 0123456789abcdef")


@pytest.fixture(scope="module")
def wasm(tmp_path_factory):
    """Yield the address of the page with the WebAssembly engine."""
    if _play.engine() is None:
        pytest.skip("there is no WebAssembly build: make wasm")
    folder = tmp_path_factory.mktemp("wasm")
    _play.written(folder)
    with server.serving(folder) as found:
        yield found


_FIRST = "export function schedule(request, subflows) {\n  return candidates(subflows).find((one) => one.can_send) ?? null;\n}"


async def program(page, text):
    """Run a scheduler in the editor, and return the words below it."""
    await page.click("tab-editor")
    await page.until("!!document.getElementById('editor-code')")
    await page.page.value(f"document.getElementById('editor-code').value = {json.dumps(text)}")
    await page.page.value("document.getElementById('editor-said').textContent = ''")
    await page.click("editor-run")
    said = "document.getElementById('editor-said').textContent"
    return await page.until(f"{said} !== '' && {said} !== 'Running…' && {said}")


def test_a_scheduler_in_the_editor_runs_and_its_link_waits_for_the_reader(tmp_path, wasm):
    async def write(page):
        plain = await page.open(
            "#v=1&paths.0.name=wifi&paths.1.name=lte&application.kind=bulk&application.bytes=1"
        )
        said = await program(page, _FIRST)
        own = await page.page.value("document.body.dataset.digest")
        fragment = await page.page.value("location.hash")
        # Opened again: the program does not run before it was read.
        await page.page.open("about:blank", width=1280)
        await page.page.open(f"{wasm}{fragment}", width=1280)
        fault = await page.until("document.getElementById('fault').textContent")
        ran = await page.page.value("document.body.dataset.digest || ''")
        await page.click("tab-editor")
        await page.until("!!document.getElementById('editor-code')")
        await page.click("editor-run")
        again = await page.until(_DONE)
        return plain, said, own, fault, ran, again

    plain, said, own, fault, ran, again = driven(tmp_path, wasm, write)
    assert said.startswith("The file arrives at")
    assert fault.startswith("This link has a scheduler in JavaScript")
    assert ran == ""
    assert own == again
    assert own != plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "export function schedule(request, subflows) {\n  let one = = 2;\n}",
            "Line 2: SyntaxError: Unexpected token '='",
        ),
        (
            "export function schedule(request, subflows) {\n\n  return subflows[9].id;\n}",
            "Line 3: TypeError:",
        ),
        ("export const rule = 3;", "TypeError: there is no function `schedule`"),
    ],
    ids=["syntax", "run", "no-function"],
)
def test_errors_of_a_scheduler_have_their_line(tmp_path, wasm, text, message):
    async def write(page):
        await page.open("#v=1&paths.0.name=wifi&paths.1.name=lte&application.kind=bulk&application.bytes=1")
        return await program(page, text)

    assert driven(tmp_path, wasm, write).startswith(message)


def test_thirty_seeds_give_means_with_intervals(tmp_path, wasm):
    async def compare(page):
        await page.open(
            "#v=1&paths.0.name=wifi&paths.0.loss=1&paths.1.name=lte&application.kind=bulk&application.bytes=1"
        )
        await page.click("tab-compare")
        await page.until("document.querySelectorAll('#compare-table tr').length > 2")
        await page.click("compare-many")
        await page.until("document.querySelectorAll('#compare-means tr').length > 2")
        return await page.page.value(
            "[...document.querySelectorAll('#compare-means tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
        )

    table = driven(tmp_path, wasm, compare)
    raw = links.read(
        "#v=1&paths.0.name=wifi&paths.0.loss=1&application.kind=bulk&application.bytes=1"
    ).tables()
    alone = [anabranch.run(raw, run=run).qos["goodput_mbps"] for run in range(30)]
    # The mean of the other setting, WiFi alone, from Python's runs.
    goodput = next(row for row in table if row[0] == "Goodput")
    assert float(goodput[2].split(" ± ")[0]) == pytest.approx(sum(alone) / 30, abs=0.01)
    # t(0.975, 29) = 2.045 times the standard error.
    error = statistics.stdev(alone) / 30**0.5
    assert float(goodput[2].split(" ± ")[1].split()[0]) == pytest.approx(2.045 * error, abs=0.01)
