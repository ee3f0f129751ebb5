"""Prints the results of commands: as tables for people, and as JSON for programs."""

import json
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import typer

from mintscope_client.decoding import visible as escaped

NONE: Final = "-"
CAPITAL: Final = re.compile("[A-Z]")

Cell: TypeAlias = str | int | float | None
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, as_json: bool) -> None:
    """Print *rows* as a table, or as a JSON list of objects; *columns* are the camelCase keys."""
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    heads = [CAPITAL.sub(lambda capital: f" {capital[0].lower()}", name) for name in columns]
    lines = [heads, *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    is_number = [
        rows and all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))
    ]
    for line in lines:
        cells = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        )
        print("  ".join(cells).rstrip())


def print_json(value: object) -> None:
    """Print *value* as ASCII JSON, so that no text in it can send commands to the terminal."""
    print(json.dumps(value, indent=2))


def visible(text: str) -> str:
    """Return *text*, which may be untrusted, as one line that is safe on a terminal.

    Escapes replace unprintable characters, and characters that the encoding of the output lacks.
    """
    encoding = sys.stdout.encoding or "utf-8"
    return escaped(text).encode(encoding, "backslashreplace").decode(encoding)


def _shown(cell: Cell) -> str:
    match cell:
        case None:
            return NONE
        case float():
            return f"{cell:.6g}"
        case _:
            return visible(str(cell))
