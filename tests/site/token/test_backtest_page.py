"""The page that tests a rule on the past of a token, and its button that makes an alert."""

import re
from html import unescape
from urllib.parse import urlencode

import apsw
import pytest
from test_views import balance, give_credits

from mintscope.api.series.backtest import BacktestQuery, checked_condition, findings_of
from mintscope.credits.ledger import Empty, Spent
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import CreditAccount
from mintscope.solana.blocks import USDT
from support.scenes.people.web_person import ALICE, Person, where, words
from support.scenes.token_market import BONE, RISKY, SILENT
from support.scenes.website import MINUTE_MS, Website

RULE = "crosses_below(rsi_m5, 60)"
TEST = {"where": RULE, "tf": "m5", "days": "1", "fee": "30", "size": "0"}
VERIFY = "UPDATE user SET verified_at = 1"
PATH = f"/token/{RISKY}/backtest"


async def test_a_backtest_costs_one_credit_once_and_shows_the_results_of_the_api(
    shown_site: Website, stranger: Person
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 3)
    form = words(await stranger.open(f"{PATH}?where=price+%3E+0"))
    assert "Test it for one credit" in form
    assert "firings in" not in form

    for _ in range(2):
        sent = await stranger.send(PATH, TEST)
        assert where(sent).startswith(f"{PATH}?where=crosses_below%28rsi_m5%2C+60%29&tf=m5")
        assert await balance(shown_site, ALICE) == 2
    page = await stranger.open(where(sent))

    market = shown_site.token_market
    assert market is not None
    query = BacktestQuery(where=RULE, from_=shown_site.clock.now() // 1000 - 86_400)
    now = (await market.parts.series.tip()).time
    assert now is not None
    past = await findings_of(
        market.parts.series.candles, now, RISKY, query, checked_condition(query)
    )
    found = past.found
    assert found.fired > 3
    text = words(page)
    assert f"{found.fired} firings in {found.looks} checks" in text
    assert len(re.findall(r'<text class="mark"', page.text)) == found.fired
    times = re.findall(r'<tr><th scope="row"><time datetime="([^"]+)"', page.text)
    assert len(times) == found.fired
    for name, of in found.found.items():
        chance = found.baseline[name]
        if of.hit_rate is not None:
            assert chance.hit_rate is not None
            shown_as = f"{name[1:]}{name[0]}"  # as in the table of firings
            row = rf" {shown_as} {of.known} {of.hit_rate * 100:.0f} % .* {chance.known} "
            assert re.search(rf"{row}{chance.hit_rate * 100:.0f} % ", text)
    await shown_site_later(shown_site, 16)
    assert "firings in" not in words(await stranger.open(where(sent)))


async def shown_site_later(site: Website, minutes: int) -> None:
    assert site.token_market is not None
    await site.token_market.trade(after_s=60 * minutes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"where": "rsi_m5 <"}, "At character 9: expected a field"),
        ({"where": ""}, "Expected a condition"),
        ({"where": "liquidity > 1"}, "Liquidity has no stored past"),
        (
            {"where": "rsi_m1 > 1"},
            "Rsi_m1: tf m5 allows fields of m5, m15, m30, h1, h4, d1.",
        ),
        ({"where": "price > 0" + " " * 1 + "and price > 0 " * 90}, "Expected a condition"),
        ({"tf": "d2"}, "Choose the candles and the span from the lists."),
        ({"days": "-1"}, "Choose the candles and the span from the lists."),
        ({"fee": "1001"}, "Expected a whole number from 0 to 1000."),
        ({"size": "nan"}, "Expected a number of US dollars from 0 to 10,000,000."),
        ({"size": "x"}, "Expected a number of US dollars from 0 to 10,000,000."),
        ({"fee": "x"}, "Expected a whole number from 0 to 1000."),
    ],
)
async def test_an_invalid_backtest_is_refused_with_the_reason_and_costs_nothing(
    shown_site: Website, stranger: Person, changes: dict[str, str], said: str
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 1)
    answer = await stranger.send(PATH, TEST | changes)
    assert answer.status_code == 422
    assert said in words(answer)
    assert await balance(shown_site, ALICE) == 1


async def test_a_backtest_without_data_or_credits_costs_nothing(
    shown_site: Website, stranger: Person
) -> None:
    assert where(await stranger.open(PATH)).startswith("/sign-in")
    await stranger.sign_up()
    assert "You have no credits" in words(await stranger.open(PATH))
    sent = await stranger.send(PATH, TEST)
    assert where(sent).endswith("&notice=no-credits")
    assert "firings in" not in words(await stranger.open(where(sent)))

    await give_credits(shown_site, ALICE, 1)
    silent = await stranger.send(f"/token/{SILENT}/backtest", TEST)
    assert "Nothing was charged." in words(silent)
    assert (await stranger.open(f"/token/{USDT}/backtest")).status_code == 404
    assert (await stranger.open("/token/nothing/backtest")).status_code == 404
    shown_site.clock.advance(6 * MINUTE_MS)
    assert "Nothing was charged." in words(await stranger.send(PATH, TEST))  # too old
    assert await balance(shown_site, ALICE) == 1


async def test_a_bought_backtest_is_not_shown_if_its_candles_are_too_old(
    shown_site: Website, stranger: Person
) -> None:
    await shown_site_later(shown_site, 24 * 60 - 1)
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 1)
    sent = await stranger.send(PATH, TEST)
    assert "firings in" in words(await stranger.open(where(sent)))
    await shown_site_later(shown_site, 10)
    later = await stranger.open(where(sent))
    assert later.status_code == 422
    assert "The candles of this test are now older than the chosen span." in words(later)


async def test_a_backtest_is_not_bought_if_the_ledger_does_not_answer(
    shown_site: Website, stranger: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 1)

    async def fail(_account: CreditAccount) -> Spent | Empty:
        raise ServiceUnavailable("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(shown_site.ledger, "spend", fail)
        assert (await stranger.send(PATH, TEST)).status_code == 503
    sent = await stranger.send(PATH, TEST)
    assert where(sent).endswith("&notice=backtest-bought")
    async with Person(shown_site, address="198.51.100.7") as other:
        await other.sign_up("bob@example.org")
        assert "firings in" not in words(await other.open(where(sent)))


async def test_a_backtest_is_not_shown_while_its_credit_may_still_be_refused(
    shown_site: Website, stranger: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 1)
    shown: list[str] = []

    async def refuse(_account: CreditAccount) -> Spent | Empty:
        shown.append(words(await stranger.open(f"{PATH}?{urlencode(TEST)}")))
        return Empty()

    with monkeypatch.context() as patched:
        patched.setattr(shown_site.ledger, "spend", refuse)
        sent = await stranger.send(PATH, TEST)
    assert where(sent).endswith("&notice=no-credits")
    assert len(shown) == 1
    assert "firings in" not in shown[0]
    assert where(await stranger.send(PATH, TEST)).endswith("&notice=backtest-bought")


async def test_one_click_makes_the_tested_rule_an_alert_once(
    shown_site: Website, stranger: Person
) -> None:
    await stranger.sign_up()
    await give_credits(shown_site, ALICE, 1)
    page = (await stranger.open(where(await stranger.send(PATH, TEST)))).text
    form = page.partition('action="/alerts/of-rule"')[2].partition("</form>")[0]
    fields = dict(re.findall(r'name="([a-z]+)" value="([^"]*)"', form))
    fields = {name: unescape(value) for name, value in fields.items()}

    unverified = await stranger.send("/alerts/of-rule", fields)
    assert "Verify your e-mail address first" in words(unverified)
    apsw.Connection(str(shown_site.folder / "money.sqlite")).execute(VERIFY)

    made = [where(await stranger.send("/alerts/of-rule", fields)) for _ in range(2)]

    assert len(set(made)) == 1
    alert = words(await stranger.open(made[0]))
    assert RULE in alert
    assert "60" in alert
    listed = (await stranger.open("/alerts")).text
    assert len(set(re.findall(r'href="/alerts/([0-9]+)"', listed))) == 1

    several = fields | {"where": "rsi_m5 < 30 and price > 1", "once": "another"}
    refused = await stranger.send("/alerts/of-rule", several)
    assert refused.status_code == 422
    assert "Expected one comparison" in words(refused)


async def test_the_token_page_and_the_list_link_to_the_backtest_page(stranger: Person) -> None:
    assert f'href="/token/{BONE}/backtest"' in (await stranger.open(f"/token/{BONE}")).text
    listed = (await stranger.open("/tokens?where=price+%3E+0")).text
    assert re.search(r'href="/token/[^/"]+/backtest\?where=price%20%3E%200"', listed)
