"""`mintscope copy`, `restore` and `migrate`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from mintscope.base.errors import ServiceUnavailable, UnusableStore
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import AsJson, print_json, print_rows, refusing, stop
from mintscope.shell.config.secret_files import UnusableSecretFile, read_secret
from mintscope.shell.wiring.storage import places
from mintscope.shell.wiring.storage.migrations import migrations

EXIT_NOT_DONE: Final = 1
PEPPER: Final = (
    "Keep the pepper, too: it is configured outside. Without it every credit token is void."
)
FILE: Final = "file:"
EXPOSED: Final = (
    "The password can be seen by every user of this machine while this runs: put the address into a"
    " file, and pass file:PATH."
)
NEWER: Final = (
    "Nothing later than the copy is in it: credits that were spent can be spent"
    " again. Start the service; after a minute `mintscope sales orphans` lists the payments that"
    " the chain knows and the copy does not."
)

app = typer.Typer()


@app.command("copy")
def copy_all(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help=(
                "Where it is: sqlite:FOLDER, postgresql://HOST/NAME, or file:PATH of a file that"
                " holds such an address."
            ),
        ),
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="An empty place of the same form.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Copy a stopped installation to another engine, and compare every row.

    A password in a PLACE can be seen by every user of the machine while the command runs; in a file
    it cannot.
    """
    with in_words(), showing_progress() as progress:
        sums = places.copy_installation(_place(source), _place(target), progress)
    rows = [(name, each.rows, each.hash[:16]) for name, each in sums.items()]
    print_rows(("table", "rows", "hash"), rows, as_json=as_json)
    if as_json:
        return
    typer.echo(
        "Copied and compared. The pepper is not in the database: see docs/operating/scale.md."
    )


@app.command()
def restore(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="As `mintscope backup` made it.")
    ],
    *,
    secrets: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where `pepper` and `roots` are, if they are not in FOLDER: `backup.secrets_to`.",
            show_default=False,
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Copy a backup into an installation that is empty and does not run."""
    with in_words(), showing_progress() as progress:
        places.restore(configured(config).config, folder, progress, secrets=secrets)
    typer.echo(NEWER)


@app.command()
def migrate(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Bring the store to the newest schema, as every process does at its start."""
    settings = configured(config).config
    with in_words():
        ran = migrations(settings, is_done=not dry_run)
    if as_json:
        print_json({"migrations": ran, "isDone": not dry_run})
        return
    if not ran:
        typer.echo("Nothing to do: the schema is up to date.")
    for each in ran:
        typer.echo(f"{'would run' if dry_run else 'ran'} {each}")


def _place(text: str) -> str:
    if text.startswith(FILE):
        with refusing("PLACE", UnusableSecretFile):
            return read_secret(Path(text.removeprefix(FILE)).expanduser())
    if places.has_password(text):
        typer.echo(EXPOSED, err=True)
    return text


@contextmanager
def in_words() -> Iterator[None]:
    """End the command with one message."""
    try:
        yield
    except (UnusableStore, OSError) as error:
        stop(f"mintscope: {error}", EXIT_NOT_DONE)
    except ServiceUnavailable as error:
        stop(f"mintscope: {error} {error.__cause__ or ''}".rstrip(), EXIT_NOT_DONE)


@contextmanager
def showing_progress() -> Iterator[places.Progress]:
    """Show the progress of a copy on a terminal, or else print a line for each table."""
    console = Console(stderr=True)
    counts = dict[str, int]()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    is_shown = console.is_terminal
    with Bar(*columns, console=console, transient=True, disable=not is_shown) as bar:
        task = bar.add_task("")

        def show(what: str, count: int) -> None:
            if what not in counts and not is_shown:
                console.print(what)
            counts[what] = counts.get(what, 0) + count
            bar.update(task, description=f"{what}: {counts[what]}")

        yield show
