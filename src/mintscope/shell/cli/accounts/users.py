"""`mintscope users`: who has an account, and removing one."""

from typing import Annotated, Final

import typer

from mintscope.core.accounts.audit import COMMAND_LINE
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.user import User, UserId
from mintscope.shell.cli.accounts.opening import ask, moment, visible
from mintscope.shell.cli.config import ConfigFile

PAGE_LENGTH: Final = 200
NUMBER_MAX: Final = 2**63 - 1

app = typer.Typer()
user_commands = typer.Typer(help="See who has an account, and remove one.")
app.add_typer(user_commands, name="users")


@user_commands.command("list")
def list_users(config: ConfigFile = None) -> None:
    """List people and agents, the newest first."""
    found = ask(config, _all)
    print(f"{'number':>6}  {'kind':13}  {'since':20}  {'verified':20}  {'name':33}  e-mail")
    for user in found:
        kind = "administrator" if user.is_administrator else user.kind
        print(
            f"{user.user_id:>6}  {kind:13}  {moment(user.created_at):20}"
            f"  {moment(user.verified_at):20}  {user.username:33}  {visible(user.email)}"
        )


@user_commands.command()
def remove(
    number: Annotated[
        int,
        typer.Argument(help="Number of the user.", metavar="NUMBER", min=1, max=NUMBER_MAX),
    ],
    config: ConfigFile = None,
) -> None:
    """Remove an account: its keys are revoked and its sessions end at once."""
    ask(config, lambda desk: desk.remove_user(UserId(number), actor=COMMAND_LINE))
    print(f"removed user {number}")


async def _all(desk: Reviews) -> list[User]:
    found: list[User] = []
    page = await desk.users(limit=PAGE_LENGTH)
    while page:
        found += page
        page = await desk.users(before=page[-1].user_id, limit=PAGE_LENGTH)
    return found
