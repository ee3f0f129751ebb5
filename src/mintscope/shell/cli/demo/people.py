"""The people and agents of `mintscope demo`: an administrator, and commands to try."""

import secrets
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import typer

ADMINISTRATOR: Final = "admin@example.org"
PASSWORD_BYTES: Final = 12
AGENT: Final = "mintscope.client.examples.agent_signup"


def make_administrator(environment: Mapping[str, str]) -> str:
    """Make the administrator of the demo; return the password."""
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    subprocess.run(  # noqa: S603 - our own interpreter, our own arguments
        [sys.executable, "-m", "mintscope", "admin", "create", ADMINISTRATOR],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        input=f"{password}\n",
    )
    return password


def invite_people(origin: str, password: str, folder: Path) -> None:
    """Print the addresses of the pages, and how an agent gets an API key."""
    typer.echo("\nFor people:\n")
    typer.echo(f"  pages           {origin}/")
    typer.echo(f"  administrator   {ADMINISTRATOR}, password {password}")
    typer.echo(f"  mailbox         {origin}/mailbox, where e-mails are shown instead of sent")
    typer.echo(f"  applications    {origin}/admin, or on the command line:\n")
    mintscope = f"{shlex.quote(sys.executable)} -m mintscope"
    command = f"env MINTSCOPE_DATA_DIR={shlex.quote(str(folder))} {mintscope}"
    typer.echo(f"  {command} applications list")
    agent = f"{shlex.quote(sys.executable)} -m {AGENT} {origin}"
    approve = shlex.quote(f"{command} applications approve {{id}} --scopes trade:write")
    remove = shlex.quote(f"{command} users remove {{user}}")
    typer.echo("\nAn agent that signs up, and waits until you approve it at /admin:\n")
    typer.echo(f"  {agent}\n")
    typer.echo("One that has itself approved, and at the end removed:\n")
    typer.echo(f"  {agent} --approve-with {approve} --remove-with {remove}")
