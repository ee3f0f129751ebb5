"""Measures how much an open token page loads the browser's main thread while trades arrive.

The page has the moving chart, the list of swaps and all figures.  The first seconds, with the
loading, do not count.  The load is measured as processor time, so that a busy machine changes
little.
"""

import asyncio
import shutil
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from playwright.async_api import CDPSession, async_playwright

from bench.figure import Figure, tell

ROOT: Final = Path(__file__).resolve().parents[1]
SETTLE_S: Final = 5.0
SECONDS: Final = 25.0
EVERY_S: Final[Mapping[str, float | None]] = {
    "no trades": None,
    "a trade a second": 1.0,
    "4 a second": 0.25,
}
GOAL: Final = "<= 5 %"


async def run() -> list[Figure]:
    """Measure the load of a browser's main thread by a token page, without and with trades."""
    sys.path.insert(0, str(ROOT / "tests"))
    website: Any = import_module("support.scenes.website")
    browsing: Any = import_module("support.scenes.people.browsing")
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    with TemporaryDirectory() as name:
        async with (
            website.served_website(Path(name), has_token_market=True) as site,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(
                executable_path=path, args=list(browsing.CHROMIUM_ARGUMENTS)
            )
            try:
                return [
                    await _measured(browser, site, what, every_s)
                    for what, every_s in EVERY_S.items()
                ]
            finally:
                await browser.close()


async def _measured(browser: Any, site: Any, what: str, every_s: float | None) -> Figure:
    market: Any = import_module("support.scenes.token_market")
    page = await browser.new_page(viewport={"width": 1280, "height": 900})
    await page.goto(f"{site.origin}/token/{market.SOL}?tf=m1")
    await page.locator(".chart .moving canvas").first.wait_for()
    reported = await page.context.new_cdp_session(page)
    await reported.send("Performance.enable")
    trading = asyncio.create_task(_trade(site.token_market, market, every_s))
    await asyncio.sleep(SETTLE_S)
    before = await busy_s(reported)
    await asyncio.sleep(SECONDS)
    share = (await busy_s(reported) - before) / SECONDS
    trading.cancel()
    await asyncio.gather(trading, return_exceptions=True)
    await page.close()
    return Figure(
        what=f"main thread of an open token page, {what}",
        who="mintscope",
        value=100 * share,
        unit="% busy",
        goal=GOAL,
    )


async def _trade(traded: Any, market: Any, every_s: float | None) -> None:
    number = 0
    while every_s is not None:
        number += 1
        swap = market.swap_of(
            market.SOL, 172.0 + number % 7 / 10, dollars=50.0, number=number % 8_000 + 1_000
        )
        await traded.trade(swap, after_s=1)
        await asyncio.sleep(every_s)


async def busy_s(reported: CDPSession) -> float:
    """Return the processor seconds that the main thread of a browser's page has used until now."""
    metrics = (await reported.send("Performance.getMetrics"))["metrics"]
    found = {each["name"]: float(each["value"]) for each in metrics}
    return found["ThreadTime"]


if __name__ == "__main__":
    for each in asyncio.run(run()):
        tell(each)
