"""Chromium gives the native digest of every plan that node does: one page, all plans in its worker."""

from __future__ import annotations

import asyncio
import json

import pytest

pytest.importorskip("tornado", reason="the browser is driven over tornado's WebSocket")

import browser
from anabranch.cli import _play
from anabranch.live.viewers import hlsjs
from anabranch.play import server
from anabranch.plugins import module
from test_web_plans import plans_of_everything

pytestmark = [
    pytest.mark.module,
    pytest.mark.slow,
    pytest.mark.skipif(hlsjs.browser() is None, reason="chromium is not installed"),
    pytest.mark.skipif(_play.engine() is None, reason="`make wasm` has not built the simulator"),
]

_PROGRAM = """
(async () => {
  const [{ Runner }, { begun }] = [await import("./runner.js"), await import("./start.js")];
  const runner = new Runner("wasm", begun.module), found = [];
  for (const plan of await (await fetch("plans.json")).json()) {
    found.push(await runner.seat("main").send({ plan }).then(({ digest }) => digest, (error) => error.message));
  }
  globalThis.digests = found;
})().catch((error) => { globalThis.digests = [String(error)]; });
"""


def test_every_plug_in_model_and_player_has_the_native_digest_in_chromium(tmp_path):
    plans = {name: json.dumps(made) for name, made in plans_of_everything().items()}
    folder = tmp_path / "page"
    folder.mkdir()
    _play.written(folder)
    (folder / "plans.json").write_text(json.dumps(list(plans.values())), encoding="utf-8")

    async def run(page):
        await page.open(address, width=1280)
        await page.value(_PROGRAM)
        for _ in range(2400):
            found = await page.value("globalThis.digests")
            if found:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError("the plans did not end")

    with server.serving(folder) as address:
        found = browser.in_page(tmp_path / "chromium", run)
    native = {
        name: module().simulate(text, None, None, {})["summary"]["digest"] for name, text in plans.items()
    }
    assert len(plans) >= 50
    assert dict(zip(plans, found, strict=True)) == native
