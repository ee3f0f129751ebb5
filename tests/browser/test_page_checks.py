"""The checks of every page find the faults that they search for."""

from pathlib import Path

import pytest
from page_checks import look_at
from playwright.async_api import Browser

from support.scenes.people.browsing import visiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

GOOD = (
    '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">'
    "<title>Page</title><style>:focus-visible { outline: 3px solid #06c }</style>"
    '<main><h1>Page</h1><a href="#a">One</a> <button type="button">Two</button>%s</main>'
)
DARK_AND_NARROW = "@media (max-width: 400px) and (prefers-color-scheme: dark)"
BAD = {
    "label": ("<input>", "label:"),
    "contrast": ('<p style="color:#aaa;background:#fff">pale</p>', "color-contrast:"),
    "narrow alone": (
        "<style>@media (min-width: 400px) { input { display: none } }</style><input>",
        "label:",
    ),
    "dark and narrow": (
        f"<style>{DARK_AND_NARROW} {{ p {{ color: #aaa; background: #fff }} }}</style><p>pale</p>",
        "color-contrast:",
    ),
    "overflow": ('<div style="width:340px">wide</div>', "too wide:"),
    "header": (
        '<nav class="bar-nav" style="width:3rem"><a href="#b">Four</a> <a href="#c">Five</a></nav>',
        "links in several lines:",
    ),
    "order": ('<p tabindex="0">three</p><a href="#b" tabindex="5">first</a>', "Tab: expected stop"),
    "focus": ('<a href="#b" style="outline:none">unseen</a>', "Tab: the focus cannot be seen"),
    "hidden focus": (
        '<a href="#b" style="position:absolute;left:-999px">away</a>',
        "Tab: the focus is outside",
    ),
}


async def test_a_good_page_passes(chromium: Browser, tmp_path: Path) -> None:
    async with visiting(chromium, "") as visitor:
        await visitor.page.set_content(GOOD % "")

        assert await look_at(visitor.page, "good", pictures=tmp_path) == []


@pytest.mark.parametrize("fault", BAD)
async def test_each_fault_of_a_bad_page_is_found(
    chromium: Browser, tmp_path: Path, fault: str
) -> None:
    addition, complaint = BAD[fault]
    async with visiting(chromium, "") as visitor:
        await visitor.page.set_content(GOOD % addition)
        found = await look_at(visitor.page, fault, pictures=tmp_path)

    assert [each.what for each in found if each.what.startswith(complaint)], found
