"""Payments without a row: they are recognised by their quote, and adopted or acknowledged once."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from typing import Final

import pytest
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.transaction import VersionedTransaction
from typing_extensions import override

from mintscope.app.payments import adopter_of
from mintscope.app.stores.stores import Money
from mintscope.credits.invariants import Invariant, Violation
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.primitives import Mint, Signature, Wallet
from mintscope.payments.audit import Acknowledgement
from mintscope.payments.merchant import Adopter, NotAdopted
from mintscope.payments.payment import Payment, State
from mintscope.payments.ports import AlreadyUsed, ChainUnavailable, Settled, Used
from mintscope.payments.protocol.envelope import Resource
from mintscope.payments.protocol.headers import Presented
from mintscope.payments.protocol.verify import MEMO
from mintscope.payments.reconciler import Secrets
from support.fakes.log import FakeLog
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.payments.payment_build import meta
from support.scenes.payments.payment_world import (
    AMOUNT,
    KEY,
    RESOURCE,
    SECRETS,
    World,
    buy,
    on_older_chain,
)
from support.scenes.payments.restored import forget_everything
from support.scenes.stores import money_in

FINAL_S: Final = 30
OTHER_PEPPER: Final = Secrets.derive(b"another".ljust(32))


async def lost(
    world: World, resource: Resource = RESOURCE, *, final_s: int = FINAL_S
) -> tuple[Presented, Signature]:
    """Buy with a quote for KEY, then delete every row, as if an empty store were restored.

    Return the payment and its signature.
    """
    facilitator = world.facilitator()
    payment = world.pay(facilitator.require(resource, AMOUNT, KEY))
    outcome = await buy(facilitator, payment, resource=resource)
    assert isinstance(outcome, Settled)
    forget_everything(world)
    world.seconds(final_s)
    return payment, outcome.payment.signature


async def acknowledge(world: World, money: Money, signature: Signature) -> Acknowledgement:
    return await money.books.acknowledge(
        signature, note="refunded", by=COMMAND_LINE, now=world.clock.now()
    )


def events(world: World) -> str:
    return str(
        world.sql(
            "SELECT group_concat(actor || ' ' || action || ' ' || subject) FROM account_event"
        )
    )


@pytest.mark.parametrize(
    ("resource", "bought"),
    [
        (RESOURCE, RESOURCE),
        (f"/v1/token/{TRACKED}", f"/v1/token/{TRACKED}"),
        (f"/v1/token/{UNTRACKED}", "/v1/token"),
        (f"/v1/token/{TRACKED}/swaps?limit=7", "/v1/token"),
    ],
)
async def test_an_orphan_with_a_valid_quote_does_not_stop_sales(
    world: World, money: Money, resource: Resource, bought: str
) -> None:
    _, signature = await lost(world, resource)

    assert await world.audit(full=True) == []
    assert await money.books.why_stopped() is None
    (orphan,) = await money.books.orphans()
    assert (orphan.signature, orphan.bought, orphan.amount) == (signature, bought, AMOUNT)
    assert orphan.payer == str(world.buyer.pubkey())
    assert await world.audit(full=True) == []
    assert await money.books.orphans() == [orphan]


async def test_an_orphan_is_removed_after_its_buyer_redeems_it(world: World, money: Money) -> None:
    payment, _ = await lost(world)
    await world.audit()

    assert isinstance(await buy(world.facilitator(), payment), Settled)
    assert await money.books.orphans() == []
    assert await world.audit(full=True) == []
    assert list(world.ledger().values()) == [10]


async def test_an_orphan_without_a_valid_quote_stops_sales_until_acknowledged(
    world: World, money: Money
) -> None:
    _, signature = await lost(world)
    world.secrets = OTHER_PEPPER
    assert await world.audit() == [Violation(Invariant.LANDED_IS_KNOWN, signature)]
    (orphan,) = await money.books.orphans()
    assert (orphan.signature, orphan.bought) == (signature, None)

    assert await acknowledge(world, money, signature) is Acknowledgement.DONE
    await money.books.resume_sales()
    for _ in range(2):
        assert await world.audit(full=True) == []
    assert await money.books.orphans() == []
    assert await money.books.why_stopped() is None


async def test_an_orphan_is_found_by_a_later_audit_after_an_outage(
    world: World, money: Money
) -> None:
    _, signature = await lost(world)
    world.go_wrong(calls={"getTransaction": {"kind": "http"}})
    with pytest.raises(ChainUnavailable):
        await world.audit()
    world.go_wrong()

    assert await world.audit() == []
    assert [each.signature for each in await money.books.orphans()] == [signature]


async def test_repeated_adoptions_issue_a_payment_once(world: World) -> None:
    _, signature = await lost(world)
    world.facilitator()
    adopters = [world.adopter() for _ in range(3)]
    adopted = await asyncio.gather(
        *(each.adopt(signature, by=COMMAND_LINE) for each in adopters for _ in range(3))
    )

    assert all(isinstance(each, Payment) and each.state is State.ISSUED for each in adopted)
    assert list(world.ledger().values()) == [10]
    assert events(world) == f"command line adopted payment:{signature}"
    assert await world.audit(full=True) == []


async def test_a_payment_is_issued_once_to_a_buyer_and_an_operator_at_once(world: World) -> None:
    """Two facilitators get the payment with the buyer's key while an operator adopts it."""
    payment, signature = await lost(world)
    facilitators = [world.facilitator() for _ in range(2)]
    adopter = world.adopter()
    outcomes = await asyncio.gather(
        *(buy(each, payment) for each in facilitators),
        adopter.adopt(signature, by=COMMAND_LINE),
        world.reconciler().once(),
    )

    assert world.sql("SELECT count(*) FROM payment") == 1
    assert list(world.ledger().values()) == [10]
    assert all(
        each == AlreadyUsed(Used.PAYMENT) or isinstance(each, Settled) for each in outcomes[:2]
    )
    assert await world.audit(full=True) == []


async def test_an_acknowledged_payment_is_never_issued(world: World, money: Money) -> None:
    payment, signature = await lost(world)
    await world.audit()
    assert await acknowledge(world, money, signature) is Acknowledgement.DONE
    assert await acknowledge(world, money, signature) is Acknowledgement.DONE_BEFORE
    world.seconds(600)

    facilitator = world.facilitator()
    assert await buy(facilitator, payment) == AlreadyUsed(Used.ACKNOWLEDGED)
    adopted = await world.adopter().adopt(signature, by=COMMAND_LINE)
    assert adopted is NotAdopted.ACKNOWLEDGED
    assert world.sql("SELECT count(*) FROM payment") == 0
    assert events(world) == f"command line acknowledged payment:{signature}"


async def test_an_issued_payment_cannot_be_acknowledged(world: World, money: Money) -> None:
    payment, signature = await lost(world)
    await world.audit()
    await buy(world.facilitator(), payment)

    assert await acknowledge(world, money, signature) is Acknowledgement.HAS_ROW
    assert isinstance(await buy(world.facilitator(), payment), Settled)


async def test_a_payment_cannot_be_acknowledged_before_an_audit_finds_it(
    world: World, money: Money
) -> None:
    _, signature = await lost(world)

    assert await acknowledge(world, money, signature) is Acknowledgement.UNKNOWN


@on_older_chain
async def test_a_payment_is_not_adopted_if_unknown_failed_not_final_or_foreign(
    world: World,
) -> None:
    facilitator = world.facilitator()
    adopter = world.adopter()
    unknown = Signature(str(world.buyer.sign_message(b"anything")))
    assert await adopter.adopt(unknown, by=COMMAND_LINE) is NotAdopted.NOT_FOUND

    world.go_wrong(landing={"kind": "failed", "times": 1})
    await buy(facilitator, world.pay(facilitator.require(RESOURCE, AMOUNT)))
    failed = Signature(world.sql("SELECT signature FROM payment"))
    world.go_wrong()
    forget_everything(world)
    world.seconds(FINAL_S)
    assert await adopter.adopt(failed, by=COMMAND_LINE) is NotAdopted.NOT_FINAL

    _, fresh = await lost(world, final_s=0)
    assert await adopter.adopt(fresh, by=COMMAND_LINE) is NotAdopted.NOT_FINAL
    world.seconds(FINAL_S)
    stranger = Wallet(str(world.fund("stranger").pubkey()))
    assert await adopter.adopt(fresh, by=COMMAND_LINE, payer=stranger) is NotAdopted.OTHER_PAYER
    world.secrets = OTHER_PEPPER
    assert await adopter.adopt(fresh, by=COMMAND_LINE) is NotAdopted.NO_QUOTE
    world.secrets = SECRETS
    assert world.sql("SELECT count(*) FROM payment") == 0
    assert isinstance(await adopter.adopt(fresh, by=COMMAND_LINE), Payment)


async def test_a_payment_of_another_price_or_resource_is_not_recognised(world: World) -> None:
    """The amount and the resource of a payment must be those of its quote."""
    facilitator = world.facilitator()
    cheap = facilitator.require(RESOURCE, AMOUNT - 1)
    for changes in (
        {"amount": AMOUNT},
        {"memo": facilitator.require(Resource("/else"), AMOUNT).memo.encode()},
    ):
        wire = world.pay(cheap, **changes).transaction
        assert await world.recognise(wire) is None
    assert await world.recognise(b"") is None
    assert await world.recognise(world.pay(cheap).transaction) is not None


class CountingLog(FakeLog):
    """A log with one tracked mint, which counts how often all tracked mints are read."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0
        self.track(Mint(TRACKED))

    @override
    async def tracked(self) -> tuple[int, frozenset[Mint]]:
        self.lists += 1
        return await super().tracked()


def adopter_over(world: World, money: Money, log: CountingLog) -> Adopter:
    """Return the part that completes payments without rows; it reads mints from *log*."""
    known = [world.terms, world.usdc_terms]
    return adopter_of(world.chains[-1], known, money, log, world.clock)


def noted(world: World, text: bytes, payer: Keypair, *signers: Keypair) -> Signature:
    """Send a memo-only transaction of strangers, wait until it is final; return its signature."""
    accounts = [meta(each.pubkey(), signer=True) for each in signers]
    memo = Instruction(MEMO, text, accounts)
    message = MessageV0.try_compile(payer.pubkey(), [memo], [], world.blockhash())
    sent = VersionedTransaction(message, [payer, *signers])
    coded = b64encode(bytes(sent)).decode()
    world.methods.call("sendTransaction", [coded, {"encoding": "base64"}])
    world.seconds(FINAL_S)
    return Signature(str(sent.signatures[0]))


@pytest.fixture
async def own_money(world: World) -> AsyncIterator[Money]:
    """Yield the stores of *world*, opened with the pepper of its sales."""
    folder = world.path.parent
    async with money_in(folder, pepper=SECRETS.pepper, clock=world.clock) as money:
        yield money


@pytest.mark.parametrize("signer_count", [1, 2])
async def test_a_transaction_of_strangers_is_refused_without_reading_all_mints(
    world: World, own_money: Money, signer_count: int
) -> None:
    """Anyone can report any signature to the service, and it takes long to read all mints."""
    quote = world.facilitator().require(RESOURCE, AMOUNT).memo.encode()
    strangers: Sequence[Keypair] = [world.fund(f"stranger {n}") for n in range(signer_count)]
    signature = noted(world, quote, *strangers)
    log = CountingLog()

    adopted = await adopter_over(world, own_money, log).adopt(signature, by=COMMAND_LINE)
    assert adopted is NotAdopted.NO_QUOTE
    assert log.lists == 0


@pytest.mark.parametrize(
    ("resource", "bought", "lists"),
    [
        (RESOURCE, RESOURCE, 0),
        (f"/v1/token/{TRACKED}", f"/v1/token/{TRACKED}", 1),
        (f"/v1/token/{TRACKED}/candles?tf=m5", f"/v1/token/{TRACKED}/candles?tf=m5", 1),
        (f"/v1/token/{UNTRACKED}", "/v1/token", 1),
        ("/v1/screen?where=rsi_h1+%3C+30", "/v1/screen", 0),
        ("/else", None, 0),
    ],
)
async def test_all_mints_are_read_only_for_a_quote_of_a_token(
    world: World, own_money: Money, resource: Resource, bought: str | None, lists: int
) -> None:
    _, signature = await lost(world, resource)
    log = CountingLog()

    adopted = await adopter_over(world, own_money, log).adopt(signature, by=COMMAND_LINE)
    found = adopted.resource if isinstance(adopted, Payment) else None
    assert found == bought
    assert log.lists == lists
