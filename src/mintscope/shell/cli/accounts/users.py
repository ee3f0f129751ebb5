"""`mintscope users`: list accounts, and remove one."""

from typing import Annotated, Final

import typer

from mintscope.core.accounts.audit import COMMAND_LINE
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.user import User, UserId
from mintscope.shell.cli.accounts.reviews import with_reviews
from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.output import AsJson, moment, print_rows

PAGE_LENGTH: Final = 200
NUMBER_MAX: Final = 2**63 - 1

app = typer.Typer()
user_commands = typer.Typer(help="List accounts, and remove one.", no_args_is_help=True)
app.add_typer(user_commands, name="users")


@user_commands.command("list")
def list_users(*, as_json: AsJson = False, config: ConfigFile = None) -> None:
    """List the accounts of people and agents, the newest first."""
    found = with_reviews(config, _all)
    rows = [
        (
            user.user_id,
            "administrator" if user.is_administrator else user.kind,
            moment(user.created_at),
            moment(user.verified_at),
            user.username,
            user.email,
        )
        for user in found
    ]
    columns = ("number", "kind", "since", "verified", "name", "email")
    print_rows(columns, rows, as_json=as_json)


@user_commands.command()
def remove(
    number: Annotated[
        int, typer.Argument(help="Number of the user.", metavar="NUMBER", min=1, max=NUMBER_MAX)
    ],
    config: ConfigFile = None,
) -> None:
    """Remove an account: its API keys are revoked and its sessions end at once."""
    with_reviews(config, lambda reviews: reviews.remove_user(UserId(number), actor=COMMAND_LINE))
    print(f"removed user {number}")


async def _all(reviews: Reviews) -> list[User]:
    found: list[User] = []
    page = await reviews.users(limit=PAGE_LENGTH)
    while page:
        found += page
        page = await reviews.users(before=page[-1].user_id, limit=PAGE_LENGTH)
    return found
