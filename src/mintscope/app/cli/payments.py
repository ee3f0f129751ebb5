"""Commands about payments and sales."""

import re
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import typer
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.accounts.factor_rows import UserKind
from mintscope.accounts.rows import AccountRows
from mintscope.app.cli import output
from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.stores import with_money
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.payments import CannotSell, ChainAnswers, ask_chain, budget_of, open_adopter
from mintscope.app.running.operating import assets_of, write_counted
from mintscope.app.stores.stores import Money, open_market
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.clock import Clock, SystemClock
from mintscope.kit.credentials import CredentialKind, has_form
from mintscope.kit.primitives import Mint, Signature, Wallet
from mintscope.payments import search
from mintscope.payments.audit import Acknowledgement, find_closure
from mintscope.payments.merchant import NotAdopted
from mintscope.payments.payment import Payment
from mintscope.payments.ports import ChainUnavailable
from mintscope_client.keypair import UnusableKeypair

HINT: Final = re.compile(r"(?:\.\.\.)?([0-9a-f]{8})")
HINT_LENGTH: Final = 8
EXPECTED: Final = (
    "expected the signature of a transaction, a wallet, an e-mail address, or the last"
    f" {HINT_LENGTH} characters of a credit token"
)

app = typer.Typer()
payment_commands = typer.Typer(
    help="Find the outcome of a payment, for a customer who asks.", no_args_is_help=True
)
app.add_typer(payment_commands, name="payments")

Facts = dict[str, str | int | bool | None]


@payment_commands.command("find")
def find(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="The signature of a transaction, the wallet that paid, the e-mail address of an"
            f" account, or the last {HINT_LENGTH} characters of a credit token.",
        ),
    ],
    *,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show outcomes of payments: amount, time, purchase, who has the credits now, and what to do.

    Reads the store, and the chain if payments are configured; changes nothing.  Prints a text for
    the customer with each payment.  Exits with 1 if no payment was found.
    """
    settings = configured(config).config
    text = what.strip()

    async def look(money: Money) -> tuple[list[Facts], Facts]:
        looked, wanted = await _wanted(text, money)
        kept = await money.read_books.search(wanted)
        return await _looked_up(settings, money, wanted, kept), _places(looked, wanted, kept)

    found, places = with_money(config, look)
    if as_json:
        output.print_json({"found": found, "lookedAt": places})
    else:
        _print(found, places)
    if not any(each["signature"] for each in found):
        raise typer.Exit(output.EXIT_NOT_DONE)


async def _wanted(text: str, money: Money) -> tuple[str, search.Wanted]:
    """Return the kind of *text* in words, such as "wallet", and the payments to search for.

    Text of no known kind is a usage error.  A whole credit token is accepted with a warning on
    stderr.
    """
    if _is_base58(text, Ed25519):
        return "signature", search.Wanted(signatures=[Signature(text)])
    if _is_base58(text, Pubkey):
        return "wallet", search.Wanted(payers=[Wallet(text)])
    if has_form(CredentialKind.CREDIT_TOKEN, text):
        typer.echo(
            f"Only the last {HINT_LENGTH} characters of a credit token are needed. Do not ask"
            " customers for all of it: it is a secret.",
            err=True,
        )
        return "credit token", search.Wanted(hint=text[-HINT_LENGTH:])
    hint = HINT.fullmatch(text.lower())
    if hint is not None:
        return "credit token", search.Wanted(hint=hint[1])
    if "@" not in text:
        raise typer.BadParameter(EXPECTED, param_hint="WHAT")
    with output.refusing("WHAT", UnusableEmailAddress):
        email = parse_email(text)

    def read(rows: AccountRows) -> search.Wanted:
        users = [kept.user for kind in UserKind for kept in rows.users.of_email(email, kind)]
        wallets = [each for user in users for each in rows.wallets.of_user(user.user_id)]
        accounts = [rows.credits.find(user.user_id) for user in users]
        return search.Wanted(
            payers=[each.wallet for each in wallets],
            accounts=[each for each in accounts if each is not None],
        )

    return "e-mail address", await money.accounts.read(read)


def _is_base58(text: str, kind: type[Ed25519] | type[Pubkey]) -> bool:
    try:
        kind.from_string(text)
    except ValueError:
        return False
    return True


async def _looked_up(
    settings: Config, money: Money, wanted: search.Wanted, kept: search.Kept
) -> list[Facts]:
    """Return the facts about payments and orphans in *kept*, for `mintscope payments find`.

    If there are none, return the state on chain of the signature that is searched for; if no
    signature is searched for, return an empty list.
    """
    clock = SystemClock()
    signatures = [each.signature for each in kept.payments]
    answers = await ask_chain(settings, money, clock, signatures, has_row=True)
    found = [_payment(each, answers, settings.payments, clock) for each in kept.payments]
    found += [_orphan(each, settings.payments) for each in kept.orphans]
    if found or not wanted.signatures:
        return found
    (signature,) = wanted.signatures
    answers = await ask_chain(settings, money, clock, [signature], has_row=False)
    seen = answers.seen.get(signature)
    says = search.chain_says(None if seen is None else seen.sighting, answers.why_not)
    return [
        {"unknown": signature, "signature": None, "chain": says}
        | _advised(search.advise_unknown(signature, seen))
    ]


def _payment(
    payment: search.KeptPayment, answers: ChainAnswers, terms: PaymentsConfig, clock: Clock
) -> Facts:
    seen = answers.seen.get(payment.signature)
    sighting = None if seen is None else seen.sighting
    holder = payment.holder
    facts: Facts = {
        "signature": payment.signature,
        "payer": payment.payer,
        "begunAt": output.moment(payment.begun_at),
        "state": str(payment.state),
        "reason": payment.reason,
        "isFinal": payment.final,
        "changedAt": output.moment(payment.resolved_at),
        "asked": _amount(payment.amount, payment.asset, terms),
        "arrived": _amount(payment.paid, payment.asset, terms) if payment.paid else None,
        "bought": payment.resource,
        "credits": payment.credit_count,
        "creditsTakenBack": payment.frozen,
        "creditToken": f"...{payment.hint}" if payment.hint else None,
        "creditsNowOn": None if holder is None else f"...{holder.hint}" if holder.hint else None,
        "creditsNowOfUser": None if holder is None else holder.owner,
        "creditsLeft": None if holder is None else holder.balance,
        "chain": search.chain_says(sighting, answers.why_not),
    }
    return facts | _advised(search.advise(payment, sighting, clock.now()))


def _orphan(orphan: search.KeptOrphan, terms: PaymentsConfig) -> Facts:
    amount = orphan.amount
    facts: Facts = {
        "signature": orphan.signature,
        "payer": orphan.payer,
        "state": "orphan" if orphan.acknowledged_at is None else "acknowledged",
        "foundAt": output.moment(orphan.found_at),
        "acknowledgedAt": output.moment(orphan.acknowledged_at),
        "arrived": None if amount is None else _amount(amount, orphan.asset, terms),
        "bought": orphan.bought,
        "chain": "landed, as an audit has seen",
    }
    return facts | _advised(search.advise_orphan(orphan))


def _advised(advice: search.Advice) -> Facts:
    return {"finding": str(advice.finding), "do": advice.do, "textForCustomer": advice.text}


def _amount(atoms: int, asset: Mint | None, terms: PaymentsConfig) -> str:
    return assets_of(terms).amount(atoms, asset).replace(",", "")


def _places(looked: str, wanted: search.Wanted, kept: search.Kept) -> Facts:
    return {
        "by": looked,
        "wallets": len(wanted.payers),
        "accounts": len(wanted.accounts),
        "payments": kept.payment_count,
        "orphans": kept.orphan_count,
        "creditTokens": kept.token_count,
        "limit": search.FOUND_MAX,
    }


def _print(found: Sequence[Facts], places: Facts) -> None:
    for facts in found:
        for name, value in facts.items():
            if value is None or name in {"do", "textForCustomer"}:
                continue
            label = re.sub("[A-Z]", lambda capital: f" {capital[0].lower()}", name)
            print(f"{label:18}  {output.visible(str(value))}")
        print(f"\nTo do: {output.visible(str(facts['do']))}.")
        print(f"\nTo the customer:\n\n    {output.visible(str(facts['textForCustomer']))}\n")
    if not found:
        print("Nothing was found.")
    of_account = f", with {places['wallets']} linked wallets and {places['accounts']} accounts"
    print(
        f"Searched by {places['by']}{of_account if places['by'] == 'e-mail address' else ''}: among"
        f" {places['payments']} payments, {places['orphans']} payments on chain without a row and"
        f" {places['creditTokens']} credit tokens. The newest {places['limit']} of each are shown."
    )


NOTE_LENGTH_MAX: Final = 200
NOT_ADOPTED: Final = {
    NotAdopted.NOT_FOUND: "the chain has no such transaction; look the signature up in an explorer",
    NotAdopted.NOT_FINAL: "the transaction is not final yet, or it failed: try again in a minute",
    NotAdopted.NO_QUOTE: (
        "the transaction has no quote of this service: was the quote made with another pepper? If"
        " the payment was settled in another way, acknowledge it"
    ),
    NotAdopted.OTHER_PAYER: "another wallet has paid",
    NotAdopted.ACKNOWLEDGED: "the payment was acknowledged: it is settled for good",
}
NOT_ACKNOWLEDGED: Final = {
    Acknowledgement.HAS_ROW: "the payment has a row: it is issued, and there is nothing to do",
    Acknowledgement.UNKNOWN: (
        "no audit has found this payment: `mintscope sales orphans` lists the payments that audits"
        " found"
    ),
}

PaymentSignature: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="SIGNATURE", help="Signature of the transaction on chain, in base58."),
]

sales_commands = typer.Typer(
    help="Show and resume sales, and settle payments that a restore lost.", no_args_is_help=True
)
app.add_typer(sales_commands, name="sales")


@sales_commands.command("status")
def sales_status(*, as_json: output.AsJson = False, config: ConfigFile = None) -> None:
    """Print whether sales are open, and the numbers of pending payments and of orphans."""
    payments = configured(config).config.payments

    async def read(money: Money) -> tuple[str, int, int]:
        count, _ = await money.books.pending()
        orphans = await money.books.orphans()
        return await _state(money, payments), count, len(orphans)

    state, count, orphan_count = with_money(config, read)
    if as_json:
        output.print_json({"state": state, "pendingPayments": count, "orphans": orphan_count})
        return
    print(state)
    print(f"{count} payments pending")
    if orphan_count:
        print(f"{orphan_count} payments on chain have no row: mintscope sales orphans")


@sales_commands.command("resume")
def sales_resume(config: ConfigFile = None) -> None:
    """Resume sales.  First remove the reason why they stopped, or the next audit stops them."""
    payments = configured(config).config.payments

    async def resume(money: Money) -> str:
        await money.books.resume_sales()
        return await _state(money, payments)

    print(with_money(config, resume))


@sales_commands.command("orphans")
def sales_orphans(*, as_json: output.AsJson = False, config: ConfigFile = None) -> None:
    """List payments on chain that have no row here, because the restored backup is older.

    A payment whose BOUGHT is known does not stop sales: the buyer gets the purchase with the
    payment and its key, or with the wallet that paid.  `adopt` and `acknowledge` settle a payment
    for good.
    """
    orphans = with_money(config, lambda money: money.books.orphans())
    rows = [
        (each.signature, each.payer, each.amount, each.bought, output.moment(each.found_at))
        for each in orphans
    ]
    output.print_rows(("signature", "payer", "atoms", "bought", "found"), rows, as_json=as_json)


@sales_commands.command("adopt")
def sales_adopt(
    signature: PaymentSignature, *, as_json: output.AsJson = False, config: ConfigFile = None
) -> None:
    """Hand out the purchase of the payment SIGNATURE, to the wallet that paid.

    The payment is read from the chain.  The wallet moves the credits to a credit token of its own
    with POST /v1/credits/rotate.  A payment of a single report becomes one credit.  Adopting a
    payment again changes nothing.
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
        output.stop(str(error), output.EXIT_NOT_DONE)
    except ChainUnavailable as error:
        output.stop(f"the chain's node does not answer: {error}", output.EXIT_NOT_DONE)
    if isinstance(payment, NotAdopted):
        output.stop(NOT_ADOPTED[payment], output.EXIT_NOT_DONE)
    row = (payment.signature, payment.payer, payment.resource, str(payment.state))
    output.print_rows(("signature", "payer", "bought", "state"), [row], as_json=as_json)


@sales_commands.command("acknowledge")
def sales_acknowledge(
    signature: PaymentSignature,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="How the payment was settled, for the audit log.")
    ],
    *,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Record that the payment SIGNATURE was settled in another way: it no longer buys anything.

    Use this for a payment that was refunded, or replaced with `mintscope credits issue`.  Later
    audits do not report the payment.  Acknowledging a payment again changes nothing.
    """
    found = _parsed(signature)
    if not note.strip() or len(note) > NOTE_LENGTH_MAX or not note.isprintable():
        raise typer.BadParameter(
            f"expected 1 to {NOTE_LENGTH_MAX} printable characters", param_hint="--note"
        )

    async def acknowledge(money: Money) -> Acknowledgement:
        now = SystemClock().now()
        return await money.books.acknowledge(found, note=note, by=COMMAND_LINE, now=now)

    done = with_money(config, acknowledge)
    if done in NOT_ACKNOWLEDGED:
        output.stop(NOT_ACKNOWLEDGED[done], output.EXIT_NOT_DONE)
    output.print_rows(("signature", "state"), [(found, "acknowledged")], as_json=as_json)


def _parsed(text: str) -> Signature:
    try:
        return Signature(str(Ed25519.from_string(text)))
    except ValueError:
        raise typer.BadParameter(
            "expected the signature of a transaction, the base58 of 64 bytes",
            param_hint="SIGNATURE",
        ) from None


async def _state(money: Money, payments: PaymentsConfig) -> str:
    why = await money.books.why_stopped()
    if why is not None:
        return f"stopped: {why}"
    if not payments.enabled:
        return "off: payments.enabled is false"
    at_risk = await money.books.fees_at_risk(now=SystemClock().now())
    closure = find_closure(at_risk, budget_of(payments), is_stopped=False)
    return "open" if closure is None else f"closed: {closure.why}"
