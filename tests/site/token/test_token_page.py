"""The page of a token in every state: open, young, stale, unknown."""

import html
import json
import re
from typing import Any

import pytest

from mintscope.site.chart import ChartPoint
from mintscope.site.token.shown import thin_span
from support.scenes.people.web_person import Person, words
from support.scenes.token_market import BONE, ISSUER, RISKY, SILENT, SOL, UNTRACKED, YOUNG, swap_of
from support.scenes.website import MINUTE_MS, Website


def title_of(page: str) -> str:
    found = re.search("<title>(.*?)</title>", page)
    assert found
    return found[1]


async def test_the_page_shows_the_name_the_price_and_the_slot_of_a_token(stranger: Person) -> None:
    page = await stranger.open(f"/token/{BONE}")
    reported = words(page)

    assert page.status_code == 200
    assert re.match(r"BONE 0\.0₄\d{5} USD", title_of(page.text))
    assert "BONE Bone Token" in reported
    assert BONE in reported
    assert "slot 380,054,000" in reported
    assert "under a second old" in reported


async def test_the_preview_of_a_link_has_price_change_and_mint(stranger: Person) -> None:
    """Its title begins the page's title; its text has the mint, because names are not unique.

    The token is younger than a day, so its change is since its first price.
    """
    page = (await stranger.open(f"/token/{BONE}")).text
    reported = dict(re.findall('<meta property="og:([a-z_]+)" content="([^"]*)">', page))

    assert f"{reported['title']} · mintscope" == title_of(page)
    change = r"[+\u2212][\d.]+\W%? since its first price"
    assert re.match(rf"{change}\. Mint {BONE}\.", reported["description"])


async def test_the_page_has_no_inline_script_or_style(stranger: Person) -> None:
    page = (await stranger.open(f"/token/{BONE}")).text

    assert not re.search(r"<script(?![^>]*src=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


async def test_each_timeframe_is_a_link(stranger: Person) -> None:
    page = (await stranger.open(f"/token/{SOL}?tf=h1")).text

    for timeframe in ("m1", "m5", "m15", "h1"):
        assert f'href="/token/{SOL}?tf={timeframe}"' in page
    assert f'href="/token/{SOL}?tf=h1" aria-current="true"' in page
    assert 'data-timeframe="m5"' in (await stranger.open(f"/token/{SOL}?tf=of-no-one")).text


async def test_candles_of_four_hours_and_of_a_day_hold_those_of_an_hour(stranger: Person) -> None:
    for name, count in (("h4", 2), ("d1", 1)):
        page = (await stranger.open(f"/token/{SOL}?tf={name}")).text
        drawn = _points(page)
        assert count <= len(drawn) <= count + 1
        hours = _points((await stranger.open(f"/token/{SOL}?tf=h1")).text)
        assert max(each[2] for each in drawn) == max(each[2] for each in hours)
        assert min(each[3] for each in drawn) == min(each[3] for each in hours)
        assert drawn[-1][4] == hours[-1][4]
        assert sum(each[5] for each in drawn) == pytest.approx(sum(each[5] for each in hours))
        assert f'href="/token/{SOL}?tf={name}" aria-current="true"' in page
        assert "Fib 61.8 %" in page


async def test_older_candles_end_before_the_first_candle_of_the_page(stranger: Person) -> None:
    """Older candles have the averages that the page would have shown then."""
    shown = _points((await stranger.open(f"/token/{SOL}?tf=m1")).text)
    answer = (await stranger.open(f"/token/{SOL}/older?tf=m1&before={shown[0][0]}")).json()
    again = (await stranger.open(f"/token/{SOL}/older?tf=m1&before={shown[-1][0] + 60}")).json()

    assert not answer["has_older"]
    assert answer["points"][-1][0] == shown[0][0] - 60
    assert again["has_older"]
    assert again["points"][-len(shown) :] == shown
    for wrong in ("", "-1", "1e9", "9" * 11):
        place = f"/token/{SOL}/older?tf=m1&before={wrong}"
        assert (await stranger.open(place)).status_code == 404


def _points(page: str) -> list[list[Any]]:
    found = re.search('data-points="([^"]*)"', page)
    assert found is not None
    points: list[list[Any]] = json.loads(html.unescape(found[1]))
    return points


async def test_power_over_holders_is_reported_as_a_risk(stranger: Person) -> None:
    page = await stranger.open(f"/token/{RISKY}")

    for risk in (
        "More can be made at any time", "Accounts can be frozen", "A transfer costs 2.5 %",
        "A program runs at every transfer", "Your tokens can be taken from you",
        "All transfers can be stopped",
    ):  # fmt: skip
        assert re.search(rf'<li class="risk"><strong>{risk}', page.text), risk
    assert f"https://solscan.io/account/{ISSUER}" in page.text


async def test_a_scaled_amount_is_shown_beside_the_price(stranger: Person) -> None:
    """The page also shows an announced change of the multiplier, with its time."""
    reported = words(await stranger.open(f"/token/{RISKY}"))

    assert "The price is for one unscaled token: wallets show 2.5 tokens for each." in reported
    assert "Wallets show 2.5 for each token" in reported
    assert "From 2100-01-01T00:00:00Z on they show 5." in reported
    assert "unscaled" not in words(await stranger.open(f"/token/{BONE}"))


async def test_a_buy_share_without_trades_differs_from_a_buy_share_of_zero(
    shown_site: Website, stranger: Person
) -> None:
    assert shown_site.token_market is not None
    await shown_site.token_market.trade(swap_of(SOL, 171.0, is_buy=False), after_s=1_200)
    await shown_site.token_market.trade(swap_of(BONE, 0.00003), after_s=30)
    reported = words(await stranger.open(f"/token/{SOL}"))

    assert re.search(r"Buy share 1m 0\.00 5m 0\.00 15m 0\.00 1h 0\.\d\d", reported)
    await shown_site.token_market.trade(swap_of(BONE, 0.00003), after_s=200)
    reported = words(await stranger.open(f"/token/{SOL}"))
    assert re.search(r"Buy share 1m no trades 5m 0\.00 15m 0\.00", reported)


async def test_an_old_price_is_shown_with_its_date_and_without_a_change(
    shown_site: Website, stranger: Person
) -> None:
    assert shown_site.token_market is not None
    before = words(await stranger.open(f"/token/{SOL}"))
    await shown_site.token_market.trade(swap_of(BONE, 0.00003), after_s=3 * 86_400)
    page = await stranger.open(f"/token/{SOL}")
    reported = words(page)

    assert re.search(
        r"Last trade \d+ \w{3} \d{4} , 3 days ago\. The price is from then\.", reported
    )
    assert re.search(r"newest block (\S+ )+old", reported), "the block is new, the price is not"
    assert "newest block" not in before
    assert "+13.83 %" in before.partition("slot")[0]
    assert "%" not in reported.partition("slot")[0]
    assert f'property="og:description" content="Mint {SOL}.' in page.text
    assert "Last trade" not in before + words(await stranger.open(f"/token/{BONE}"))


async def test_the_code_examples_have_a_placeholder_for_the_key(stranger: Person) -> None:
    page = (await stranger.open(f"/token/{SOL}")).text

    for example in ("curl", "python", "mcp"):
        code = re.search(rf'id="example-{example}" data-example>(.*?)</code>', page, re.DOTALL)
        assert code
        assert "YOUR_KEY" in code[1]
    field = re.search(r'<input id="own-key"[^>]*>', page)
    assert field
    assert "name=" not in field[0]  # so that no form can send the key


async def test_the_page_contains_the_definition_of_an_indicator(stranger: Person) -> None:
    reported = words(await stranger.open(f"/token/{SOL}"))

    assert "Relative strength index, 14 How one-sided the last moves were" in reported
    assert "rsi = 100 x G / (G + L) Begins Null below 15 candles" in reported


async def test_the_page_shows_the_last_list_of_holders_and_asks_no_node(
    shown_site: Website, stranger: Person
) -> None:
    assert shown_site.token_market is not None
    holders = shown_site.token_market.holders
    address = f"GET /v1/token/{SOL}/holders"
    before = await stranger.open(f"/token/{SOL}")

    assert f"No list of holders was requested yet. {address} requests one." in words(before)
    assert "data-holder" not in before.text
    assert holders.reading_count == 0

    read = await holders.of(SOL, ())
    after = await stranger.open(f"/token/{SOL}")
    assert re.findall('data-holder="([^"]*)"', after.text) == [one.owner for one in read.holders]
    assert "burned (incinerator) 50.00 %" in words(after)
    assert "pool (pumpswap) 30.00 %" in words(after)
    assert re.search(
        rf"list on record: slot 7, .+ ago \. {address} requests a new one", words(after)
    )
    assert holders.reading_count == 1  # the reading by this test


async def test_a_signed_in_user_can_watch_a_token_and_make_an_alert(
    shown_site: Website, stranger: Person
) -> None:
    address = f"/token/{SOL}?tf=h1"
    not_signed_in = (await stranger.open(address)).text
    async with Person(shown_site) as person:
        await person.sign_up()
        before = await person.open(address)
        starred = await person.send("/tokens/watch", {"add": SOL, "next": address})
        after = words(await person.open(starred.headers["location"]))
        form = (await person.open(f"/alerts/new?mint={SOL}")).text

    assert starred.headers["location"] == address
    assert f'href="/alerts/new?mint={SOL}"' in before.text
    assert "Stop watching SOL" not in words(before)
    assert "Stop watching SOL" in after
    assert f'value="{SOL}"' in form
    assert 'href="/tokens"' in form
    assert "/alerts/new" not in not_signed_in
    assert 'form="watch"' not in not_signed_in


async def test_an_untracked_or_invalid_address_is_a_404(stranger: Person) -> None:
    for text, said in (
        (UNTRACKED, "We do not track this token yet"),
        ("not-a-mint", "This is not a token address"),
        ("1", "This is not a token address"),
    ):
        page = await stranger.open(f"/token/{text}")
        assert page.status_code == 404
        assert said in words(page)
        assert text in words(page)


async def test_a_token_without_trades_shows_its_progress_and_costs_no_free_view(
    stranger: Person,
) -> None:
    page = await stranger.open(f"/token/{SILENT}")
    assert page.status_code == 200
    assert "Not enough trades yet" in words(page)
    assert "0 of 9 minutes with trades so far" in words(page)
    assert 'id="chart"' not in page.text
    assert 'id="chart"' in (await stranger.open(f"/token/{BONE}")).text  # the only free view


async def test_a_young_token_is_shown_from_its_first_priced_swap_on(stranger: Person) -> None:
    page = await stranger.open(f"/token/{YOUNG}")

    assert 'id="chart"' in page.text
    cell = page.text.partition('data-field="m1.ema9">')[2]
    assert cell.startswith('<span class="level" title="not known yet">')
    assert "minutes with trades so far: EMA 9 needs 9 of them" in words(page)


async def test_late_data_is_marked_and_old_data_is_not_shown(
    shown_site: Website, stranger: Person
) -> None:
    assert "is late" not in words(await stranger.open(f"/token/{SOL}"))
    shown_site.clock.advance(MINUTE_MS)
    assert "60 seconds old, older than usual" in words(await stranger.open(f"/token/{SOL}"))
    shown_site.clock.advance(5 * MINUTE_MS)
    page = await stranger.open(f"/token/{BONE}")

    assert "too old to show" in words(page)
    assert "360 s old" in words(page)
    assert 'id="chart"' not in page.text


def test_a_chart_of_rare_trades_has_a_text_for_its_span() -> None:
    def spans(step_s: int, count: int = 12) -> str | None:
        points = [ChartPoint(step_s * at, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0) for at in range(count)]
        return thin_span(points, 300)

    assert spans(300) is spans(1_500) is spans(86_400, 8) is None
    assert spans(1_800) == "4 hours"
    assert spans(86_400) == "8 days"
