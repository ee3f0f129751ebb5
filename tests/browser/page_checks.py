"""Checks of every page: axe, overflow, the keyboard, and a screenshot."""

import asyncio
import os
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

from playwright.async_api import CDPSession, Page

from support.scenes.people.browsing import ROOT, Visitor
from support.scenes.website import AXE, AXE_PATH, SERVING_AXE

PICTURES: Final = ROOT / "build" / "screenshots"
PICTURES_WANTED: Final = "SCREENSHOTS" in os.environ  # noqa: TID251 - they take a third of the time
WIDTHS: Final = {"wide": (1280, 900), "narrow": (360, 780)}
NARROWEST: Final = (320, 640)
TABLET: Final = (820, 1180)
# This order needs the fewest changes of the window size.
VIEWS: Final[tuple[tuple[Literal["light", "dark"], str], ...]] = (
    ("light", "wide"),
    ("dark", "wide"),
    ("dark", "narrow"),
    ("light", "narrow"),
)
TABS_MAX: Final = 200
SESSIONS: Final = WeakKeyDictionary[Page, CDPSession]()
TAB: Final = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OF_COLOURS: Final = ["color-contrast"]
OF_PLACES: Final = [
    *OF_COLOURS,
    "link-in-text-block",
    "scrollable-region-focusable",
    "target-size",
]

# Marks the elements at which Tab must stop, in document order: one per group of radio buttons.
MARK_STOPS: Final = """() => (window.markStops = () => {
  const seen = new Set();
  let count = 0;
  const selector = "a[href], button, input, select, textarea, summary, [tabindex]";
  for (const element of document.querySelectorAll(selector)) {
    if (element.disabled || element.tabIndex < 0 || element.type === "hidden") continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.type === "radio") {
      const group = document.getElementsByName(element.name);
      const stop = [...group].find((each) => each.checked) || group[0];
      if (element !== stop || seen.has(element.name)) continue;
      seen.add(element.name);
    }
    element.dataset.stop = count++;
  }
  return count;
})()"""
# Starts at the top, and records the style of a focused element only when the next key is pressed,
# because by then the page has scrolled to the element.  An element that a change of the market has
# replaced meanwhile has no mark: all are marked again.
WATCH_FOCUS: Final = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
  window.focused = [];
  document.addEventListener("keydown", () => window.focused.push(describe(document.activeElement)));
  function describe(element) {
    if (element.dataset.stop === undefined) window.markStops();
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    return {
      stop: element.dataset.stop === undefined ? null : Number(element.dataset.stop),
      name: element.outerHTML.slice(0, 120),
      outlined,
      inside: box.width > 0 && box.bottom > 0 && box.top < innerHeight
              && box.right > 0 && box.left < innerWidth,
    };
  }
}"""
TOO_WIDE: Final = """() => {
  const root = document.documentElement;
  const burst = [...document.querySelectorAll(".card")]
    .filter((each) => each.scrollWidth > each.clientWidth + 1
      && getComputedStyle(each).overflowX === "visible")
    .map((each) => `beyond its card: ${each.outerHTML.slice(0, 120)}`);
  if (root.scrollWidth <= root.clientWidth) return burst;
  return [...document.querySelectorAll("body *")]
    .filter((each) => each.getBoundingClientRect().right > root.clientWidth + 0.5)
    .map((each) => each.outerHTML.slice(0, 120));
}"""

# Rows of links in the header that are on more than one line, although one line has room.
BROKEN_ROWS: Final = """() => [...document.querySelectorAll(".bar-nav")]
  .filter((row) => innerWidth >= 720 && new Set([...row.children]
    .map((each) => each.getBoundingClientRect()).filter((box) => box.height > 0)
    .map((box) => Math.round((box.top + box.bottom) / 8))).size > 1)
  .map((row) => row.outerHTML.slice(0, 120))
"""

# Compares the style of each element (visibility, colours, and whether it is large) with its style
# when this script last ran. Stores visible elements whose style differs; returns whether all styles
# are equal.
LOOKS: Final = """() => {
  const before = window.looks ?? [];
  const elements = [...document.querySelectorAll("body *")];
  window.looks = elements.map((each) => {
    if (!each.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return "";
    const style = getComputedStyle(each);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    return [style.color, style.backgroundColor, style.backgroundImage, isLarge].join();
  });
  window.changed = elements.filter((_, at) => window.looks[at] && window.looks[at] !== before[at]);
  return window.looks.join(";") === before.join(";");
}"""

# The script is loaded from the service if it has the file, because Chromium caches the compiled
# script.
LOAD_AXE: Final = """(path) => new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = path;
  script.onload = () => { script.remove(); done(); };
  script.onerror = failed;
  document.head.append(script);
})"""

# The page selects the violations: the transfer of all findings would take longer than axe.
VIOLATIONS: Final = """async ([rules, changedAlone]) => {
  const where = changedAlone ? { include: window.changed } : document;
  if (changedAlone && !window.changed.length) return [];
  const found = await axe.run(where, { runOnly: rules, resultTypes: ["violations"] });
  const shown = (rule, node) => `${rule.id}: ${node.failureSummary} ${node.html.slice(0, 160)}`;
  return found.violations.flatMap((rule) => rule.nodes.map((node) => shown(rule, node)));
}"""


SHIFT_MAX: Final = 0.02
# Waits until two frames are painted: by then, scripts have run and layout shifts are reported.
PAINTED: Final = """() => new Promise((done) => requestAnimationFrame(() =>
  requestAnimationFrame(() => setTimeout(done))))"""


A4: Final = (718, 1050)  # pixels of a page without its margins of 1 cm
# The header must be as wide as the window: once, a class on the root element made the page a grid.
NARROWED: Final = """() => document.querySelector(".bar")?.clientWidth < innerWidth - 1"""
# On paper, menus must be hidden, and no content cut off, because a reader cannot scroll.
CUT_ON_PAPER: Final = """() => [...document.querySelectorAll(".bar-nav, .site-search, .scrolling")]
  .filter((each) => each.checkVisibility()
    && (!each.matches(".scrolling") || getComputedStyle(each).overflowX !== "visible"))
  .map((each) => each.outerHTML.slice(0, 120))"""
# With forced colours, there are no backgrounds: a control without an edge is invisible.
WITHOUT_EDGE: Final = """() => [...document.querySelectorAll(".button, input, select, textarea")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }) && each.type !== "hidden")
  .filter((each) => !["checkbox", "radio", "range", "file"].includes(each.type))
  .filter((each) => !(parseFloat(getComputedStyle(each).borderTopWidth) >= 1))
  .map((each) => each.outerHTML.slice(0, 120))"""


class Fault(NamedTuple):
    where: str
    what: str


async def look_at(page: Page, name: str, *, pictures: Path = PICTURES) -> list[Fault]:
    """Return the faults of the current page; take screenshots if SCREENSHOTS is set."""
    faults: list[Fault] = []
    looks_the_same = False
    await _load_axe(page)
    for scheme, width in VIEWS:
        where = f"{name}, {scheme}, {width}"
        await page.emulate_media(color_scheme=scheme)
        await _resize(page, WIDTHS[width])
        if scheme == "dark":
            looks_the_same = await page.evaluate(LOOKS)
        rules = _rules(scheme, width, looks_the_same=looks_the_same)
        # The colours of all other elements were checked in the wide view.
        changed_alone = (scheme, width) == ("dark", "narrow")
        found = await page.evaluate(VIOLATIONS, [rules, changed_alone])
        faults += [Fault(where, each) for each in found]
        faults += [Fault(where, f"too wide: {each}") for each in await page.evaluate(TOO_WIDE)]
        await _picture(page, pictures / f"{name}-{scheme}-{width}.png")
    for size in (NARROWEST, TABLET):
        await _resize(page, size)
        faults += [
            Fault(f"{name}, {size[0]}", f"too wide: {each}")
            for each in await page.evaluate(TOO_WIDE)
        ]
    faults += await _broken_rows(page, f"{name}, {TABLET[0]}")
    await _resize(page, WIDTHS["wide"])
    faults += await _broken_rows(page, f"{name}, wide")
    faults += [Fault(name, each) for each in await _keyboard(page)]
    return faults


async def _load_axe(page: Page) -> None:
    if page.url.startswith(tuple(SERVING_AXE)):
        await page.evaluate(LOAD_AXE, AXE_PATH)
    else:
        await page.evaluate(AXE.read_text(encoding="utf-8"))


async def _broken_rows(page: Page, where: str) -> list[Fault]:
    rows: list[str] = await page.evaluate(BROKEN_ROWS)
    return [Fault(where, f"links in several lines: {each}") for each in rows]


async def open_still(visitor: Visitor, path: str, name: str) -> list[Fault]:
    """Open *path* in a narrow and a wide window; return faults if its content moves while loading.

    The script MOVED must be installed in the page.
    """
    faults = []
    for width in ("narrow", "wide"):
        await _resize(visitor.page, WIDTHS[width])
        await visitor.open(path)
        await visitor.page.evaluate(PAINTED)
        moved: list[str] = await visitor.page.evaluate("window.moved")
        if sum(float(each.partition(":")[0]) for each in moved) > SHIFT_MAX:
            faults.append(Fault(f"{name}, {width}", f"it moves: {'; '.join(moved)}"))
        if await visitor.page.evaluate(NARROWED):
            faults.append(Fault(f"{name}, {width}", "it is narrower than its window"))
    return faults


async def look_elsewhere(page: Page, name: str) -> list[Fault]:
    """Return the faults of the page when printed, and with forced colours."""
    faults = []
    await page.emulate_media(media="print")
    await _resize(page, A4)
    for looks in (TOO_WIDE, CUT_ON_PAPER):
        faults += [Fault(f"{name}, paper", each) for each in await page.evaluate(looks)]
    await _picture(page, PICTURES / f"{name}-paper.png")
    await page.emulate_media(media="screen", forced_colors="active")
    found = await page.evaluate(WITHOUT_EDGE)
    faults += [Fault(f"{name}, forced colours", f"no edge: {each}") for each in found]
    await _picture(page, PICTURES / f"{name}-forced.png")
    await page.emulate_media(forced_colors="none")
    await _resize(page, WIDTHS["wide"])
    return faults


def _rules(scheme: str, width: str, *, looks_the_same: bool) -> list[str]:
    """Return the rules of axe that can find faults which earlier views of the page did not show.

    looks_the_same   whether each visible element was also visible in the wide view, in the same
                     colours
    """
    if scheme == "dark":  # only colours differ between the schemes
        return OF_COLOURS
    return OF_PLACES if looks_the_same and width == "narrow" else RULES


async def _resize(page: Page, size: tuple[int, int]) -> None:
    if page.viewport_size != {"width": size[0], "height": size[1]}:
        await page.set_viewport_size({"width": size[0], "height": size[1]})


async def _keyboard(page: Page) -> list[str]:
    """Press Tab through the page; return faults of the order and the visibility of the focus."""
    stops: int = await page.evaluate(MARK_STOPS)
    assert stops < TABS_MAX
    await page.evaluate(WATCH_FOCUS)
    await _tab(page, stops + 1)
    focused: list[dict[str, Any]] = await page.evaluate("window.focused.slice(1)")
    assert len(focused) == stops
    faults = []
    for expected, seen in enumerate(focused):
        if seen["stop"] != expected:
            faults.append(f"Tab: expected stop {expected}; was {seen['stop']} {seen['name']}")
            break
        if not seen["outlined"]:
            faults.append(f"Tab: the focus cannot be seen: {seen['name']}")
        if not seen["inside"]:
            faults.append(f"Tab: the focus is outside of the window: {seen['name']}")
    return faults


async def _tab(page: Page, count: int) -> None:
    """Press Tab *count* times, without waiting for the answer to each press."""
    session = SESSIONS.get(page)
    # The session stays open, because Chromium removes the page's authenticators when it ends
    if session is None:
        session = SESSIONS[page] = await page.context.new_cdp_session(page)
    await asyncio.gather(
        *(
            session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **TAB})
            for _ in range(count)
        )
    )


async def _picture(page: Page, path: Path) -> None:
    if PICTURES_WANTED:
        path.parent.mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=path, full_page=True)
