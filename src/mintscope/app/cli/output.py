"""Prints the output of commands, and ends commands."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, NoReturn, TypeAlias

import typer

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import iso_time
from mintscope_client.cli.tables import NONE, AsJson, Cell, print_json, print_rows, visible

__all__ = ["NONE", "AsJson", "Cell", "print_json", "print_rows", "visible"]

EXIT_NOT_DONE: Final = 1
EXIT_BAD_INPUT: Final = 2
LINES: Final = 1_000
LINES_MAX: Final = 100_000  # lines of output, about 10 MB
NUMBER_MAX: Final = 2**63 - 1

Limit: TypeAlias = Annotated[
    int, typer.Option(metavar="COUNT", help="Maximum number of lines.", min=1, max=LINES_MAX)
]


@contextmanager
def refusing(parameter: str, *kinds: type[Exception]) -> Iterator[None]:
    """If the block raises an error of *kinds*, report it as a usage error about *parameter*."""
    try:
        yield
    except kinds as error:
        raise typer.BadParameter(str(error), param_hint=parameter) from None


def stop(message: str, exit_code: int = EXIT_BAD_INPUT) -> NoReturn:
    """End the command with one *message* on stderr."""
    typer.echo(message, err=True)
    raise typer.Exit(exit_code) from None


def tell_more(option: str, names: Sequence[int | str], limit: int) -> None:
    """If there are more than *limit* *names*, print on stderr the option that shows the rest."""
    if len(names) > limit:
        typer.echo(f"there are more: {option} {names[limit - 1]}", err=True)


def moment(at: UnixMs | None) -> str | None:
    """Return *at* in ISO 8601; None if *at* is None."""
    return None if at is None else iso_time(at)
