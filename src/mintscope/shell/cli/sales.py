"""`mintscope sales`: look at sales, resume them after a violation, settle what a restore lost."""

from typing import Annotated, Final, TypeAlias

import typer
from solders.signature import Signature as Ed25519

from mintscope.base.clock import SystemClock
from mintscope.base.primitives import Signature
from mintscope.client.keypair import UnusableKeypair
from mintscope.core.accounts.audit import COMMAND_LINE
from mintscope.core.payments.adopter import NotAdopted
from mintscope.core.payments.books.closure import find_closure
from mintscope.core.payments.books.orphans import Acknowledgement
from mintscope.core.payments.payment import Payment
from mintscope.core.payments.settlement import ChainUnavailable
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import AsJson, moment, print_json, print_rows, stop
from mintscope.shell.cli.stores import EXIT_NOT_DONE, with_money
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.wiring.payments import budget_of, open_adopter
from mintscope.shell.wiring.processes.operating import write_counted
from mintscope.shell.wiring.selling.terms import CannotSell
from mintscope.shell.wiring.stores import Money, open_market

NOTE_LENGTH_MAX: Final = 200
NOT_ADOPTED: Final = {
    NotAdopted.NOT_FOUND: "the chain has no such transaction; look the signature up in an explorer",
    NotAdopted.NOT_FINAL: "the transaction is not final yet, or it failed: try again in a minute",
    NotAdopted.NO_QUOTE: (
        "the transaction carries no quote of this service: was it made with another pepper? If it"
        " was settled in another way, acknowledge it"
    ),
    NotAdopted.OTHER_PAYER: "another wallet has paid",
    NotAdopted.ACKNOWLEDGED: "the payment was acknowledged: it is settled for good",
}
NOT_ACKNOWLEDGED: Final = {
    Acknowledgement.HAS_ROW: "the payment has a row: it is handed out, and there is nothing to do",
    Acknowledgement.UNKNOWN: (
        "no audit has met this payment: `mintscope sales orphans` lists those that were met"
    ),
}

PaymentSignature: TypeAlias = Annotated[
    str, typer.Argument(metavar="SIGNATURE", help="Of the transaction on chain, in base58.")
]

app = typer.Typer()
sales_commands = typer.Typer(
    help="Look at sales, resume them, and settle payments that a restore lost.",
    no_args_is_help=True,
)
app.add_typer(sales_commands, name="sales")


@sales_commands.command("status")
def sales_status(*, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Print whether sales are open, and how many payments are pending."""
    payments = configured(config).config.payments

    async def read(money: Money) -> tuple[str, int, int]:
        count, _ = await money.sales_books.pending()
        orphans = await money.orphan_books.orphans()
        return await _state(money, payments), count, len(orphans)

    state, count, orphan_count = with_money(config, read)
    if as_json:
        print_json({"state": state, "pendingPayments": count, "orphans": orphan_count})
        return
    print(state)
    print(f"{count} payments pending")
    if orphan_count:
        print(f"{orphan_count} payments on chain have no row: mintscope sales orphans")


@sales_commands.command("resume")
def sales_resume(config: ConfigFile = None) -> None:
    """Resume sales.  Find out first what stopped them, or the next audit stops them again."""
    payments = configured(config).config.payments

    async def resume(money: Money) -> str:
        await money.sales_books.resume_sales()
        return await _state(money, payments)

    print(with_money(config, resume))


@sales_commands.command("orphans")
def sales_orphans(*, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the payments on chain that have no row here: they are newer than the restored backup.

    A payment whose BOUGHT is known stops nothing: its buyer gets it with the payment and its key,
    or with the wallet that paid.  `adopt` and `acknowledge` settle a payment for good.
    """
    orphans = with_money(config, lambda money: money.orphan_books.orphans())
    rows = [
        (each.signature, each.payer, each.amount, each.bought, moment(each.found_at))
        for each in orphans
    ]
    print_rows(("signature", "payer", "atoms", "bought", "found"), rows, as_json=as_json)


@sales_commands.command("adopt")
def sales_adopt(
    signature: PaymentSignature, *, as_json: AsJson = False, config: ConfigFile = None
) -> None:
    """Hand out what the payment SIGNATURE bought, to the wallet that paid.

    The chain is asked.  The wallet moves the credits to a credit token of its own with POST
    /v1/credits/rotate.  A payment of a single report becomes one credit.  Adopting a payment
    again changes nothing.
    """
    found = _parsed(signature)

    async def adopt(money: Money) -> Payment | NotAdopted:
        settings = configured(config).config
        clock = SystemClock()
        async with (
            open_market(settings) as market,
            open_adopter(settings, money=money, reader=market.reader, clock=clock) as adopter,
        ):
            adopted = await adopter.adopt(found, by=COMMAND_LINE)
            await write_counted(money, clock)
            return adopted

    try:
        payment = with_money(config, adopt)
    except (CannotSell, UnusableKeypair) as error:
        stop(str(error), EXIT_NOT_DONE)
    except ChainUnavailable as error:
        stop(f"the chain's node does not answer: {error}", EXIT_NOT_DONE)
    if isinstance(payment, NotAdopted):
        stop(NOT_ADOPTED[payment], EXIT_NOT_DONE)
    row = (payment.signature, payment.payer, payment.resource, str(payment.state))
    print_rows(("signature", "payer", "bought", "state"), [row], as_json=as_json)


@sales_commands.command("acknowledge")
def sales_acknowledge(
    signature: PaymentSignature,
    note: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="How it was settled: the audit log keeps it.",
        ),
    ],
    *,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Settle the payment SIGNATURE in another way, for good: it buys nothing here any more.

    For a payment that was refunded, or made up for with `mintscope credits issue`.  Audits do not
    speak of it again.  Acknowledging a payment again changes nothing.
    """
    found = _parsed(signature)
    if not note.strip() or len(note) > NOTE_LENGTH_MAX or not note.isprintable():
        raise typer.BadParameter(
            f"expected 1 to {NOTE_LENGTH_MAX} printable characters", param_hint="--note"
        )

    async def acknowledge(money: Money) -> Acknowledgement:
        now = SystemClock().now()
        return await money.orphan_books.acknowledge(found, note=note, by=COMMAND_LINE, now=now)

    done = with_money(config, acknowledge)
    if done in NOT_ACKNOWLEDGED:
        stop(NOT_ACKNOWLEDGED[done], EXIT_NOT_DONE)
    print_rows(("signature", "state"), [(found, "acknowledged")], as_json=as_json)


def _parsed(text: str) -> Signature:
    try:
        return Signature(str(Ed25519.from_string(text)))
    except ValueError:
        raise typer.BadParameter(
            "expected the signature of a transaction, the base58 of 64 bytes",
            param_hint="SIGNATURE",
        ) from None


async def _state(money: Money, payments: PaymentsConfig) -> str:
    why = await money.sales_books.why_stopped()
    if why is not None:
        return f"stopped: {why}"
    if not payments.enabled:
        return "off: payments.enabled is false"
    at_risk = await money.sales_books.fees_at_risk(now=SystemClock().now())
    closure = find_closure(at_risk, budget_of(payments), is_stopped=False)
    return "open" if closure is None else f"closed: {closure.why}"
