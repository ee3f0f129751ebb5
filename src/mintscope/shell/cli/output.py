"""What commands print: tables for people, JSON for programs, and why a command ends."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, NoReturn, TypeAlias

import typer

from mintscope.base.primitives import UnixMs
from mintscope.base.time import iso_time
from mintscope.core.accounts.application import visible as escaped

EXIT_BAD_INPUT: Final = 2
NONE: Final = "-"
CAPITAL: Final = re.compile("[A-Z]")

Cell: TypeAlias = str | int | None
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool) -> None:
    """Print *rows* as a table, or as a JSON list of objects; *columns* are its camelCase keys."""
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    heads = [CAPITAL.sub(lambda capital: f" {capital[0].lower()}", name) for name in columns]
    lines = [
        heads,
        *([NONE if cell is None else visible(str(cell)) for cell in row] for row in rows),
    ]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    is_number = [rows and all(isinstance(row[i], int) for row in rows) for i in range(len(columns))]
    for line in lines:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        )
        print("  ".join(cells).rstrip())


def print_json(value: object) -> None:
    """Print *value* in ASCII, so that no text in it can command a terminal."""
    print(json.dumps(value, indent=2))


def visible(text: str) -> str:
    """Return *text*, which others may have written, in one line that is safe on a terminal.

    Control characters, and those that turn lines around or hide, are shown as their numbers.
    """
    encoding = sys.stdout.encoding or "utf-8"
    return escaped(text).encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def refusing(parameter: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an error of *kinds* into the refusal of a *parameter* of the command."""
    try:
        yield
    except kinds as error:
        raise typer.BadParameter(str(error), param_hint=parameter) from None


def stop(message: str, exit_code: int = EXIT_BAD_INPUT) -> NoReturn:
    """End the command with one *message* on stderr."""
    typer.echo(message, err=True)
    raise typer.Exit(exit_code) from None


def moment(at: UnixMs | None) -> str | None:
    """Return *at* in ISO 8601."""
    return None if at is None else iso_time(at)
