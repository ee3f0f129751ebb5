"""`mintscope copy`, `backup`, `restore` and `migrate`: moving in, and looking after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from mintscope.base.errors import UnusableStore
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import print_rows, stop
from mintscope.shell.wiring.storage import places
from mintscope.shell.wiring.storage.migrations import migrations

EXIT_NOT_DONE: Final = 1
PEPPER: Final = (
    "Keep the pepper, too: it is configured outside. Without it every credit token is void."
)
NEWER: Final = (
    "What happened after the copy was made is not in it: credits that were spent can be spent"
    " again. Start the service; after a minute `mintscope sales orphans` lists the payments that"
    " the chain knows and the copy does not."
)

app = typer.Typer()


@app.command("copy")
def copy_all(
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="Where it is: sqlite:FOLDER or postgresql://HOST/NAME."
        ),
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="PLACE", help="An empty place of the same form.")
    ],
) -> None:
    """Copy an installation that does not run to another engine, and compare every row."""
    with _in_words(), _telling() as told:
        sums = places.copy_installation(source, target, told)
    rows = [(name, each.rows, each.hash[:16]) for name, each in sums.items()]
    print_rows(("table", "rows", "hash"), rows, as_json=False)
    typer.echo("Copied and compared. The pepper is not in the database: see docs/scaling.md.")


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")],
    *,
    config: ConfigFile = None,
) -> None:
    """Copy the installation, which may be running, into a new folder."""
    loaded = configured(config).config
    with _in_words(), _telling() as told:
        places.back_up(loaded, folder, told)
    typer.echo(f"{folder} holds a whole copy. Restore it by: mintscope restore {folder}")
    if loaded.credits.pepper is not None:
        typer.echo(PEPPER)


@app.command()
def restore(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="As `mintscope backup` made it.")
    ],
    *,
    config: ConfigFile = None,
) -> None:
    """Copy a backup into an installation that is empty and does not run."""
    with _in_words(), _telling() as told:
        places.restore(configured(config).config, folder, told)
    typer.echo(NEWER)


@app.command()
def migrate(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    config: ConfigFile = None,
) -> None:
    """Bring the store to the newest schema, as every process does at its start."""
    with _in_words():
        ran = migrations(configured(config).config, is_done=not dry_run)
    if not ran:
        typer.echo("Nothing to do: the schema is up to date.")
    for each in ran:
        typer.echo(f"{'would run' if dry_run else 'ran'} {each}")


@contextmanager
def _in_words() -> Iterator[None]:
    """End the command with one message."""
    try:
        yield
    except (UnusableStore, OSError) as error:
        stop(f"mintscope: {error}", EXIT_NOT_DONE)


@contextmanager
def _telling() -> Iterator[places.Progress]:
    """Show what is copied on a terminal; a line a table elsewhere."""
    console, counts = Console(stderr=True), dict[str, int]()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    is_shown = console.is_terminal
    with Bar(*columns, console=console, transient=True, disable=not is_shown) as bar:
        task = bar.add_task("")

        def tell(what: str, count: int) -> None:
            if what not in counts and not is_shown:
                console.print(what)
            counts[what] = counts.get(what, 0) + count
            bar.update(task, description=f"{what}: {counts[what]}")

        yield tell
