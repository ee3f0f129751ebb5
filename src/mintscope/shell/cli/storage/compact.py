"""`mintscope compact`: return unused space of SQLite files to the disk."""

from typing import Final

import typer

from mintscope.base.errors import UnusableStore
from mintscope.shell.cli.config import ConfigFile, configured
from mintscope.shell.cli.output import print_rows, stop
from mintscope.shell.wiring.storage import places

EXIT_NOT_DONE: Final = 1

app = typer.Typer()


@app.command()
def compact(*, config: ConfigFile = None) -> None:
    """Rewrite the files of a stopped installation as small as they can be."""
    try:
        done = places.compact(configured(config).config)
    except (UnusableStore, OSError) as error:
        stop(f"mintscope: {error}", EXIT_NOT_DONE)
    print_rows(("file", "bytes before", "bytes after"), done, as_json=False)
