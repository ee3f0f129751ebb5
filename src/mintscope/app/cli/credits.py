"""The command `mintscope credits`: issues and shows credit tokens."""

from collections.abc import Sequence
from secrets import token_bytes
from typing import Annotated, Final, TypeAlias

import typer

from mintscope.app.cli import output
from mintscope.app.cli.config import ConfigFile
from mintscope.app.cli.stores import with_money
from mintscope.app.stores.stores import Money
from mintscope.credits.ledger import FIRST, AccountLine, KindLine
from mintscope.kit.credentials import CredentialKind, make_credit_token
from mintscope.kit.primitives import CreditAccount

CREDITS_MAX: Final = 1_000_000_000
NOTE_LENGTH_MAX: Final = 200
ADDED_UP_LATER: Final = (
    "Credits are not shown yet, because the api is still adding up the entries from before the"
    " upgrade. A hundred million entries take a few minutes."
)
SHOWN: Final = 20
SHOWN_MAX: Final = 1_000
After: TypeAlias = Annotated[
    int,
    typer.Option(metavar="NUMBER", help="Begin after this number.", min=0, max=output.NUMBER_MAX),
]

app = typer.Typer()
credit_commands = typer.Typer(help="Issue and show credit tokens.", no_args_is_help=True)
app.add_typer(credit_commands, name="credits")


@credit_commands.command()
def issue(
    count: Annotated[
        int | None,
        typer.Argument(metavar="CREDITS", help="Number of credits.", min=1, max=CREDITS_MAX),
    ] = None,
    credit_count: Annotated[
        int | None,
        typer.Option(
            "--credits",
            metavar="CREDITS",
            help="Number of credits, as an option.",
            min=1,
            max=CREDITS_MAX,
        ),
    ] = None,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="The recipient; shown by `list` and `show`.")
    ] = "",
    *,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Issue a credit token.  It is printed once and cannot be shown again.

    Works while the service runs; the token can be used at once.
    """
    if (count is None) == (credit_count is None):
        raise typer.BadParameter(
            "expected one number of credits, as CREDITS or as --credits", param_hint="CREDITS"
        )
    if len(note) > NOTE_LENGTH_MAX or not note.isprintable():
        raise typer.BadParameter(
            f"expected at most {NOTE_LENGTH_MAX} printable characters", param_hint="--note"
        )
    token = make_credit_token(token_bytes(CredentialKind.CREDIT_TOKEN.entropy_bytes))
    wanted = count or credit_count or 0
    with_money(config, lambda money: money.ledger.issue(token, wanted, note), creates=True)
    if as_json:
        output.print_json({"token": token, "credits": wanted, "note": note})
    else:
        print(token)
    typer.echo("Shown once: keep it like a password.", err=True)


@credit_commands.command("list")
def list_accounts(
    *,
    after: After = FIRST,
    limit: output.Limit = output.LINES,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List credit tokens, oldest first; each is shown by its last eight characters.

    Credits that users hold in their accounts are listed, too, without characters of a token.
    """
    found = with_money(
        config, lambda money: money.credits.page(after=CreditAccount(after), limit=limit + 1)
    )
    rows = [
        (
            each.account,
            f"...{each.hint}",
            output.moment(each.issued_at),
            "-" if each.credit_count is None and not as_json else each.credit_count,
            each.balance,
            each.note,
        )
        for each in found
    ]
    columns = ("number", "token", "issued", "credits", "left", "note")
    output.print_page(columns, rows, "--after", limit, as_json=as_json)
    if any(each.credit_count is None for each in found[:limit]):
        typer.echo(ADDED_UP_LATER, err=True)


@credit_commands.command()
def show(
    hint: Annotated[
        str, typer.Argument(metavar="HINT", help="The last characters of the token, up to eight.")
    ],
    *,
    after: After = FIRST,
    limit: Annotated[
        int,
        typer.Option(
            metavar="COUNT", help="Maximum number of credit tokens.", min=1, max=SHOWN_MAX
        ),
    ] = SHOWN,
    as_json: output.AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show balance, and changes by kind, of credit tokens that end in HINT, oldest token first."""

    async def read(money: Money) -> tuple[list[int], list[tuple[AccountLine, Sequence[KindLine]]]]:
        found = await money.credits.page(hint.lower(), after=CreditAccount(after), limit=limit + 1)
        lines = [(each, await money.credits.summary(each.account)) for each in found[:limit]]
        return [each.account for each in found], lines

    numbers, accounts = with_money(config, read)
    output.tell_more("--after", numbers, limit)
    if not accounts:
        raise typer.BadParameter("no credit token ends in it", param_hint="HINT")
    if as_json:
        output.print_json([_shown(account, lines) for account, lines in accounts])
        return
    for account, lines in accounts:
        print(f"...{account.hint}  {account.balance} credits left  {output.visible(account.note)}")
        for line in lines:
            print(
                f"  {line.kind:8}  {line.delta:>+12}"
                f"  {output.moment(line.first_at)} to {output.moment(line.last_at)}"
            )


def _shown(account: AccountLine, lines: Sequence[KindLine]) -> dict[str, object]:
    return {
        "token": f"...{account.hint}",
        "issued": output.moment(account.issued_at),
        "credits": account.credit_count,
        "left": account.balance,
        "note": account.note,
        "changes": [
            {
                "kind": line.kind,
                "credits": line.delta,
                "first": output.moment(line.first_at),
                "last": output.moment(line.last_at),
            }
            for line in lines
        ],
    }
