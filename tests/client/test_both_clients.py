"""The client for threads and the client for asyncio give equal results at a real service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.kit.credentials import CredentialKind, is_well_formed
from mintscope.kit.primitives import Wallet
from mintscope.market.report import PLAIN, ReportKind
from mintscope.payments.protocol.envelope import MAINNET
from mintscope.solana.blocks import USDC, WSOL
from mintscope_client import AsyncClient, Client, CreditBudget, errors
from mintscope_client.auth import PaymentAuth
from mintscope_client.wallet import Pin, SpendLimit, WillNotPay
from support.fakes import reports
from support.processes.listening import listening
from support.scenes.payments.payment_build import payer_wallet
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import SellingApi, opened
from support.scenes.people.agent import Agent
from support.scenes.whole_report import whole_report

Ask = Callable[..., Awaitable[Any]]
NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})
UNKNOWN_MINT = reports.UNTRACKED


@pytest.fixture(autouse=True)
def full_reports(monkeypatch: pytest.MonkeyPatch) -> bytes:
    body = whole_report()
    monkeypatch.setattr(reports, "REPORT", body)
    return body


class Here:
    """A service that sells, with its URL and that of its chain's node."""

    def __init__(self, shop: SellingApi, world: World, url: str, rpc: str) -> None:
        self.shop, self.world, self.url, self.rpc = shop, world, url, rpc

    def payer(self, **limits: int) -> PaymentAuth:
        wallet = payer_wallet(self.world.terms, self.world.buyer, **limits)
        return PaymentAuth(wallet, rpc_url=self.rpc)


@pytest.fixture
async def here(world: World) -> AsyncIterator[Here]:
    async with (
        opened(world, patience_s=5) as shop,
        listening(shop.service.app) as url,
        listening(world.node) as rpc,
    ):
        yield Here(shop, world, url, rpc)


@asynccontextmanager
async def in_threads(url: str, **options: Any) -> AsyncIterator[Ask]:
    with Client(url, **options) as client:

        async def ask(
            verb: str, arguments: tuple[Any, ...], options: Mapping[str, Any] = NO_OPTIONS
        ) -> Any:
            return await asyncio.to_thread(getattr(client, verb), *arguments, **options)

        yield ask


@asynccontextmanager
async def in_asyncio(url: str, **options: Any) -> AsyncIterator[Ask]:
    async with AsyncClient(url, **options) as client:

        async def ask(
            verb: str, arguments: tuple[Any, ...], options: Mapping[str, Any] = NO_OPTIONS
        ) -> Any:
            return await getattr(client, verb)(*arguments, **options)

        yield ask


BOTH = pytest.mark.parametrize("client", [in_threads, in_asyncio])


@BOTH
async def test_a_credit_token_reads_until_it_is_empty(
    here: Here, client: Any, full_reports: bytes
) -> None:
    token = await here.shop.service.issue(2)
    async with client(here.url, credential=token) as ask:
        report = await ask("token", (WSOL,))
        read = msgspec.json.decode(msgspec.json.encode(report))
        assert read == msgspec.json.decode(full_reports) | {"coverage": None}  # not in the report
        assert await ask("balance", ()) == 1
        with pytest.raises(errors.NotTrackedError):
            await ask("token", (UNKNOWN_MINT,))
        with pytest.raises(errors.InvalidTokenAddressError):
            await ask("token", ("no mint at all",))
        with pytest.raises(errors.NothingThereError):
            await ask("token", ("../credits/balance",))
        await ask("token", (WSOL,))
        with pytest.raises(errors.NoCreditsError):
            await ask("token", (WSOL,))
        assert (await ask("history", ())).spent == 2


@BOTH
async def test_partial_and_closed_reports_are_requested_by_options(here: Here, client: Any) -> None:
    token = await here.shop.service.issue(4)
    options = {"partial": True, "candles": "closed"}
    async with client(here.url, credential=token) as ask:
        await ask("token", (WSOL,), options)
        await ask("batch", ((WSOL,),), options)
        await ask("token", (WSOL,), {"partial": False})
    asked = [kind for kind in here.shop.service.reports.kinds if kind != PLAIN]
    assert asked == [ReportKind(is_partial=True, is_closed=True)] * 2


@BOTH
async def test_a_client_stops_at_its_budget_while_credits_are_left(here: Here, client: Any) -> None:
    token = await here.shop.service.issue(10)
    async with client(here.url, credential=token, budget=CreditBudget(credits_in_all=3)) as ask:
        for _ in range(3):
            await ask("token", (WSOL,))
        with pytest.raises(errors.OverBudgetError):
            await ask("token", (WSOL,))
    assert await here.shop.service.left(token) == 7


@BOTH
async def test_a_wallet_pays_for_a_report_and_for_credits(here: Here, client: Any) -> None:
    async with client(here.url, payer=here.payer()) as ask:
        offers = await ask("bundles", ())
        assert offers.currency.asset == here.world.terms.asset
        report = await ask("token", (WSOL,))
        bought = await ask("buy_credits", (10,))
    assert report.token == WSOL
    assert is_well_formed(CredentialKind.CREDIT_TOKEN, bought.token)
    assert here.world.received() == 2_500 + 25_000

    async with client(here.url, credential=bought.token, payer=here.payer()) as ask:
        await ask("token", (WSOL,))
        topped = await ask("buy_credits", (10,))
        assert topped.token == bought.token
        assert await ask("balance", ()) == 19


@BOTH
async def test_an_api_key_spends_credits_that_a_wallet_bought_for_its_account(
    here: Here, client: Any
) -> None:
    key = await Agent(here.shop.service).key(Scope.TRADE_WRITE)
    async with client(here.url, credential=key, payer=here.payer()) as ask:
        with pytest.raises(errors.NoCreditsError):
            await ask("token", (WSOL,))
        bought = await ask("buy_credits", (10,))
        assert bought.token is None
        assert bought.user_id is not None
        await ask("token", (WSOL,))
        batch = await ask("batch", ([WSOL, UNKNOWN_MINT],))
        assert [line.report is not None for line in batch.results] == [True, False]
        assert await ask("balance", ()) == 8


@BOTH
async def test_a_wallet_signs_nothing_beyond_its_spend_limit(here: Here, client: Any) -> None:
    async with client(here.url, payer=here.payer(atoms_in_all=20_000)) as ask:
        with pytest.raises(WillNotPay, match="20000 atoms in all"):
            await ask("buy_credits", (10,))
    assert here.world.received() == 0


@BOTH
async def test_a_service_that_does_not_answer_raises_unreachable(client: Any) -> None:
    async with client("http://127.0.0.1:9", patience_s=0) as ask:
        with pytest.raises(errors.UnreachableError, match="ConnectError"):
            await ask("bundles", ())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("url", "credential"),
    [
        ("api.example", None),
        ("ftp://api.example", None),
        ("http://a:b", None),
        ("https://api.example", "svc_credit_" + "0" * 64),
        ("https://api.example", "svc_app_" + "0" * 64),
    ],
)
def test_an_invalid_url_or_credential_raises_value_error_at_once(
    kind: Any, url: str, credential: str | None
) -> None:
    with pytest.raises(ValueError, match="expected a"):
        kind(url, credential=credential)


def test_a_limit_in_usd_is_converted_at_the_buyers_price_of_the_token(world_pin: Pin) -> None:
    limit = SpendLimit.in_usd(world_pin, per_payment=Decimal("0.01"), in_all=Decimal(1))

    assert limit == SpendLimit(atoms_per_payment=3_333, atoms_in_all=333_333)
    with pytest.raises(ValueError, match="usd_per_token"):
        SpendLimit.in_usd(
            replace(world_pin, usd_per_token=None), per_payment=Decimal(1), in_all=Decimal(1)
        )


@pytest.fixture
def world_pin() -> Pin:
    return Pin(
        network=MAINNET, asset=USDC, decimals=6, pay_to=Wallet(WSOL), usd_per_token=Decimal(3)
    )
