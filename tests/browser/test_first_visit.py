"""From `/`, a stranger finds a token and the meaning of its RSI, buys credits, calls the API."""

import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, expect

from support.scenes.payments.shopfront import shopfront
from support.scenes.people.browsing import visiting

WALK_S_MAX: Final = 180.0
PAGES_MAX: Final = 8

pytestmark = pytest.mark.skipif(
    shutil.which("curl") is None, reason="did not run: there is no curl here"
)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_stranger_finds_a_token_buys_credits_and_calls_the_api(
    chromium: Browser, tmp_path: Path
) -> None:
    async with (
        shopfront(tmp_path, has_market=True) as shop,
        visiting(chromium, shop.site.origin) as visitor,
    ):
        page, seen = visitor.page, []
        page.on("framenavigated", lambda frame: seen.append(frame.url))
        await shop.wallet().enter(page)
        began_s = time.monotonic()

        await visitor.open("/")
        await page.get_by_label("Find a token").fill("wrapped")
        await visitor.press("Find")
        row = page.locator("[data-mint]", has_text="Wrapped SOL")
        rsi = float(await row.locator('[data-label="RSI 1h"]').inner_text())
        await page.get_by_role("link", name="RSI", exact=True).click()
        await expect(page.locator("#rsi")).to_be_in_viewport()
        meaning = await page.locator("#rsi").inner_text()

        await visitor.follow("Pricing")
        await page.locator('a[href="/buy/10"]').first.click()
        await page.get_by_role("button", name="Test wallet").click()
        await expect(page.locator("#purchase")).to_have_attribute("data-state", "bought")
        line = await page.locator("#try").inner_text()
        answer = json.loads(await in_a_shell(line))

        assert answer["success"] is True
        assert answer["data"]["indicators"]["h1"]["rsi"] == pytest.approx(rsi, abs=0.06)
        assert "A token is called overbought above 70" in meaning
        assert time.monotonic() - began_s < WALK_S_MAX
        assert len(seen) <= PAGES_MAX, seen


async def in_a_shell(line: str) -> str:
    running = await asyncio.create_subprocess_exec(
        "/bin/sh", "-euc", line, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, trouble = await asyncio.wait_for(running.communicate(), 30)
    assert running.returncode == 0, trouble.decode()
    return output.decode()
