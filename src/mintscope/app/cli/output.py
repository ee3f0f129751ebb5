"""Common parts of commands: options, groups, arguments, output and errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import typer
from typer.core import TyperGroup
from typing_extensions import override

from mintscope.kit.errors import InvalidTokenAddress
from mintscope.kit.primitives import Mint, UnixMs, UnixS, parse_mint
from mintscope.kit.time import SECOND_MS, iso_time
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


class RunsByDefault(TyperGroup):
    """Runs the first command of the group if none is named, as in `mintscope backup FOLDER`.

    If there are no arguments and the group has `no_args_is_help`, its help is shown instead.
    *ctx* has the type Any, because typer does not export its type.
    """

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        shows_help = self.no_args_is_help and not args
        if not shows_help and (not args or args[0] not in {*self.commands, "-h", "--help"}):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


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


def print_page(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], after: str, limit: int, *, as_json: bool
) -> None:
    """Print up to *limit* rows; if there are more, print on stderr the option that shows the rest.

    after   the option; its value is the first cell of the last row that was printed
    """
    print_rows(columns, rows[:limit], as_json=as_json)
    tell_more(after, [str(row[0]) for row in rows], limit)


def tell_more(option: str, names: Sequence[int | str], limit: int) -> None:
    """If there are more than *limit* *names*, print on stderr the option that shows the rest."""
    if len(names) > limit:
        typer.echo(f"there are more: {option} {names[limit - 1]}", err=True)


def moment(at: UnixMs | None) -> str | None:
    """Return *at* in ISO 8601; None if *at* is None."""
    return None if at is None else iso_time(at)


def moment_of(at: UnixS | None) -> str | None:
    """Return *at*, in seconds, in ISO 8601; None if *at* is None."""
    return None if at is None else moment(UnixMs(at * SECOND_MS))


def read_mint(text: str) -> Mint:
    """Return the mint in *text*, the argument MINT; an invalid address is a usage error."""
    with refusing("MINT", InvalidTokenAddress):
        return parse_mint(text)
