"""The command `mintscope secrets`, and a reader of CSV files that people write for other commands.

A malformed cell is reported, and no value is guessed.  Columns are found by name, in any order;
other columns and blank lines are ignored.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Final, TextIO

import typer

from mintscope.app.cli.config import ConfigFile, configured
from mintscope.app.cli.output import EXIT_NOT_DONE, stop
from mintscope.app.stores.stores import keep_new_root
from mintscope.kit.clock import SystemClock
from mintscope.kit.credentials import ROOT_BYTES, Root
from mintscope.kit.errors import UnusablePepper
from mintscope.kit.time import MINUTE_S, SECOND_MS

SHOWN_MAX: Final = 40
LINE_LENGTH_MAX: Final = 1_000_000
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")


class BadTable(Exception):
    """A table cannot be read, or its content is wrong.

    The message has the file, the line and column if known, the expected value and, except for a
    line that is too long, the actual value.
    """


class Row:
    """One line of a CSV table, whose cells are found by the names of their columns."""

    def __init__(self, path: Path, line: int, cells: dict[str, str]) -> None:
        self._path = path
        self._line = line
        self._cells = cells

    def text(self, column: str) -> str:
        """Return the cell in *column*; "" if the table does not have the column."""
        return self._cells.get(column, "")

    def integer(self, column: str, minimum: int, maximum: int) -> int:
        """Return the cell in *column*, an integer from *minimum* to *maximum*.  Raises BadTable."""
        text = self.text(column)
        if INTEGER.fullmatch(text) is None or not minimum <= int(text) <= maximum:
            raise self.bad(column, f"an integer from {minimum} to {maximum}")
        return int(text)

    def number(self, column: str, maximum: float) -> float:
        """Return the cell in *column* as a number from 0 to *maximum*.  Raises BadTable."""
        text = self.text(column)
        if NUMBER.fullmatch(text) is None or not 0.0 <= float(text) <= maximum:
            raise self.bad(column, f"a number from 0 to {maximum:g}")
        return abs(float(text))  # avoids negative zero

    def bad(self, column: str, expected: str) -> BadTable:
        """Return an error that says that the cell in *column* is not as *expected*."""
        return BadTable(
            f"{self._path}, line {self._line}, column {column}:"
            f" expected {expected}, was {shown(self.text(column))}"
        )


def rows(path: Path, required: Sequence[str]) -> Iterator[Row]:
    """Yield the lines of the table (CSV) at *path*, without its header and empty lines.

    The header must have each of the *required* columns once.  Raises BadTable.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _rows(path, file, required)
    except UnicodeDecodeError as error:
        raise BadTable(
            f"{path}: expected UTF-8 text, was byte {error.object[error.start]:#04x}"
            f" at position {error.start}"
        ) from None
    except OSError as error:
        raise BadTable(f"{path}: expected a file to read, was: {error.strerror}") from None


def shown(text: str) -> str:
    """Return *text* in quotation marks, shortened if it is long; return "empty" if it is empty."""
    if not text:
        return "empty"
    return repr(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "...")


def _rows(path: Path, file: TextIO, required: Sequence[str]) -> Iterator[Row]:
    lines = csv.reader(_bounded(path, file), strict=True)
    header: list[str] = []
    try:
        for line in lines:
            cells = [cell.strip() for cell in line]
            where = f"{path}, line {lines.line_num}"
            if not any(cells):
                continue
            if not header:
                header = cells
                _check_header(where, header, required)
            elif len(cells) != len(header):
                raise BadTable(f"{where}: expected {len(header)} columns, was {len(cells)}")
            else:
                yield Row(path, lines.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise BadTable(
            f"{path}, line {lines.line_num}: expected comma-separated values, was: {error}"
        ) from None
    if not header:
        raise BadTable(f"{path}: expected a header line with {', '.join(required)}, was empty")


def _bounded(path: Path, file: TextIO) -> Iterator[str]:
    for number, line in enumerate(iter(partial(file.readline, LINE_LENGTH_MAX + 1), ""), 1):
        if len(line) > LINE_LENGTH_MAX:
            raise BadTable(f"{path}, line {number}: expected at most {LINE_LENGTH_MAX} characters")
        yield line


def _check_header(where: str, header: Sequence[str], required: Sequence[str]) -> None:
    for column in required:
        if header.count(column) != 1:
            raise BadTable(
                f"{where}: expected one column {column}, was {header.count(column)}"
                f" in {shown(','.join(header))}"
            )


MINUTES_MAX: Final = 10_080

app = typer.Typer()
secret_commands = typer.Typer(help="Replace the signing secret.", no_args_is_help=True)
app.add_typer(secret_commands, name="secrets")


@secret_commands.command()
def rotate(
    *,
    minutes: Annotated[
        int,
        typer.Option(
            "--in",
            min=0,
            max=MINUTES_MAX,
            metavar="MINUTES",
            help="The time from which the new secret signs.",
        ),
    ] = 0,
    is_printed: Annotated[
        bool,
        typer.Option(
            "--print", help="Print the secret for `credits.roots`, and do not store it here."
        ),
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Create a new secret that signs quotes and receipts; credentials stay valid.

    The secret is stored in the file `roots` of data_dir, which a service reads at its start.  If
    there are several machines, use --print, and copy the secret to all of them before it signs.
    """
    since_s = SystemClock().now() // SECOND_MS + minutes * MINUTE_S
    root = Root(since_s, token_bytes(ROOT_BYTES))
    if is_printed:
        typer.echo(str(root))
        return
    try:
        path = keep_new_root(configured(config).config, root)
    except UnusablePepper as error:
        stop(f"mintscope: {error}", EXIT_NOT_DONE)
    typer.echo(
        f"kept in {path}: restart the service. Back up the file together with the pepper, which"
        " still hashes every credential. Earlier signatures stay valid for ten more minutes."
    )
