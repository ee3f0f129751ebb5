"""`mintscope payments`: the outcome of a payment, for a customer who asks."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.base.clock import Clock, SystemClock
from mintscope.base.credentials import CredentialKind, has_form
from mintscope.base.primitives import Mint, Signature, Wallet
from mintscope.core.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import UserKind
from mintscope.core.payments.books.search import (
    FOUND_MAX,
    Advice,
    Kept,
    KeptOrphan,
    KeptPayment,
    Wanted,
    advise,
    advise_orphan,
    advise_unknown,
    chain_says,
)
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import AsJson, moment, print_json, refusing, visible
from mintscope.shell.cli.stores import EXIT_NOT_DONE, with_money
from mintscope.shell.config.config import Config
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.wiring.selling.search import ChainAnswers, ask_chain
from mintscope.shell.wiring.selling.terms import USDC_DECIMALS
from mintscope.shell.wiring.stores import Money

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
            help=(
                "The signature of a transaction, the wallet that paid, the e-mail address of an"
                f" account, or the last {HINT_LENGTH} characters of a credit token."
            ),
        ),
    ],
    *,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show the outcome of payments: amount, time, purchase, holder now, and what to do.

    Only reads: the store, and the chain if payments are configured.  Prints a text for the
    customer with each payment.  Exit code 1 if nothing was found.
    """
    settings = configured(config).config
    text = what.strip()

    async def look(money: Money) -> tuple[list[Facts], Facts]:
        looked, wanted = await _wanted(text, money)
        kept = await money.payment_search.search(wanted)
        return await _looked_up(settings, money, wanted, kept), _places(looked, wanted, kept)

    found, places = with_money(config, look)
    if as_json:
        print_json({"found": found, "lookedAt": places})
    else:
        _print(found, places)
    if not any(each["signature"] for each in found):
        raise typer.Exit(EXIT_NOT_DONE)


async def _wanted(text: str, money: Money) -> tuple[str, Wanted]:
    """Return the kind of *text*, in words, and the search for it."""
    if _is_base58(text, Ed25519):
        return "signature", Wanted(signatures=[Signature(text)])
    if _is_base58(text, Pubkey):
        return "wallet", Wanted(payers=[Wallet(text)])
    if has_form(CredentialKind.CREDIT_TOKEN, text):
        typer.echo(
            f"Only the last {HINT_LENGTH} characters of a credit token are needed. Do not ask"
            " customers for all of it: it is a secret.",
            err=True,
        )
        return "credit token", Wanted(hint=text[-HINT_LENGTH:])
    hint = HINT.fullmatch(text.lower())
    if hint is not None:
        return "credit token", Wanted(hint=hint[1])
    if "@" not in text:
        raise typer.BadParameter(EXPECTED, param_hint="WHAT")
    with refusing("WHAT", UnusableEmailAddress):
        email = parse_email(text)

    def read(rows: AccountRows) -> Wanted:
        users = [kept.user for kind in UserKind for kept in rows.users.of_email(email, kind)]
        wallets = [each for user in users for each in rows.wallets.of_user(user.user_id)]
        accounts = [rows.credits.find(user.user_id) for user in users]
        return Wanted(
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


async def _looked_up(settings: Config, money: Money, wanted: Wanted, kept: Kept) -> list[Facts]:
    """Return the facts of each payment that was found, with those of the chain."""
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
    says = chain_says(None if seen is None else seen.sighting, answers.why_not)
    return [
        {"unknown": signature, "signature": None, "chain": says}
        | _advised(advise_unknown(signature, seen))
    ]


def _payment(
    payment: KeptPayment, answers: ChainAnswers, terms: PaymentsConfig, clock: Clock
) -> Facts:
    seen = answers.seen.get(payment.signature)
    sighting = None if seen is None else seen.sighting
    holder = payment.holder
    facts: Facts = {
        "signature": payment.signature,
        "payer": payment.payer,
        "begunAt": moment(payment.begun_at),
        "state": str(payment.state),
        "reason": payment.reason,
        "isFinal": payment.final,
        "changedAt": moment(payment.resolved_at),
        "asked": _amount(payment.amount, payment.asset, terms),
        "arrived": _amount(payment.paid, payment.asset, terms) if payment.paid else None,
        "bought": payment.resource,
        "credits": payment.credit_count,
        "creditsTakenBack": payment.frozen,
        "creditToken": f"...{payment.hint}" if payment.hint else None,
        "creditsNowOn": None if holder is None else f"...{holder.hint}" if holder.hint else None,
        "creditsNowOfUser": None if holder is None else holder.owner,
        "creditsLeft": None if holder is None else holder.balance,
        "chain": chain_says(sighting, answers.why_not),
    }
    return facts | _advised(advise(payment, sighting, clock.now()))


def _orphan(orphan: KeptOrphan, terms: PaymentsConfig) -> Facts:
    amount = orphan.amount
    facts: Facts = {
        "signature": orphan.signature,
        "payer": orphan.payer,
        "state": "orphan" if orphan.acknowledged_at is None else "acknowledged",
        "foundAt": moment(orphan.found_at),
        "acknowledgedAt": moment(orphan.acknowledged_at),
        "arrived": None if amount is None else _amount(amount, orphan.asset, terms),
        "bought": orphan.bought,
        "chain": "landed, as an audit has seen",
    }
    return facts | _advised(advise_orphan(orphan))


def _advised(advice: Advice) -> Facts:
    return {"finding": str(advice.finding), "do": advice.do, "textForCustomer": advice.text}


def _amount(atoms: int, asset: Mint | None, terms: PaymentsConfig) -> str:
    """Return *atoms* in whole tokens if the token is one of ours."""
    if asset in {None, terms.asset}:
        return f"{_whole(atoms, terms.decimals)} {terms.asset_symbol}"
    if asset == terms.usdc_mint:
        return f"{_whole(atoms, USDC_DECIMALS)} USDC"
    return f"{atoms} atoms of {asset}"


def _whole(atoms: int, decimals: int) -> str:
    whole, rest = divmod(atoms, 10**decimals)
    digits = f"{rest:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _places(looked: str, wanted: Wanted, kept: Kept) -> Facts:
    """Return the extent of the search, which a search without results shows."""
    return {
        "by": looked,
        "wallets": len(wanted.payers),
        "accounts": len(wanted.accounts),
        "payments": kept.payment_count,
        "orphans": kept.orphan_count,
        "creditTokens": kept.token_count,
        "limit": FOUND_MAX,
    }


def _print(found: Sequence[Facts], places: Facts) -> None:
    for facts in found:
        for name, value in facts.items():
            if value is None or name in {"do", "textForCustomer"}:
                continue
            label = re.sub("[A-Z]", lambda capital: f" {capital[0].lower()}", name)
            print(f"{label:18}  {visible(str(value))}")
        print(f"\nTo do: {visible(str(facts['do']))}.")
        print(f"\nTo the customer:\n\n    {visible(str(facts['textForCustomer']))}\n")
    if not found:
        print("Nothing was found.")
    of_account = f", with {places['wallets']} linked wallets and {places['accounts']} accounts"
    print(
        f"Looked by {places['by']}{of_account if places['by'] == 'e-mail address' else ''}: among"
        f" {places['payments']} payments, {places['orphans']} payments on chain without a row and"
        f" {places['creditTokens']} credit tokens. The newest {places['limit']} of each are shown."
    )
