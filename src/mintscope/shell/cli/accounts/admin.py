"""`mintscope admin`: make administrators."""

import sys
from typing import Annotated

import typer

from mintscope.core.accounts.audit import COMMAND_LINE
from mintscope.core.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword, expect_password
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.user import User
from mintscope.edges.maintenance.passwords import Argon2Hasher
from mintscope.shell.cli.accounts.reviews import with_reviews
from mintscope.shell.cli.config import ConfigFile

app = typer.Typer()
admin_commands = typer.Typer(
    help="Make administrators, who review applications in the browser.", no_args_is_help=True
)
app.add_typer(admin_commands, name="admin")


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
    try:
        address = parse_email(email)
    except UnusableEmailAddress as error:
        raise typer.BadParameter(str(error), param_hint="EMAIL") from None
    try:
        password = expect_password(_read_password(), email=address)
    except WeakPassword as error:
        raise typer.BadParameter(str(error), param_hint="the password") from None
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
    hasher = Argon2Hasher()
    try:
        digest = await hasher.hash(password)
    finally:
        hasher.close()
    return await reviews.make_administrator(email, password_hash=digest, actor=COMMAND_LINE)


def _read_password() -> str:
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")
