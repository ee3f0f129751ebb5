"""`mintscope users` and `mintscope admin`: list accounts, remove one, make administrators."""

import sys
from typing import Annotated

import typer

from mintscope.core.accounts.audit import COMMAND_LINE
from mintscope.core.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword, expect_password
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.user import User, UserId
from mintscope.shell.cli.config import ConfigFile
from mintscope.shell.cli.output import (
    LINES,
    LINES_MAX,
    NUMBER_MAX,
    AsJson,
    moment,
    print_rows,
    refusing,
    tell_more,
)
from mintscope.shell.cli.stores import with_reviews
from mintscope.shell.wiring.accounts import open_hasher

app = typer.Typer()
user_commands = typer.Typer(help="List accounts, and remove one.", no_args_is_help=True)
app.add_typer(user_commands, name="users")
admin_commands = typer.Typer(
    help="Make administrators, who review applications in the browser.", no_args_is_help=True
)
app.add_typer(admin_commands, name="admin")


@user_commands.command("list")
def list_users(
    *,
    before: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="Begin after this number.", min=1, max=NUMBER_MAX),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="COUNT", help="Lines at most.", min=1, max=LINES_MAX)
    ] = LINES,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """List the accounts of people and agents, the newest first."""
    last = None if before is None else UserId(before)
    found = with_reviews(config, lambda reviews: reviews.users(before=last, limit=limit + 1))
    rows = [
        (
            user.user_id,
            "administrator" if user.is_administrator else user.kind,
            moment(user.created_at),
            moment(user.verified_at),
            user.username,
            user.email,
        )
        for user in found[:limit]
    ]
    columns = ("number", "kind", "since", "verified", "name", "email")
    print_rows(columns, rows, as_json=as_json)
    tell_more("--before", [user.user_id for user in found], limit)


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


@user_commands.command("drop-second-factor")
def drop_second_factor(
    number: Annotated[
        int, typer.Argument(help="Number of the user.", metavar="NUMBER", min=1, max=NUMBER_MAX)
    ],
    config: ConfigFile = None,
) -> None:
    """Let a person who lost phone, passkeys and recovery codes in with the password alone."""
    with_reviews(
        config, lambda reviews: reviews.drop_second_factor(UserId(number), actor=COMMAND_LINE)
    )
    print(f"removed the second factors of user {number}")


@admin_commands.callback()
def group() -> None:
    """Make a group of one command: without a callback typer would drop the word `create`."""


@admin_commands.command()
def create(
    email: Annotated[str, typer.Argument(help="E-mail address of the account.", metavar="EMAIL")],
    config: ConfigFile = None,
) -> None:
    """Make the account of EMAIL an administrator, and the account itself if there is none.

    Asks for a password twice, or reads it from one line of standard input if that is no terminal.
    An account whose e-mail address was verified keeps its own password.
    """
    with refusing("EMAIL", UnusableEmailAddress):
        address = parse_email(email)
    with refusing("the password", WeakPassword):
        password = expect_password(_read_password(), email=address)
    user, is_new = with_reviews(config, lambda reviews: _make(reviews, address, password))
    if is_new:
        print(f"made an account for {user.email}, who is an administrator now")
    elif user.verified_at is None:
        print(
            f"{user.email} is an administrator; the e-mail address was not verified, so the account"
            " has the new password, and its sessions and keys have ended"
        )
    else:
        print(f"{user.email} is an administrator; the password stays as it was")


async def _make(reviews: Reviews, email: EmailAddress, password: str) -> tuple[User, bool]:
    with open_hasher() as hasher:
        digest = await hasher.hash(password)
    return await reviews.make_administrator(email, password_hash=digest, actor=COMMAND_LINE)


def _read_password() -> str:
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")
