"""A real browser, and a visitor who records all errors of pages."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    Response,
    async_playwright,
    expect,
)

from support.scenes.website import AXE, MINUTE_MS, PASSWORD, Website, served_website

ROOT: Final = Path(__file__).resolve().parents[4]
WIDE: Final = (1280, 900)
PATIENCE_MS: Final = 30_000
CHROMIUM_ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# This script in each page records elements that moved without input, with both positions.  The page
# is first painted when all of it has arrived: a busy browser may paint it earlier, and a text or a
# list of options of which a half has arrived then grows.
MOVED: Final = """
  window.moved = [];
  const hide = (_, observer) => {
    const page = document.documentElement;
    if (page === null) return;
    observer?.disconnect();
    if (document.readyState === "loading") page.style.display = "none";
  };
  hide();
  new MutationObserver(hide).observe(document, { childList: true });
  document.addEventListener("readystatechange", () =>
    document.documentElement.style.removeProperty("display"));
  const shown = (node) => (node?.outerHTML ?? node?.parentElement?.outerHTML ?? "").slice(0, 120);
  const place = ({ x, y, width, height }) => [x, y, width, height].join(" ");
  const moves = ({ node, previousRect, currentRect }) =>
    `${shown(node)} from ${place(previousRect)} to ${place(currentRect)}`;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) {
      if (each.hadRecentInput) continue;
      window.moved.push(`${each.value}: ${each.sources.map(moves).join("; ")}`);
    }
  }).observe({ type: "layout-shift", buffered: true });
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Yield the machine's Chromium; without it or axe-core, skip the test, or fail it in CI.

    The headless version is preferred, because it shows the same pages in half of the time.
    """
    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if path is None or not AXE.exists():
        missing = "Chromium" if path is None else "axe-core"
        reason = f"did not run: there is no {missing} here; `make test` fetches it where it can"
        pytest.fail(reason) if "CI" in os.environ else pytest.skip(reason)  # noqa: TID251
    expect.set_options(timeout=PATIENCE_MS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=list(CHROMIUM_ARGUMENTS)
        )
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lasting_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    """Yield one service for all browser tests; each test uses separate accounts."""
    async with served_website(tmp_path_factory.mktemp("site")) as site:
        await site.make_administrator()
        yield site


@pytest_asyncio.fixture(loop_scope="session")
async def live_site(lasting_site: Website) -> Website:
    """Advance the clock until limits no longer count the previous test; return the service."""
    lasting_site.clock.advance(6 * MINUTE_MS)
    return lasting_site


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(chromium: Browser, live_site: Website) -> AsyncIterator["Visitor"]:
    """Yield a visitor without an account, with a wide window."""
    async with visiting(chromium, live_site.origin) as visitor:
        yield visitor


@dataclass
class Visitor:
    """A person who uses a separate browser.

    mishaps   faults of pages: errors in scripts, violations of the content security policy, missing
              files
    """

    page: Page
    origin: str
    mishaps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.mishaps.append(f"script: {error}"))
        self.page.on("requestfailed", self._miss)
        self.page.on("response", self._see)

    async def open(self, path: str) -> Response:
        response = await self.page.goto(self.origin + path)
        assert response is not None
        return response

    async def fill(self, **fields: str) -> None:
        """Type each text into the field with this label; underscores stand for spaces."""
        for name, text in fields.items():
            label = name.replace("E_mail", "E-mail").replace("_", " ")
            await self.page.get_by_label(label, exact=True).fill(text)

    async def press(self, name: str) -> None:
        async with self.page.expect_navigation():
            await self.page.get_by_role("button", name=name, exact=True).click()

    async def follow(self, name: str) -> None:
        async with self.page.expect_navigation():
            await self.page.get_by_role("link", name=name, exact=True).first.click()

    async def reads(self, text: str) -> None:
        await self.page.get_by_text(text).first.wait_for()

    async def sign_up(self, email: str) -> None:
        await self.open("/sign-up")
        await self.fill(E_mail_address=email, Password=PASSWORD)
        await self.press("Create the account")

    async def sign_in(self, email: str, path: str = "/") -> None:
        """Open *path*, which needs a session, and sign in with PASSWORD."""
        await self.open(f"/sign-in?next={path}")
        await self.fill(E_mail_address=email, Password=PASSWORD)
        await self.press("Sign in")

    @property
    def path(self) -> str:
        return self.page.url.removeprefix(self.origin)

    def _hear(self, message: ConsoleMessage) -> None:
        # Chromium logs a line for each answer with status 400 or more; tests check these answers.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            self.mishaps.append(f"console: {message.text}")

    def _miss(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":
            self.mishaps.append(f"no answer: {request.url} {request.failure}")

    def _see(self, response: Response) -> None:
        if response.status >= 500 or (
            response.status >= 400 and response.request.resource_type != "document"
        ):
            self.mishaps.append(f"{response.status}: {response.url}")


@asynccontextmanager
async def visiting(
    browser: Browser,
    origin: str,
    *,
    scripts: bool = True,
    size: tuple[int, int] = WIDE,
    zone: str = "UTC",
) -> AsyncIterator[Visitor]:
    """Open a separate browser in the time zone *zone*, without cookies or stored data."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        java_script_enabled=scripts,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id=zone,
        permissions=["clipboard-read", "clipboard-write"],
    )
    try:
        visitor = Visitor(await context.new_page(), origin)
        yield visitor
        assert visitor.mishaps == []
    finally:
        await context.close()
