"""Pages of swaps equal the log byte for byte, whatever is cached of earlier pages."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import based58
import msgspec
from series_service import BEGIN_S, TOKEN, SeriesService, series_service

from mintscope.kit.primitives import Mint, Signature
from mintscope.market.log import Evidence, PricedSwap, SwapDetail
from mintscope.solana.blocks import USDC, WSOL

STEPS: Final = 50
ONE: Final = (
    '{"slot":%d,"t":%d,"signature":"%s","program":"pumpswap","pool":%s,"side":"%s",'
    '"tokenAmount":{"raw":"%d","decimal":%s},"quote":"%s",'
    '"quoteAmount":{"raw":"%d","decimal":%s},"price":%s,"setsPrice":%s,"isFinal":%s,'
    '"recognisedBy":"table","reason":%s,'
    '"excludedVolume":%s,"excludedReason":%s}'
)
DECIMALS: Final = {WSOL: 9, USDC: 6}


class Logged(NamedTuple):
    """A logged swap that is not retracted, with its place in the log and its time."""

    place: tuple[int, int, int, int, int]
    time: int
    swap: PricedSwap


class Lived:
    """A market with random swaps, finality and lost slots; `swaps` has the valid swaps."""

    def __init__(self, market: SeriesService, seed: int) -> None:
        self._market, self._random = market, Random(seed)
        self._final = self._number = 0
        self.swaps: list[Logged] = []

    async def step(self) -> None:
        random, traded = self._random, self._market.traded
        if random.random() < 0.2:
            self._final = max(self._final, self._number - random.randrange(1, 4))
            await traded.finalize(self._final)
        while self._number > self._final and self._number > 1 and random.random() < 0.2:
            await traded.retract(self._number)
            self.swaps = [each for each in self.swaps if each.place[0] < self._number]
            self._number -= 1
        if self.swaps and random.random() < 0.2:
            return
        self._number += 1
        time = BEGIN_S + self._number
        swaps = [self._swap(index) for index in range(random.choice([0, 1, 3]))]
        places = [(self._number, one.transaction_index, 2, -1, one.leg) for one in swaps]
        self.swaps += [Logged(*each) for each in zip(places, [time] * 3, swaps, strict=False)]
        await traded.slot(self._number, time, *swaps)

    def _swap(self, index: int) -> PricedSwap:
        random = self._random
        price = random.choice([None, (random.uniform(1e-7, 2e3), random.uniform(1e-9, 9.0))])
        is_decided = random.random() < 0.5
        usd, sol = price if price and is_decided else (None, None)
        text = based58.b58encode(random.randbytes(64)).decode()
        quote = Mint(random.choice([*DECIMALS]))
        return PricedSwap(
            TOKEN, index // 2, 2, -1, index % 2, random.random() < 0.5, random.choice([0, 1]),
            usd, sol, random.choice([None, "pool"]),
            None if is_decided else price,
            SwapDetail(
                Signature(random.choice([text, f"made-{index}"])), "pumpswap",
                random.choice([0, 1, 10**9, random.randrange(2**64)]),
                random.choice([None, 0, 6, 9]),
                quote, random.randrange(10**12), DECIMALS[quote],
            ),
            random.choice([None, Evidence(None, 1, "signer", trip=2)]),
        )  # fmt: skip

    def page(self, before: Sequence[int] | None, limit: int) -> str:
        """Return the expected page: *limit* swaps, the newest before *before*; None: of all."""
        behind = [each for each in self.swaps[::-1] if not before or each.place < tuple(before)]
        lines = ",".join(self._text(each) for each in behind[:limit])
        place = behind[limit - 1].place if len(behind) > limit else None
        cursor = "null" if place is None else f'"{cursor_at(place)}"'
        return f'"swaps":[{lines}],"nextCursor":{cursor}}}'

    def _text(self, one: Logged) -> str:
        swap, detail = one.swap, one.swap.detail
        assert detail is not None
        price = (swap.price_usd, swap.price_sol) if swap.offered is None else swap.offered
        amounts = ((detail.amount, detail.decimals), (detail.quote_amount, DECIMALS[detail.quote]))
        reason = None if swap.price_usd else "noPrice" if swap.offered is None else "otherPool"
        if reason == "otherPool" and swap.evidence is not None:
            reason = "roundTrip"
        has_flow = swap.evidence is not None and not swap.volume
        excluded = 1e-06 if has_flow else None
        reported = "null" if price[0] is None else '{{"usd":{},"sol":{}}}'.format(*map(sent, price))
        (amount, in_whole), (quote_amount, quote_in_whole) = (
            (raw, sent(None if decimals is None else whole(raw, decimals)))
            for raw, decimals in amounts
        )
        return ONE % (
            one.place[0], one.time, detail.signature, sent(swap.pool),
            "buy" if swap.is_buy else "sell", amount, in_whole, detail.quote,
            quote_amount, quote_in_whole, reported, sent(swap.price_usd is not None),
            sent(one.place[0] <= self._final), sent(reason),
            sent(excluded), sent(None if excluded is None else "roundTrip"),
        )  # fmt: skip


def sent(value: str | float | bool | None) -> str:  # noqa: FBT001 - the values of JSON
    return msgspec.json.encode(value).decode()


def whole(raw: int, decimals: int) -> str:
    text = f"{Decimal(raw).scaleb(-decimals):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cursor_at(place: Sequence[int]) -> str:
    text = json.dumps(["swap", *place], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


async def test_every_page_of_swaps_equals_the_log_byte_for_byte(tmp_path: Path) -> None:
    random = Random(5)
    async with series_service(tmp_path) as market:
        token = await market.service.issue(4 * STEPS)
        lived = Lived(market, seed=3)
        for n in range(STEPS):
            if n % 10 == 0:
                market.service.clock.advance(60_000)  # for the rate limit
                market.service.clock.step(-60_000)
            await lived.step()
            for _ in range(random.choice([0, 1, 3])):
                limit = random.choice([1, 3, 8, 500])
                before = random.choice([None, None, *(each.place for each in lived.swaps)])
                asked: dict[str, Any] = {"limit": limit}
                if before:
                    asked["cursor"] = cursor_at(before)

                answer = await market.ask("swaps", credit_token=token, **asked)

                assert answer.status_code == 200, answer.text
                _, _, rest = answer.text.partition(f'"token":"{TOKEN}",')
                assert rest.startswith(lived.page(before, limit)), asked
