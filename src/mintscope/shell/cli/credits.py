"""`mintscope credits`: hand out credit tokens, and see what became of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_bytes
from typing import Annotated, Final

import apsw
import typer

from mintscope.base.clock import SystemClock
from mintscope.base.credentials import CredentialKind, make_credit_token
from mintscope.base.installation import UnusablePepper, UnusableStore
from mintscope.base.time import iso_time
from mintscope.edges.storage.sqlite.money.credits import CreditBook
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.wiring.wiring import credit_book

CREDITS_MAX: Final = 1_000_000_000
NOTE_LENGTH_MAX: Final = 200
EXIT_STORE: Final = 1

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
    with _book(config) as book:
        book.issue(token, credit_count, note=note, at=SystemClock().now())
    print(token)
    typer.echo("Shown once: keep it like a password.", err=True)


@credit_commands.command("list")
def list_accounts(config: ConfigFile = None) -> None:
    """List all credit tokens by their last eight characters."""
    with _book(config) as book:
        accounts = book.accounts()
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
    with _book(config) as book:
        accounts = book.accounts(hint.lower())
        summaries = [book.summary(account.account) for account in accounts]
    if not accounts:
        raise typer.BadParameter("no credit token ends in it", param_hint="HINT")
    for account, lines in zip(accounts, summaries, strict=True):
        print(f"...{account.hint}  {account.balance} credits left  {account.note}")
        for line in lines:
            print(
                f"  {line.kind:8}  {line.delta:>+12}"
                f"  {iso_time(line.first_at)} to {iso_time(line.last_at)}"
            )


@contextmanager
def _book(file: ConfigFile) -> Iterator[CreditBook]:
    """Open the money file of the installation; end the command with one message if that fails."""
    config = configured(file).config
    try:
        with credit_book(config) as book:
            yield book
    except (UnusableStore, UnusablePepper) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(EXIT_STORE) from None
    except (OSError, apsw.Error) as error:
        typer.echo(f"the money file in {config.data_dir} does not answer: {error}", err=True)
        raise typer.Exit(EXIT_STORE) from None
