"""The whole API over a real facilitator, store and chain in this process, with its buyers."""

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from solders.keypair import Keypair

from mintscope.app.config.config import ApiConfig
from mintscope.app.payments import worth_by_prices_of
from mintscope.app.stores.stores import Money
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import UnixMs
from mintscope.market.series.holder_reads import HolderReader
from mintscope.payments.audit import Closure
from mintscope.payments.facilitator import Facilitator
from mintscope.payments.merchant import AcceptedToken, Merchant
from mintscope.payments.price_cache import PriceCache, PriceSource, SolSource
from mintscope.payments.pricing import Doubt, Quote
from support.fakes.series import FakeSeries
from support.scenes.payments.payment_build import Recipe, as_base64
from support.scenes.payments.payment_world import SECRETS, TODAY, World, world_at
from support.scenes.service import Service, running_service
from support.scenes.stores import money_in

ORIGIN: Final = "https://shop.example"
RAISED: Final = ApiConfig(rate_limit_requests=10_000)
KEY: Final = "the-secret-of-the-buyer"
OTHER_KEY: Final = "a-guess-of-a-stranger"
NAMES: Final = (("Scope", "SCOPE"), ("USD Coin", "USDC"))
PURCHASE: Final = "/v1/credits/purchase?bundle=10"


class MovablePrice:
    """A price of the payment token, which a test changes or removes."""

    def __init__(self) -> None:
        self.usd: Decimal | None = Decimal(1)
        self.reads = 0

    async def read(self, now: UnixMs) -> Quote | Doubt:
        self.reads += 1
        if self.usd is None:
            return Doubt.NO_ANSWER
        return Quote(usd=self.usd, observed_at=now)


class MovableSol:
    """A source of the price of SOL, which is unknown until a test sets it."""

    def __init__(self) -> None:
        self.usd: Decimal | None = None

    async def read(self, _now: UnixMs) -> Decimal | None:
        return self.usd


@dataclass
class SellingApi:
    """One api process that sells; several of them can share *world*, its chain and store."""

    world: World
    service: Service
    facilitator: Facilitator
    price: MovablePrice
    sol: MovableSol
    usdc_price: MovablePrice
    closure: Closure | None = None  # of sales, for all clients or only for new payers

    @property
    def client(self) -> httpx.AsyncClient:
        return self.service.client

    async def demand(self, method: str, path: str) -> dict[str, Any]:
        """Send a request without a payment; return the decoded PAYMENT-REQUIRED header."""
        response = await self.client.request(method, path)
        assert response.status_code == 402, response.text
        return demanded(response)

    def transaction(
        self, demand: dict[str, Any], payer: Keypair | None = None, **changes: Any
    ) -> bytes:
        return self.recipe(demand, payer, **changes).build()

    def recipe(
        self, demand: dict[str, Any], payer: Keypair | None = None, **changes: Any
    ) -> Recipe:
        offer = demand["accepts"][0]
        accepted = (self.facilitator.terms, *self.facilitator.also)
        parts: dict[str, Any] = {
            "amount": int(offer["amount"]),
            "memo": offer["extra"]["memo"].encode(),
            "terms": next(each for each in accepted if each.asset == offer["asset"]),
        }
        return self.world.recipe(payer, **(parts | changes))

    def pay(self, demand: dict[str, Any], payer: Keypair | None = None, **changes: Any) -> str:
        """Return a PAYMENT-SIGNATURE for *demand*; *changes* apply to its transaction."""
        return signature_header(demand, self.transaction(demand, payer, **changes))

    async def paid(self, method: str, path: str, **changes: Any) -> str:
        """Request *path* without a payment; return a PAYMENT-SIGNATURE that meets the demand."""
        return self.pay(await self.demand(method, path), **changes)

    async def send(
        self, method: str, path: str, payment: str, *, key: str | None = None, **headers: str
    ) -> httpx.Response:
        sent = {"PAYMENT-SIGNATURE": payment} | headers
        if key is not None:
            sent["Idempotency-Key"] = key
        return await self.client.request(method, path, headers=sent)

    async def buy(self, *, key: str | None = KEY, **changes: Any) -> httpx.Response:
        """Buy ten credits with the Idempotency-Key *key*; return the response."""
        payment = await self.paid("POST", PURCHASE, **changes)
        return await self.send("POST", PURCHASE, payment, key=key)


def demanded(response: httpx.Response) -> dict[str, Any]:
    return decoded(response, "payment-required")


def decoded(response: httpx.Response, header: str) -> dict[str, Any]:
    return dict(json.loads(b64decode(response.headers[header], validate=True)))


def settlement(response: httpx.Response) -> dict[str, Any]:
    """Return PAYMENT-RESPONSE without its receipt, whose date a restored store does not know."""
    return {name: value for name, value in decoded(response, "payment-response").items()
            if name != "extensions"}  # fmt: skip


def signature_header(demand: dict[str, Any], transaction: bytes, **changes: Any) -> str:
    """Return a hand-built `PAYMENT-SIGNATURE` header that pays with *transaction*.

    demand    the body of a 402
    changes   fields of its first offer to replace
    """
    return encoded(
        {
            "x402Version": 2,
            "payload": {"transaction": as_base64(transaction)},
            "accepted": demand["accepts"][0] | changes,
            "resource": demand["resource"],
        }
    )


def credential_header(demand: dict[str, Any], transaction: bytes, **changes: Any) -> str:
    """Return a hand-built `Authorization` header that pays with *transaction* by MPP.

    demand    the body of a 402
    changes   fields of its first offer to replace
    """
    offer = demand["accepts"][0] | changes
    request = {
        "amount": offer["amount"],
        "currency": offer["asset"],
        "externalId": offer["extra"]["memo"],
        "methodDetails": {"network": "mainnet-beta"},
        "recipient": offer["payTo"],
    }
    challenge = {
        "id": offer["extra"]["memo"],
        "realm": "shop.example",
        "method": "solana",
        "intent": "charge",
        "request": as_base64url(request),
    }
    payload = {"type": "transaction", "transaction": as_base64(transaction)}
    return f"Payment {as_base64url({'challenge': challenge, 'payload': payload})}"


def as_base64url(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def encoded(content: Any) -> str:
    return b64encode(json.dumps(content).encode()).decode()


def payment_tokens(
    facilitator: Facilitator, prices: Sequence[PriceSource], sol: SolSource | None = None
) -> list[AcceptedToken]:
    """Return the tokens that *facilitator* accepts, at *prices*: its own token, then USDC."""
    accepted = (facilitator.terms, *facilitator.also)
    return [
        AcceptedToken(
            terms=terms,
            price_cache=PriceCache(
                price, decimals=terms.decimals, clock=facilitator.clock, sol=sol
            ),
            name=name,
            symbol=symbol,
        )
        for terms, price, (name, symbol) in zip(accepted, prices, NAMES, strict=False)
    ]


@asynccontextmanager
async def opened(  # noqa: PLR0913 - one argument for each thing that can differ
    world: World,
    *,
    api: ApiConfig = RAISED,
    origin: str = ORIGIN,
    limit_clock: Clock | None = None,
    series: FakeSeries | None = None,
    holders: HolderReader | None = None,
    **changes: Any,
) -> AsyncIterator[SellingApi]:
    """Yield a new process that sells on *world*; *changes* are options of its facilitator."""
    facilitator, price, sol = world.facilitator(**changes), MovablePrice(), MovableSol()
    usdc_price = MovablePrice()
    tokens = payment_tokens(facilitator, [price, usdc_price], sol)
    facilitator = replace(facilitator, worth=worth_by_prices_of(tokens))
    merchant = Merchant(
        facilitator=facilitator,
        payment_tokens=tokens,
        rotations=world.stores[-1],
        adopter=world.adopter(),
        origin=origin,
        closure=lambda: seller.closure,
    )
    async with running_service(
        world.path.parent,
        clock=world.clock,
        pepper=SECRETS.pepper,
        merchant=merchant,
        api=api,
        limit_clock=limit_clock,
        series=series,
        holders=holders,
    ) as service:
        seller = SellingApi(world, service, facilitator, price, sol, usdc_price)
        yield seller


@pytest.fixture
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Yield a chain in the folder of an installation; the fixture's parameter is the pace."""
    async with world_at(tmp_path, getattr(request, "param", TODAY)) as world:
        yield world


@pytest.fixture
async def shop(world: World) -> AsyncIterator[SellingApi]:
    async with opened(world) as shop:
        yield shop


@pytest.fixture
async def money(world: World) -> AsyncIterator[Money]:
    async with money_in(world.path.parent, clock=world.clock) as money:
        yield money
