"""`mintscope buy`: pay a mintscope service from a wallet, over its public API.

A pending payment is stored in a file: after an interruption, the same command resumes it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import httpx
import msgspec
import typer
from solders.keypair import Keypair
from typer.core import TyperGroup
from typing_extensions import override

from mintscope.app.cli.output import refusing
from mintscope.kit.errors import InvalidTokenAddress
from mintscope.kit.primitives import Mint, Wallet, parse_mint
from mintscope.payments.protocol.envelope import AMOUNT_MAX, MAINNET, TOKEN_PROGRAM
from mintscope.solana.blocks import USDC
from mintscope_client.auth import PaymentAuth
from mintscope_client.buyer import BoughtCredits, Buyer
from mintscope_client.calls.opening import open_session
from mintscope_client.errors import ClientError, PendingError, RefusedError
from mintscope_client.journal import Journal, JournalUnusable
from mintscope_client.keypair import UnusableKeypair, read_keypair
from mintscope_client.transport import BoundedTransport
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit, WillNotPay

EXIT_NOT_BOUGHT: Final = 1
DECIMALS_MAX: Final = 18

T = TypeVar("T")

app = typer.Typer()


class BuyGroup(TyperGroup):
    """A group that shows the help of its commands even if its own required options are missing."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print help and exit if *args* request help, else parse; typer has no type for *ctx*."""
        if not {*ctx.help_option_names} & {*args}:
            return super().parse_args(ctx, args)
        named = next((name for name in args if name in self.commands), None)
        if named is not None:
            ctx = typer.Context(self.commands[named], info_name=named, parent=ctx)
        typer.echo(ctx.get_help())
        raise typer.Exit


buy_commands = typer.Typer(
    cls=BuyGroup, help="Pay a mintscope service from a wallet.", no_args_is_help=True
)
app.add_typer(buy_commands, name="buy")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuyOptions:
    """The options of `mintscope buy`: the service and the wallet."""

    url: str
    rpc_url: str | None
    wallet: PayerWallet
    folder: Path


@buy_commands.callback()
def prepare(
    context: typer.Context,
    url: Annotated[
        str, typer.Option(metavar="URL", help="URL of the service, as in https://api.example.")
    ],
    wallet: Annotated[
        Path, typer.Option("--wallet", metavar="FILE", help="A Solana keypair file.")
    ],
    asset: Annotated[
        str,
        typer.Option(
            metavar="MINT",
            help="The mint of the token to pay with, or `usdc`; no other token is used.",
        ),
    ],
    pay_to: Annotated[
        str, typer.Option(metavar="WALLET", help="The wallet to pay; no other wallet is paid.")
    ],
    most: Annotated[
        str,
        typer.Option("--max", metavar="AMOUNT", help="The largest amount to pay, in whole tokens."),
    ],
    rpc: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of a Solana node, for outcomes of payments, and for a blockhash if the"
            " service gives none.",
        ),
    ] = None,
    decimals: Annotated[
        int, typer.Option(metavar="N", help="The token's decimals.", min=0, max=DECIMALS_MAX)
    ] = 6,
    program: Annotated[
        str, typer.Option(metavar="PROGRAM", help="The token program that owns the mint.")
    ] = TOKEN_PROGRAM,
    network: Annotated[
        str, typer.Option(metavar="NETWORK", help="The chain, as a CAIP-2 identifier.")
    ] = MAINNET,
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal",
            metavar="FOLDER",
            help="Folder for pending payments; by default beside the wallet.",
        ),
    ] = None,
) -> None:
    """Pay a mintscope service from a wallet."""
    pin = Pin(
        network=network,
        asset=USDC if asset.lower() == "usdc" else _address(asset, "--asset"),
        decimals=decimals,
        pay_to=Wallet(_address(pay_to, "--pay-to")),
        token_program=Wallet(_address(program, "--program")),
    )
    atoms = _atoms(most, decimals)
    payer = PayerWallet(
        keypair=_keypair(wallet),
        pin=pin,
        limit=SpendLimit(atoms_per_payment=atoms, atoms_in_all=atoms),
    )
    with refusing("--url", ValueError):
        open_session(url)
    folder = journal or wallet.with_name(f"{wallet.name}.payments")
    context.obj = BuyOptions(url=url, rpc_url=rpc, wallet=payer, folder=folder)


@buy_commands.command("credits")
def buy_credits(
    context: typer.Context,
    credit_count: Annotated[int, typer.Argument(metavar="CREDITS", help="10, 50, 100 or 500.")],
) -> None:
    """Buy a bundle of credits; the credit token is printed once."""
    _run(context, lambda buyer: buyer.buy_credits(credit_count), _show_token)


@buy_commands.command("request")
def buy_request(
    context: typer.Context,
    mint: Annotated[
        str, typer.Argument(metavar="MINT", help="The token whose report is requested.")
    ],
) -> None:
    """Buy one report and print it as JSON."""
    address = _address(mint, "MINT")
    _run(context, lambda buyer: buyer.request(address), _show_report)


def _show_token(bought: BoughtCredits) -> None:
    print(bought.token, flush=True)
    typer.echo(
        f"{bought.credits} credits for {bought.price_paid} atoms."
        " The token is shown once: keep it like a password.",
        err=True,
    )


def _show_report(report: dict[str, Any]) -> None:
    print(msgspec.json.format(msgspec.json.encode(report)).decode(), flush=True)


def _run(
    context: typer.Context, buy: Callable[[Buyer], Awaitable[T]], show: Callable[[T], None]
) -> None:
    """Buy, and show the purchase; on a failure, print the reason and exit with EXIT_NOT_BOUGHT."""
    purchase: BuyOptions = context.obj
    kept = (
        f"The payment is kept in {purchase.folder}: the same command sends the same payment again,"
        " and nothing is paid twice."
    )
    try:
        with Journal(purchase.folder) as journal:
            show(asyncio.run(_buy(purchase, journal, buy)))
            journal.tidy()  # only after the purchase is shown
    except PendingError as cause:
        typer.echo(f"{cause}: run this command again. {kept}", err=True)
    except RefusedError as cause:
        typer.echo(f"Nothing was bought: {cause}", err=True)
        if cause.key is not None:
            typer.echo(f"The payment that was refused may still land. {kept}", err=True)
    except (ClientError, WillNotPay, JournalUnusable) as cause:
        typer.echo(f"Nothing was bought: {cause}", err=True)
    else:
        return
    raise typer.Exit(EXIT_NOT_BOUGHT)


async def _buy(purchase: BuyOptions, journal: Journal, buy: Callable[[Buyer], Awaitable[T]]) -> T:
    """Return the result of *buy*, which gets a client that pays from the wallet.

    The client may spend the wallet's limit in addition to the earlier payments in *journal*.
    """
    limit = purchase.wallet.limit
    limit = replace(limit, atoms_in_all=limit.atoms_in_all + journal.atoms)
    wallet = replace(purchase.wallet, limit=limit)
    auth = PaymentAuth(wallet, rpc_url=purchase.rpc_url, journal=journal)
    async with httpx.AsyncClient(base_url=purchase.url, transport=BoundedTransport()) as http:
        return await buy(Buyer(http, auth))


def _address(text: str, hint: str) -> Mint:
    try:
        return parse_mint(text)
    except InvalidTokenAddress:
        raise typer.BadParameter(
            f"expected an address, base58 of 32 bytes; was {text[:50]!r}", param_hint=hint
        ) from None


def _atoms(most: str, decimals: int) -> int:
    try:
        atoms = Decimal(most).scaleb(decimals)
    except DecimalException:
        atoms = Decimal(0)
    if not (atoms.is_finite() and 1 <= atoms <= AMOUNT_MAX):
        raise typer.BadParameter(
            f"expected a number of whole tokens, as in 0.5; was {most[:50]!r}", param_hint="--max"
        )
    # Rounded down, because AMOUNT is a maximum.
    return int(atoms)


def _keypair(path: Path) -> Keypair:
    with refusing("--wallet", UnusableKeypair):
        return read_keypair(path)
