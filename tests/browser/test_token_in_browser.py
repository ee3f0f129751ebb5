"""The page of a token in a real browser, with scripts and without, on a market that trades."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
from page_checks import look_at
from playwright.async_api import Browser, CDPSession, Page, Route, expect

from mintscope.app.config.config import WebConfig
from mintscope.kit.primitives import Slot, UnixMs
from mintscope.market.series.holders import Holder, HolderKind, Holders
from mintscope.site.figures import percent
from support.scenes.people.browsing import MOVED, Visitor, visiting
from support.scenes.token_market import BONE, RISKY, SOL, UNTRACKED, YOUNG, TokenMarket, swap_of
from support.scenes.website import MINUTE_MS, NOW, Website, served_website

PAINT_MS_MAX = 1_000
TICKS_MIN = 4  # numbers at the axis: that of the last price alone is not enough
WEIGHT_MAX = 140_000  # 150,000 are allowed; the rest is for additions
TWENTY = Holders(
    [
        Holder(f"account{n}", sha256(b"%d" % n).hexdigest()[:44], 50 - n, HolderKind.OTHER, None)
        for n in range(20)
    ],
    1_000, 2, Slot(380_000_000), UnixMs(NOW - MINUTE_MS),
)  # fmt: skip
STYLED_SWAPS = 5
CONTRAST_MIN = 4.5
GROUNDS = ([255, 255, 255], [19, 29, 25])  # the variable --surface, light and dark
STYLES_OF_A_SWAP_MAX = 8  # 2 were counted
# Records, from the first byte on, the time of the largest paint, violations of the policy, and the
# texts, with the Fibonacci levels, that the moving chart draws.
WATCH = """
  window.seen = { paint: 0, violations: [], levels: new Set(), written: new Set() };
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.seen.paint = each.startTime;
  }).observe({ type: "largest-contentful-paint", buffered: true });
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.seen.written.add(text);
    if (text.startsWith("Fib ")) window.seen.levels.add(text);
    return fill.call(this, text, ...place);
  };
  document.addEventListener("securitypolicyviolation", (event) => {
    window.seen.violations.push(event.violatedDirective);
  });
"""
# The closes of the candles in the chart.
CLOSES = """async () => {
  const names = performance.getEntriesByType("resource").map((each) => each.name);
  const { points } = await import(names.find((each) => each.includes("/token-chart")));
  return points.map((each) => each.close);
}"""
# Bytes over the wire: bodies as they were sent, and their headers.
WEIGHT = """() => [...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource")].map((each) => each.transferSize)
  .reduce((sum, size) => sum + size, 0)"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def token_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Website]:
    async with served_website(tmp_path_factory.mktemp("site"), has_token_market=True) as site:
        yield site


@pytest_asyncio.fixture(loop_scope="session")
async def watcher(chromium: Browser, token_site: Website) -> AsyncIterator[Visitor]:
    async with visiting(chromium, token_site.origin, zone="Asia/Tokyo") as visitor:
        await visitor.page.add_init_script(WATCH)
        await visitor.page.add_init_script(MOVED)
        yield visitor


async def moving(page: Page) -> None:
    """Wait until the interactive chart is drawn and the page gets changes."""
    await page.locator(".chart .moving canvas").first.wait_for()
    await expect(page.locator("#freshness")).to_have_attribute("data-state", "live")


@pytest.mark.asyncio(loop_scope="session")
async def test_the_token_page_is_painted_within_a_second_and_nothing_moves(
    token_site: Website, watcher: Visitor
) -> None:
    page = watcher.page
    _market(token_site).holders.kept[SOL] = TWENTY
    await watcher.open(f"/token/{SOL}?tf=m1")
    await moving(page)
    await expect(page.locator("[data-holder]")).to_have_count(20)
    await page.wait_for_timeout(1_500)  # until the page has updated the shown age
    seen = await page.evaluate("window.seen")

    assert seen["violations"] == []
    assert await page.evaluate("window.moved") == []
    assert 0 < seen["paint"] < PAINT_MS_MAX
    assert 0 < await page.evaluate(WEIGHT) < WEIGHT_MAX
    drawn = await page.locator(".level-name").all_text_contents()
    assert await page.evaluate("[...window.seen.levels]") == drawn
    assert drawn == [f"Fib {each} %" for each in ("0", "23.6", "38.2", "50", "61.8", "76.4", "100")]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_new_swap_is_shown_on_the_open_page(token_site: Website, watcher: Visitor) -> None:
    market, page = _market(token_site), watcher.page
    await watcher.open(f"/token/{BONE}?tf=m1")
    await moving(page)
    await market.trade(swap_of(BONE, 0.0000987654321, dollars=500.0, number=77), after_s=61)
    await market.fold()

    await expect(page.locator("[data-field=usd]")).to_contain_text("0.0₄98765")
    await expect(page.locator("[data-field=usd] .unseen")).to_have_text("$0.0000987654321")
    await expect(page).to_have_title("BONE 0.0₄98765 USD · mintscope")
    line = page.locator("#swap-lines tr").first
    await expect(line).to_contain_text("QQ77")
    await expect(line).to_contain_text("$0.0₄98765")
    await expect(line.get_by_role("link")).to_have_count(2)
    answer = await page.request.get(f"{token_site.origin}/v1/tokens?query={BONE}")
    change = (await answer.json())["data"]["tokens"][0]["change"]["m5"]
    figure = page.locator("[data-figure=m5]")
    await expect(figure).to_have_js_property("innerHTML", str(percent(change)))
    await expect(page.locator("[data-pressure=m1] .number")).to_have_text("1.00")
    rsi = page.locator('[data-field="m1.rsi"] span')
    report = await token_site.token_market.follower.read(BONE) if token_site.token_market else None
    assert report is not None
    assert f'"rsi":{await rsi.get_attribute("title")}' in report.body.decode()
    assert await page.evaluate("window.moved") == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_candle_whose_swaps_a_fork_removes_leaves_the_open_page(
    token_site: Website, watcher: Visitor
) -> None:
    market, page = _market(token_site), watcher.page
    await watcher.open(f"/token/{BONE}?tf=m1")
    await moving(page)
    before = await page.evaluate(CLOSES)
    await market.trade(swap_of(BONE, 0.00123, number=78), after_s=61)
    await expect(page.locator("[data-field=usd] .unseen")).to_have_text("$0.00123")
    assert (await page.evaluate(CLOSES))[-1] == 0.00123
    await market.retract()
    await market.trade()  # the slot that replaces it

    await expect(page.locator("[data-field=usd] .unseen")).not_to_have_text("$0.00123")
    await expect(page.locator("#swap-lines tr").first).not_to_contain_text("0.00123")
    assert await page.evaluate(CLOSES) == before


@pytest.mark.asyncio(loop_scope="session")
async def test_a_swap_causes_at_most_eight_computations_of_styles(
    token_site: Website, watcher: Visitor
) -> None:
    """Animations are enabled: an animated colour once took 30 frames of the main thread."""
    market, page = _market(token_site), watcher.page
    await page.emulate_media(reduced_motion="no-preference")
    await watcher.open(f"/token/{SOL}?tf=m1")
    await moving(page)
    reported = await page.context.new_cdp_session(page)
    await reported.send("Performance.enable")
    before = await style_count(reported)
    for number in range(STYLED_SWAPS):
        swap = swap_of(SOL, 172.0 + number, dollars=50.0, number=300 + number)
        await market.trade(swap, after_s=1)
        await expect(page.locator("#swap-lines tr").first).to_contain_text(f"${172 + number}.00")
    await expect(page.locator("#swap-lines tr.new")).to_have_count(0)

    assert await style_count(reported) - before <= STYLED_SWAPS * STYLES_OF_A_SWAP_MAX


async def style_count(reported: CDPSession) -> int:
    """Return the number of times that the page has computed styles, at most one a frame."""
    metrics = (await reported.send("Performance.getMetrics"))["metrics"]
    return next(int(each["value"]) for each in metrics if each["name"] == "RecalcStyleCount")


@pytest.mark.asyncio(loop_scope="session")
async def test_the_axis_shows_very_small_and_very_large_prices(watcher: Visitor) -> None:
    """By default, the chart library compares prices to 1e-14, and throws for steps below 1e-17."""
    page = watcher.page
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    for price, written in ((3e-15, "0.0₁₄"), (2e9, "2,")):
        points = [[60 * n, *4 * [price * (1 + n / 200)], 1, 1, 0] for n in range(1, 60)]
        await page.route(f"**/token/{BONE}", _drawing(points))
        await page.route("**/live?*", lambda route: route.fulfill(status=204))  # ends the stream
        await watcher.open(f"/token/{BONE}")
        await page.locator(".chart .moving canvas").first.wait_for()
        await page.wait_for_timeout(500)
        texts = await page.evaluate("[...window.seen.written]")
        assert sum(each.startswith(written) for each in texts) >= TICKS_MIN, texts
        await page.unroute_all()
    assert faults == []


@pytest.mark.asyncio(loop_scope="session")
async def test_an_amount_just_below_a_unit_is_rounded_to_the_unit(watcher: Visitor) -> None:
    page = watcher.page
    points = [[60 * n, *4 * [1.0], 999.7, 999_800, 0] for n in range(1, 60)]
    await page.route(f"**/token/{BONE}", _drawing(points))
    await page.route("**/live?*", lambda route: route.fulfill(status=204))  # ends the stream
    await watcher.open(f"/token/{BONE}")
    await page.locator(".chart .moving canvas").first.wait_for()

    assert "bought $1.00k  sold $1.00M" in await said_at(page, 0.5)


@pytest.mark.asyncio(loop_scope="session")
async def test_series_that_are_turned_off_stay_off_after_a_reload(watcher: Visitor) -> None:
    page = watcher.page
    await watcher.open(f"/token/{SOL}")
    await moving(page)
    await page.get_by_role("button", name="EMA 21").click()
    await page.get_by_role("button", name="Log scale").click()
    await page.locator(".chart .moving").hover()
    await expect(page.locator("#hovered")).to_contain_text("EMA 9")
    await expect(page.locator("#hovered")).to_contain_text("bought $")
    assert await page.evaluate("window.moved") == []
    await page.reload()
    await moving(page)

    pressed = {"EMA 21": "false", "EMA 9": "true", "Log scale": "true"}
    for name, state in pressed.items():
        button = page.get_by_role("button", name=name, exact=True)
        await expect(button).to_have_attribute("aria-pressed", state)


@pytest.mark.asyncio(loop_scope="session")
async def test_scrolling_back_loads_older_candles_and_the_url_keeps_the_span(
    watcher: Visitor,
) -> None:
    """In the end the chart has each of the 360 minutes of the market once, with its averages."""
    page = watcher.page
    await watcher.open(f"/token/{BONE}?tf=m1")
    await moving(page)
    async with page.expect_response("**/older?*") as reported:
        await drag(page, 500)
    answer = await (await reported.value).json()
    assert not answer["has_older"]
    shown = json.loads(await page.locator("#chart").get_attribute("data-points") or "[]")
    times = [point[0] for point in answer["points"] + shown]
    assert times == sorted(set(times))
    assert len(times) >= 360
    assert all(point[8] is not None for point in answer["points"][9:])  # EMA 9
    await page.wait_for_url(re.compile(r"#[0-9]+-[0-9]+$"))
    begin = int(page.url.split("#")[1].split("-")[0])
    assert begin < shown[0][0]

    await page.reload()
    async with page.expect_response("**/older?*"):
        await moving(page)
    await expect(page.locator("#chart")).not_to_have_attribute("data-older", re.compile("."))


def thin(count: int, gap: int, price: float = 5.0) -> list[list[float]]:
    """Return *count* candles of one swap each, with *gap* minutes without a trade in the middle."""
    begin = 1_763_200_800
    minutes = [n + (gap if n >= count // 2 else 0) for n in range(count)]
    return [[begin + 60 * at, *4 * [price + at % 3], 9, 1, 0] for at in minutes]


# Returns the kinds of drawings between two shares of the width of the price pane: candles are green
# or red, and the line of the last price is darker than those of the grid.
DRAWN = """([from, to]) => {
  const canvas = document.querySelector(".chart .moving canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const [left, right] = [from, to].map((share) => Math.round(share * (canvas.width - 64)));
  const { data } = context.getImageData(left, 0, right - left, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue] = data.slice(at, at + 3);
    if (Math.max(red, green, blue) - Math.min(red, green, blue) > 60) seen.add("candle");
    else if (red < 180) seen.add("line");
  }
  return [...seen].sort();
}"""


@pytest.mark.asyncio(loop_scope="session")
async def test_the_time_axis_is_even_and_gaps_without_trades_are_visible(watcher: Visitor) -> None:
    """The chart has 20 candles, 60 minutes without trades, and 20 candles."""
    page = watcher.page
    await page.route(f"**/token/{BONE}*", _drawing(thin(40, 60), "m1"))
    await page.route("**/live?*", lambda route: route.fulfill(status=204))  # ends the stream
    await watcher.open(f"/token/{BONE}?tf=m1")
    await page.locator(".chart .moving canvas").first.wait_for()
    await page.wait_for_timeout(500)
    assert "candle" in await page.evaluate(DRAWN, [0, 0.15])  # candles of one swap are visible
    assert "line" in await page.evaluate(DRAWN, [0.3, 0.7])  # the last price, across the gap
    said = [await said_at(page, share) for share in (0.3, 0.4, 0.5, 0.6, 0.7)]
    assert all("no trades, 6.0000 since" in each for each in said)
    minutes = [minute_of(each) for each in said]
    steps = [later - earlier for earlier, later in pairwise(minutes)]
    assert max(steps) - min(steps) <= 1  # even: a tenth of the width is ten minutes
    assert 9 <= min(steps) <= max(steps) <= 11

    await page.get_by_role("button", name="Fill gaps").click()
    # The chart is drawn in one of the next frames.
    await page.wait_for_function(f"(part) => !({DRAWN})(part).includes('line')", arg=[0.3, 0.7])
    assert "candle" in await page.evaluate(DRAWN, [0, 0.15])


async def said_at(page: Page, share: float) -> str:
    """Move the pointer to *share* of the plot's width; return the values that the page shows."""
    place = await page.locator(".chart .moving canvas").first.bounding_box()
    assert place is not None
    x = place["x"] + share * (place["width"] - 64)  # without the strip of names
    await page.mouse.move(x, place["y"] + 150)
    return await page.locator("#hovered").text_content() or ""


def minute_of(said: str) -> int:
    found = re.search(r"(\d\d):(\d\d)", said)
    assert found is not None
    return int(found[1]) * 60 + int(found[2])


# Records each text at the axes of the chart with its position, width and colours.
AXES = """
  window.axes = [];
  const seen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const answer = write.call(this, text, x, y, ...rest);
    const cell = this.canvas.closest?.(".moving td");
    const isTime = cell?.parentElement.matches(":last-child");
    if (cell && text && cell.cellIndex === (isTime ? 1 : 2)) {
      const { width } = this.measureText(text);
      const left = x - { center: width / 2, right: width }[this.textAlign] || x;
      const beside = left < 2 ? left + width + 2 : left - 2;
      const place = new DOMPoint(beside, y).matrixTransform(this.getTransform());
      seen.drawImage(this.canvas, Math.round(place.x), Math.round(place.y), 1, 1, 0, 0, 1, 1);
      const [red, green, blue] = seen.getImageData(0, 0, 1, 1).data;
      window.axes.push({
        text, isTime, left, right: left + width, ends: this.canvas.clientWidth,
        ink: this.fillStyle, ground: [red, green, blue],
      });
    }
    return answer;
  };
"""


def contrast(ink: str, ground: list[int]) -> float:
    """Return the contrast ratio of the text colour *ink* and the background *ground* (WCAG 2.2)."""

    def light(colour: list[int]) -> float:
        parts = [each / 255 for each in colour]
        line = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * line[0] + 0.7152 * line[1] + 0.0722 * line[2]

    texts = [int(ink[place : place + 2], 16) for place in (1, 3, 5)]
    less, more = sorted([light(texts), light(ground)])
    return (more + 0.05) / (less + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.asyncio(loop_scope="session")
async def test_times_at_the_axis_are_not_cut_and_all_texts_have_enough_contrast(
    watcher: Visitor, scheme: Literal["light", "dark"]
) -> None:
    """The label of the last price is tested for a candle that rises, and for one that falls."""
    page = watcher.page
    await page.emulate_media(color_scheme=scheme)
    await page.add_init_script(AXES)
    for close in (5.5, 4.5):
        await page.route(f"**/token/{BONE}*", _drawing([*thin(60, 0), last_candle(close)], "m1"))
        await page.route("**/live?*", lambda route: route.fulfill(status=204))  # ends the stream
        await watcher.open(f"/token/{BONE}?tf=m1")
        await page.locator(".chart .moving canvas").first.wait_for()
        for _ in range(8):
            await drag(page, 11)
        axes = await page.evaluate("window.axes")
        assert sum(each["isTime"] for each in axes) > 8 * TICKS_MIN
        cut = [each for each in axes if each["left"] < -0.01 or each["right"] > each["ends"] + 0.01]
        assert not [each for each in cut if each["isTime"]]
        faint = {
            each["text"]: contrast(each["ink"], each["ground"])
            for each in axes
            if contrast(each["ink"], each["ground"]) < CONTRAST_MIN
        }
        assert faint == {}
        assert {"30", "70"} <= {each["text"] for each in axes}
        label = {each["text"] for each in axes if each["ground"] not in GROUNDS}
        assert f"{close:.4f}" in label, "the last price has a colour of its own"
        await page.unroute_all()


def last_candle(close: float) -> list[float | None]:
    """Return the candle after those of `thin(60, 0)`, with the close *close* and the RSI 55."""
    averages: list[float | None] = [None] * 4
    return [1_763_200_800 + 60 * 60, 5.0, 6.0, 4.0, close, 9, 1, 0, *averages, 55.0]


@pytest.mark.asyncio(loop_scope="session")
async def test_hidden_panes_and_shown_bands_stay_so_after_a_reload(watcher: Visitor) -> None:
    page = watcher.page
    await watcher.open(f"/token/{SOL}?tf=m1")
    await moving(page)
    for name in ("RSI", "MACD", "Volume", "Bollinger"):
        await page.get_by_role("button", name=name, exact=True).click()
    await page.get_by_role("button", name="EMA 200").click()
    for _ in range(2):
        await expect(page.locator(".pane-name:visible")).to_have_count(0)
        said = await said_at(page, 0.9)
        assert not re.search("RSI|MACD|signal|EMA 200", said)
        upper, middle, lower = (
            float(each)
            for each in re.findall(r"(?:Bollinger|mean of 20|lower band) ([0-9.]+)", said)
        )
        assert upper > middle > lower
        await page.reload()
        await moving(page)
    assert await page.evaluate("window.moved") == []

    await page.get_by_role("button", name="Full screen").click()
    await expect(page.locator(".chart-card:fullscreen")).to_be_visible()
    size = await page.locator(".chart .moving").bounding_box()
    assert size is not None
    assert size["height"] > 0.7 * 900  # of the window
    await page.get_by_role("button", name="Full screen").click()
    await expect(page.locator(".chart-card:fullscreen")).to_have_count(0)


async def drag(page: Page, by: int) -> None:
    """Drag the chart to the right by *by* pixels."""
    place = await page.locator(".chart .moving").bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 4
    await page.mouse.move(place["x"] + 100, y)
    await page.mouse.down()
    await page.mouse.move(place["x"] + 100 + by, y, steps=8)
    await page.mouse.up()


@pytest.mark.asyncio(loop_scope="session")
async def test_a_key_that_the_reader_enters_is_not_sent_or_stored(watcher: Visitor) -> None:
    page, sent = watcher.page, []
    page.on("request", lambda request: sent.append(f"{request.url} {request.post_data}"))
    await watcher.open(f"/token/{SOL}")
    await moving(page)
    await page.get_by_label("Your key or credit token").fill("svc_live_secret")
    await expect(page.locator("#example-curl")).to_contain_text("Bearer svc_live_secret")
    await page.get_by_role("button", name="Copy the lines for curl").click()

    assert "svc_live_secret" in await page.evaluate("navigator.clipboard.readText()")
    assert not any("svc_live_secret" in each for each in sent)
    kept = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "svc_live_secret" not in kept
    assert "svc_live_secret" not in page.url


@pytest.mark.asyncio(loop_scope="session")
async def test_a_page_that_is_left_gets_no_more_events(
    token_site: Website, watcher: Visitor
) -> None:
    streams = _market(token_site).parts.streams
    await watcher.open(f"/token/{SOL}")
    await moving(watcher.page)
    assert streams.open_count == 1
    await watcher.open("/sign-in")
    for _ in range(100):
        if not streams.open_count:
            break
        await watcher.page.wait_for_timeout(50)

    assert streams.open_count == 0


@pytest.mark.asyncio(loop_scope="session")
async def test_times_are_shown_in_the_zone_of_the_reader(watcher: Visitor) -> None:
    await watcher.open(f"/token/{SOL}")
    time = watcher.page.locator("#swap-lines time").first
    at = await time.get_attribute("datetime")
    assert at is not None
    hour = (int(at[11:13]) + 9) % 24  # in Asia/Tokyo, the zone of `watcher`

    await expect(time).to_have_text(f"{hour:02}{at[13:19]}")


@pytest.mark.asyncio(loop_scope="session")
async def test_tables_that_scroll_sideways_show_it(watcher: Visitor) -> None:
    """Phones show a text; all screens show a shadow at the side where columns are hidden.

    The table of pools is shown once pools have traded, and may fit.
    """
    page = watcher.page
    says_so = """() => [...document.querySelectorAll(".scrolling")].map((each) => {
      const words = getComputedStyle(each, "::before").content;
      const hasShadow = getComputedStyle(each).backgroundImage.includes("gradient");
      // Whole numbers for screen readers, beside short ones, widen the table and not the page.
      const holds = getComputedStyle(each).position === "relative";
      return [each.scrollWidth > each.clientWidth, words.includes("sideways"), hasShadow && holds];
    })"""
    await page.set_viewport_size({"width": 360, "height": 780})
    await watcher.open(f"/token/{SOL}")
    narrow = await page.evaluate(says_so)
    assert len([scrolls for scrolls, *_ in narrow if scrolls]) >= 3
    assert all(words and shadow for _, words, shadow in narrow)
    await page.set_viewport_size({"width": 1280, "height": 780})
    wide = await page.evaluate(says_so)
    assert {(words, shadow) for _, words, shadow in wide} == {(False, True)}


@pytest.mark.asyncio(loop_scope="session")
async def test_the_token_page_without_scripts_has_chart_indicators_and_candles(
    chromium: Browser, token_site: Website
) -> None:
    async with visiting(chromium, token_site.origin, scripts=False) as visitor:
        page = visitor.page
        await visitor.open(f"/token/{RISKY}?tf=m1")
        assert await page.locator("svg.plot path.bar").count() >= 4
        assert await page.locator(".matrix td span[title]").count() >= 8
        assert await page.locator("[data-scripted]:visible").count() == 0
        await page.get_by_text("The newest candles as a table").click()
        await expect(page.locator("table.dense").first.locator("tbody tr")).to_have_count(24)
        await visitor.follow("1h")
        assert visitor.path == f"/token/{RISKY}?tf=h1"


@pytest.mark.asyncio(loop_scope="session")
async def test_the_token_page_in_every_state_passes_every_check(
    chromium: Browser, tmp_path: Path
) -> None:
    web = WebConfig(free_views_per_day=1)
    async with (
        served_website(tmp_path, web=web, has_token_market=True) as site,
        visiting(chromium, site.origin) as visitor,
    ):
        faults = []
        for name, mint in (
            ("token-open", BONE), ("token-closed", RISKY), ("token-young", YOUNG),
            ("token-unknown", UNTRACKED),
        ):  # fmt: skip
            await visitor.open(f"/token/{mint}")
            if name == "token-open":
                await moving(visitor.page)
            faults += await look_at(visitor.page, name)
        site.clock.advance(6 * MINUTE_MS)
        await visitor.open(f"/token/{SOL}")
        faults += await look_at(visitor.page, "token-stale")

    assert faults == []


def _market(site: Website) -> TokenMarket:
    assert site.token_market is not None
    return site.token_market


def _drawing(
    points: Sequence[Sequence[float | None]], frame: str = "m5"
) -> Callable[[Route], Awaitable[None]]:
    """Return a route handler that answers with a token's page whose chart has *points*."""

    async def answer(route: Route) -> None:
        response = await route.fetch()
        drawn = f'data-points="{json.dumps(points)}"'
        body = re.sub('data-points="[^"]*"', drawn, await response.text())
        assert f'data-timeframe="{frame}"' in body
        await route.fulfill(response=response, body=body)

    return answer
