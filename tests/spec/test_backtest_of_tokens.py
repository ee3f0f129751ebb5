"""POST /v1/backtest: backtests of several tokens, their errors, and their cost."""

import re
from random import Random
from typing import Any

import httpx
import pytest
from series_service import (
    BEGIN_S,
    QUIET,
    TOKEN,
    UNTRACKED,
    SeriesService,
)

from mintscope.accounts.keys.scope import Scope
from mintscope.api.series import backtest
from mintscope.kit.primitives import Mint
from mintscope.market.log import PricedSwap
from mintscope.market.screening.backtest import Backtested
from mintscope.market.screening.backtest import backtest as run_backtest
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer
from support.scenes.traded import new_slot

RISING = "price > 1.5"


async def ask(market: SeriesService, token: str | None, **body: Any) -> httpx.Response:
    headers = {} if token is None else bearer(token)
    answer: httpx.Response = await market.client.post("/v1/backtest", json=body, headers=headers)
    return answer


async def trade_both(market: SeriesService, minutes: int) -> None:
    random = Random(4)
    slots = []
    for minute in range(minutes):
        market.slots += 1
        swaps = [
            PricedSwap(
                Mint(mint), n, 0, -1, 0, random.random() < 0.5, 10**6, usd, usd / 100, "pool"
            )
            for n, mint in enumerate((TOKEN, QUIET))
            for usd in [random.uniform(1, 2)]
        ]
        slots.append(new_slot(market.slots, BEGIN_S + 60 * minute, swaps))
    await market.add(slots)


async def test_the_backtest_of_two_tokens_combines_the_backtests_of_each(
    market: SeriesService,
) -> None:
    await trade_both(market, 500)
    token = await market.service.issue(20)
    asked = {"where": RISING, "tf": "m1", "feeBps": 50, "from": BEGIN_S + 6_000}

    answer = await ask(market, token, mints=[TOKEN, QUIET], **asked)

    assert answer.status_code == 200, answer.text
    assert answer.headers["x-credits-remaining"] == "19"
    data = answer.json()["data"]
    alone = []
    for mint in (TOKEN, QUIET):
        query = {**asked, "from_": asked["from"]}
        del query["from"]
        one = await market.ask("backtest", credit_token=token, mint=mint, **query)
        alone.append(one.json()["data"])
    assert data["tf"] == "m1"
    assert data["looks"] == sum(one["looks"] for one in alone)
    assert data["fired"] == sum(one["fired"] for one in alone) > 100
    assert data["tokens"] == [
        {"token": one["token"], "first": one["from"], "last": one["to"], "looks": one["looks"],
         "fired": one["fired"]}
        for one in alone
    ]  # fmt: skip
    firings = [each | {"token": one["token"]} for one in alone for each in one["firings"]]
    assert data["firings"] == sorted(firings, key=lambda each: (each["t"], each["token"]))[-500:]
    for n, horizon in enumerate(data["horizons"]):
        of = [one["horizons"][n] for one in alone]
        for prefix in ("", "all"):
            count, hits, mean = (
                prefix + name if not prefix else prefix + name[0].upper() + name[1:]
                for name in ("count", "hitRate", "meanReturn")
            )
            known = sum(each[count] for each in of)
            assert horizon[count] == known
            if not known:
                assert horizon[mean] is None
                continue
            for name in (hits, mean):
                total = sum(each[count] * (each[name] or 0.0) for each in of)
                assert horizon[name] == pytest.approx(total / known, rel=1e-12)


async def test_tokens_without_data_have_errors_and_alone_are_free(
    market: SeriesService,
) -> None:
    for minute in range(5):
        await market.trade(60 * minute, 1.0 + minute)
    token = await market.service.issue(1)
    asked = {"where": RISING, "tf": "m1"}

    none = (await ask(market, token, mints=[QUIET, UNTRACKED], **asked)).json()["data"]
    assert [each["error"]["code"] for each in none["tokens"]] == [
        "INSUFFICIENT_DATA", "TOKEN_NOT_FOUND",
    ]  # fmt: skip
    assert (none["looks"], none["firings"]) == (0, [])
    assert await market.service.left(token) == 1

    some = (await ask(market, token, mints=[QUIET, TOKEN], **asked)).json()["data"]
    assert "error" not in some["tokens"][1]
    assert some["fired"] == 1
    assert await market.service.left(token) == 0


async def test_a_backtest_of_fewer_than_10_000_candles_costs_one_credit(
    market: SeriesService,
) -> None:
    """The backtest reads two tokens, each with candles of two timeframes."""
    await trade_both(market, 300)
    token = await market.service.issue(2)
    where = "price > ema9_m5 and price > 1"
    data = (await ask(market, token, mints=[TOKEN, QUIET], where=where, tf="m1")).json()["data"]
    assert 600 <= data["candles"] <= 2 * (300 + 61)
    assert await market.service.left(token) == 1


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ({"mints": []}, "BAD_REQUEST", "mints"),
        ({"mints": [TOKEN, TOKEN]}, "BAD_REQUEST", "each mint once"),
        ({"mints": [TOKEN] * 51}, "BAD_REQUEST", "mints"),
        ({"mints": ["abc"]}, "INVALID_TOKEN_ADDRESS", "abc"),
        ({"where": "price >"}, "BAD_REQUEST", "where: "),
        ({"where": "liquidity > 1"}, "BAD_REQUEST", "no stored past"),
        ({"from": 5, "to": 4}, "BAD_REQUEST", "from: expected at most 4"),
        ({"tf": "h2"}, "BAD_REQUEST", "tf"),
        ({"watch": 1}, "BAD_REQUEST", "watch"),
    ],
)
async def test_an_invalid_body_is_400_and_free(
    market: SeriesService, body: dict[str, Any], code: str, said: str
) -> None:
    await market.trade(0, 2.0)
    token = await market.service.issue(1)
    answer = await ask(market, token, **{"mints": [TOKEN], "where": RISING, "tf": "m1"} | body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert said in answer.json()["error"]["message"]
    assert await market.service.left(token) == 1


async def test_a_request_without_a_credential_is_402(market: SeriesService) -> None:
    answer = await ask(market, None, mints=[TOKEN], where=RISING)
    assert answer.status_code == 402


async def test_no_second_token_is_read_if_the_client_cannot_pay_for_the_first(
    market: SeriesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtest, "CANDLES_READ_MAX", 100)  # candles for one credit
    await trade_both(market, 500)
    asked = {"where": "price > ema9_m5", "tf": "m1", "from": BEGIN_S + 6_000}
    needed = []
    for mints in ([TOKEN], [TOKEN, QUIET], [TOKEN, QUIET, UNTRACKED]):
        answer = await ask(market, await market.service.issue(1), mints=mints, **asked)
        assert (answer.status_code, answer.json()["error"]["code"]) == (402, "INSUFFICIENT_CREDITS")
        needed.append(re.findall(r"[0-9]+(?= credits)", answer.json()["error"]["message"])[0])

    assert len(set(needed)) == 1, needed
    assert int(needed[0]) > 1

    key = await Agent(market.service).key(Scope.TRADE_READ)
    await fill(market.service, 100)
    market.service.accounts.change("UPDATE api_key SET month_credits_max = ?", int(needed[0]) - 1)
    read: list[object] = []

    def noted(question: Any, past: Any) -> Backtested:
        read.append(question)
        return run_backtest(question, past)

    monkeypatch.setattr(backtest, "backtest", noted)
    answer = await ask(market, key, mints=[TOKEN, QUIET], **asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "KEY_CAP_REACHED")
    assert len(read) == 1


async def fill(service: Service, credit_count: int) -> None:
    """Move credits of a new credit token into the account of the only user."""
    ((user_id,),) = service.accounts.rows('SELECT id FROM "user"')
    account = await service.ledger.find(await service.issue(credit_count))
    assert account is not None
    await service.accounts.built.credits.deposit(user_id, account, None, None)
