"""The options of all commands: the service, the credential and the budget; and exit statuses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from mintscope_client import errors
from mintscope_client.budget import CreditBudget
from mintscope_client.calls.conversation import PATIENCE_S
from mintscope_client.cli.tables import visible
from mintscope_client.client import Client

URL_VARIABLE: Final = "MINTSCOPE_URL"
CREDENTIAL_VARIABLE: Final = "MINTSCOPE_CREDENTIAL"
FILE_VARIABLE: Final = "MINTSCOPE_CREDENTIAL_FILE"
FILE_CHARACTERS_MAX: Final = 4_096


class Exit(IntEnum):
    """The exit statuses of commands; docs/clients.md lists them, and they do not change."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CREDENTIAL = 3
    UNPAID = 4
    NOTHING_THERE = 5
    TOO_MANY = 6
    NOT_NOW = 7
    UNREACHABLE = 8
    UNREADABLE = 9
    OVER_BUDGET = 10


EXITS: Final = (
    (errors.WrongCallError, Exit.USAGE),
    (errors.CredentialRefusedError, Exit.CREDENTIAL),
    (errors.UnpaidError, Exit.UNPAID),
    (errors.NothingThereError, Exit.NOTHING_THERE),
    (errors.TooManyRequestsError, Exit.TOO_MANY),
    (errors.NotNowError, Exit.NOT_NOW),
    (errors.UnreachableError, Exit.UNREACHABLE),
    (errors.UnreadableError, Exit.UNREADABLE),
    (errors.OverBudgetError, Exit.OVER_BUDGET),
    (errors.ClientError, Exit.FAILED),
)

Url = Annotated[
    str,
    typer.Option(
        metavar="URL", envvar=URL_VARIABLE, help="URL of the service, as in https://api.example."
    ),
]
CredentialFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=FILE_VARIABLE,
        help=f"A file with a credit token or an API key; else {CREDENTIAL_VARIABLE} is read.",
        show_default=False,
    ),
]
MaxCredits = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Credits to spend at most; unlimited by default.",
        show_default=False,
    ),
]
Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        min=0,
        help="Total time for retries while the service does not answer.",
    ),
]
Mint = Annotated[str, typer.Argument(metavar="MINT", help="The mint of the token.")]
TIMEFRAME: Final = typer.Option(
    "--tf", metavar="TF", help="Width of the candles: s15, m1, m5, m15, m30, h1, h4 or d1."
)


def credential_of(file: Path | None) -> str | None:
    """Return the credential in *file* or, if *file* is None, in the environment, if any.

    Raises ValueError if the file cannot be read.
    """
    if file is None:
        # A client has no other configuration: it reads no settings file.
        return os.environ.get(CREDENTIAL_VARIABLE, "").strip() or None  # noqa: TID251
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(FILE_CHARACTERS_MAX).strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise ValueError(f"expected a credential in {file}; it cannot be read") from cause


@contextmanager
def connected(
    url: str, credential_file: Path | None, max_credits: int | None, patience_s: float = PATIENCE_S
) -> Iterator[Client]:
    """Yield a client; a ClientError of its calls ends the command, with one line on stderr.

    The command also ends if the reader of its output closes the pipe.  Raises BadParameter for
    invalid arguments.
    """
    try:
        credential = credential_of(credential_file)
        budget = CreditBudget(credits_in_all=max_credits)
        client = Client(url, credential=credential, budget=budget, patience_s=patience_s)
    except ValueError as flaw:
        raise typer.BadParameter(str(flaw)) from None
    with client:
        try:
            yield client
        except errors.ClientError as failure:
            typer.echo(f"mintscope: {visible(str(failure))}", err=True)
            raise typer.Exit(exit_of(failure)) from None
        except BrokenPipeError:  # the program that read the output has closed the pipe
            # Python flushes stdout at its exit: into the closed pipe, that would print a traceback.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(Exit.FAILED) from None


def exit_of(failure: errors.ClientError) -> Exit:
    """Return the exit status of a command whose request failed with *failure*."""
    return next(code for kind, code in EXITS if isinstance(failure, kind))
