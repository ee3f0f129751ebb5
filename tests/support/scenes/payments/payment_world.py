"""A seller in this process: devchain, settlement, store and facilitator.

The clock of the chain moves one slot with each request for the status of a transaction, so no test
waits.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest
from pydantic import SecretStr
from solders.hash import Hash
from solders.keypair import Keypair
from starlette.applications import Starlette
from typing_extensions import override

from mintscope.api.x402 import bundle_offers, report_offers
from mintscope.app.config.config import ChainConfig, CreditsConfig
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.payments import Sales, open_sales
from mintscope.app.stores.stores import open_market, open_money
from mintscope.credits.invariants import Violation
from mintscope.kit.clock import Clock, ManualClock
from mintscope.kit.primitives import Signature, UnixMs
from mintscope.payments.audit import Auditor, Recognised, recognise
from mintscope.payments.facilitator import Credits, Demand, Facilitator, VerifiedPayment, Wanted
from mintscope.payments.merchant import Adopter
from mintscope.payments.payment import MISSED_BLOCKS
from mintscope.payments.ports import Budget, Outcome
from mintscope.payments.protocol.envelope import Requirement, Resource, Terms
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.reconciler import Reconciler, Secrets
from mintscope.payments.settlement import RpcSettlement
from mintscope.payments.store.payments import SqlPaymentStore
from mintscope.solana.blocks import USDC, Endpoint
from mintscope.solana.pace import Pace
from mintscope_devchain.blockstore import SlotPace, slot_pace
from mintscope_devchain.faults import Knobs
from mintscope_devchain.methods.table import Methods
from mintscope_devchain.pulse import Pulse
from mintscope_devchain.server import answering
from mintscope_devchain.svm.vm import Vm
from support.fakes.reports import TRACKED
from support.scenes.engine import payment_store, rows_of
from support.scenes.payments.payment_build import Recipe, present, terms_of
from support.scenes.stores import money_in

START: Final = UnixMs(1_800_000_000_000)
SECRETS: Final = Secrets.derive(b"r" * 32)
RESOURCE: Final = Resource("/v1/credits/purchase?bundle=10")
AMOUNT: Final = 25_000
CREDITS: Final = Credits(10)
KEY: Final = "the-secret-of-the-buyer"
PATIENCE_S: Final = 2.0  # seconds of real time: several hundred requests and slots
# The sum of the validity of a blockhash, a margin, and the time to finality
EXPIRY_SLOTS: Final = 230


class MovingTransport(httpx.AsyncBaseTransport):
    """A transport to the devchain in this process; a call of a method in `moving` adds a slot."""

    def __init__(self, world: "World", app: Starlette) -> None:
        self._world = world
        self._app = httpx.ASGITransport(app=app)

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        method = msgspec.json.decode(await request.aread())["method"]
        self._world.calls.append(method)
        self._world.was_called[method].set()
        if method in self._world.moving:
            self._world.slots(1)
        answer = await self._app.handle_async_request(request)
        spoil = self._world.spoil.get(method)
        if spoil is None:
            return answer
        return httpx.Response(200, content=spoil(await answer.aread()))


TODAY: Final = slot_pace()  # the pace of mainnet since October 2026
# The pace of mainnet before Alpenglow, when many blocks were not final
TOWER: Final = slot_pace(400, 12_800)
# Gives the fixture `world` this chain for tests of forks, which can undo many of its blocks.
on_older_chain = pytest.mark.parametrize("world", [TOWER], ids=["older"], indirect=True)


class World:
    """A devchain and a database file, on which any number of facilitators can sell.

    pace   the pace of the chain; TODAY unless it is given
    """

    def __init__(self, path: Path, pace: SlotPace = TODAY) -> None:
        self.path = path
        self.pace = pace
        self.clock = ManualClock(START)
        self.vm = Vm(clock=self.clock, seed=7, pace=pace)
        self.pulse = Pulse(self.vm, slot_ms=pace.slot)
        self.methods = Methods(self.vm)
        self.calls: list[str] = []
        self.was_called = defaultdict[str, asyncio.Event](asyncio.Event)
        self.terms = terms_of(self.vm.genesis)
        self.usdc_terms = replace(self.terms, asset=USDC)
        self.buyer = self.fund("buyer")
        self.node = answering(self.methods, self.vm.faults)
        self.transport = MovingTransport(self, self.node)
        self.stores: list[SqlPaymentStore] = []
        self.chains: list[RpcSettlement] = []
        self.unreadable: list[tuple[Signature, str]] = []
        self.moving = {"getSignatureStatuses"}  # a call of these methods moves the clock one slot
        # By method, a function that changes its answers
        self.spoil: dict[str, Callable[[bytes], bytes]] = {}
        self.secrets = SECRETS
        self.entropy = 0
        self.ahead_ms = 0
        self.slots(1)

    def fund(self, name: str, *, atoms: int = 10**9, usdc_atoms: int = 0) -> Keypair:
        key, genesis = self.vm.genesis.key(name), self.vm.genesis
        genesis.endow(self.vm.bank, key.pubkey(), lamports=10**9, atoms=atoms)
        if usdc_atoms:
            genesis.endow(
                self.vm.bank, key.pubkey(), lamports=0, atoms=usdc_atoms, mint=genesis.usdc
            )
        return key

    def facilitator(self, **changes: Any) -> Facilitator:
        """Return a new facilitator, as another process would have, with *changes* to its parts."""
        self.stores.append(payment_store(self.path))
        self.chains.append(self.chain())
        parts: dict[str, Any] = {
            "terms": self.terms,
            "secrets": SECRETS,
            "fee_payer": self.vm.genesis.fee_payer,
            "store": self.stores[-1],
            "adoptions": self.stores[-1],
            "chain": self.chains[-1],
            "clock": self.clock,
            "entropy": self.random,
            "budget": Budget(),
            "slot_s": self.slot_s,
            "patience_s": PATIENCE_S,
        }
        return Facilitator(**(parts | changes))

    def chain(self, terms: Terms | None = None) -> RpcSettlement:
        return RpcSettlement(
            Endpoint(url="http://chain/"),
            terms=[terms or self.terms, self.usdc_terms],
            clock=self.clock,
            pace=lambda: Pace(self.slot_s(), 60),
            transport=self.transport,
            sleep=lambda _: asyncio.sleep(0.005),
        )

    def reconciler(self) -> Reconciler:
        """Return a reconciler whose clock is so far ahead that all leases have expired."""
        self.ahead_ms += 3_600_000
        ahead = ManualClock(UnixMs(self.clock.now() + self.ahead_ms))
        return Reconciler(
            store=self.stores[0],
            chain=self.chains[0],
            clock=ahead,
            slot_s=self.slot_s,
            on_unreadable=lambda payment, why: self.unreadable.append((payment.signature, why)),
        )

    async def audit(
        self, *, full: bool = False, is_start: bool = False, is_usdc_taken: bool = False
    ) -> list[Violation]:
        """Run a new auditor, built like that of the service; return the violations it finds."""
        async with money_in(self.path.parent, clock=self.clock) as money:
            auditor = Auditor(
                books=money.books,
                recognise=self.recognise,
                treasury=money.books,
                history=self.chains[0],
                reconciler=self.reconciler(),
                clock=self.clock,
                assets=[None, USDC] if is_usdc_taken else [None],
            )
            return list(await auditor.audit(full=full, is_start=is_start))

    async def recognise(self, wire: bytes) -> Recognised | None:
        """Return the purchase of the payment *wire*; None if it has no quote of the service."""
        sold = [*bundle_offers(), *report_offers([TRACKED])]
        found = (
            recognise(wire, sold, terms=each, quote_key=self.secrets.quote)
            for each in (self.terms, self.usdc_terms)
        )
        return next((each for each in found if each is not None), None)

    def adopter(self) -> Adopter:
        """Return an Adopter over the newest store and chain: it sells payments that have no row."""
        chain, store = self.chains[-1], self.stores[-1]
        return Adopter(
            records=chain,
            chain=chain,
            store=store,
            adoptions=store,
            recognise=self.recognise,
            secrets=SECRETS,
            clock=self.clock,
            entropy=self.random,
        )

    def random(self, count: int) -> bytes:
        self.entropy += 1
        return self.entropy.to_bytes(count)

    def slot_s(self) -> float:
        return self.pace.slot / 1000

    def slots(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(self.pace.slot)
            self.pulse.tick()

    async def miss(self) -> None:
        """Advance the chain until pending payments expire; reconcile twice, some blocks apart."""
        self.slots(EXPIRY_SLOTS)
        await self.reconciler().once()
        self.slots(MISSED_BLOCKS)
        await self.reconciler().once()

    def seconds(self, count: int) -> None:
        self.slots(count * 1_000 // self.pace.slot)

    async def until_called(self, method: str) -> None:
        async with asyncio.timeout(5):
            await self.was_called[method].wait()

    def go_wrong(self, **knobs: Any) -> None:
        self.vm.faults.set(msgspec.convert(knobs, Knobs))

    def pay(
        self, requirement: Requirement, payer: Keypair | None = None, **changes: Any
    ) -> Presented:
        asked: dict[str, Any] = {"amount": requirement.amount, "memo": requirement.memo.encode()}
        return present(requirement, self.recipe(payer, **(asked | changes)).build())

    def recipe(self, payer: Keypair | None = None, **parts: Any) -> Recipe:
        """Return the recipe of a payment for the world's terms.

        payer   None: the world's buyer
        parts   fields of the recipe to set
        """
        usual: dict[str, Any] = {
            "terms": self.terms,
            "payer": payer or self.buyer,
            "blockhash": self.blockhash(),
        }
        return Recipe(**(usual | parts))

    def blockhash(self) -> Hash:
        return self.vm.block("confirmed").blockhash

    def received(self, terms: Terms | None = None) -> int:
        tokens = str((terms or self.terms).treasury)
        config = {"commitment": "processed"}
        found: Any = self.methods.call("getTokenAccountBalance", [tokens, config])
        return int(found["value"]["amount"])

    def fees(self) -> int:
        """Return the lamports that the fee payer has spent."""
        account = self.vm.bank.account(self.vm.genesis.fee_payer.pubkey())
        assert account is not None
        return 10 * 10**9 - account.lamports

    def sql(self, statement: str) -> Any:
        """Run a statement on a separate connection; return its first row, or None without rows.

        A row with one column is returned as the value of that column.
        """
        rows = rows_of(self.path, statement)
        return None if not rows else rows[0][0] if len(rows[0]) == 1 else rows[0]

    def ledger(self) -> dict[str, int]:
        """Return the balances of all credit tokens, by the hint that identifies the token."""
        return dict(rows_of(self.path, "SELECT hint, balance FROM credit_account"))


@asynccontextmanager
async def world_at(path: Path, pace: SlotPace = TODAY) -> AsyncIterator[World]:
    world = World(path / "money.sqlite", pace)
    yield world
    for chain in world.chains:
        await chain.aclose()
    for store in world.stores:
        await store.close()


async def buy(
    facilitator: Facilitator, presented: Presented, *, wanted: Wanted = CREDITS, **changes: Any
) -> Outcome:
    demand: dict[str, Any] = {"resource": RESOURCE, "key": KEY, "address": "192.0.2.1"}
    answer = await facilitator.present(presented, Demand(**(demand | changes)))
    return await answer.settle(wanted) if isinstance(answer, VerifiedPayment) else answer


def config_of(world: World, rpc_url: str, **changes: Any) -> Config:
    """Return the settings of an api that sells on the chain of *world*, with *changes* applied."""
    genesis = world.vm.genesis
    selling: dict[str, Any] = {
        "enabled": True,
        "asset": str(genesis.mint),
        "pay_to": str(genesis.treasury.pubkey()),
        "fee_payer_key": SecretStr(str(genesis.fee_payer)),
    }
    return Config(
        data_dir=world.path.parent,
        chain=ChainConfig(rpc_url=SecretStr(rpc_url)),
        credits=CreditsConfig(pepper=SecretStr("72" * 32)),
        payments=PaymentsConfig(**(selling | changes)),
    )


@asynccontextmanager
async def selling(config: Config, clock: Clock) -> AsyncIterator[Sales]:
    """Build the sales over the stores of *config*, as the api does."""
    async with (
        open_market(config) as market,
        open_money(config, clock) as money,
        open_sales(config, money=money, reader=market.reader, clock=clock) as sales,
    ):
        yield sales
