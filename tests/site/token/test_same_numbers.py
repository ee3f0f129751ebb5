"""Each number of a token's page equals that of the API at the same slot.

So does each number of the streams, of the e-mail of an alert, and of the picture in the preview of
links.  Rounded numbers are the numbers of the API, rounded.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import NewUser, UserKind
from mintscope.alerts.alert import Alert, AlertRule
from mintscope.alerts.conditions import Field, SignalKind
from mintscope.app.config.groups import SignalsConfig
from mintscope.app.following import make_watcher
from mintscope.kit.audit import UserId
from mintscope.kit.primitives import Mint
from mintscope.market.report import TokenReport
from mintscope.market.series.series import WIDTHS
from mintscope.site.token.pages import TokenPages
from mintscope.site.token.picture import FALL, RISE
from mintscope.site.token.shown import rows_of
from support.oracles.merging import merged
from support.scenes.people.web_person import BROWSER, Person
from support.scenes.service import bearer, credit_token
from support.scenes.streaming import Reader
from support.scenes.token_market import BONE, RISKY, SOL, swap_of
from support.scenes.website import Website, served_website
from support.scenes.whole_report import whole_report

POINT = ("t", "o", "h", "l", "c", "buyVolume", "sellVolume")
TIMEFRAMES = ("m1", "m5", "m15", "h1")
VALUES = ("ema9", "ema21", "ema50", "ema200", "rsi")
LEVELS = {
    "0": "swingHigh", "23.6": "level236", "38.2": "level382", "50": "level500",
    "61.8": "level618", "76.4": "level764", "100": "swingLow",
}  # fmt: skip


WATCHED: Final = ("price.usd", "price.sol", "indicators.m5.rsi", "indicators.m5.ema9")
SUBSCRIPTS: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
SVG_PATH: Final = "{http://www.w3.org/2000/svg}path"
SVG_TEXT: Final = "{http://www.w3.org/2000/svg}text"
READER: Final = EmailAddress("reader@example.org")


async def data_of(person: Person, path: str) -> tuple[Any, dict[str, str]]:
    """Request *path* of the API with a credit token; return the data and the headers."""
    site, token = person.site, credit_token(len(path))
    if await site.ledger.find(token) is None:
        await site.ledger.issue(token, 100, "")
    answer = await person.client.get(path, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    return answer.json()["data"], dict(answer.headers)


def fields_of(page: str) -> dict[str, str]:
    """Return the content of each named field of the page: the whole number, or the text."""
    found = {}
    for name, inside in re.findall(r'data-field="([^"]*)"[^>]*>(.*?)</(?:td|strong)>', page):
        title = re.search(r'title="([^"]*)"', inside)
        found[name] = unescape(title[1] if title else re.sub("<[^>]*>", "", inside))
    for name in ("sol", "slot"):
        match = re.search(rf'data-field="{name}">(.*?)</span>', page)
        assert match
        title = re.search(r'title="([^"]*)"', match[1])
        found[name] = title[1] if title else re.sub("<[^>]*>", "", match[1])
    return found


def attribute(page: str, name: str) -> Any:
    match = re.search(rf'data-{name}="([^"]*)"', page)
    assert match
    return msgspec.json.decode(unescape(match[1]))


@pytest.mark.parametrize("mint", [SOL, BONE])
async def test_each_number_of_the_page_equals_that_of_the_api(stranger: Person, mint: str) -> None:
    report, headers = await data_of(stranger, f"/v1/token/{mint}")
    for timeframe in TIMEFRAMES:
        page = (await stranger.open(f"/token/{mint}?tf={timeframe}")).text
        shown = fields_of(page)

        assert int(shown.pop("slot").replace(",", "")) == int(headers["x-data-slot"])
        assert float(shown.pop("usd").removeprefix("$")) == report["price"]["usd"]
        assert float(shown.pop("sol").removesuffix(" SOL")) == report["price"]["sol"]
        assert {name: number_in(text) for name, text in shown.items()} == cells_of(report)
        levels = report["indicators"][timeframe]["fibonacci"]
        reported = [[field, f"Fib {name} %", levels[field]] for name, field in LEVELS.items()]
        assert attribute(page, "levels") == reported
        for name, share in report["indicators"]["buySellPressure"].items():
            assert text_of_share(page, name) == f"{share:.2f}"


def cells_of(report: dict[str, Any]) -> dict[str, float | None]:
    """Return the values that the page's indicator table should show for *report*, by cell name."""
    cells = {}
    for frame in TIMEFRAMES:
        values = report["indicators"][frame]
        for name in VALUES:
            cells[f"{frame}.{name}"] = values[name]
        for part in ("line", "signal", "histogram"):
            cells[f"{frame}.macd.{part}"] = values["macd"] and values["macd"][part]
    return cells


def number_in(text: str) -> float | None:
    return None if text == "not known yet" else float(text)


def text_of_share(page: str, name: str) -> str:
    match = re.search(rf'data-pressure="{name}".*?<span class="number">([^<]*)', page, re.DOTALL)
    assert match
    return match[1]


async def test_the_chart_has_the_candles_and_indicators_of_the_api(stranger: Person) -> None:
    for timeframe in TIMEFRAMES:
        page = (await stranger.open(f"/token/{BONE}?tf={timeframe}")).text
        query = f"?tf={timeframe}&limit=150"
        candles, _ = await data_of(stranger, f"/v1/token/{BONE}/candles{query}")
        series, _ = await data_of(stranger, f"/v1/token/{BONE}/indicators{query}")
        points = attribute(page, "points")

        reported = [[candle[name] for name in POINT] for candle in candles["candles"]]
        assert [point[:7] for point in points] == reported
        assert [point[0] for point in points] == [each["t"] for each in series["points"]]
        for point, each in zip(points, series["points"], strict=True):
            macd = each["macd"] or dict.fromkeys(("line", "signal", "histogram"))
            assert point[8:] == [*(each[name] for name in VALUES), *macd.values()]


async def test_candles_of_15_s_are_those_of_the_api_with_averages_of_the_report(
    stranger: Person,
) -> None:
    points = attribute((await stranger.open(f"/token/{SOL}?tf=s15")).text, "points")
    candles, _ = await data_of(stranger, f"/v1/token/{SOL}/candles?tf=s15&limit=150")
    report, _ = await data_of(stranger, f"/v1/token/{SOL}?timeframes=s15")

    assert [point[:7] for point in points] == [
        [candle[name] for name in POINT] for candle in candles["candles"]
    ]
    frame = report["indicators"]["s15"]
    macd = frame["macd"] or dict.fromkeys(("line", "signal", "histogram"))
    assert points[-1][8:] == [*(frame[name] for name in VALUES), *macd.values()]
    assert frame["ema21"] is not None
    first = points[0][0]
    older = (await stranger.open(f"/token/{SOL}/older?tf=s15&before={first}")).json()
    assert older["points"][-1][0] < first


async def test_the_last_swaps_are_those_of_the_api(stranger: Person) -> None:
    page = (await stranger.open(f"/token/{RISKY}")).text
    swaps, _ = await data_of(stranger, f"/v1/token/{RISKY}/swaps?limit=12")

    lines = re.findall(r"<tr><td><time.*?</tr>", page)
    assert len(lines) == len(swaps["swaps"]) == 12
    for line, swap in zip(lines, swaps["swaps"], strict=True):
        assert f'href="https://solscan.io/tx/{swap["signature"]}"' in line
        assert f'href="https://explorer.solana.com/tx/{swap["signature"]}"' in line
        assert f">{swap['side']}<" in line
        assert f"${swap['price']['usd']!r}" in line


@pytest.mark.parametrize(
    ("rsi", "tone"), [(71.0, "extreme"), (29.0, "extreme"), (70.0, "level"), (55.0, "level")]
)
def test_an_overbought_and_an_oversold_rsi_have_the_same_tone(rsi: float, tone: str) -> None:
    report = msgspec.json.decode(whole_report(), type=TokenReport)
    frame = replace(report.indicators.m1, rsi=rsi)
    (row,) = [
        row
        for row in rows_of(replace(report, indicators=replace(report.indicators, m1=frame)))
        if row.cells[0].field == "m1.rsi"
    ]
    assert row.cells[0].tone == tone


async def test_page_api_streams_email_and_picture_agree_at_one_slot(tmp_path: Path) -> None:
    async with (
        served_website(tmp_path, has_token_market=True) as site,
        httpx.AsyncClient(base_url=site.origin, headers=BROWSER, timeout=30) as client,
        AsyncExitStack() as stack,
    ):
        market = site.token_market
        assert market is not None
        await site.ledger.issue(credit_token(1), 100, "")
        paid = bearer(credit_token(1))
        await client.get(f"/token/{BONE}?tf=m5")  # a free view
        before = (await client.get(f"/v1/token/{BONE}", headers=paid)).json()["data"]
        user_id = await user_of(site)
        for name in WATCHED:
            await alert_of(site, user_id, name, number_at(before, name) * 1.001)

        async def symbols(mints: Collection[Mint]) -> Mapping[Mint, str]:
            return dict.fromkeys(mints, "BONE")

        store = site.accounts.signals.store
        log = market.market.reader
        watcher = make_watcher(SignalsConfig(), log, store, site.clock, symbols)
        await watcher.round()
        opened: list[Reader] = []
        for path, headers in (
            (f"/token/{BONE}/live?tf=m5", {}),
            (f"/v1/stream?mints={BONE}", paid),
        ):
            answer = await stack.enter_async_context(client.stream("GET", path, headers=headers))
            assert answer.status_code == 200
            opened.append(Reader(answer))
        usd = before["price"]["usd"] * 1.7
        await market.trade(swap_of(BONE, usd, dollars=1_234.5, number=9), after_s=2)
        streamed = [await update_at(reader, usd) for reader in opened]
        await watcher.round()
        answer = await client.get(f"/v1/token/{BONE}", headers=paid)
        page = (await client.get(f"/token/{BONE}?tf=m5")).text
        picture = await pages_of(site).draw(BONE, WIDTHS["m5"])
        drawn = drawing_of(picture)
        mailed = await mailed_to(site, READER)
        fired = await fired_of(site, user_id)

    report = answer.json()["data"]
    slot = int(answer.headers["x-data-slot"])
    shown = fields_of(page)
    assert report["price"]["usd"] == usd
    assert slot == market.slot
    for reported in streamed:
        assert reported == {**report, "slot": slot}, "every number, not the watched ones alone"
    assert fired == {name: (slot, number_at(report, name)) for name in WATCHED}
    assert int(shown["slot"].replace(",", "")) == slot
    assert {name: number_in(text) for name, text in shown.items() if "." in name} == cells_of(
        report
    )
    assert drawn["as-of"].endswith(f" slot {slot:,}")
    expect_rounded(drawn["usd"], usd)
    assert wick_count(picture) == len(attribute(page, "points"))
    for name, share in report["indicators"]["buySellPressure"].items():
        assert text_of_share(page, name) == f"{share:.2f}"
    whole = (shown["usd"], shown["sol"], shown["m5.rsi"], shown["m5.ema9"])
    for name, text in zip(WATCHED, whole, strict=True):
        number = number_at(report, name)
        assert float(text.removeprefix("$").removesuffix(" SOL")) == number
        (line,) = [each for each in mailed if each.startswith(f"{name}: ")]
        now = re.search(r"\(now (.*?)\)", line)
        assert now
        expect_rounded(now[1], number)


async def user_of(site: Website) -> UserId:
    new = NewUser(
        kind=UserKind.AGENT,
        username=READER,
        email=READER,
        verified_at=site.clock.now(),
        created_at=site.clock.now(),
    )
    return await site.accounts.signals.store.transact(lambda rows: rows.users.insert(new))


async def alert_of(site: Website, user_id: UserId, name: str, level: float) -> None:
    """Create an alert that sends an e-mail when the field *name* of BONE is above *level*."""
    rule = AlertRule(
        name=name,
        mint=BONE,
        field=Field(name),
        kind=SignalKind.ABOVE,
        level=level,
        by_email=True,
    )
    assert isinstance(await site.accounts.signals.make(user_id, rule), Alert)


async def update_at(reader: Reader, usd: float) -> Any:
    """Read a live stream until the price of its report is *usd*; return this whole report."""
    report: Any = {}
    while not report or report["price"]["usd"] != usd:
        event = await reader.next()
        if event.name == "snapshot":
            report = event.data
        elif event.name == "update":
            report = merged(report, event.data)
    return report


async def fired_of(site: Website, user_id: UserId) -> Mapping[str, tuple[int, float]]:
    """Return the slot and the value of the one firing of each alert, by its name."""
    found = {}
    for alert in await site.accounts.signals.of_user(user_id):
        firings = await site.accounts.signals.firings(user_id, alert.signal_id, None, 9)
        assert firings is not None
        ((slot, value),) = [(each.fired.slot, each.fired.value) for each in firings]
        found[alert.rule.name] = (slot, value)
    return found


async def mailed_to(site: Website, email: EmailAddress) -> Sequence[str]:
    """Return the subjects of the e-mails to *email*."""
    assert site.accounts.mailbox is not None
    posted = await site.accounts.mailbox.recent(limit=100)
    return [each.email.subject for each in posted if each.email.recipient == email]


def number_at(report: Any, name: str) -> float:
    """Return the number at *name*, a path of keys, in *report*."""
    for part in name.split("."):
        report = report[part]
    assert isinstance(report, float)
    return report


def pages_of(site: Website) -> TokenPages:
    handlers = [each.handler for each in site.routes() if each.path.endswith("/chart.png")]
    (owner,) = [getattr(each, "__self__", None) for each in handlers]
    assert isinstance(owner, TokenPages)
    return owner


def drawing_of(svg: str) -> dict[str, str]:
    """Return the texts in the SVG picture *svg*, by their class."""
    return {each.get("class", ""): each.text or "" for each in ET.fromstring(svg).iter(SVG_TEXT)}


def wick_count(svg: str) -> int:
    """Return the number of candles that the SVG picture *svg* draws."""
    paths = [each for each in ET.fromstring(svg).iter(SVG_PATH) if each.get("fill") == "none"]
    return sum(each.get("d", "").count("M") for each in paths if each.get("stroke") in {RISE, FALL})


def expect_rounded(text: str, number: float) -> None:
    """Expect *text* to be *number*, rounded to three digits or more."""
    plain = re.sub(
        "^0.0([₀-₉]+)",
        lambda found: "0." + "0" * int(found[1].translate(SUBSCRIPTS)),
        text.removeprefix("$").removesuffix(" SOL").replace(",", ""),
    )
    shown = Decimal(plain)
    assert len(shown.normalize().as_tuple().digits) >= 3, text
    assert Decimal(number).quantize(shown) == shown, text
