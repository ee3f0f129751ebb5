"""Output of commands, and how a command ends."""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import typer

from mintscope.kit.errors import ServiceUnavailable, UnusableStore
from mintscope.kit.files import access_trouble
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import DatabaseError
from mintscope.kit.time import iso_time
from mintscope_client.cli.tables import NONE, AsJson, Cell, print_json, print_rows, visible

__all__ = ["NONE", "AsJson", "Cell", "print_json", "print_rows", "visible"]

EXIT_BAD_INPUT: Final = 2
LINES: Final = 1_000
LINES_MAX: Final = 100_000  # some 10 MB
NUMBER_MAX: Final = 2**63 - 1


@contextmanager
def refusing(parameter: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn an error of *kinds* into a usage error about *parameter* of the command."""
    try:
        yield
    except kinds as error:
        raise typer.BadParameter(str(error), param_hint=parameter) from None


def stop(message: str, exit_code: int = EXIT_BAD_INPUT) -> NoReturn:
    """End the command with one *message* on stderr."""
    typer.echo(message, err=True)
    raise typer.Exit(exit_code) from None


def trouble_in_words(error: Exception) -> str | None:
    """Return a message for an error of a store, a file or a connection; None for any other."""
    if isinstance(error, OSError):
        path = error.filename
        is_refused = error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}
        why = access_trouble(Path(path)) if is_refused and isinstance(path, str) else None
        return str(error) if why is None else f"cannot use {path}: {why}"
    if isinstance(error, UnusableStore | DatabaseError):
        return str(error)
    if isinstance(error, ServiceUnavailable):
        return f"{error} {error.__cause__ or ''}".rstrip()
    return None


def tell_more(option: str, names: Sequence[int | str], limit: int) -> None:
    """Print on stderr how to see more than the first *limit* of *names*, if there are more."""
    if len(names) > limit:
        typer.echo(f"there are more: {option} {names[limit - 1]}", err=True)


def moment(at: UnixMs | None) -> str | None:
    """Return *at* in ISO 8601."""
    return None if at is None else iso_time(at)
