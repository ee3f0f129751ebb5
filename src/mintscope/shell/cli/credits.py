"""`mintscope credits`: hand out credit tokens, and see what became of them."""

from collections.abc import Sequence
from secrets import token_bytes
from typing import Annotated, Final

import typer

from mintscope.base.credentials import CredentialKind, make_credit_token
from mintscope.base.time import iso_time
from mintscope.core.credits.ledger import AccountLine, KindLine
from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.stores import with_money
from mintscope.shell.wiring.stores import Money

CREDITS_MAX: Final = 1_000_000_000
NOTE_LENGTH_MAX: Final = 200

app = typer.Typer()
credit_commands = typer.Typer(help="Hand out credit tokens, and see what became of them.")
app.add_typer(credit_commands, name="credits")


@credit_commands.command()
def issue(
    credit_count: Annotated[
        int, typer.Option("--credits", help="How many credits it holds.", min=1, max=CREDITS_MAX)
    ],
    note: Annotated[str, typer.Option(help="Whom it is for; only you see it.")] = "",
    config: ConfigFile = None,
) -> None:
    """Issue a credit token.  It is printed once and cannot be shown again.

    Works while the service runs; the token is good at once.
    """
    if len(note) > NOTE_LENGTH_MAX or not note.isprintable():
        raise typer.BadParameter(
            f"expected at most {NOTE_LENGTH_MAX} printable characters", param_hint="--note"
        )
    token = make_credit_token(token_bytes(CredentialKind.CREDIT_TOKEN.entropy_bytes))

    async def grant(money: Money) -> None:
        await money.ledger.issue(token, credit_count, note)

    with_money(config, grant)
    print(token)
    typer.echo("Shown once: keep it like a password.", err=True)


@credit_commands.command("list")
def list_accounts(config: ConfigFile = None) -> None:
    """List all credit tokens by their last eight characters."""

    async def read(money: Money) -> Sequence[AccountLine]:
        return await money.credits.accounts()

    accounts = with_money(config, read)
    print(f"{'token':>11}  {'issued':20}  {'credits':>12}  {'left':>12}  note")
    for account in accounts:
        print(
            f"...{account.hint}  {iso_time(account.issued_at)}"
            f"  {account.credit_count:>12}  {account.balance:>12}  {account.note}"
        )


@credit_commands.command()
def show(
    hint: Annotated[str, typer.Argument(help="The last characters of the token, up to eight.")],
    config: ConfigFile = None,
) -> None:
    """Show what happened to the credit tokens that end in HINT."""

    async def read(money: Money) -> list[tuple[AccountLine, Sequence[KindLine]]]:
        accounts = await money.credits.accounts(hint.lower())
        return [(account, await money.credits.summary(account.account)) for account in accounts]

    accounts = with_money(config, read)
    if not accounts:
        raise typer.BadParameter("no credit token ends in it", param_hint="HINT")
    for account, lines in accounts:
        print(f"...{account.hint}  {account.balance} credits left  {account.note}")
        for line in lines:
            print(
                f"  {line.kind:8}  {line.delta:>+12}"
                f"  {iso_time(line.first_at)} to {iso_time(line.last_at)}"
            )
