"""`mintscope admin`: who administers the installation."""

import sys
from typing import Annotated

import typer

from mintscope.core.accounts.audit import COMMAND_LINE
from mintscope.core.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword, expect_password
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.user import User
from mintscope.edges.maintenance.passwords import Argon2Hasher
from mintscope.shell.cli.accounts.opening import ask
from mintscope.shell.cli.config import ConfigFile

app = typer.Typer()
admin_commands = typer.Typer(
    help="Make administrators, who review applications in the browser.", no_args_is_help=True
)
app.add_typer(admin_commands, name="admin")


@admin_commands.callback()
def group() -> None:
    """Keep `create` a word of its own: a group of one command would swallow it."""


@admin_commands.command()
def create(
    email: Annotated[str, typer.Argument(help="Address of the person.", metavar="EMAIL")],
    config: ConfigFile = None,
) -> None:
    """Make the person of EMAIL an administrator.

    Asks for the password twice, or reads one line of standard input where that is no terminal.
    An account whose mailbox was verified keeps its own.
    """
    try:
        address = parse_email(email)
    except UnusableEmailAddress as error:
        raise typer.BadParameter(str(error), param_hint="EMAIL") from None
    try:
        password = expect_password(_read_password(), email=address)
    except WeakPassword as error:
        raise typer.BadParameter(str(error), param_hint="the password") from None
    user, is_new = ask(config, lambda desk: _make(desk, address, password))
    if is_new:
        print(f"made an account for {user.email}, who is an administrator now")
    elif user.verified_at is None:
        print(
            f"{user.email} is an administrator; nobody had verified the mailbox of this account:"
            " it has the new password, and its sessions and keys have ended"
        )
    else:
        print(f"{user.email} is an administrator; the password stays as it was")


async def _make(desk: Reviews, email: EmailAddress, password: str) -> tuple[User, bool]:
    hasher = Argon2Hasher()
    try:
        digest = await hasher.hash(password)
    finally:
        hasher.close()
    return await desk.make_administrator(email, password_hash=digest, actor=COMMAND_LINE)


def _read_password() -> str:
    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")
